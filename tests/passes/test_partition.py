"""Recorded hybridized calls: forward keeps what backward needs; gradients and memory beside eager ones."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn


def mlp() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="tanh", in_units=12), nn.LayerNorm(in_channels=32), nn.Dropout(0.3),
            nn.Dense(5, in_units=32))
    return net, (7, 12)


def lenet() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu", in_channels=1), nn.MaxPool2D(),
            nn.Conv2D(8, 3, activation="sigmoid", in_channels=6), nn.AvgPool2D(),
            nn.Flatten(), nn.Dense(5))
    return net, (3, 1, 16, 16)


def batchnorm() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1, in_channels=2), nn.BatchNorm(in_channels=4), nn.Activation("relu"),
            nn.GlobalAvgPool2D(), nn.Flatten(),
            nn.Dense(5, in_units=4))
    return net, (3, 2, 8, 8)


NETS: dict[str, Callable[[], Any]] = {"mlp": mlp, "lenet": lenet, "batchnorm": batchnorm}


def run(make: Callable[[], Any], hybridized: bool, steps: int = 2) -> Any:
    mx.random.seed(11)
    net, shape = make()
    net.initialize(mx.init.Xavier())
    if hybridized:
        net.hybridize()
    x = nd.array(np.random.RandomState(0).rand(*shape))
    x.attach_grad()
    mx.random.seed(12)
    for _ in range(steps):
        with autograd.record():
            y = net(x)
            loss = (y * y).sum()
        loss.backward()
    grads = [x.grad.asnumpy()] + [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    states = [p.data().asnumpy() for p in net.collect_params().values() if p.grad_req == "null"]
    return net, grads, states


@pytest.mark.parametrize("name", NETS)
def test_gradients_equal_eager_ones(name: str) -> None:
    _, want, states = run(NETS[name], False)
    _, got, same = run(NETS[name], True)
    for a, b in zip([*got, *same], [*want, *states]):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", NETS)
def test_memory_is_at_most_eager(name: str) -> None:
    net, _, _ = run(NETS[name], True)
    report = net.report()
    assert 0 < report.kept_bytes < report.eager_bytes
    assert report.planned_bytes <= report.eager_bytes
    assert report.backward.planned_bytes <= report.backward.eager_bytes
    assert "kept for the backward pass" in str(report)


def test_products_are_not_computed_again() -> None:
    net, _, _ = run(lenet, True)
    forward = sum(k.kind == "contraction" for k in net.report().kernels)
    backward = sum(k.kind == "contraction" for k in net.report().backward.kernels)
    assert forward == 3 and backward == 6                # two for each product: to its data, to its weights


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_second_order_through_a_recorded_call(hybridized: bool) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="tanh", in_units=3), nn.Dense(1, in_units=4))
    net.initialize(mx.init.Constant(0.3))
    if hybridized:
        net.hybridize()
    x = nd.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    x.attach_grad()
    with autograd.record():
        first = autograd.grad(net(x).sum(), x, create_graph=True)[0]
        penalty = (first * first).sum()
    penalty.backward()
    t = np.tanh(0.3 * x.asnumpy().sum(1))                # first = 4 * 0.3 * (1 - t^2) * 0.3, the same for each element
    s = 1 - t * t
    f = 0.36 * s
    want = np.repeat((3 * 2 * f * 0.36 * (-2 * t * s) * 0.3)[:, None], 3, 1)
    np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-4)


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_an_input_changed_before_backward_is_an_error(hybridized: bool) -> None:
    net = nn.Dense(4, in_units=3)
    net.initialize()
    if hybridized:
        net.hybridize()
    x = nd.ones((2, 3))
    with autograd.record():
        y = net(x)
    x[:] = 5
    with pytest.raises(mx.errors.HybridError, match="changed in place"):
        y.backward()


def test_backward_twice_with_retain_graph() -> None:
    net = nn.Dense(4, in_units=3)
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 3))
    with autograd.record():
        y = (net(x) ** 2).sum()
    y.backward(retain_graph=True)
    first = net.weight.grad().asnumpy()
    y.backward()
    np.testing.assert_allclose(net.weight.grad().asnumpy(), first)


def test_losses_and_nets_chain() -> None:
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    curves = []
    for hybridized in (False, True):
        mx.random.seed(2)
        net, shape = lenet()
        net.initialize(mx.init.Xavier())
        if hybridized:
            net.hybridize()
            loss_of.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
        x, y = nd.array(np.random.RandomState(3).rand(*shape)), nd.array([0, 1, 2])
        curve = []
        for _ in range(5):
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(3)
            curve.append(loss.mean().asscalar())
        curves.append(curve)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-4)
    assert curves[0][-1] < curves[0][0]


class Clip(autograd.Function):
    """Identity with a clipped gradient, beside a scaled copy: what differentiation of forward would not give."""

    def forward(self, x: Any, w: Any) -> Any:
        y = x * w
        self.save_for_backward(x, y)
        return y, x * 2

    def backward(self, dy: Any, dz: Any) -> Any:
        x, y = self.saved_tensors
        return nd.clip(dy * 10, -1, 1) + dz * x, dy * y


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_function_with_a_gradient_of_its_own(hybridized: bool) -> None:
    def f(x: Any, w: Any) -> Any:
        y, z = Clip()(x * 1, w)
        return (y * nd.array([0.01, 5.0, -5.0])).sum() + (z * 3).sum()
    call = mx.hybridize(f) if hybridized else f
    x, w = nd.array([1.0, 2.0, 3.0]), nd.array([2.0, 2.0, 2.0])
    x.attach_grad()
    w.attach_grad()
    for _ in range(2):
        with autograd.record():
            loss = call(x, w)
        loss.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), [0.1 + 3, 1 + 6, -1 + 9], rtol=1e-6)
        np.testing.assert_allclose(w.grad.asnumpy(), [0.02, 20, -30], rtol=1e-6)
    assert call(x, w).asscalar() == loss.asscalar()


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_get_symbol(hybridized: bool) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu", in_units=3), nn.Dense(2, in_units=4))
    net.initialize()
    if hybridized:
        net.hybridize()
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = net(x * 2) + 1
    graph = autograd.get_symbol(y)
    assert [n.opdef.name for n in graph.nodes() if n.opdef is not None] == \
        ["_mul_scalar", "FullyConnected", "Activation", "FullyConnected", "_plus_scalar"]
    assert graph.list_arguments() == [f"var{i}" for i in range(5)] and graph.list_outputs() == ["node_4_output"]
    assert '"op": "FullyConnected"' in graph.tojson()
    with pytest.raises(mx.errors.HybridError, match="get_symbol"):
        autograd.get_symbol(nd.ones((2,)))


CONVOLUTIONS = [((2, 3, 12, 11), (4, 3, 5, 3), {"kernel": (5, 3)}),
                ((2, 3, 12, 11), (4, 3, 5, 3), {"kernel": (5, 3), "pad": (2, 1), "dilate": (2, 1)}),
                ((2, 4, 12, 11), (6, 2, 3, 3), {"kernel": (3, 3), "pad": (1, 1), "num_group": 2}),
                ((2, 4, 12, 11), (6, 4, 3, 3), {"kernel": (3, 3), "pad": (1, 1), "stride": (2, 2)}),
                ((2, 4, 12, 11), (6, 4, 1, 1), {"kernel": (1, 1), "stride": (2, 2)}),
                ((2, 4, 12, 11), (6, 4, 2, 2), {"kernel": (2, 2), "stride": (2, 2)}),
                ((2, 4, 9), (6, 4, 3), {"kernel": (3,), "pad": (1,)}),
                ((2, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"kernel": (2, 3, 2), "pad": (1, 0, 1)})]


@pytest.mark.parametrize("shape, weight, attrs", CONVOLUTIONS, ids=[str(i) for i in range(len(CONVOLUTIONS))])
def test_gradients_of_convolutions(shape: Any, weight: Any, attrs: dict[str, Any]) -> None:
    rng = np.random.RandomState(0)
    x, w = nd.array(rng.rand(*shape) - 0.5), nd.array(rng.rand(*weight) - 0.5)
    x.attach_grad()
    w.attach_grad()

    def f(x: Any, w: Any) -> Any:
        return nd.Convolution(x, w, None, no_bias=True, num_filter=weight[0], **attrs)
    found = []
    for call in (f, mx.hybridize(f)):
        with autograd.record():
            y = call(x, w)
            loss = (y * y).sum()
        loss.backward()
        found.append((x.grad.asnumpy(), w.grad.asnumpy()))
    for eager, compiled in zip(*found):
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-4)


def test_no_columns_are_stored_for_the_gradient_to_the_data() -> None:
    net = nn.Conv2D(8, 3, padding=1, in_channels=4)
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 4, 16, 16))
    x.attach_grad()
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    assert net.report().backward.arena_bytes <= 2 * 8 * 16 * 16 * 4
