"""Training steps with convolutions of half types: float32, rounded where halves are (hybrid/passes/wide_halves.py)."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.base import dtype as dt
from hybrid.contrib import amp
from hybrid.gluon import nn
from hybrid.gluon.model_zoo.vision.resnet import BasicBlockV1
from hybrid.ir import Node, Program
from hybrid.ir.evaluate import run
from hybrid.passes import layout, packed_steps
from hybrid.passes.differentiate import vjp_program
from hybrid.runtime import toolchain
from hybrid.runtime.cpu import compiled

from ..cpu_kernels import conv, random

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")
NEAR = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.fixture(params=NEAR)
def half(request: Any) -> str:
    if request.param == "bfloat16":
        pytest.importorskip("ml_dtypes")
    return str(request.param)


# the layer, and the shape of its data
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "plain": (lambda: nn.Conv2D(16, 3, padding=1), (2, 16, 9, 7)),
    "first": (lambda: nn.Conv2D(20, 5, strides=2, padding=2), (2, 3, 12, 11)),
    "strided": (lambda: nn.Conv2D(32, 3, 2, 1), (2, 16, 9, 8)),
    "dilated": (lambda: nn.Conv2D(17, 3, dilation=2, padding=2), (2, 16, 11, 9)),
    "groups": (lambda: nn.Conv2D(32, 3, groups=2), (2, 32, 7, 6)),
    "each channel": (lambda: nn.Conv2D(24, 3, groups=24, padding=1), (2, 24, 7, 8)),
    "one pixel": (lambda: nn.Conv2D(33, 1, use_bias=False), (3, 19, 5, 6)),
    "small images": (lambda: nn.Conv2D(48, 3, padding=1), (3, 32, 2, 2)),
    "wide": (lambda: nn.Conv2D(64, 3, padding=1), (2, 64, 8, 8)),
    "channels last": (lambda: nn.Conv2D(32, 3, 1, 1, layout="NHWC"), (2, 9, 8, 16)),
    "strides channels last": (lambda: nn.Conv2D(16, 3, 2, 1, layout="NHWC"), (2, 11, 9, 16)),
    "line": (lambda: nn.Conv1D(18, 3, padding=1), (2, 16, 33)),
    "volume": (lambda: nn.Conv3D(16, 3, padding=1), (1, 8, 4, 5, 6)),
    "transposed": (lambda: nn.Conv2DTranspose(24, 4, 2, 1), (1, 16, 6, 7)),
}


def gradients(net: Any, x: Any, compiled: bool) -> list[np.ndarray]:
    """The result, the gradient of the data, and those of the parameters, in float64."""
    x.attach_grad()

    def step(x: Any) -> Any:
        with autograd.record():
            y = net(x)
            loss = (y.astype("float32") ** 2).mean()
        loss.backward()
        return y
    y = (mx.hybridize(step) if compiled else step)(x)
    grads = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
    return [a.astype("float64").asnumpy() for a in (y, x.grad, *grads)]


def net_of(layer: Any, x: Any) -> Any:
    """The layer, and a pool of its results, of some parameters. Eagerly, a transposed convolution adds halves up: a
    pool would find others of its results to be the greatest."""
    last = getattr(layer, "_kwargs", {}).get("layout", "") == "NHWC"
    net = nn.HybridSequential()
    net.add(layer, nn.Activation("relu"))
    if x.ndim == 4 and not isinstance(layer, nn.Conv2DTranspose):
        net.add(nn.MaxPool2D(2, layout="NHWC" if last else "NCHW"))
    net.initialize(mx.init.Xavier())
    net(x)
    for p in net.collect_params().values():
        p.set_data(nd.array(random(*p.shape) * 0.2))
    return net


@pytest.mark.parametrize(("name", "half"), [*((name, "bfloat16") for name in LAYERS), *(
    (name, "float16") for name in ("plain", "groups", "small images", "channels last"))])
def test_as_eager(name: str, half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and gradients are eager ones but for the order of sums, and near those of float32: a pool of halves may
    find another of two neighbours to be the greatest."""
    monkeypatch.setattr(layout, "LEAST_WORK", 1)
    monkeypatch.setattr(packed_steps, "FULL", 0)
    monkeypatch.setattr(packed_steps, "LEAST_VECTORS", 1)
    make, shape = LAYERS[name]
    x = nd.array(random(*shape))
    net = net_of(make(), x)
    net.cast(half)
    x = x.astype(half)
    eager, got = gradients(net, x, False), gradients(net, x, True)
    net.cast("float32")
    for a, b, c in zip(got, eager, gradients(net, x.astype("float32"), True), strict=True):
        np.testing.assert_allclose(a, b, rtol=2.1 * NEAR[half], atol=2 * NEAR[half] * float(np.abs(b).max()))
        assert np.linalg.norm(a - c) <= 40 * NEAR[half] * np.linalg.norm(c)


def outputs(x: Node, w: Node, each: Node) -> list[Node]:
    """Pools, of what is given and of a convolution, and convolutions with strides and in groups."""
    def pool(y: Node) -> Node:
        return ir.reduce("max", ir.window(y, (2, 3), (2, 2), (2, 2), (1, 1)), (4, 5))
    y = pool(x)
    return [conv(pool(ir.map("relu", conv(conv(y, w, 1), w, 1))), each, 1, 2, 16), y]


def test_every_kernel_computes_float32(half: str) -> None:
    """Halves are read and written at the ends of the program alone, and pools have vectors."""
    arrays = [random(2, 16, 24, 24), random(16, 16, 3, 3), random(16, 1, 3, 3)]
    leaves = tuple(ir.input(i, a.shape, half) for i, a in enumerate(arrays))
    given = [a.astype(dt.as_dtype(half)) for a in (*arrays, random(2, 16, 3, 3), random(2, 16, 12, 12))]
    whole = vjp_program(Program(leaves, tuple(outputs(*leaves))), (0, 1, 2))
    exe = compiled(whole)
    kernels = exe.planned.fused.kernels
    assert sum(k.dot is not None for k in kernels) >= 7
    for k in kernels:
        computed = [m for m in k.members if m.prim not in ("cast", "reshape", "permute")]
        assert not any(dt.is_half(m.dtype) for m in computed), computed
        operands = [m for m, uses in k.members.items() if m.prim == "cast" and any(u.inside for u in uses)]
        assert k.dot is None or not dt.is_half(k.root.dtype) and not operands, (k.root, operands)
    pools = [r for r in exe.report.kernels if any(n.startswith(("max[", "argreduce[")) for n in r.nodes)]
    assert len(pools) >= 2 and not any("plain" in r.form for r in pools), [r.form for r in pools]
    for a, b in zip(exe(given), run(whole, given, np)[0], strict=True):
        a, b = (np.asarray(v, np.float64) for v in (a, b))
        np.testing.assert_allclose(a, b, rtol=2.1 * NEAR[half], atol=2 * NEAR[half] * float(np.abs(b).max()))


def test_borders_are_halves(half: str) -> None:
    """A value around an image that no half has is rounded, as in an array of halves."""
    x, w = ir.input(0, (1, 16, 6, 6), half), ir.input(1, (16, 16, 3, 3), half)
    p = Program((x, w), (conv(ir.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), 0.1), w), ir.pad(x, (1, 0, 0, 0), (0,) * 4, 0.1)))
    given = [random(*n.shape).astype(n.dtype) for n in p.inputs]
    got, want = ([np.asarray(a, np.float64) for a in found] for found in (compiled(p)(given), run(p, given, np)[0]))
    np.testing.assert_allclose(got[0], want[0], rtol=2.1 * NEAR[half], atol=1e-3)
    np.testing.assert_array_equal(got[1], want[1])


def kinds(net: Any, x: Any, half: str) -> list[str]:
    """How the products of a step in mixed precision are computed; float32 for no half type."""
    amp.off()
    if half:
        amp.init(half)
    try:
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

        def step(x: Any) -> Any:
            with autograd.record():
                loss = (net(x).astype("float32") ** 2).mean()
            loss.backward()
            trainer.step(1)
            return loss
        fast = mx.hybridize(step)
        fast(x)
        return sorted(k.kind for k in fast.report().kernels if k.kind in ("convolution", "contraction"))
    finally:
        amp.off()


def test_a_residual_block_is_packed(half: str) -> None:
    """As many packed convolutions as in float32: four, and the gradients of data of three."""
    net = nn.HybridSequential()
    net.add(BasicBlockV1(64, 1), BasicBlockV1(64, 1))
    net.initialize(mx.init.Xavier())
    x = nd.array(random(2, 64, 8, 8))
    net(x)
    found = kinds(net, x, half)
    assert found.count("convolution") >= 7 and found == kinds(net, x, "")


def test_any_batch(half: str) -> None:
    """One program for batches of every size, whose gradients are eager ones."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(32, 3), nn.GlobalAvgPool2D(), nn.Dense(7))
    net.initialize(mx.init.Xavier())
    net(nd.array(random(2, 1, 14, 14)))
    net.cast(half)

    def step(x: Any) -> Any:
        with autograd.record():
            loss = (net(x).astype("float32") ** 2).mean()
        loss.backward()
        return loss
    fast = mx.hybridize(step)
    for n in (4, 5, 9, 16, 3):
        x = nd.array(random(n, 1, 14, 14)).astype(half)
        found = []
        for f in (fast, step):
            f(x)
            found.append([p.grad().astype("float64").asnumpy() for p in net.collect_params().values()])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=2.1 * NEAR[half], atol=6 * NEAR[half] * float(np.abs(b).max()))
