"""Records what MXNet 1.9.1 gives for module_cases.py, into tests/data/module.json: MXNET_MKLDNN_ENABLED=0 python
tests/oracle/record_module.py"""
import json
from pathlib import Path

import module_cases
import mxnet as mx

found = {name: case(mx) for name, case in module_cases.CASES.items()}
path = Path(__file__).parent.parent / "data" / "module.json"
path.write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}"
                                   for k, v in found.items()) + "\n}\n")
