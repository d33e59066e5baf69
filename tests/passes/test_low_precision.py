"""Products of bfloat16 by the processor's own instruction (hybrid/passes/low_precision.py, kernels/c/words.h)."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.base.dtype import as_dtype
from hybrid.contrib import amp
from hybrid.gluon import nn
from hybrid.ir.roundable import may_round, rounding
from hybrid.passes.low_precision import in_bfloat16
from hybrid.runtime import cpu, reference, toolchain

from ..codegen.test_packed_convolutions import program

pytest.importorskip("ml_dtypes")
needs_words = pytest.mark.skipif("bfloat16" not in toolchain.words(),
                                 reason="the processor or the compiler has no products of bfloat16")

LAYERS = {
    "dense": (lambda: nn.Dense(65, in_units=129), (33, 129)),
    "row": (lambda: nn.Dense(600, in_units=700), (1, 700)),
    "columns first": (lambda: nn.Dense(64, in_units=96, flatten=False), (2, 17, 96)),
    "conv": (lambda: nn.Conv2D(33, (3, 2), padding=1, in_channels=17), (2, 17, 15, 13)),
    "strided": (lambda: nn.Conv2D(32, 5, 2, 2, in_channels=16), (1, 16, 21, 19)),
    "dilated": (lambda: nn.Conv2D(32, 5, 1, 4, 2, in_channels=16), (1, 16, 21, 19)),
    "pointwise": (lambda: nn.Conv2D(48, 1, in_channels=40, use_bias=False), (2, 40, 9, 9)),
    "wide": (lambda: nn.Conv2D(64, 1, in_channels=1024), (1, 1024, 14, 14)),
    "stem": (lambda: nn.Conv2D(64, 7, 2, 3, in_channels=3), (1, 3, 40, 40)),
    "grouped": (lambda: nn.Conv2D(64, 3, padding=1, groups=4, in_channels=32), (1, 32, 17, 17)),
    "small pictures": (lambda: nn.Conv2D(64, 3, padding=1, in_channels=64), (5, 64, 3, 3)),
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


def test_recorded_convolutions_are_float32() -> None:
    net, x = nn.Conv2D(32, 3, padding=1, in_channels=16), nd.random.normal(shape=(2, 16, 12, 12))
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
    np.testing.assert_allclose(net.weight.grad().asnumpy(), gradient, rtol=1e-4, atol=1e-4)


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


# ---- products of a training step: both operands change
STEPS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "layer": ((64, 96), (49, 96), ((1,), (1,))), "gradient of data": ((64, 96), (96, 70), ((1,), (0,))),
    "gradient of weights": ((96, 40), (96, 33), ((0,), (0,))), "long rows": ((5, 16, 64), (64, 50), ((2,), (0,))),
    "long depth": ((4, 17, 40), (4, 17, 50), ((0, 1), (0, 1))),
    "odd depth": ((33, 40), (33, 50), ((0,), (0,))), "one tile": ((45, 16), (45, 70), ((0,), (0,))),
}


@needs_words
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", STEPS)
def test_products_whose_operands_change(name: str, dtype: str) -> None:
    """In C and in NumPy; operands of float32 are rounded."""
    *shapes, contract = STEPS[name]
    half, rng = as_dtype("bfloat16"), np.random.default_rng(0)
    leaves = [ir.input(i, s, as_dtype(dtype)) for i, s in enumerate(shapes)]
    p = ir.Program(tuple(leaves), (ir.dot(*(ir.cast(x, half) for x in leaves), contract),))
    arrays = [rng.standard_normal(s).astype(as_dtype(dtype)) for s in shapes]
    exact = np.tensordot(*(a.astype(half).astype("f4") for a in arrays), contract)
    exe = cpu.compiled(p)
    assert any(n.attrs.get("form") == "words" for n in exe.planned.fused.program.order())
    for y in exe(arrays)[0], reference.run(exe.planned.fused.program, arrays, np)[0][0]:
        np.testing.assert_allclose(np.asarray(y).astype("f4"), exact, rtol=2**-8, atol=1e-4)


@needs_words
def test_small_products_of_a_step_stay_as_they_are() -> None:
    """Depths that are odd or short, and few columns."""
    half = as_dtype("bfloat16")
    for rows, columns, depth in ((64, 64, 33), (64, 64, 16), (64, 10, 64), (3, 64, 64)):
        p = ir.Program((a := ir.input(0, (rows, depth), half), b := ir.input(1, (columns, depth), half)),
                       (ir.dot(a, b, ((1,), (1,))),))
        assert all(n.prim != "pairs" for n in cpu.compiled(p).planned.fused.program.order())


@needs_words
@pytest.mark.parametrize("way", ["amp", "cast"])
def test_losses_of_a_step_are_near_those_of_float32(way: str) -> None:
    def losses(way: str) -> tuple[list[float], str]:
        mx.random.seed(5)
        net, loss_of = nn.HybridSequential(), gluon.loss.SoftmaxCrossEntropyLoss()
        net.add(nn.Dense(64, activation="relu", in_units=48), nn.Dense(32, in_units=64))
        net.initialize(mx.init.Xavier())
        net.cast("bfloat16" if way == "cast" else "float32")
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "multi_precision": way == "cast"})
        rng = np.random.default_rng(1)
        y = rng.integers(0, 32, 64)
        x = nd.array(rng.standard_normal((64, 48)) + 2 * rng.standard_normal((32, 48))[y]).astype(net[0].weight.dtype)

        @mx.hybridize
        def step(x: Any, y: Any) -> Any:
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(64)
            return loss.mean()
        found = [float(step(x, nd.array(y)).astype("float32").asscalar()) for _ in range(30)]
        return found, str(step.report())
    exact, _ = losses("")
    if way == "amp":
        amp.init("bfloat16")
    try:
        near, report = losses(way)
    finally:
        amp.off()
    assert exact[-1] < exact[0] / 4 and "[call] pairs" in report
    np.testing.assert_allclose(near, exact, rtol=0.05, atol=0.02)


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
        inner.add(nn.Conv2D(32, 5, padding=2, in_channels=32, activation="relu"), nn.Conv2D(32, 1, in_channels=32))
        return inner

    def make() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Conv2D(32, 5, padding=2, in_channels=16), nn.MaxPool2D(3, 2, 1), part(), part(),
                nn.Conv2D(16, 1, in_channels=32))
        return net
    # numbers of few bits, whose sums are exact in any order: else one in a hundred is rounded to its other neighbour
    net, rng = layer(make), np.random.default_rng(1)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.integers(-2, 3, p.shape) / 16))
    x = nd.array(rng.integers(-4, 5, (1, 16, 32, 32)) / 2)
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


# ---- Winograd's form: what is transformed is rounded
WINOGRAD: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "even": ((1, 32, 12, 14), {"channels": 64, "padding": 1}),
    "odd": ((2, 17, 15, 13), {"channels": 33, "padding": 1}),
    "inside": ((1, 48, 9, 11), {"channels": 80, "padding": 0}),
    "dilated": ((1, 16, 21, 19), {"channels": 32, "padding": 2, "dilation": 2}),
    "several small": ((5, 64, 7, 7), {"channels": 64, "padding": 1}),
    "strips": ((1, 40, 60, 61), {"channels": 24, "padding": 1}),
}


def whole(rng: Any, shape: tuple[int, ...], most: int, step: int = 1) -> Any:
    return nd.array(rng.integers(-most, most + 1, shape) * step)


def winograd(name: str) -> tuple[Any, Any]:
    """A network of one layer, and data: of whole numbers that stay such of 8 bits where they are transformed."""
    shape, how = WINOGRAD[name]
    net, rng = nn.Conv2D(kernel_size=3, in_channels=shape[1], activation="relu", **how), np.random.default_rng(1)
    net.initialize()
    net.weight.set_data(whole(rng, net.weight.shape, 3, 4))
    net.bias.set_data(whole(rng, net.bias.shape, 9))
    return net, whole(rng, shape, 8)


@needs_words
@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("name", WINOGRAD)
def test_winograd_of_whole_numbers(name: str, threads: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("HYBRID_NUM_THREADS", threads)
    net, x = winograd(name)
    exact = net(x).asnumpy()
    net.hybridize(precision="bf16")
    np.testing.assert_array_equal(net(x).asnumpy(), exact)
    assert "winograd_words" in str(net.report())


@needs_words
def test_winograd_rounds_little_more() -> None:
    """About as much as products of rounded operands."""
    net = nn.Conv2D(64, 3, padding=1, in_channels=128, use_bias=False)
    net.initialize(mx.init.Normal(0.1))
    x = nd.relu(nd.random.normal(shape=(1, 128, 14, 14)))
    exact = net(x).asnumpy()
    near = nd.Convolution(rounded(x.asnumpy()), rounded(net.weight.data().asnumpy()), None, kernel=(3, 3), pad=(1, 1),
                          num_filter=64, no_bias=True).asnumpy()
    net.hybridize(precision="bf16")
    y = net(x).asnumpy()
    assert "winograd_words" in str(net.report())
    assert 0 < np.sqrt(((y - exact) ** 2).mean()) < 2.5 * np.sqrt(((near - exact) ** 2).mean())


@needs_words
def test_winograd_of_data_that_is_stored_as_bfloat16() -> None:
    class Two(nn.HybridSequential):
        def forward(self, x: Any) -> Any:
            y = self[0](x)
            return self[1](y) + self[2](y)
    net, rng = Two(), np.random.default_rng(2)
    net.add(nn.Conv2D(32, 1, in_channels=64), nn.Conv2D(64, 3, padding=1, in_channels=32),
            nn.Conv2D(64, 1, in_channels=32))
    net.initialize()
    for layer, most, step in zip(net, (1, 3, 8), (1, 4, 1)):
        layer.weight.set_data(whole(rng, layer.weight.shape, most, step))
    x = whole(rng, (1, 64, 17, 16), 1)
    exact = net(x).asnumpy()
    net.hybridize(precision="bf16")
    np.testing.assert_array_equal(net(x).asnumpy(), exact)
    assert "winograd_words" in str(net.report()) and stored(net).count("cast") == 1


@needs_words
@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_winograd_keeps_infinities_where_they_are_read(wrong: float) -> None:
    net, x = winograd("odd")
    net.weight.set_data(net.weight.data() + 4 * (net.weight.data() == 0))
    x[1, 3, 6, 7] = wrong
    exact = net(x).asnumpy()
    net.hybridize(precision="bf16")
    y = net(x).asnumpy()
    np.testing.assert_array_equal(y, exact)
    assert not np.isfinite(exact).all() and np.isfinite(exact[0]).all()


@needs_words
@pytest.mark.parametrize("name", ["3x3", "3x3_odd", "3x3_dilated", "3x3_deep"])
def test_winograd_in_numpy(name: str) -> None:
    """The primitive's NumPy row gives what its C gives."""
    p, arrays = program(name)
    p = in_bfloat16(p, p.memo["frozen"], frozenset({"bfloat16"}))
    exe = cpu.compiled(p)
    prepared = reference.run(exe.planned.prepare, [arrays[s] for s in exe.planned.slots], np)[0]
    assert any(n.attrs.get("form") == "winograd_words" for n in exe.planned.fused.program.order())
    for y, near, exact in zip(exe(arrays), reference.run(exe.planned.fused.program, [*arrays, *prepared], np)[0],
                              reference.run(p, arrays, np)[0]):
        assert np.abs(y - near).max() < 1e-3 * np.abs(near).max()
        assert np.abs(y - exact).max() < 0.03 * np.abs(exact).max()


def test_products_with_parameters_alone_are_rounded() -> None:
    x, w = ir.input(0, (4, 8), "float32"), ir.input(1, (8, 8), "float32")
    table = ir.data(np.ones((8, 8), np.float32))
    with rounding({1}):
        assert may_round(x, w) and may_round(x, ir.map("tanh", w) * 2)
        assert not may_round(w, w) and not may_round(x, table) and not may_round(table, w)
        assert not may_round(x, ir.dot(x, w, ((1,), (0,))))
    assert not may_round(x, w)
