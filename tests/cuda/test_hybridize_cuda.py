"""Gradients and emulated CUDA of hybridized code; an operator from outside."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.base.errors import DeviceError
from hybrid.gluon import nn

from ..hybridize_tools import ON_GPU, arr, both


# ---- gradients and CUDA
def _convnet() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1, in_channels=2), nn.BatchNorm(in_channels=4), nn.Activation("relu"),
            nn.MaxPool2D(2), nn.Flatten(),
            nn.Dense(5, in_units=36, activation="tanh"), nn.Dropout(0.3), nn.LayerNorm(in_channels=5),
            nn.Dense(3, in_units=5))
    return net


def _filled(net: Any, ctx: Any) -> Any:
    net.initialize(ctx=ctx)
    for i, p in enumerate(net.collect_params().values()):
        rng = onp.random.RandomState(i)
        p.set_data(nd.array(rng.uniform(0.1, 0.5, p.shape).astype("float32") * (1 if "var" in p.name else rng.choice([-1, 1], p.shape)), ctx=ctx))  # noqa: E501
    return net


def _step(net: Any, x: Any) -> tuple[Any, Any, list[onp.ndarray]]:
    mx.random.seed(9)
    x.attach_grad()
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    grads = [p.grad(x.context).asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    return loss.asnumpy(), x.grad.asnumpy(), grads


def test_gradients_equal_eager() -> None:
    ctx = mx.current_context()
    e, h = _filled(_convnet(), ctx), _filled(_convnet(), ctx)
    h.hybridize()
    x = arr(4, 2, 6, 6)
    for _ in range(2):
        for a, b in zip(_flat(_step(h, x)), _flat(_step(e, x))):
            onp.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def _flat(step: Any) -> list[Any]:
    return [step[0], step[1], *step[2]]


def test_training_goes_the_same_way() -> None:
    ctx = mx.current_context()
    losses = []
    for hybrid in (False, True):
        net = _filled(_convnet(), ctx)
        if hybrid:
            net.hybridize()
        net(arr(4, 2, 6, 6))
        row = []
        for step in range(4):
            loss, _, grads = _step(net, arr(4, 2, 6, 6, seed=step))
            for p, g in zip([p for p in net.collect_params().values() if p.grad_req != "null"], grads):
                p.set_data(p.data() - nd.array(0.01 * g))
            row.append(float(loss.reshape(-1)[0]))
        losses.append(row)
    onp.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


@pytest.fixture
def emulator(monkeypatch: Any) -> Any:
    if not ON_GPU:
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    return mx.gpu(0)


def test_whole_net_on_gpu_equals_cpu(emulator: Any) -> None:
    c, g = _filled(_convnet(), mx.cpu()), _filled(_convnet(), emulator)
    g.hybridize()
    raw = arr(4, 2, 6, 6).asnumpy()
    x, y = nd.array(raw, ctx=mx.cpu()), nd.array(raw, ctx=emulator)
    out = g(y)
    assert out.context == emulator
    onp.testing.assert_allclose(out.asnumpy(), c(x).asnumpy(), rtol=1e-4, atol=1e-4)
    assert ".cu" in str(g.report().source) or "cuda" in str(g.report()).lower()
    for a, b in zip(_flat(_step(g, y)), _flat(_step(c, x))):
        onp.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    for p, q in zip(g.collect_params().values(), c.collect_params().values()):
        onp.testing.assert_allclose(p.data(emulator).asnumpy(), q.data(mx.cpu()).asnumpy(), rtol=1e-3, atol=1e-4)


def test_inplace_and_capture_on_gpu(emulator: Any) -> None:
    n = nd.zeros((3,), ctx=emulator)

    @mx.hybridize
    def f(x: Any) -> Any:
        nonlocal n
        n += x
        x *= 2
        return x + n
    x = nd.ones((3,), ctx=emulator)
    onp.testing.assert_allclose(f(x).asnumpy(), 3)
    onp.testing.assert_allclose(f(x).asnumpy(), 7)
    onp.testing.assert_allclose(n.asnumpy(), 3)
    onp.testing.assert_allclose(x.asnumpy(), 4)


@pytest.mark.parametrize("key", [slice(1, 3), [0, 2]], ids=["slice", "list"])
@pytest.mark.parametrize("value", [0.25, onp.ones((2, 3))], ids=["number", "numpy"])
def test_assignment_on_another_device_than_the_default(emulator: Any, key: Any, value: Any) -> None:
    x = nd.ones((4, 3), ctx=emulator)
    x.attach_grad()
    with autograd.record():
        y = x * 2
        y[key] = value
    y.backward()
    want = onp.full((4, 3), 2.0)
    want[key] = 0
    onp.testing.assert_array_equal(x.grad.asnumpy(), want)


def test_no_gpu_is_a_clear_error() -> None:
    if ON_GPU or mx.num_gpus():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceError, match="no GPU was found"):
        nd.ones((2,), ctx=mx.gpu(0))


# ---- an operator from outside, in one place
def test_operator_registered_from_outside(emulator: Any) -> None:
    from hybrid import ir
    from hybrid.ops import registry

    @registry.op("test_softshift", "data", shift=registry.Float(0.5))
    def softshift(data: Any, a: Any) -> Any:
        "tanh(data - shift) * data."
        return ir.map("mul", ir.map("tanh", data - a.shift), data)
    try:
        raw = onp.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)
        want = onp.tanh(raw - 0.25) * raw
        slope = onp.tanh(raw - 0.25) + raw * (1 - onp.tanh(raw - 0.25) ** 2)
        for ctx in (mx.cpu(), emulator):
            for wrapped in (lambda f: f, mx.hybridize):
                f = wrapped(lambda v: nd.test_softshift(v, shift=0.25))
                x = nd.array(raw, ctx=ctx)
                onp.testing.assert_allclose(f(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
                x.attach_grad()
                with autograd.record():
                    y = f(x)
                y.backward()
                onp.testing.assert_allclose(x.grad.asnumpy(), slope, rtol=1e-4, atol=1e-5)
        s = mx.sym.test_softshift(mx.sym.var("data"), shift=0.25)
        assert '"test_softshift"' in s.tojson() and s.infer_shape(data=(2, 2))[1] == [(2, 2)]
    finally:
        registry.unregister(softshift)


def test_no_warnings_in_normal_use() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both(lambda v: v * 2, arr(3))


def test_function_follows_the_blocks_it_calls() -> None:
    class Scaled(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.k, self.parts = 2.0, [1.0]

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            return x * self.k + self.parts[0]
    inner = Scaled()
    inner.hybridize()
    x = nd.ones((2, 3))

    @mx.hybridize
    def f(a: Any) -> Any:
        return inner(a) + 1
    for k, part in ((2.0, 1.0), (3.0, 1.0), (3.0, 5.0), (2.0, 1.0)):
        inner.k, inner.parts[0] = k, part
        for _ in range(3):
            assert (f(x).asnumpy() == k + part + 1).all()


def test_plain_class_without_arrays_follows_its_numbers() -> None:
    @mx.hybridize
    class Model:
        def __init__(self) -> None:
            self.k = 2.0

        def forward(self, x: Any) -> Any:
            return x * self.k
    m, x = Model(), nd.ones((2, 3))
    for k in (2.0, 3.0, 2.0):
        m.k = k
        for _ in range(3):
            assert (m.forward(x).asnumpy() == k).all()


def test_two_arguments_the_same_and_different() -> None:
    @mx.hybridize
    def f(a: Any, b: Any) -> Any:
        return (a * b)[0]
    x = nd.ones((2, 3))
    for b, want in ((x, 1), (x * 2, 2), (x * 3, 3), (x, 1)):
        assert (f(x, b).asnumpy() == want).all()
