"""Records what MXNet 1.9.1 computes for every row of cases.py: ops.npz (arrays) and ops.json (the table).

Run with a Python that has mxnet 1.9.1: ``python tests/oracle/record_ops.py``. oneDNN is switched off, since its
gradients are wrong, except for the recurrent operator, which does not work without it: those rows are recorded by a
process of their own.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NEEDS_ONEDNN = {"RNN"}
PART = sys.argv[1] if len(sys.argv) > 1 else ""          # folder to put the rows that need oneDNN into
os.environ.update(MXNET_MKLDNN_ENABLED="1" if PART else "0", MXNET_STORAGE_FALLBACK_LOG_VERBOSE="0")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent))                            # behind installed packages: its folders have their names

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
import packed_arrays  # noqa: E402
import cases_output  # noqa: E402, F401  adds rows
import cases_order  # noqa: E402, F401
import cases_boxes  # noqa: E402, F401
import cases_regions  # noqa: E402, F401
import cases_rnn  # noqa: E402, F401
from cases import CASES  # noqa: E402
from expressions import EXPRESSIONS  # noqa: E402


def function(op):
    """The callable of a row: a dotted name in mx.nd, or an expression."""
    if op.startswith("py:"):
        return lambda *xs: EXPRESSIONS[op[3:]](mx.nd, *xs)
    found = mx.nd
    for part in op.split("."):
        found = getattr(found, part)
    return found


def record(row, number, arrays):
    """Run one row; store its arrays; return its line of the table."""
    xs = [mx.nd.array(x, dtype=x.dtype) for x in row["inputs"]]
    aux = row.get("aux", [])
    floats = [k for k, x in enumerate(row["inputs"]) if x.dtype.kind == "f" and k not in aux]
    wanted = row.get("grad", floats)
    for k in wanted:
        xs[k].attach_grad()
    train = row.get("train", False)
    call = function(row["op"])
    with mx.autograd.record(train_mode=train):
        ys = call(*xs, **row["attrs"])
    ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    ys = ys[:row.get("outputs", len(ys))]
    line = {"op": row["op"], "inputs": len(xs), "attrs": row["attrs"], "outputs": len(ys), "grads": []}
    line.update({k: row[k] for k in ("tol", "skip", "aux", "train") if row.get(k)})
    rng = np.random.RandomState(number)
    if wanted and all(y.dtype in (np.float16, np.float32, np.float64) for y in ys):
        heads = [mx.nd.array(rng.uniform(0.5, 1.5, y.shape), dtype=y.dtype) for y in ys]
        try:
            mx.autograd.backward(ys, heads, train_mode=train)
            line["grads"] = list(wanted)
        except mx.base.MXNetError as err:
            line["no_grad"] = str(err).splitlines()[-1][:80]
        else:
            for k, head in enumerate(heads):
                arrays[f"{number}.head{k}"] = head.asnumpy()
            for k in wanted:
                arrays[f"{number}.grad{k}"] = xs[k].grad.asnumpy()
    for k, x in enumerate(row["inputs"]):
        arrays[f"{number}.in{k}"] = x
    for k, y in enumerate(ys):
        arrays[f"{number}.out{k}"] = y.asnumpy()
    for k in aux:
        arrays[f"{number}.aux{k}"] = xs[k].asnumpy()
    return line


def record_all(wanted):
    """The table and the arrays of the rows for which wanted(row) is true; None for the others and for failures."""
    arrays, table = {}, []
    for number, row in enumerate(CASES):
        line = None
        try:
            line = record(row, number, arrays) if wanted(row) else None
        except Exception as err:
            print("MXNet cannot:", row["op"], row["attrs"], str(err).strip().splitlines()[-1][:150])
        table.append(line)
    return table, arrays


def write(folder, table, arrays):
    """Both files."""
    packed_arrays.save(folder / "ops.npz", arrays)
    with open(folder / "ops.json", "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(line) for line in table) + "\n]\n")


def main():
    if PART:
        write(Path(PART), *record_all(lambda row: row["op"] in NEEDS_ONEDNN))
        return
    table, arrays = record_all(lambda row: row["op"] not in NEEDS_ONEDNN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, folder], check=True)
        more = json.loads((Path(folder) / "ops.json").read_text())
        arrays.update(packed_arrays.load(Path(folder) / "ops.npz"))
    table = [line or other for line, other in zip(table, more)]
    write(HERE, table, arrays)
    print(sum(line is not None for line in table), "recorded,", table.count(None), "failed")


if __name__ == "__main__":
    main()
