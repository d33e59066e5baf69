"""Records what MXNet 1.9.1 makes of sparse_training_cases.py, into tests/data/sparse_training.json:
MXNET_MKLDNN_ENABLED=0 python record_sparse_training.py"""
import json
import warnings
from pathlib import Path

import mxnet as mx
import sparse_training_cases as cases

warnings.simplefilter("ignore")
found = {name: cases.outcome(name, mx) for name in cases.CASES}
lines = [f" {json.dumps(n)}: {json.dumps(v, separators=(',', ':'))}" for n, v in found.items()]
(Path(__file__).parent.parent / "data" / "sparse_training.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
