"""Records MXNet 1.9.1's gradients of gradient_cases.py in tests/data/gradients.json.

Run with a Python that has mxnet 1.9.1: ``python tests/oracle/record_gradients.py``.
"""
from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.update(MXNET_MKLDNN_ENABLED="0", MXNET_STORAGE_FALLBACK_LOG_VERBOSE="0")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import mxnet as mx  # noqa: E402
from gradient_cases import CASES  # noqa: E402


def gradients(function, inputs):
    """Gradients of the inputs, with 1, 2, 3, … from above."""
    xs = [mx.nd.array(x) for x in inputs]
    for x in xs:
        x.attach_grad()
    with mx.autograd.record():
        y = function(mx, *xs)
    y.backward(mx.nd.arange(1, y.size + 1).reshape(y.shape))
    return [x.grad.asnumpy().tolist() for x in xs]


def main():
    lines = []
    for name, (function, inputs) in CASES.items():
        try:
            lines.append(f"{json.dumps(name)}: {json.dumps(gradients(function, inputs))}")
        except Exception as err:
            print("MXNet cannot:", name, str(err).strip().splitlines()[-1][:150])
    (HERE.parent / "data" / "gradients.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
