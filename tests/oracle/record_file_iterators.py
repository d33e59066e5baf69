"""Records what MXNet 1.9.1's iterators give for file_iterators.py, into tests/data/file_iterators.json:
MXNET_MKLDNN_ENABLED=0 python record_file_iterators.py FOLDER

FOLDER holds the files of ``file_iterators.write``, made with this library, whose images are encoded by Pillow.
"""
import json
import random
import sys
from pathlib import Path

import file_iterators
import mxnet as mx

found = {}
for name, make in file_iterators.CASES.items():
    random.seed(3)
    found[name] = file_iterators.outline(make, mx, Path(sys.argv[1]))
path = Path(__file__).parent.parent / "data" / "file_iterators.json"
path.write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}"
                                   for k, v in found.items()) + "\n}\n")
