"""The recorded rows of tests/oracle through the operators' definitions alone: lowered, differentiated, and then
interpreted by NumPy or compiled to C.

test_ops_oracle.py checks the same rows through ``nd``; here a failure is the definition's own.
"""
from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

import numpy as np
import pytest

from hybrid import ops, runtime
from hybrid.base.device import cpu
from hybrid.ir import Program
from hybrid.ops import registry
from hybrid.passes.differentiate import vjp_program
from hybrid.runtime import reference

from ..packed_arrays import load
from ..paths import TESTS

for _module in pkgutil.iter_modules(ops.__path__):      # each registers its operators
    importlib.import_module(f"hybrid.ops.{_module.name}")

HERE = TESTS / "oracle"
TABLE = json.loads((HERE / "ops.json").read_text())
ARRAYS = load(HERE / "ops.npz")
FRONTENDS = {"split_v2"}             # functions of nd that rename attributes before they call the operator
# Where the definition is not yet MXNet's; the test says so when it has become so.
KNOWN: dict[tuple[str, str], str] = {}
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-10}


def _close(got: np.ndarray, expected: np.ndarray, row: dict[str, Any], what: str) -> None:
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, MXNet has {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, MXNet has {expected.dtype}"
    tolerance = max(row.get("tol", 0), TOLERANCE.get(str(expected.dtype), 0))
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def _known(number: int, name: str) -> list[Any]:
    reason = KNOWN.get((name, str(ARRAYS[f"{number}.in0"].dtype)))
    return [pytest.mark.xfail(reason=reason, strict=True)] if reason else []


def _rows() -> list[Any]:
    """Rows whose operator is registered under its name in ``nd`` and that are no expressions."""
    known = registry.namespace("nd")
    return [pytest.param(k, id=f"{k}-{row['op']}", marks=_known(k, row["op"])) for k, row in enumerate(TABLE)
            if row and row["inputs"] and row["op"] in known and not row.get("skip") and row["op"] not in FRONTENDS]


def _interpret(program: Program, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Run by NumPy; updated inputs are written in place."""
    outputs, updates = reference.run(program, arrays, np)
    for (slot, _), value in zip(program.updates, updates, strict=True):
        arrays[slot][...] = value
    return [np.asarray(y) for y in outputs]


def _compiled(program: Program, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Run as C; updated inputs are written in place."""
    return runtime.compile(program, cpu())(arrays)


@pytest.mark.share(2)
@pytest.mark.parametrize("run", [_interpret, _compiled], ids=["numpy", "c"])
@pytest.mark.parametrize("number", _rows())
def test_definition(number: int, run: Any) -> None:
    row = TABLE[number]
    found = registry.namespace("nd")[row["op"]]
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in row["attrs"].items()}
    xs = [ARRAYS[f"{number}.in{k}"] for k in range(row["inputs"])]
    if found.arity_attr:
        given.setdefault(found.arity_attr, len(xs))
    attrs = found.parse(given)
    missing = [] if found.variadic else [None] * (len(found.inputs) - len(xs))
    program = found.program([x.shape for x in xs] + missing, [x.dtype for x in xs] + missing, attrs,
                            row.get("train", False))
    keys = [np.zeros(2, np.uint32)] * (len(program.inputs) - len(xs))       # of an operator that draws
    after = [x.copy() for x in xs]
    outputs = run(program, after + keys)
    for k in range(found.num_visible(attrs)):
        _close(outputs[k], ARRAYS[f"{number}.out{k}"], row, f"output {k}")
    for k in row.get("aux", []):
        _close(after[k], ARRAYS[f"{number}.aux{k}"], row, f"auxiliary state {k}")
    if row["grads"]:
        heads = [ARRAYS[f"{number}.head{k}"] if f"{number}.head{k}" in ARRAYS else np.zeros_like(y)
                 for k, y in enumerate(outputs)]
        back = vjp_program(program, tuple(row["grads"]))
        gradients = run(back, [*xs, *keys, *heads])
        for k, gradient in zip(row["grads"], gradients, strict=True):
            _close(gradient, ARRAYS[f"{number}.grad{k}"], row, f"gradient of input {k}")
