"""Attention as one CUDA kernel: sizes, types, masks, places in memory; what it is not printed for."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import ir, nd, runtime
from hybrid.base.device import find_cupy, gpu
from hybrid.codegen.printers.cuda.attention import split_keys
from hybrid.gluon import nn
from hybrid.runtime import cuda, reference
from hybrid.runtime.cuda import nvrtc

from .cuda_forms import normal
from .cuda_tools import orders, run_program
from ..programs import softmax
from .ptx_driver import PtxDriver

pytestmark = pytest.mark.usefixtures("cuda_device")
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}


def program(fn: Callable[..., ir.Node], arrays: list[np.ndarray]) -> ir.Program:
    leaves = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    return ir.Program(tuple(leaves), (fn(*leaves),))


def check(fn: Callable[..., ir.Node], *arrays: np.ndarray, kinds: tuple[str, ...] = ("attention",),
          parts: bool = False) -> None:
    """The kernels are of these kinds, and the result is the reference's in every order of threads. parts: whether keys
    are split."""
    whole = program(fn, list(arrays))
    executable = runtime.compile(whole, gpu(0))
    assert tuple(k.kind for k in executable.planned.fused.kernels) == kinds
    assert ("    as attention of keys in" in str(executable.report)) == parts
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


def added(lengths: Any, keys: int) -> np.ndarray:
    return np.where(np.arange(keys) < np.array(lengths)[:, None, None], 0, -1e30).astype("float32")


@pytest.mark.parametrize("dtype", [pytest.param(d, marks=[pytest.mark.thorough] if d == "bfloat16" else [])
                                   for d in TOLERANCE])
def test_keys_in_parts(dtype: str) -> None:
    """A token, or a few, over many keys: even and odd numbers of columns, a last part with fewer keys, several warps of
    queries, a function of the result."""
    check(lambda q, k, v: ir.map("relu", attend(q, k, v)), *inputs(1, 700, 16, 24, dtype), parts=True)
    check(attend, *inputs(7, 800, 20, 9, dtype), parts=True)
    check(lambda q, k, v: ir.permute(attend(q, k, v), (1, 0, 2)), *inputs(40, 1000, 16, 40, dtype), parts=True)


def test_masks_of_keys_in_parts() -> None:
    """Lengths that leave some parts nothing; rows of which nothing is left in any; weights replaced by zero; places of
    keys that other values than lengths say."""
    q, k, v = inputs(2, 640, 16, 16)
    m = added([30, 500], 640)
    check(lambda q, k, v, m: attend(q, k, v, lambda s: s + m), q, k, v, m, parts=True)
    allowed = np.arange(640) < np.array([[[0], [70]], [[640], [33]]])
    zero = ir.const(0, "float32")
    for weights in (None, lambda m: lambda p: ir.map("where", m, p, zero)):
        check(lambda q, k, v, m, w=weights: attend(q, k, v, lambda s: ir.map("where", m, s, ir.const(
            -np.inf, "float32")), None if w is None else w(m)), q, k, v, allowed, parts=True)
    q[0, 0, 0] = np.nan                                      # reaches its row and no other
    check(attend, q, k, v, parts=True)


def test_shared_keys_in_parts() -> None:
    """Heads of queries that share keys and values."""
    q, k, v = normal(2, 1, 16), normal(1, 600, 16), normal(1, 600, 16)
    every = np.zeros(2, "int64")
    check(lambda q, k, v, i: attend(q, ir.gather(k, i, 0), ir.gather(v, i, 0)), q, k, v, every, parts=True)


def test_a_token_of_a_layer_with_a_cache(cuda_device: Any) -> None:
    """Rotary positions, two heads of queries for one of keys: as without compiling."""
    net = nn.MultiHeadAttention(32, 4, 2, causal=True, rotary=True, in_units=32)
    net.initialize(ctx=cuda_device)
    x, cache = nd.array(normal(1, 3, 32), ctx=cuda_device), net.empty_cache(1, 400, cuda_device)
    _, cache = net(x, None, None, None, cache)
    wanted = net(x[:, :1], None, None, None, cache)[0].asnumpy()
    net.hybridize()
    for order in orders():
        got = net(x[:, :1], None, None, None, cache)[0].asnumpy()
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5, err_msg=order)
    assert "    as attention of keys in" in str(net.report())


def test_into_how_many_parts() -> None:
    """Few blocks over many keys are split; what keeps the GPU busy, or is short, is not, and the report says so."""
    assert split_keys(8, 1, 64)[0] > 16 and split_keys(16, 4, 128)[0] > 8
    assert 1 < split_keys(400, 1, 256)[0] < 6
    for blocks, warps, turns, why in ((5000, 1, 64, "keep the GPU busy"), (8, 1, 4, "less time")):
        parts, reason = split_keys(blocks, warps, turns)
        assert parts == 1 and why in reason
    report = str(runtime.compile(program(attend, inputs(2, 64, 16, 16)), gpu(0)).report)
    assert "as attention of all keys" in report and "not as attention of keys in parts: 2 tiles of keys" in report


def test_the_ptx_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter of what NVRTC makes gives what the emulator does."""
    if not nvrtc.available() or find_cupy() is not None:
        pytest.skip("for NVRTC without a GPU")
    monkeypatch.setitem(cuda._drivers, ("emulator", 0), PtxDriver())
    arrays = [normal(1, n, 16) for n in (2, 330, 330)]
    whole = program(attend, arrays)
    got = np.asarray(runtime.compile(whole, gpu(0))([np.array(a) for a in arrays])[0])
    expected = np.array(reference.run(whole, arrays, np)[0][0])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_what_has_no_kernel() -> None:
    """Few keys, and long ones, keep their products."""
    for arrays in (inputs(3, 20, 16, 16), inputs(20, 40, 160, 16)):
        planned = runtime.compile(program(attend, arrays), gpu(0)).planned
        assert "attention" not in [k.kind for k in planned.fused.kernels]
