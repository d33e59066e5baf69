"""Gradients of attention on GPUs: kernels that compute the scores again, tile by tile; none stores a matrix of them."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd, runtime
from hybrid.base.device import gpu
from hybrid.codegen import cuda as printer
from hybrid.gluon import nn
from hybrid.ops.nn import softmax_of
from hybrid.passes.differentiate import cotangents
from hybrid.passes.pipeline import plan
from hybrid.runtime import reference
from hybrid.runtime.cuda import nvrtc
from hybrid.runtime.cuda.program import JOINING

from .cuda_forms import normal
from .cuda_tools import run_program
from .test_cuda_attention import TOLERANCE

pytestmark = pytest.mark.usefixtures("cuda_device")


def attend(q: ir.Node, k: ir.Node, v: ir.Node, change: Callable[[ir.Node], ir.Node] = lambda s: s) -> ir.Node:
    s = change(ir.dot(q, k, ((2,), (2,)), ((0,), (0,))) * 0.25)
    return ir.dot(softmax_of(s, 2), v, ((2,), (1,)), ((0,), (0,)))


def gradients(fn: Callable[..., ir.Node], arrays: list[np.ndarray]) -> tuple[ir.Program, list[np.ndarray]]:
    """A result and its gradients with respect to all arrays, of a random gradient from above."""
    leaves = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    out = fn(*leaves)
    seed = ir.input(len(leaves), out.shape, out.dtype)
    whole = ir.Program((*leaves, seed), (out, *cotangents([out], [seed], leaves)))
    return whole, [*arrays, normal(*out.shape, dtype=out.dtype.name)]


def check(fn: Callable[..., ir.Node], *arrays: np.ndarray) -> None:
    """Each kernel is over scores; the results are the reference's in every order of threads."""
    whole, values = gradients(fn, list(arrays))
    planned = runtime.compile(whole, gpu(0)).planned
    assert {k.kind for k in planned.fused.kernels} == {"attention"}
    rows = [n.attrs["op"] for k in planned.fused.kernels for n in k.extra]
    assert sorted(rows) == ["max", "sum"] and not any(k.root.attrs.get("op") == "max" for k in planned.fused.kernels)
    assert not any(n.size >= 128 * 128 for k in planned.fused.kernels for n in k.stores)
    with np.errstate(all="ignore"):
        expected = [np.array(y).astype(np.float64) for y in reference.run(whole, [np.array(a) for a in values], np)[0]]
    tol = TOLERANCE[arrays[0].dtype.name]
    for order, got, _ in run_program(whole, values):
        for y, wanted in zip(got, expected):
            np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=tol, atol=tol * np.nanmax(np.abs(wanted)),
                                       err_msg=order)


def inputs(rows: int, keys: int, depth: int, columns: int, dtype: str) -> list[np.ndarray]:
    return [normal(2, n, d, dtype=dtype) for n, d in ((rows, depth), (keys, depth), (keys, columns))]


@pytest.mark.parametrize("dtype, sizes", [("float32", (150, 140, 16, 24)), ("float16", (128, 130, 32, 16)),
                                          ("bfloat16", (131, 128, 20, 10)), ("float32", (33, 530, 6, 3))])
def test_sizes(dtype: str, sizes: tuple[int, int, int, int]) -> None:
    """Edges of rows, keys, depth and columns, several tiles, copies of 16 bytes and of single elements."""
    check(attend, *inputs(*sizes, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_causal(dtype: str) -> None:
    """A mask that is computed where it is needed."""
    def causal(s: ir.Node) -> ir.Node:
        row, key = (ir.expand(ir.reshape(ir.iota(130), shape), s.shape) for shape in ((1, 130, 1), (1, 1, 130)))
        return ir.map("where", ir.map("le", key, row), s, ir.const(-6e4, s.dtype))
    check(lambda q, k, v: attend(q, k, v, causal), *inputs(130, 130, 16, 16, dtype))


def test_heads_side_by_side() -> None:
    """Queries, keys and values of one array; the result for the next layer."""
    def heads(x: ir.Node) -> ir.Node:
        b, n, _, h, d = x.shape
        q, k, v = (ir.permute(ir.reshape(ir.slice(x, (0, 0, i, 0, 0), (b, n, 1, h, d), (1,) * 5), (b, n, h, d)),
                              (0, 2, 1, 3)) for i in range(3))
        p = softmax_of(ir.dot(q, k, ((3,), (3,)), ((0, 1), (0, 1))) * 0.25, 3)
        return ir.reshape(ir.permute(ir.dot(p, v, ((3,), (2,)), ((0, 1), (0, 1))), (0, 2, 1, 3)), (b, n, h * d))
    whole, values = gradients(heads, [normal(1, 130, 3, 2, 16)])
    planned = runtime.compile(whole, gpu(0)).planned
    assert [k.kind for k in planned.fused.kernels].count("attention") == 5
    wanted = [np.array(y) for y in reference.run(whole, values, np)[0]]
    for order, got, _ in run_program(whole, values):
        for y, w in zip(got, wanted):
            np.testing.assert_allclose(y, w, rtol=1e-5, atol=1e-5 * np.abs(w).max(), err_msg=order)


def _stored(report: Any) -> list[int]:
    """Elements of each value that a report's kernels write."""
    lines = [line.split("writes ")[1].split("; stored")[0] for line in str(report).splitlines() if "writes " in line]
    return [int(np.prod([int(d) for d in part.split("[")[1].rstrip("]").split(",")]))
            for line in lines for part in line.split("], ") if "[" in part and part.split("[")[1].rstrip("]")]


@pytest.mark.parametrize("length", [False, True], ids=["whole", "lengths"])
def test_the_backward_pass_alone_keeps_no_scores(length: bool) -> None:
    """record and backward: the forward program keeps a number or two a row, the backward one computes the rest."""
    def f(q: Any, k: Any, v: Any) -> Any:
        s = nd.batch_dot(q, k, transpose_b=True) * 0.25
        some = nd.array(np.tile([[100], [140]], (1, 140)), dtype="int32", ctx=gpu(0)) if length else None
        return nd.batch_dot(nd.softmax(s, length=some, use_length=length), v)
    found = []
    arrays = [normal(2, 140, 16) for _ in range(3)]
    compiled = mx.hybridize(f)
    for fn in (f, compiled):
        given = [nd.array(a, ctx=gpu(0)) for a in arrays]
        for x in given:
            x.attach_grad()
        with autograd.record():
            y = fn(*given) ** 2
        y.backward()
        found.append([y.asnumpy(), *(x.grad.asnumpy() for x in given)])
    for a, b in zip(*found):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5 * np.abs(a).max())
    assert max(_stored(compiled.report())) < 140 * 140


def test_a_layer_in_a_step() -> None:
    """Multi-head attention under a causal mask, trained by one program: as eagerly."""
    losses = []
    for hybrid in (False, True):
        mx.random.seed(3)
        net = nn.MultiHeadAttention(32, 2, causal=True)
        net.initialize(ctx=gpu(0))
        x = nd.array(np.random.default_rng(1).standard_normal((1, 130, 32)).astype("float32"), ctx=gpu(0))
        net(x)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})

        def step(x: Any) -> Any:
            with autograd.record():
                loss = ((net(x) - x) ** 2).mean()
            loss.backward()
            trainer.step(1)
            return loss
        run = mx.hybridize(step) if hybrid else step
        losses.append([float(run(x).asscalar()) for _ in range(4)])
        if hybrid:
            assert max(_stored(run.report())) < 2 * 130 * 130 and "[attention]" in str(run.report())
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_scores_that_others_read_are_stored() -> None:
    """Weights that are a result, and what no tile fits, keep their products."""
    q, k, v = inputs(130, 130, 16, 16, "float32")

    def both(q: ir.Node, k: ir.Node, v: ir.Node) -> tuple[ir.Node, ir.Node]:
        p = softmax_of(ir.dot(q, k, ((2,), (2,)), ((0,), (0,))), 2)
        return p, ir.dot(p, v, ((2,), (1,)), ((0,), (0,)))
    leaves = [ir.input(i, a.shape, a.dtype) for i, a in enumerate((q, k, v))]
    planned = runtime.compile(ir.Program(tuple(leaves), both(*leaves)), gpu(0)).planned
    assert "attention" not in [x.kind for x in planned.fused.kernels]
    deep, _ = gradients(attend, inputs(130, 130, 150, 16, "float32"))
    assert "attention" not in [x.kind for x in runtime.compile(deep, gpu(0)).planned.fused.kernels]


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize("dtype, arch", [("float16", "sm_75"), ("float32", "sm_75"), ("float16", "sm_80"),
                                         ("float32", "sm_90"), ("float16", "sm_120")])
def test_every_gpu_compiles_what_is_planned_for_it(dtype: str, arch: str) -> None:
    """Without spills; float32 has no tensor cores before sm_80, and keeps its products there."""
    whole, _ = gradients(attend, inputs(256, 256, 64, 64, dtype))
    with printer.printing_for(arch):
        planned = plan(whole, JOINING)
    kinds = {k.kind for k in planned.fused.kernels}
    assert ("attention" in kinds) == (arch != "sm_75" or dtype == "float16")
    compiled = nvrtc.compile(printer.print_program(planned.groups, arch=arch).source, arch)
    assert all(r.spill_stores <= 16 for r in compiled.resources.values())
