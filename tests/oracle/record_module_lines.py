"""Records what MXNet 1.9.1 gives for every line of module_lines.txt: MXNET_MKLDNN_ENABLED=0 python tests/oracle/record_module_lines.py"""
import json
from pathlib import Path

import module_lines
import mxnet
import numpy

found = {line: module_lines.run(mxnet, numpy, line) for line in module_lines.LINES}
path = Path(__file__).resolve().parent.parent / "data" / "module_lines.json"
path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in found.items()) + "\n}\n")
print(len(found), "recorded")
