"""Every recorded row of tests/oracle: hybrid's operators give what MXNet 1.9.1 gave, eagerly and hybridized."""
from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd

from ..packed_arrays import load
from ..paths import TESTS

HERE = TESTS / "oracle"
TABLE = json.loads((HERE / "ops.json").read_text())
ARRAYS = load(HERE / "ops.npz")

TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-10}


def _expressions() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("oracle_expressions", HERE / "expressions.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EXPRESSIONS


EXPRESSIONS = _expressions()


def _attrs(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row["attrs"].items()}


def _function(row: dict[str, Any]) -> Any:
    """The row as a function of its arrays."""
    if row["op"].startswith("py:"):
        return lambda *xs: EXPRESSIONS[row["op"][3:]](nd, *xs)
    found: Any = nd
    for part in row["op"].split("."):
        found = getattr(found, part, None)
    assert found is not None, f"hybrid.nd.{row['op']} is missing"
    attrs = _attrs(row)
    return lambda *xs: found(*xs, **attrs)


def _close(got: np.ndarray, expected: np.ndarray, row: dict[str, Any], what: str) -> None:
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, MXNet has {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, MXNet has {expected.dtype}"
    tolerance = max(row.get("tol", 0), TOLERANCE.get(str(expected.dtype), 0))
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def _check(number: int, wrap: Any) -> None:
    row = TABLE[number]
    call = wrap(_function(row))
    xs = [nd.array(ARRAYS[f"{number}.in{k}"], dtype=ARRAYS[f"{number}.in{k}"].dtype) for k in range(row["inputs"])]
    for k in row["grads"]:
        xs[k].attach_grad()
    train = row.get("train", False)
    if row["grads"] or train:
        with autograd.record(train_mode=train):
            ys = call(*xs)
    else:
        ys = call(*xs)
    ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    assert len(ys) == row["outputs"]
    for k, y in enumerate(ys):
        _close(y.asnumpy(), ARRAYS[f"{number}.out{k}"], row, f"output {k}")
    if row["grads"]:
        heads = [nd.array(ARRAYS[f"{number}.head{k}"], dtype=y.dtype) for k, y in enumerate(ys)]
        autograd.backward(ys, heads, train_mode=train)
        for k in row["grads"]:
            _close(xs[k].grad.asnumpy(), ARRAYS[f"{number}.grad{k}"], row, f"gradient of input {k}")
    for k in row.get("aux", []):
        _close(xs[k].asnumpy(), ARRAYS[f"{number}.aux{k}"], row, f"auxiliary state {k}")


def _rows(hybridized: bool) -> list[Any]:
    out = []
    for number, row in enumerate(TABLE):
        if row is None or hybridized and not row["inputs"]:
            continue
        marks = [pytest.mark.skip(reason=row["skip"])] if row.get("skip") else []
        out.append(pytest.param(number, id=f"{number}-{row['op']}", marks=marks))
    return out


@pytest.mark.parametrize("number", _rows(False))
def test_eager(number: int) -> None:
    """Values, shapes, dtypes and gradients of the eager operator are MXNet's."""
    _check(number, lambda function: function)


@pytest.mark.share(2)
@pytest.mark.parametrize("number", _rows(True))
def test_hybridized(number: int) -> None:
    """The same through one compiled program."""
    _check(number, mx.hybridize)
