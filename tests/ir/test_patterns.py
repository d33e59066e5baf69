"""Patterns of functions and reductions (hybrid/ir/pattern.py)."""
from __future__ import annotations

import numpy as np
import pytest

import hybrid as mx
from hybrid import ir
from hybrid.passes.fold import fold as folded
from hybrid.ir.pattern import BELOW_ITS_MAXIMUM, SOFTMAX, matched

X = ir.input(0, (4, 4), "float32")
Y = ir.input(1, (4, 4), "float32")


def test_names_numbers_and_orders() -> None:
    for n in (X * 2 + 1, 1 + 2 * X):
        found = matched(n, ("add", 1, ("mul", "x", 2)))
        assert found is not None and found["x"] is X
    assert matched(X * 2 + 1, ("add", 2, ("mul", "x", "by"))) is None
    assert matched(X - Y, ("sub", "x", "x")) is None and matched(X - X, ("sub", "x", "x")) == {"x": X}
    assert matched(X - Y, ("sub", "y", "x"), {"x": X}) is None
    found = matched(ir.map("exp", X) * Y, ("mul", "y", {"e": ("exp", "x")}))
    assert found is not None and found["e"] is ir.map("exp", X) and found["y"] is Y


def test_constants_are_numbers() -> None:
    two, zero, minus = (ir.const(c, "float32").attrs["value"] for c in (2, 0.0, -0.0))
    assert two == 2 and not two != 2.0 and two > 1 and two < 10 and not two == "2"
    assert zero == 0 and minus == 0 and zero != minus and zero == ir.const(0, "float32").attrs["value"]
    assert ir.pad(ir.pad(X, (1, 0), (0, 0), 0.0), (1, 0), (0, 0), -0.0) is not ir.pad(X, (2, 0), (0, 0), 0.0)


@pytest.mark.parametrize("by", [2, 2.0, 0.5, 3, 4.0, -1.0, 1.0])
def test_powers_that_products_and_roots_give(by: float) -> None:
    found = folded(ir.Program((X,), (ir.map("pow", X, by),)))
    assert not [n for n in found.order() if n.fn == "pow"]


def test_a_reduction_is_spread_over_its_own_axes_alone() -> None:
    """Of a square matrix, maxima of rows may be taken from columns: that is no softmax."""
    along, across = (ir.reshape(ir.reduce("max", X, (1,)), s) for s in ((4, 1), (1, 4)))
    assert matched(X - along, BELOW_ITS_MAXIMUM) is not None
    assert matched(X - across, BELOW_ITS_MAXIMUM) is None
    e = ir.map("exp", X - along)
    totals = [ir.reshape(ir.reduce("sum", e, (1,)), s) for s in ((4, 1), (1, 4))]
    found = matched(e / totals[0], SOFTMAX)
    assert found is not None and found["x"] is X and found["total"].attrs["axes"] == (1,)
    assert matched(e / totals[1], SOFTMAX) is None


def test_quotients_by_other_rows_totals() -> None:
    """A row's total may be tiny beside another row's greatest number: nothing counts on it being 1 or more."""
    x = np.zeros((4, 4), np.float32)
    x[1] = -91, -200, -91, -91

    def other_rows(a: mx.nd.NDArray) -> mx.nd.NDArray:
        e = mx.nd.exp(mx.nd.broadcast_sub(a, mx.nd.reshape(mx.nd.max(a, axis=1), shape=(1, 4))))
        return mx.nd.broadcast_div(e, mx.nd.sum(e, axis=1, keepdims=True))
    want = other_rows(mx.nd.array(x)).asnumpy()
    got = mx.hybridize(other_rows)(mx.nd.array(x)).asnumpy()
    np.testing.assert_allclose(got, want, rtol=1e-2)
