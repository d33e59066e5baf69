"""Records what MXNet 1.9.1 gives at the points of extreme_cases.py, results and gradients, in tests/data/extremes.json.

Run with a Python that has mxnet 1.9.1: ``python tests/oracle/record_extremes.py``.
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
from extreme_cases import CASES, POINTS  # noqa: E402


def answers(function):
    """The result, and the gradient with ones from above; None where there is none."""
    x = mx.nd.array(POINTS)
    x.attach_grad()
    x.grad[:] = 0
    with mx.autograd.record():
        y = function(mx, x)
    out = [repr(v) for v in y.asnumpy().ravel().tolist()]
    try:
        y.backward()
    except mx.MXNetError:
        return out, None
    return out, [repr(v) for v in x.grad.asnumpy().tolist()]


def main():
    lines = []
    for name, function in CASES.items():
        try:
            lines.append(f"{json.dumps(name)}: {json.dumps(answers(function))}")
        except Exception as err:
            print("MXNet cannot:", name, str(err).strip().splitlines()[-1][:150])
    (HERE.parent / "data" / "extremes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
