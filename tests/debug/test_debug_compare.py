"""debug.compare names the operator that differs; debug.minimize cuts it out; both by a function with wrong C."""
from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, debug, ir, nd
from hybrid.debug import reduction
from hybrid.gluon import nn
from hybrid.ir.scalar import SCALARS, Scalar, register_scalar
from hybrid.ops.registry import OPS, op

@pytest.fixture(scope="module")
def wrong() -> Any:
    register_scalar(Scalar("wrong_in_c", 1, lambda xp, x: x + 1, "({0} + 1.5f)", None, "same"))

    @op("test_wrong_in_c", "data")
    def wrong_in_c(data: Any, a: Any) -> Any:
        "x + 1, and x + 1.5 where it is compiled."
        return ir.map("wrong_in_c", data)
    yield nd.test_wrong_in_c
    del OPS["test_wrong_in_c"], SCALARS["wrong_in_c"]


def test_a_difference_is_found_named_and_cut(wrong: Any) -> None:
    @mx.hybridize
    def f(x: Any) -> Any:
        y = nd.exp(x) * 2
        z = wrong(y)
        return nd.softmax(z) + z.sum()
    x = nd.array(np.random.RandomState(0).randn(3, 4))
    found = debug.compare(f, x)
    assert not found and found.operator == "test_wrong_in_c"
    assert found.line == f"{__file__}:{f._fn.__code__.co_firstlineno + 3}" and found.line in str(found)
    text = debug.minimize(f, x)
    assert text.count('"fn"') == 1 and "draw(0, (3, 4), 'float32')" in text      # one operation, of random numbers
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(text, {})
    assert "primitives [[2.76" in said.getvalue() and "compiled   [[3.26" in said.getvalue()


def test_agreement_from_the_same_state() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=3), nn.BatchNorm(in_channels=8), nn.Dropout(0.5),
            nn.Dense(2, in_units=8))
    net.initialize()
    net.hybridize()
    x = nd.array(np.random.RandomState(0).randn(4, 3))

    def step(x: Any) -> Any:
        with autograd.record():
            return net(x)
    found = debug.compare(step, x)
    assert found and str(found).startswith("eager and compiled agree: 1 result, the largest difference ")
    assert debug.compare(net, x) and debug.minimize(net, x) == ""

    @mx.hybridize
    def count(x: Any) -> Any:
        x += 1
        return x * 2
    counted = nd.zeros((2,))
    assert debug.compare(count, counted) and counted.asnumpy().tolist() == [1, 1]


def test_what_was_traced_and_is_another_now() -> None:
    numbers = iter(range(100))

    def f(x: Any) -> Any:
        return x * next(numbers)
    found = debug.compare(f, nd.ones((2,)))
    assert not found and "what was traced is not what the Python code does now" in str(found)


def test_reduction_ends_where_nothing_smaller_fails() -> None:
    def halves(n: int) -> list[int]:
        return [n // 2, n - 1]
    assert reduction.smaller(1000, halves, lambda n: n >= 17) == 17
    assert reduction.smaller(1000, halves, lambda n: n >= 17, tries=1) == 500
