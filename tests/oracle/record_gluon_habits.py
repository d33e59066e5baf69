"""Records what MXNet 1.9.1 gives for gluon_habits.py: MXNET_MKLDNN_ENABLED=0 python
tests/oracle/record_gluon_habits.py"""
import json
from pathlib import Path

import gluon_habits
import mxnet as mx

found = {}
for name, case in gluon_habits.HABITS.items():
    with mx.name.NameManager():
        found[name] = case(mx)
path = Path(__file__).parent.parent / "data" / "gluon_habits.json"
path.write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}"
                                   for k, v in found.items()) + "\n}\n")
