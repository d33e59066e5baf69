"""Every recorded row of tests/oracle on gpu(0): hybridized, what CUDA computes is what MXNet 1.9.1 gave, gradients and
auxiliary states included. Rows are called together in one hybridized function, so that a compiler is started once for
many.
"""
from __future__ import annotations

from typing import Any, Callable

import pytest

import hybrid as mx
from hybrid import autograd, nd

from .cuda_tools import orders
from ..ops.test_ops_oracle import ARRAYS, TABLE, _close, _function

CHUNK = 48
pytestmark = pytest.mark.usefixtures("cuda_device")


def _parts() -> list[Any]:
    """Rows in parts of a size, those in training mode by themselves."""
    out = []
    for train in (False, True):
        rows = [k for k, row in enumerate(TABLE) if row and row["inputs"] and not row.get("skip")
                and row.get("train", False) == train]
        out += [pytest.param(rows[i:i + CHUNK], train, id=f"{'train' if train else 'predict'}-{rows[i]}")
                for i in range(0, len(rows), CHUNK)]
    return out


def _usable(number: int) -> Callable[..., Any] | None:
    """The row's function; None while its operator is missing."""
    try:
        return _function(TABLE[number])
    except pytest.skip.Exception:
        return None


def _inputs(number: int) -> list[nd.NDArray]:
    xs = [nd.array(ARRAYS[f"{number}.in{k}"], dtype=ARRAYS[f"{number}.in{k}"].dtype, ctx=mx.gpu(0))
          for k in range(TABLE[number]["inputs"])]
    for k in TABLE[number]["grads"]:
        xs[k].attach_grad()
    return xs


def _check_row(number: int, xs: list[nd.NDArray], ys: list[nd.NDArray]) -> None:
    row = TABLE[number]
    assert len(ys) == row["outputs"]
    found = [(y, f"{number}.out{k}") for k, y in enumerate(ys)]
    found += [(xs[k].grad, f"{number}.grad{k}") for k in row["grads"]]
    found += [(xs[k], f"{number}.aux{k}") for k in row.get("aux", [])]
    for got, name in found:
        assert got.ctx == mx.gpu(0)
        _close(got.asnumpy(), ARRAYS[name], row, f"{row['op']} {row['attrs']} {name}")


# a sixth of the parts for every change, all of them in make check-all
@pytest.mark.parametrize("numbers, train", [
    pytest.param(*p.values, id=p.id, marks=[pytest.mark.thorough] if i % 6 else []) for i, p in enumerate(_parts())])
def test_hybridized(numbers: list[int], train: bool) -> None:
    """One compiled program gives every row's results; its backward program gives the gradients."""
    functions = {n: fn for n in numbers if (fn := _usable(n))}

    @mx.hybridize
    def together(arrays: dict[int, list[nd.NDArray]]) -> dict[int, Any]:
        return {n: fn(*arrays[n]) for n, fn in functions.items()}

    for order in orders():
        arrays = {n: _inputs(n) for n in functions}
        with autograd.record(train_mode=train):
            results = {n: list(y) if isinstance(y, (list, tuple)) else [y] for n, y in together(arrays).items()}
        ys = [(n, k, y) for n, row in results.items() if TABLE[n]["grads"] for k, y in enumerate(row)]
        heads = [nd.array(ARRAYS[f"{n}.head{k}"], dtype=y.dtype, ctx=mx.gpu(0)) for n, k, y in ys]
        autograd.backward([y for _, _, y in ys], heads, train_mode=train)
        failed = []
        for n in functions:
            try:
                _check_row(n, arrays[n], results[n])
            except AssertionError as err:
                failed.append(f"row {n}, {order}: {err}")
        assert not failed, "\n".join(failed)
    assert len(together.cache_misses) == 1


def test_most_rows_are_there() -> None:
    """The parts above hold nearly all rows; what is missing says why in the table."""
    wanted = [k for k, row in enumerate(TABLE) if row and row["inputs"] and not row.get("skip")]
    assert len(wanted) > 400 and sum(_usable(k) is None for k in wanted) < 40
