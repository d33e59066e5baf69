"""Records what MXNet 1.9.1 makes of drawn_parts.py, into tests/data/drawn_parts.json: python record_drawn_parts.py"""
import json
from pathlib import Path

import mxnet as mx
import drawn_parts as cases

found = {name: cases.outcome(name, mx) for name in cases.CASES}
lines = [f" {json.dumps(n)}: {json.dumps(v, separators=(',', ':'))}" for n, v in found.items()]
(Path(__file__).parent.parent / "data" / "drawn_parts.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
