"""Records what MXNet 1.9.1 makes of sparse_cases.py, into tests/data/sparse.json: MXNET_MKLDNN_ENABLED=0 python
record_sparse.py

The files that ``nd.save`` writes are recorded in base64.
"""
import base64
import json
import os
import tempfile
import warnings
from pathlib import Path

import mxnet as mx
import sparse_cases

warnings.simplefilter("ignore")
found = {name: sparse_cases.outcome(name, mx) for name in sparse_cases.CASES}
files = {}
for name, make in sparse_cases.FILES.items():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.params")
        mx.nd.save(path, make(mx))
        files[name] = base64.b64encode(Path(path).read_bytes()).decode()
lines = [f' "{k}": {{\n' + ",\n".join(f"  {json.dumps(n)}: {json.dumps(v, separators=(',', ':'))}"
                                      for n, v in part.items()) + "\n }"
         for k, part in (("cases", found), ("files", files))]
(Path(__file__).parent.parent / "data" / "sparse.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
