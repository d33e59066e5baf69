"""Packed convolutions in training steps: gradients against eager ones, and that a step of a residual block has them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.codegen.printers.convolutions.filters_in_lanes import FiltersInLanes
from hybrid.codegen.printers.convolutions.weight_gradient import Correlation
from hybrid.gluon import nn
from hybrid.gluon.model_zoo.vision.resnet import BasicBlockV1
from hybrid.passes import layout, packed_steps
from hybrid.runtime import cpu, toolchain

from ..cpu_kernels import program, random

# shape of the data, and the layer's options
LAYERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 16, 9, 7), {"channels": 16, "kernel_size": 3, "padding": 1}),
    "strided": ((2, 16, 9, 8), {"channels": 32, "kernel_size": 3, "strides": 2, "padding": 1}),
    "dilated": ((2, 16, 11, 9), {"channels": 17, "kernel_size": 3, "dilation": 2, "padding": 2}),
    "groups": ((2, 32, 7, 6), {"channels": 32, "kernel_size": 3, "groups": 2}),
    "each_channel": ((2, 24, 7, 8), {"channels": 24, "kernel_size": 3, "groups": 24, "padding": 1}),
    "one_pixel": ((3, 19, 5, 6), {"channels": 33, "kernel_size": 1}),
    "first": ((2, 3, 12, 11), {"channels": 16, "kernel_size": 5, "strides": 2, "padding": 2}),
}


def step_of(net: Any, x: Any) -> tuple[list[np.ndarray], Any]:
    """Parameters after an eager step and after a compiled one of the same net are compared; the compiled step."""
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

    def step(x: Any) -> Any:
        with autograd.record():
            y = (net(x) ** 2).mean()
        y.backward()
        trainer.step(1)
        return y
    start = {k: p.data().copy() for k, p in net.collect_params().items()}

    def after(run: Any) -> list[np.ndarray]:
        for k, p in net.collect_params().items():
            p.set_data(start[k])
        run(x).wait_to_read()
        return [p.data().asnumpy() for p in net.collect_params().values()]
    want, compiled = after(step), mx.hybridize(step)
    after(compiled)
    for got, exact in zip(after(compiled), want, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=2e-5 * float(np.abs(exact).max()))
    return want, compiled


@pytest.mark.parametrize("name", LAYERS)
def test_as_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LEAST_WORK", 1)
    monkeypatch.setattr(packed_steps, "FULL", 0)
    monkeypatch.setattr(packed_steps, "LEAST_VECTORS", 0)
    shape, options = LAYERS[name]
    net = nn.HybridSequential()
    net.add(nn.Conv2D(shape[1], 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(**options))
    net.initialize(mx.init.Xavier())
    x = nd.array(random(*shape))
    net(x)
    _, step = step_of(net, x)
    assert any(k.kind == "convolution" for k in step.report().kernels), step.report()


POOLS: dict[str, Any] = {"apart": lambda: nn.MaxPool2D(2), "overlapping": lambda: nn.MaxPool2D(3, 2, 1),
                         "means": lambda: nn.AvgPool2D(2)}


@pytest.mark.parametrize("pool", POOLS)
def test_pools(pool: str) -> None:
    """The gradients of pools between packed convolutions, and of one whose result is flattened, are channels last."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu"), POOLS[pool](), nn.Conv2D(32, 3, padding=1,
            activation="relu"), POOLS[pool](), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    x = nd.array(random(4, 3, 16, 16))
    net(x)
    _, step = step_of(net, x)
    report = step.report()
    assert sum(k.kind == "convolution" for k in report.kernels) == (3 if toolchain.vector_bytes() == 64 else 0), report


# images, height, width, channels, filters, kernel, stride, border, dilation
GRADIENTS = {"small_images": (70, 4, 4, 16, 16, 3, 1, 1, 1), "few_channels": (2, 13, 19, 3, 33, 7, 2, 3, 1),
             "one_channel": (3, 12, 12, 1, 20, 5, 1, 0, 1), "dilated": (2, 15, 11, 5, 19, 3, 1, 2, 2),
             "strided": (3, 16, 15, 20, 24, 3, 2, 1, 1), "many_lines": (1, 70, 60, 34, 48, 3, 1, 1, 1),
             "wide_border": (2, 5, 3, 7, 16, 5, 1, 3, 1)}


@pytest.mark.skipif(toolchain.vector_bytes() < 32, reason="needs vectors of 8 lanes")
@pytest.mark.parametrize("name", GRADIENTS)
def test_filters_in_lanes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of filters from channels-last data and gradients, against sums of products in float64."""
    n, h, w, channels, filters, size, stride, border, dilation = GRADIENTS[name]
    at = [range(k * dilation, k * dilation + d + 2 * border - dilation * (size - 1), stride)
          for d in (h, w) for k in range(size)]
    down, across = at[:size], at[size:]
    x, g = random(n, h, w, channels), random(n, len(down[0]), len(across[0]), filters)
    wide = np.pad(x, ((0, 0), (border, border), (border, border), (0, 0))).astype(np.float64)
    want = np.array([[np.tensordot(g, wide[:, i][:, :, j], ((0, 1, 2), (0, 1, 2))) for j in across] for i in down])

    def outputs(x: Any, g: Any) -> list[Any]:
        win = ir.window(ir.pad(x, (0, border, border, 0), (0, border, border, 0)) if border else x, (1, 2),
                        (size, size), (stride, stride), (dilation, dilation))
        return [ir.permute(ir.dot(g, ir.permute(win, (0, 1, 2, 4, 5, 3)), ((0, 1, 2), (0, 1, 2))), (1, 2, 0, 3))]
    printed = []
    monkeypatch.setattr(FiltersInLanes, "print", lambda self: printed.append(self) or Correlation.print(self))
    p, arrays = program(outputs, x, g)
    [got] = cpu.compiled(p)(arrays)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * float(np.abs(want).max()))
    assert len(printed) == 1


def test_residual_block() -> None:
    """Four convolutions and the gradients of data of three; the first one's data has no gradient."""
    net = nn.HybridSequential()
    net.add(BasicBlockV1(64, 1), BasicBlockV1(64, 1))
    net.initialize(mx.init.Xavier())
    x = nd.array(random(2, 64, 8, 8))
    net(x)
    _, step = step_of(net, x)
    packed = [k for k in step.report().kernels if k.kind == "convolution"]
    assert len(packed) >= 7, step.report()


def test_data_gradients_that_are_mostly_border() -> None:
    """LeNet's: the gradient of 8 x 8 pixels makes one of 12 x 12 through a 5 x 5 filter. Less than half of the products
    lie inside of the image, and the packed form skips others, also where its channels fill few vectors."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(50, 5, activation="relu"),
            nn.MaxPool2D(2), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    x = nd.array(random(6, 1, 28, 28))
    net(x)
    _, step = step_of(net, x)
    packed = [k for k in step.report().kernels if k.kind == "convolution"]
    assert any("[6, 12, 12, 20]" in str(k.nodes) for k in packed) or toolchain.vector_bytes() != 32, step.report()


@pytest.mark.parametrize("pads, stride, dilation", [((0, 0), 1, 1), ((1, 1), 1, 1), ((4, 2), 1, 1), ((3, 4), 2, 2)])
def test_products_inside(pads: tuple[int, int], stride: int, dilation: int) -> None:
    """The share of products inside of an image, counted one by one."""
    ones = np.pad(np.ones((8, 7)), [(p, p) for p in pads])
    x = ir.pad(ir.input(0, (1, 8, 7, 3), np.float32), (0, *pads, 0), (0, *pads, 0))
    win = ir.window(x, (1, 2), (3, 3), (stride,) * 2, (dilation,) * 2)
    views = np.lib.stride_tricks.sliding_window_view(ones, (2 * dilation + 1,) * 2)
    want = views[::stride, ::stride, ::dilation, ::dilation].mean()
    assert packed_steps._inside(win) == pytest.approx(want)


class Mixed(gluon.HybridBlock):
    """A convolution, a product of a matrix with its channels, a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = (nn.Conv2D(64, 3, padding=1, in_channels=64, use_bias=False) for _ in range(2))
        self.matrix = gluon.Parameter("matrix", shape=(64, 64))

    def forward(self, x: Any) -> Any:
        """An image of as many channels."""
        y = nd.relu(self.first(x)).as_np_ndarray()
        mixed = mx.np.tensordot(self.matrix.data().as_np_ndarray(), y, axes=([1], [1]))
        return self.last(mixed.transpose(1, 0, 2, 3).as_nd_ndarray())


def test_products_without_windows() -> None:
    """A product over the channels of an image that lies channels last is none of windows."""
    net = Mixed()
    net.initialize(mx.init.Normal(0.1))
    x = nd.array(random(2, 64, 9, 9))
    net(x)
    _, step = step_of(net, x)
    assert any(k.kind == "convolution" for k in step.report().kernels), step.report()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_first_convolution_of_halves(dtype: str) -> None:
    """It is packed as that of float32, though its data is converted first, and what follows it lies channels last."""
    reports = {}
    for kind in ("float32", dtype):
        net = nn.HybridSequential()
        net.add(nn.Conv2D(32, 7, 2, 3, in_channels=3), nn.BatchNorm(in_channels=32), nn.Activation("relu"),
                nn.MaxPool2D(3, 2, 1), nn.Conv2D(32, 3, padding=1, in_channels=32))
        net.initialize(mx.init.Xavier())
        net.cast(kind)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "multi_precision": True})

        @mx.hybridize
        def step(x: Any, net: Any = net, trainer: Any = trainer) -> Any:
            with autograd.record():
                y = (net(x) ** 2).mean()
            y.backward()
            trainer.step(1)
            return y
        step(nd.array(random(4, 3, 64, 64)).astype(kind))
        reports[kind] = step.report()
    packed = {kind: sum(k.kind == "convolution" for k in r.kernels) for kind, r in reports.items()}
    assert packed[dtype] == packed["float32"] >= 2, packed
    assert "interleaved pairs" in [k.form for k in reports[dtype].kernels], reports[dtype]
