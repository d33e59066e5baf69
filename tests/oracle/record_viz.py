"""Records MXNet 1.9.1's tables and drawings into tests/data/viz.json: MXNET_MKLDNN_ENABLED=0 python
tests/oracle/record_viz.py"""
import json
from pathlib import Path

import mxnet as mx
import viz_cases

found = {name: viz_cases.run(mx, name) for name in viz_cases.CASES}
(Path(__file__).parent.parent / "data" / "viz.json").write_text(json.dumps(found, indent=1) + "\n")
