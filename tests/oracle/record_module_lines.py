"""Records what MXNet 1.9.1 gives for every line of module_lines.txt: MXNET_MKLDNN_ENABLED=0 python
tests/oracle/record_module_lines.py"""
import gzip
import json
from pathlib import Path

import module_lines
import mxnet
import numpy

found = {line: module_lines.run(mxnet, numpy, line) for line in module_lines.LINES}
path = Path(__file__).resolve().parent.parent / "data" / "module_lines.json.gz"
path.write_bytes(gzip.compress(json.dumps(found, separators=(",", ":")).encode(), mtime=0))
print(len(found), "recorded")
