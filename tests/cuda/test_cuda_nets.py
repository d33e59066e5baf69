"""Whole nets on gpu(0): models that MXNet exported and nets in training, eagerly and hybridized, in three orders of
threads."""
from __future__ import annotations

from typing import Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .cuda_tools import orders
from ..gluon.golden_models import MODELS, compare, lenet, load, reads_the_digits

pytestmark = pytest.mark.usefixtures("cuda_device")


@pytest.mark.parametrize("model", [pytest.param(m, marks=[pytest.mark.thorough] if i else [])
                                   for i, m in enumerate(MODELS)])
def test_exported_models(model: str) -> None:
    """MXNet's own outputs, of the first sample."""
    net, inputs, expected, _ = load(model, mx.gpu(0))
    inputs, expected = [x[:1] for x in inputs], [y[:1] for y in expected]
    found = net(*inputs)
    assert all(y.ctx == mx.gpu(0) for y in (found if isinstance(found, (list, tuple)) else [found]))
    compare(found, expected, "eager")
    net.hybridize(static_alloc=True, static_shape=True)
    for order in orders():
        compare(net(*inputs), expected, order)


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_lenet_reads_the_digits(hybridized: bool) -> None:
    reads_the_digits(hybridized, mx.gpu(0))


@pytest.mark.thorough
def test_lenet_in_every_order() -> None:
    """Values and gradients of a small batch."""
    net, pixels, _, logits = lenet(mx.gpu(0))
    x = pixels[:6]

    def gradients() -> dict[str, np.ndarray]:
        with autograd.record():
            loss = net(x).square().mean()
        loss.backward()
        return {name: p.grad().asnumpy().copy() for name, p in net.collect_params().items()}
    eager = gradients()
    net.hybridize()
    for order in orders():
        np.testing.assert_allclose(net(x).asnumpy(), logits[:6], atol=1e-4, err_msg=order)
        for name, found in gradients().items():
            np.testing.assert_allclose(found, eager[name], rtol=1e-4, atol=1e-5 * np.abs(eager[name]).max(),
                                       err_msg=f"{order}: {name}")


def conv_net() -> gluon.Block:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(),
            nn.Conv2D(8, 3, groups=2, strides=2), nn.LeakyReLU(0.1),
            nn.BatchNorm(scale=False), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(5))
    return net


def text_net() -> gluon.Block:
    net = nn.HybridSequential()
    net.add(nn.Embedding(11, 12), nn.LayerNorm(), nn.Dense(16, flatten=False, activation="tanh"), nn.Dropout(0.4),
            nn.Dense(3))
    return net


def mlp() -> gluon.Block:
    net = nn.HybridSequential()
    net.add(nn.Dense(70, activation="relu"), nn.Dropout(0.5), nn.Dense(66, activation="sigmoid"), nn.Dense(2))
    return net


NETS: dict[str, tuple[Callable[[], gluon.Block], tuple[int, ...]]] = {"conv": (conv_net, (4, 3, 10, 12)),
                                                                      "text": (text_net, (5, 7)), "mlp": (mlp, (9, 40))}


def train(name: str, hybridized: bool) -> list[np.ndarray]:
    """Outputs, gradients and states after three steps of training and one prediction."""
    make, shape = NETS[name]
    rng = np.random.default_rng(3)
    mx.random.seed(4)
    net = make()
    net.initialize(mx.init.Uniform(0.3), ctx=mx.gpu(0))
    net(nd.zeros(shape, ctx=mx.gpu(0)))                     # parameters are drawn before Dropout draws
    if hybridized:
        net.hybridize()
    out = []
    for _ in range(3):
        x = nd.array(rng.integers(0, 11, shape) if name == "text" else rng.standard_normal(shape), ctx=mx.gpu(0),
                     dtype="float32")
        with autograd.record():
            y = net(x)
            loss = (y * y).mean()
        loss.backward()
        out += [y.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null")]
        for p in net.collect_params().values():
            if p.grad_req != "null":
                p.set_data(p.data() - 0.1 * p.grad())
    return [*out, net(x).asnumpy(), *(p.data().asnumpy() for p in net.collect_params().values())]


@pytest.mark.parametrize("name", NETS)
def test_training(name: str) -> None:
    """Hybridized training is eager training: same draws, gradients, running statistics."""
    eager = train(name, False)
    for order in orders():
        for k, (got, expected) in enumerate(zip(train(name, True), eager, strict=True)):
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5 * max(1, np.abs(expected).max()),
                                       err_msg=f"{order}: value {k}")
