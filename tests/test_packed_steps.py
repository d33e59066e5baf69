"""Packed convolutions in training steps: gradients against eager ones, and that a step of a residual block has them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn
from hybrid.gluon.model_zoo.vision.resnet import BasicBlockV1
from hybrid.passes import layout, packed_steps

from .cpu_kernels import random

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
    monkeypatch.setattr(packed_steps, "TILE", 1)
    shape, options = LAYERS[name]
    net = nn.HybridSequential()
    net.add(nn.Conv2D(shape[1], 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(**options))
    net.initialize(mx.init.Xavier())
    x = nd.array(random(*shape))
    net(x)
    _, step = step_of(net, x)
    packed = any(k.kind == "convolution" for k in step.report().kernels)
    assert packed == (name != "first"), step.report()                # three channels are a fraction of a vector


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
