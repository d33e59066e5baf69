"""Attention as one CUDA kernel: sizes, types, masks, places in memory; what it is not printed for."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import ir, runtime
from hybrid.base.device import gpu
from hybrid.runtime import reference

from .cuda_forms import normal
from .cuda_tools import run_program
from .programs import softmax

pytestmark = pytest.mark.usefixtures("cuda_device")
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}


def program(fn: Callable[..., ir.Node], arrays: list[np.ndarray]) -> ir.Program:
    leaves = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    return ir.Program(tuple(leaves), (fn(*leaves),))


def check(fn: Callable[..., ir.Node], *arrays: np.ndarray, kinds: tuple[str, ...] = ("attention",)) -> None:
    """The kernels are of these kinds, and the result is the reference's in every order of threads."""
    whole = program(fn, list(arrays))
    planned = runtime.compile(whole, gpu(0)).planned
    assert tuple(k.kind for k in planned.fused.kernels) == kinds
    with np.errstate(all="ignore"):
        expected = np.array(reference.run(whole, [np.array(a) for a in arrays], np)[0][0]).astype(np.float64)
    tol = TOLERANCE[arrays[0].dtype.name]
    for order, (got,), _ in run_program(whole, arrays):
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tol, atol=tol * np.nanmax(np.abs(expected)),
                                   err_msg=order)


def attend(q: ir.Node, k: ir.Node, v: ir.Node, logits: Any = None, weights: Any = None) -> ir.Node:
    """softmax(logits(q kᵀ / 4)) v of batches, with weights changed before the second product."""
    s = ir.dot(q, k, ((2,), (2,)), ((0,), (0,))) * 0.25
    s = s if logits is None else logits(s)
    p = softmax(s) if s.dtype == np.float32 else ir.cast(softmax(ir.cast(s, "float32")), s.dtype)
    return ir.dot(p if weights is None else weights(p), v, ((2,), (1,)), ((0,), (0,)))


def inputs(rows: int, keys: int, depth: int, columns: int, dtype: str = "float32") -> list[np.ndarray]:
    return [normal(2, n, d, dtype=dtype) for n, d in ((rows, depth), (keys, depth), (keys, columns))]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_sizes(dtype: str) -> None:
    """Edges of queries, keys, depth and columns; several tiles of keys; copies of 16 bytes and single elements."""
    check(attend, *inputs(70, 150, 16, 24, dtype))
    check(attend, *inputs(33, 40, 20, 10, dtype))
    check(attend, *inputs(16, 32, 5, 3, dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_heads_side_by_side(dtype: str) -> None:
    """Queries, keys and values of one array, as a layer of all three gives them; the result for the next layer."""
    def heads(x: ir.Node) -> ir.Node:
        b, n, _, h, d = x.shape
        q, k, v = (ir.permute(ir.reshape(ir.slice(x, (0, 0, i, 0, 0), (b, n, 1, h, d), (1,) * 5), (b, n, h, d)),
                              (0, 2, 1, 3)) for i in range(3))
        s = ir.dot(q, k, ((3,), (3,)), ((0, 1), (0, 1))) * 0.25
        p = softmax(s) if dtype == "float32" else ir.cast(softmax(ir.cast(s, "float32")), dtype)
        y = ir.dot(p, v, ((3,), (2,)), ((0, 1), (0, 1)))
        return ir.reshape(ir.permute(y, (0, 2, 1, 3)), (b, n, h * d))
    check(heads, normal(2, 40, 3, 2, 32, dtype=dtype))


def test_masks() -> None:
    """Added, chosen, of lengths and causal; rows of which nothing is left are NaN, as softmax makes them; with weights
    replaced by zero they are zero."""
    q, k, v = inputs(40, 48, 16, 16)
    allowed = np.tril(np.ones((40, 48), bool), 3)
    added = np.where(np.arange(48) < np.array([[[30]], [[48]]]), 0, -1e30).astype("float32")
    check(lambda q, k, v, m: attend(q, k, v, lambda s: s + m), q, k, v, added)
    check(lambda q, k, v, m: attend(q, k, v, lambda s: ir.map("where", ir.reshape(m, (1, 40, 48)), s, ir.const(
        -np.inf, "float32"))), q, k, v, allowed)
    none = allowed.copy()
    none[5] = False
    check(lambda q, k, v, m: attend(q, k, v, lambda s: ir.map("where", ir.reshape(m, (1, 40, 48)), s, ir.const(
        -np.inf, "float32"))), q, k, v, none)
    check(lambda q, k, v, m: attend(q, k, v, lambda s: ir.map("where", ir.reshape(m, (1, 40, 48)), s, ir.const(
        -np.inf, "float32")), lambda p: ir.map("where", ir.reshape(m, (1, 40, 48)), p, ir.const(0, "float32"))),
        q, k, v, none)


def test_what_is_around() -> None:
    """A function of queries before, and of the result after; large scores."""
    check(lambda q, k, v: ir.map("relu", attend(ir.map("relu", q) * 30, k, v)) + 1, *inputs(20, 40, 16, 16))


def test_what_has_no_kernel() -> None:
    """Few queries, and long ones, keep their products."""
    for arrays in (inputs(3, 40, 16, 16), inputs(20, 40, 160, 16)):
        planned = runtime.compile(program(attend, arrays), gpu(0)).planned
        assert "attention" not in [k.kind for k in planned.fused.kernels]
