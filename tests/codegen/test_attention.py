"""Attention as one kernel: values against float64 at odd sizes, masks, infinities, threads, narrow vectors, sanitizers,
and when it is not one kernel."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, ir, nd
from hybrid.codegen.printers.convolutions import packed
from hybrid.ir import Node, Program
from hybrid.passes.pipeline import plan
from hybrid.runtime import cpu, reference
from hybrid.runtime import threads as threads_of

from ..cpu_kernels import random, run_sanitized, vectors_of, without_sanitizers
from .exact_values import compare, exact

# name: batch, queries, keys, depth of a key, depth of a value
SHAPES: dict[str, tuple[int, int, int, int, int]] = {
    "encoder": (4, 128, 128, 64, 64),
    "fewest": (1, 5, 2, 1, 1),
    "three": (3, 7, 3, 3, 3),
    "seventeen": (3, 17, 17, 17, 17),
    "63_65": (2, 63, 65, 65, 63),
    "65_63": (2, 65, 63, 33, 17),
    "primes": (1, 131, 257, 13, 101),
    "many_keys": (2, 6, 1009, 8, 31),
    "many_queries": (1, 1009, 7, 5, 2),
    "one_column": (5, 9, 129, 16, 1),
    "deep": (1, 19, 300, 1021, 513),
    "one_query": (3, 1, 131, 17, 32),
    "two_queries": (2, 2, 17, 64, 16),
    "four_queries": (1, 4, 63, 3, 48),
}


def softmax(x: Node) -> Node:
    e = ir.map("exp", x - ir.reduce("max", x, (x.ndim - 1,), True))
    return e / ir.reduce("sum", e, (x.ndim - 1,), True)


def product(q: Node, k: Node) -> Node:
    return ir.dot(q, k, ((2,), (2,)), ((0,), (0,)))


def weighted(p: Node, v: Node) -> Node:
    return ir.dot(p, v, ((2,), (1,)), ((0,), (0,)))


def plain(q: Node, k: Node, v: Node, mask: Node) -> Node:
    return weighted(softmax(product(q, k) * 0.3), v)


def added(q: Node, k: Node, v: Node, mask: Node) -> Node:
    return ir.map("relu", weighted(softmax(product(q, k) * 0.3 + ir.reshape(mask, (1, *mask.shape))), v)) + 1


def scaled_query(q: Node, k: Node, v: Node, mask: Node) -> Node:
    return weighted(softmax(product(q * 0.3, k)), v * 2)


def chosen(q: Node, k: Node, v: Node, mask: Node) -> Node:
    """Keys up to the query's own place, by comparing counts; -inf elsewhere."""
    s = product(q, k)
    rows, keys = (ir.expand(ir.reshape(ir.iota(s.shape[a]), tuple(d if i == a else 1 for i, d in enumerate(s.shape))),
                            s.shape) for a in (1, 2))
    return weighted(softmax(ir.map("where", ir.map("le", keys, rows), s * 0.3, -np.inf)), v)


def zeroed(q: Node, k: Node, v: Node, mask: Node) -> Node:
    """Weights of softmax times a mask, and zero where it is negative."""
    s = product(q, k)
    m = ir.expand(ir.reshape(mask, (1, *mask.shape)), s.shape)
    p = softmax(ir.map("tanh", s * 0.1)) * m
    return weighted(ir.map("where", ir.map("gt", m, 0.0), p, 0.0), v)


def headed(q: Node, k: Node, v: Node, mask: Node) -> Node:
    """The mask is added in another shape; results lie as (queries, batch * columns)."""
    s = product(q, k)
    s = ir.reshape(ir.reshape(s * 0.1, (1, *s.shape)) + ir.reshape(mask, (1, 1, *mask.shape)), s.shape)
    y = ir.permute(weighted(softmax(s), v), (1, 0, 2))
    return ir.reshape(y, (y.shape[0], y.shape[1] * y.shape[2]))


def turned(q: Node, k: Node, v: Node, mask: Node) -> Node:
    """Keys are the first operand; values and queries lie the other way round in memory; columns are not neighbours in
    the result."""
    k, v, q = (ir.permute(a, (0, 2, 1)) for a in (ir.reshape(k, (k.shape[0], k.shape[2], k.shape[1])),
                                                  ir.reshape(v, (v.shape[0], v.shape[2], v.shape[1])),
                                                 ir.reshape(q, (q.shape[0], q.shape[2], q.shape[1]))))
    return ir.permute(weighted(softmax(ir.permute(product(k, q), (0, 2, 1)) * 0.3), v), (0, 2, 1))


FORMS: dict[str, Callable[[Node, Node, Node, Node], Node]] = {
    f.__name__: f for f in (plain, added, scaled_query, chosen, zeroed, headed, turned)}


def program(form: str, shape: str) -> tuple[Program, list[np.ndarray]]:
    b, m, n, d, e = SHAPES[shape]
    arrays = [random(b, m, d), random(b, n, d), random(b, n, e), random(m, n)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    return Program(leaves, (FORMS[form](*leaves),)), arrays


def wide(p: Program, arrays: list[np.ndarray]) -> list[np.ndarray]:
    with np.errstate(invalid="ignore"):
        return exact(p, arrays)


@pytest.mark.share(2)
@pytest.mark.parametrize("width", (64, 32, 16), ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_values(form: str, shape: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    p, arrays = program(form, shape)
    exe = cpu.compiled(p)
    assert [k.kind for k in exe.planned.fused.kernels] == ["attention"]
    assert exe.planned.memory.arena == 0, "nothing but the result is stored"
    compare(exe(arrays), wide(p, arrays))


@pytest.mark.parametrize("shape", ("encoder", "primes", "63_65"))
def test_threads(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p, arrays = program("added", shape)
    exe = cpu.compiled(p)
    alone = exe(arrays)[0]
    monkeypatch.setenv("HYBRID_NUM_THREADS", "3")
    threads_of.share(exe._lib)
    np.testing.assert_array_equal(exe(arrays)[0], alone)


@pytest.mark.parametrize("shape", ("fewest", "65_63", "primes", "one_query", "four_queries"))
@pytest.mark.parametrize("form", ("added", "chosen", "turned"))
def test_sanitized(form: str, shape: str, tmp_path: Path) -> None:
    if why := without_sanitizers(tmp_path):
        pytest.skip(why)
    p, arrays = program(form, shape)
    compare(run_sanitized(cpu.compiled(p), arrays, tmp_path), wide(p, arrays))


# ---- numbers that are none
@pytest.mark.parametrize("n", (17, 300), ids=str)
def test_infinities(n: int) -> None:
    """Rows without any key are NaN, as softmax is; blocks without one, and NaN or infinite scores, give what the
    formula gives."""
    leaves = [ir.input(i, s, np.float32) for i, s in enumerate(((1, 8, 4), (1, n, 4), (1, n, 5), (8, n)))]
    p = Program(tuple(leaves), (added(*leaves),))
    arrays = [random(1, 8, 4), random(1, n, 4), random(1, n, 5), np.zeros((8, n), np.float32)]
    mask = arrays[3]
    mask[0] = -np.inf
    mask[1, :n - 1] = -np.inf
    mask[2, 1:] = -np.inf
    mask[3, n // 2] = np.nan
    mask[4, n - 2] = np.inf
    mask[5] = -1e30
    mask[6, ::2] = -3e38
    with np.errstate(all="ignore"):
        want = reference.run(p, arrays, np)[0][0]
    got = cpu.compiled(p)(arrays)[0]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert np.isnan(got[0, [0, 3, 4]]).all() and not np.isnan(got[0, [1, 2, 5, 6, 7]]).any()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


# ---- through Gluon and MXNet's operators
def encoder(F: Any, x: Any, lengths: Any) -> Any:
    """Heads as the interleaved operators lay them out, with lengths of keys."""
    scores = F.contrib.interleaved_matmul_selfatt_qk(x, heads=2)
    weights = F.softmax(scores, length=lengths, use_length=True)
    return F.contrib.interleaved_matmul_selfatt_valatt(x, weights, heads=2)


def kinds(f: Any) -> list[str]:
    return [k.kind for k in list(f._engine.entries.values())[-1].exe.planned.fused.kernels]


def test_interleaved_operators() -> None:
    x, lengths = nd.array(random(13, 3, 2 * 3 * 5)), nd.array(np.random.default_rng(0).integers(1, 14, (6, 13)),
                                                              dtype="int32")
    want = encoder(nd, x, lengths).asnumpy()
    f = mx.hybridize(lambda x, n: encoder(nd, x, n))
    np.testing.assert_allclose(f(x, lengths).asnumpy(), want, rtol=1e-5, atol=1e-6)
    assert kinds(f) == ["attention"]


def test_within_a_loop() -> None:
    """Steps of a loop have the kernel too."""
    def f(x: Any) -> Any:
        return nd.contrib.foreach(lambda row, state: (nd.batch_dot(nd.softmax(nd.batch_dot(row + state, row, transpose_b=True)), row), state + 1), x, nd.zeros((1,)))[0]  # noqa: E501
    x = nd.array(random(3, 2, 9, 4))
    g = mx.hybridize(f)
    np.testing.assert_allclose(g(x).asnumpy(), f(x).asnumpy(), rtol=1e-5, atol=1e-6)
    whole = list(g._engine.entries.values())[-1].exe.planned.fused.kernels
    assert "attention" in [k.kind for loop in whole if loop.kind == "loop" for k in loop.inner.fused.kernels]


def test_no_depth() -> None:
    """Scores of no products are all zero: every key has the same weight."""
    q, k, v = nd.zeros((2, 9, 0)), nd.zeros((2, 5, 0)), nd.array(random(2, 5, 3))
    f = mx.hybridize(lambda q, k, v: nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True)), v))
    want = np.broadcast_to(v.asnumpy().mean(1, keepdims=True), (2, 9, 3))
    np.testing.assert_allclose(f(q, k, v).asnumpy(), want, rtol=1e-5, atol=1e-6)


def dense_attention(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    p = nd.softmax(nd.batch_dot(q, k, transpose_b=True) / 2)
    return nd.batch_dot(p, v), p


def test_weights_that_are_read_elsewhere() -> None:
    """Weights that are a result are stored; the report says why there is no attention kernel."""
    arrays = [nd.array(random(2, 9, 4)) for _ in range(3)]
    f = mx.hybridize(lambda *a: dense_attention(*a))
    for got, want in zip(f(*arrays), dense_attention(*arrays)):
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-5, atol=1e-6)
    assert "attention" not in kinds(f)
    assert "no attention kernel: something else reads its weights" in str(f.report())
    g = mx.hybridize(lambda *a: dense_attention(*a)[0])
    g(*arrays)
    assert kinds(g) == ["attention"] and "[attention]" in str(g.report())


def test_training() -> None:
    """Gradients are those of eager mode."""
    def grads(f: Any) -> list[np.ndarray]:
        arrays = [nd.array(a) for a in start]
        for a in arrays:
            a.attach_grad()
        with autograd.record():
            y = (f(*arrays)[0] * target).sum()
        y.backward()
        return [y.asnumpy(), *(a.grad.asnumpy() for a in arrays)]
    start, target = [random(2, 9, 4) for _ in range(3)], nd.array(random(2, 9, 4))
    for got, want in zip(grads(mx.hybridize(lambda *a: dense_attention(*a))), grads(dense_attention), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_results_for_the_next_product() -> None:
    """What heads give is stored as the output projection reads it: no copy, and its rows are plain."""
    def f(q: Any, w: Any) -> Any:
        y = nd.reshape(dense_attention(q, q, q)[0], shape=(2, 3, 9, 4))
        return nd.FullyConnected(nd.reshape(nd.transpose(y, axes=(0, 2, 1, 3)), shape=(18, 12)), w, num_hidden=7,
                                 no_bias=True)
    q, w = nd.array(random(6, 9, 4)), nd.array(random(7, 12))
    g = mx.hybridize(f)
    np.testing.assert_allclose(g(q, w).asnumpy(), f(q, w).asnumpy(), rtol=1e-5, atol=1e-5)
    assert kinds(g) == ["attention", "contraction"]
    first = list(g._engine.entries.values())[-1].exe.planned.fused.kernels[0]
    assert first.root.shape == (2, 9, 3, 4)


UNFIT: dict[str, tuple[Callable[[Node, Node, Node], Node], int]] = {
    "two_products": (lambda q, k, v: weighted(softmax(product(q, k)), v) + weighted(softmax(product(q, k)), v * v), 9),
    "no_shift": (lambda q, k, v: weighted(ir.map("exp",
                                                 product(q,
                                                         k)) / ir.reduce("sum", ir.map("exp", product(q, k)), (2,),
        True), v), 9),
    "other_axis": (lambda q, k, v: weighted(ir.permute(softmax(ir.permute(product(q, k), (0, 2, 1))), (0, 2, 1)), v),
                   9),
    "symmetric": (lambda q, k, v: weighted(softmax(product(q, q) + ir.permute(product(q, q), (0, 2, 1))), v), 9),
    "added_weights": (lambda q, k, v: weighted(softmax(product(q, k)) + 1.0, v), 9),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_is_no_attention(name: str) -> None:
    f, rows = UNFIT[name]
    arrays = [random(2, rows, 4), random(2, 9, 4), random(2, 9, 4)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    p = Program(leaves, (f(*leaves),))
    exe = cpu.compiled(p)
    assert all(k.kind != "attention" for k in exe.planned.fused.kernels)
    compare(exe(arrays), exact(p, arrays))


def test_only_where_it_can_be_printed() -> None:
    """Backends without such a kernel, and other types, keep the products."""
    p, _ = program("plain", "three")
    assert all(k.kind != "attention" for k in plan(p).fused.kernels)
    assert [k.kind for k in plan(p, blocking=packed.blocking(64)).fused.kernels] == ["attention"]
    leaves = tuple(ir.input(i, a.shape, np.float64) for i, a in enumerate(p.inputs))
    double = Program(leaves, (plain(*leaves),))
    assert all(k.kind != "attention" for k in plan(double, blocking=packed.blocking(64)).fused.kernels)
