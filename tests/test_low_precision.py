"""Products of bfloat16 by the processor's own instruction (hybrid/passes/low_precision.py, kernels/c/words.h)."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.contrib import amp
from hybrid.gluon import nn
from hybrid.runtime import toolchain

pytest.importorskip("ml_dtypes")
needs_words = pytest.mark.skipif("bfloat16" not in toolchain.words(),
                                 reason="the processor or the compiler has no products of bfloat16")

LAYERS = {
    "dense": (lambda: nn.Dense(65, in_units=129), (33, 129)),
    "row": (lambda: nn.Dense(600, in_units=700), (1, 700)),
    "columns first": (lambda: nn.Dense(64, in_units=96, flatten=False), (2, 17, 96)),
    "conv": (lambda: nn.Conv2D(33, 3, padding=1, in_channels=17), (2, 17, 15, 13)),
    "strided": (lambda: nn.Conv2D(32, 5, 2, 2, in_channels=16), (1, 16, 21, 19)),
    "dilated": (lambda: nn.Conv2D(32, 3, 1, 2, 2, in_channels=16), (1, 16, 21, 19)),
    "pointwise": (lambda: nn.Conv2D(48, 1, in_channels=40, use_bias=False), (2, 40, 9, 9)),
    "wide": (lambda: nn.Conv2D(64, 1, in_channels=1024), (1, 1024, 14, 14)),
    "stem": (lambda: nn.Conv2D(64, 7, 2, 3, in_channels=3), (1, 3, 40, 40)),
    "grouped": (lambda: nn.Conv2D(64, 3, padding=1, groups=4, in_channels=32), (1, 32, 17, 17)),
    "small pictures": (lambda: nn.Conv2D(64, 3, padding=1, in_channels=64), (5, 64, 4, 4)),
    "line": (lambda: nn.Conv1D(32, 3, padding=1, in_channels=24), (2, 24, 201)),
    "volume": (lambda: nn.Conv3D(16, 3, padding=1, in_channels=8), (1, 8, 6, 9, 10)),
    "transposed": (lambda: nn.Conv2DTranspose(24, 4, 2, 1, in_channels=32), (1, 32, 11, 12)),
}


def rounded(x: Any) -> Any:
    return nd.array(x).astype("bfloat16").astype("float32")


def layer(make: Any, seed: int = 0) -> Any:
    """A layer whose weights are bfloat16 numbers in float32."""
    net = make()
    net.initialize(mx.init.Xavier())
    rng = np.random.default_rng(seed)
    for p in net.collect_params().values():
        p.set_data(rounded(rng.standard_normal(p.shape) * 0.1))
    return net


def used(net: Any) -> bool:
    return any(form in str(net.report()) for form in ("words", "tiles"))


@pytest.mark.parametrize("name", LAYERS)
def test_sums_are_those_of_float32(name: str) -> None:
    """Of operands that are bfloat16 numbers nothing is rounded: each layer gives float32's result."""
    make, shape = LAYERS[name]
    net, x = layer(make), rounded(np.random.default_rng(1).standard_normal(shape))
    eager = net(x).asnumpy()
    net.hybridize(precision="bf16")
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=2e-5, atol=2e-5 * np.abs(eager).max())
    if "bfloat16" in toolchain.words() and name not in ("grouped", "transposed"):
        assert used(net)


def test_operands_are_rounded() -> None:
    net = nn.Dense(64, in_units=256)
    net.initialize(mx.init.Normal(0.1))
    x = nd.random.normal(shape=(32, 256))
    exact = net(x).asnumpy()
    near = nd.dot(rounded(x.asnumpy()), rounded(net.weight.data().asnumpy()).T).asnumpy()
    net.hybridize(precision="bf16")
    y = net(x).asnumpy()
    if "bfloat16" not in toolchain.words():
        np.testing.assert_array_equal(y, net(x).asnumpy())
        return
    np.testing.assert_allclose(y, near, rtol=1e-4, atol=1e-5)
    assert 0 < np.abs(y - exact).max() < 0.02


def test_without_the_instruction_nothing_is_rounded(monkeypatch: Any) -> None:
    net, x = nn.Dense(64, in_units=256), nd.random.normal(shape=(32, 256))
    net.initialize(mx.init.Normal(0.1))
    net.hybridize()
    plain = net(x).asnumpy()
    monkeypatch.setattr(toolchain, "words", frozenset)
    net.hybridize(precision="bf16")
    np.testing.assert_array_equal(net(x).asnumpy(), plain)
    assert not used(net)


def test_recorded_calls_are_float32() -> None:
    net, x = nn.Dense(64, in_units=256), nd.random.normal(shape=(32, 256))
    net.initialize(mx.init.Normal(0.1))
    with autograd.record():
        exact = net(x)
    exact.backward()
    gradient = net.weight.grad().asnumpy()
    net.hybridize(precision="bf16")
    with autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), exact.asnumpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(net.weight.grad().asnumpy(), gradient, rtol=1e-5, atol=1e-5)


def test_a_residual_network() -> None:
    from hybrid.gluon.model_zoo import vision           # noqa: PLC0415
    mx.random.seed(3)
    net = vision.resnet18_v1(classes=16)
    net.initialize(mx.init.Xavier())
    x = nd.random.normal(shape=(1, 3, 64, 64))
    net.hybridize()
    plain = net(x).asnumpy()
    net.hybridize(precision="bf16")
    y = net(x).asnumpy()
    assert np.sqrt(((y - plain) ** 2).mean() / (plain ** 2).mean()) < 0.02


def test_the_decorator_takes_it() -> None:
    w = rounded(np.random.default_rng(0).standard_normal((256, 64)))

    @mx.hybridize(precision="bf16")
    def product(x: Any) -> Any:
        return nd.dot(x, w)
    x = rounded(np.random.default_rng(1).standard_normal((8, 256)))
    np.testing.assert_allclose(product(x).asnumpy(), x.asnumpy() @ w.asnumpy(), rtol=1e-4, atol=1e-4)


def test_what_is_no_precision() -> None:
    with pytest.raises(ValueError, match="'bf16' or 'float32', got 'int8'"):
        nn.Dense(2).hybridize(precision="int8")
    with pytest.raises(ValueError, match="'bf16' or 'float32', got 'half'"):
        mx.hybridize(precision="half")(lambda x: x)


@needs_words
def test_networks_of_bfloat16_and_mixed_precision() -> None:
    net = layer(lambda: nn.Dense(64, in_units=256))
    x = rounded(np.random.default_rng(2).standard_normal((32, 256)))
    exact = net(x).asnumpy()
    amp.init("bfloat16")
    try:
        net.hybridize()
        np.testing.assert_allclose(net(x).asnumpy().astype("f4"), exact, rtol=2**-7, atol=2**-7)
        assert used(net)
    finally:
        amp.off()
    net.cast("bfloat16")
    np.testing.assert_allclose(net(x.astype("bfloat16")).asnumpy().astype("f4"), exact, rtol=2**-7, atol=2**-7)
    assert used(net)


def stored(net: Any) -> list[str]:
    """What kernels of a network's program store."""
    return [line.split("writes ")[1].split("[")[0] for line in str(net.report()).split("\n") if "writes " in line]


@needs_words
def test_values_between_are_stored_as_bfloat16_once() -> None:
    """Also where a sum reads them as float32 beside a product, and below a pool."""
    class Residual(nn.HybridSequential):
        def forward(self, x: Any) -> Any:
            return nd.relu(x + super().forward(x))

    def part() -> Any:
        inner = Residual()
        inner.add(nn.Conv2D(32, 3, padding=1, in_channels=32, activation="relu"), nn.Conv2D(32, 1, in_channels=32))
        return inner

    def make() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Conv2D(32, 3, padding=1, in_channels=16), nn.MaxPool2D(3, 2, 1), part(), part(),
                nn.Conv2D(16, 1, in_channels=32))
        return net
    net, x = layer(make), rounded(np.random.default_rng(1).standard_normal((1, 16, 32, 32)))
    step = net[0](x)
    near = rounded(net[1](step).asnumpy())
    for block in net[2], net[3]:
        inner = rounded(block[0](near).asnumpy())
        near = rounded(nd.relu(near + block[1](inner)).asnumpy())
    near = net[4](near).asnumpy()
    net.hybridize(precision="bf16")
    np.testing.assert_allclose(net(x).asnumpy(), near, rtol=1e-3, atol=2e-3 * np.abs(near).max())
    assert set(stored(net)[1:-2]) == {"cast"} and len(stored(net)) == 9, net.report()


@pytest.mark.parametrize("channels", [2, 3])
def test_few_channels_become_the_last_axis(channels: int) -> None:
    x = nd.random.normal(shape=(2, channels, 23, 29))
    turned = mx.hybridize(lambda x: nd.pad(nd.transpose(x * 2, (0, 2, 3, 1)), mode="constant", constant_value=3,
                                           pad_width=(0, 0, 0, 0, 0, 0, 0, 1)))
    y = turned(x).asnumpy()
    np.testing.assert_array_equal(y[..., :channels], np.moveaxis(x.asnumpy() * 2, 1, -1))
    assert (y[..., channels:] == 3).all()
