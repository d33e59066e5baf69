"""Sums of slices that fill an axis are one concatenation, where products read them (hybrid/passes/joined_slices.py)."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, ir, nd
from hybrid.ir import Node, Program
from hybrid.passes.joined_slices import joined, joined_slices


def parts(*sizes: int, first: int = 0) -> list[Node]:
    return [ir.input(first + i, (5, n, 3), np.float32) for i, n in enumerate(sizes)]


def around(x: Node, before: int, whole: int) -> Node:
    return ir.pad(x, (0, before, 0), (0, whole - before - x.shape[1], 0))


def test_slices_that_fill_an_axis() -> None:
    a, b, c = parts(2, 3, 4)
    total = around(c, 5, 9) + around(a, 0, 9) + around(b, 2, 9)
    made = joined(total)
    assert made is not None and made.prim == "concat" and made.args == (a, b, c) and made.attrs["axis"] == 1


@pytest.mark.parametrize("name", ["a gap", "overlap", "another number", "two axes", "not a slice"])
def test_other_sums_stay(name: str) -> None:
    a, b = parts(2, 3)
    total = {"a gap": lambda: around(a, 0, 6) + around(b, 3, 6), "overlap": lambda: around(a, 0, 4) + around(b, 1, 4),
             "another number": lambda: around(a, 0, 5) + ir.pad(b, (0, 2, 0), (0, 0, 0), 1),
             "two axes": lambda: around(a, 0, 5) + ir.pad(ir.slice(b, (0, 0, 0), (4, 3, 3)), (1, 2, 0), (0, 0, 0)),
             "not a slice": lambda: around(a, 0, 5) + ir.input(2, (5, 5, 3), np.float32)}[name]()
    assert joined(total) is None


def test_only_what_a_product_reads() -> None:
    a, b = parts(2, 3)
    total, w = around(a, 0, 5) + around(b, 2, 5), ir.input(2, (3, 4), np.float32)
    product = ir.dot(ir.reshape(total, (25, 3)), w, ((1,), (0,)))
    for out, count in ((total * 2, 0), (product, 1)):
        p = joined_slices(Program((a, b, w), (out,)))
        assert sum(n.prim == "concat" for n in p.order()) == count


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gradients_of_slices(dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((12, 20), (48, 20)))

    def gradients(x: Any, w: Any) -> Any:
        with autograd.record():
            q, k, v = (nd.dot(x, w, transpose_b=True).slice_axis(1, i * 16, i * 16 + 16) for i in range(3))
            y = nd.sum(nd.tanh(nd.dot(q, k, transpose_b=True)).dot(v))
        return autograd.grad(y, [x, w])
    given = [nd.array(a, dtype=dtype) for a in (x, w)]
    for a in given:
        a.attach_grad()
    f = mx.hybridize(gradients)
    near = {"float32": 1e-4, "float16": 2e-2}[dtype]
    for got, want in zip(f(*given), gradients(*given)):
        want = want.astype("float64").asnumpy()
        np.testing.assert_allclose(got.astype("float64").asnumpy(), want, rtol=near, atol=near * np.abs(want).max())
    assert "concat" in str(f.report())
