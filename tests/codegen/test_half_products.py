"""Networks of half types: products with parameters are float32 ones, packed (hybrid/passes/half_promotion.py), and
rounded where they were."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.base import dtype as dt
from hybrid.gluon import nn
from hybrid.ir import Program
from hybrid.runtime import cpu, toolchain
from hybrid.runtime.recipe import from_text, to_text
from hybrid.buffers.evict import unpacked

pytestmark = pytest.mark.skipif(toolchain.compiler() is None or toolchain.vector_bytes() < 16,
                                reason="no C compiler, or no vectors")
NEAR = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.fixture(params=NEAR)
def half(request: Any) -> str:
    if request.param == "bfloat16":
        pytest.importorskip("ml_dtypes")
    return str(request.param)


LAYERS = {
    "dense": (lambda: nn.Dense(65, in_units=129), (33, 129)),
    "row": (lambda: nn.Dense(600, in_units=700), (1, 700)),
    "matrix with columns first": (lambda: nn.Dense(64, in_units=96, flatten=False), (2, 17, 96)),
    "conv": (lambda: nn.Conv2D(33, 3, padding=1, in_channels=17), (2, 17, 15, 13)),
    "strided": (lambda: nn.Conv2D(32, 5, 2, 2, in_channels=16), (1, 16, 21, 19)),
    "pointwise": (lambda: nn.Conv2D(48, 1, in_channels=40, use_bias=False), (2, 40, 9, 9)),
    "grouped": (lambda: nn.Conv2D(32, 3, padding=1, groups=4, in_channels=32), (1, 32, 17, 17)),
    "depthwise": (lambda: nn.Conv2D(48, 3, padding=1, groups=48, in_channels=48), (1, 48, 30, 30)),
    "line": (lambda: nn.Conv1D(32, 3, padding=1, in_channels=24), (2, 24, 201)),
    "volume": (lambda: nn.Conv3D(16, 3, padding=1, in_channels=8), (1, 8, 6, 9, 10)),
    "transposed": (lambda: nn.Conv2DTranspose(24, 4, 2, 1, in_channels=32), (1, 32, 11, 12)),
}


def of(net: Any, half: str) -> Any:
    net.initialize(mx.init.Xavier(rnd_type="gaussian"), force_reinit=True)
    for p in (p for p in net.collect_params().values() if p.grad_req != "null"):
        p.set_data(nd.array(np.random.default_rng(len(p.shape)).standard_normal(p.shape) * 0.1))
    net.cast(half)
    return net


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_the_nearest_halves(name: str, half: str) -> None:
    """Of sums in float32; with a bias, which is added to a half, of the sum of two halves."""
    make, shape = LAYERS[name]
    net = of(make(), half)
    x = nd.array(np.random.default_rng(1).standard_normal(shape), dtype=half)
    net.hybridize()
    got = net(x)
    wide = make()
    wide.initialize()
    wide.cast("float64")
    for p, q in zip(net.collect_params().values(), wide.collect_params().values()):
        q.set_data(p.data().astype("float64"))
    want = wide(x.astype("float64")).asnumpy()
    assert got.dtype == dt.as_dtype(half)
    np.testing.assert_allclose(got.astype("float64").asnumpy(), want, rtol=2.1 * NEAR[half],
                               atol=NEAR[half] * np.abs(want).max())
    prepared = "packed as" in str(net.report())
    assert prepared or name in ("depthwise", "transposed", "grouped", "volume")


def small() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, in_channels=16), nn.BatchNorm(in_channels=32), nn.Activation("relu"),
            nn.Conv2D(64, 3, padding=1, in_channels=32),
            nn.GELU(), nn.MaxPool2D(2), nn.GlobalAvgPool2D(), nn.Dense(1000, in_units=64))
    return net


def test_a_net_and_what_becomes_of_its_parameters(half: str, tmp_path: Path) -> None:
    """Their buffers are given up for packed ones and come back with the same bits; files, changes and training see
    them."""
    net = of(small(), half)
    x = nd.array(np.random.default_rng(2).standard_normal((2, 16, 14, 14)), dtype=half)
    eager = net(x).astype("float64").asnumpy()
    before = {k: p.data().copy().asnumpy() for k, p in net.collect_params().items()}
    net.hybridize()
    for _ in range(3):
        got = net(x).astype("float64").asnumpy()
    np.testing.assert_allclose(got, eager, rtol=0, atol=6 * NEAR[half] * np.abs(eager).max())
    text = str(net.report())
    assert "packed as" in text and "stand in them unchanged" in text
    kinds = [line.split("[")[1].split("]")[0] for line in text.splitlines() if line.startswith("  k")]
    assert kinds.count("convolution") + kinds.count("contraction") == 3
    net.save_parameters(str(tmp_path / "net.params"))
    for k, p in net.collect_params().items():
        assert p.data().asnumpy().tobytes() == before[k].tobytes()
    other = small()
    other.cast(half)
    other.load_parameters(str(tmp_path / "net.params"))
    np.testing.assert_array_equal(other(x).astype("float64").asnumpy(), eager)
    weight = net[0].weight
    weight.set_data(weight.data() * 2)
    changed = net(x).astype("float64").asnumpy()
    assert np.abs(changed - got).max() > 20 * NEAR[half] * np.abs(eager).max()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "multi_precision": True})
    losses = []
    for _ in range(3):
        with autograd.record():
            loss = nd.mean(nd.square(net(x).astype("float32")))
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    assert losses[2] < losses[1] < losses[0]
    trained = net(x).astype("float64").asnumpy()
    net.hybridize(False)
    np.testing.assert_allclose(trained, net(x).astype("float64").asnumpy(), rtol=0,
                               atol=6 * NEAR[half] * np.abs(trained).max())


def test_a_recipe_knows_the_way_back_to_halves() -> None:
    x, w = ir.input(0, (64, 96), "float16"), ir.input(1, (128, 96), "float16")
    exe = cpu.compiled(Program((x, w), (ir.dot(x, w, ((1,), (1,))),), (), {"frozen": frozenset({1})}))
    (way,) = exe.recipe.ways
    assert way is not None and ("cast", "float16") in way[1]
    assert from_text(to_text(exe.recipe)).ways == [way]
    a = np.random.default_rng(0).standard_normal((128, 96)).astype(np.float16)
    (packed,) = exe.prepare([a])
    assert unpacked(packed, way[1]).tobytes() == a.tobytes()


POOLS = {"greatest": lambda: nn.MaxPool2D(2), "overlapping": lambda: nn.MaxPool2D(3, 2, 1),
         "means": lambda: nn.AvgPool2D(2), "one mean": lambda: nn.GlobalAvgPool2D()}


@pytest.mark.parametrize("images", [2, 24])
@pytest.mark.parametrize("pool", POOLS)
def test_pools_of_computed_halves_read_floats(pool: str, images: int, half: str) -> None:
    """As eagerly; NaN and infinities pass through, and images in blocks have the pool in their convolution."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, in_channels=1, activation="tanh"), POOLS[pool](), nn.Dense(10, in_units={
        "greatest": 720, "overlapping": 720, "means": 720, "one mean": 20}[pool]))
    net = of(net, half)
    x = nd.array(np.random.default_rng(3).standard_normal((images, 1, 16, 16)), dtype=half)
    x[1, 0, 7, 7] = float("nan")
    eager = net(x).astype("float64").asnumpy()
    net.hybridize()
    got = net(x).astype("float64").asnumpy()
    np.testing.assert_allclose(got, eager, rtol=0, atol=6 * NEAR[half] * np.abs(eager[np.isfinite(eager)]).max())
    assert np.isnan(got[1]).all() and np.isfinite(got[0]).all()
    text = str(net.report())
    blocks = "blocks of" in text
    assert ("max of 2 x 2" in text) == (blocks and pool == "greatest")
    assert blocks == (images == 24) or toolchain.vector_bytes() != 32
    assert blocks or pool == "one mean" or "channels last, " not in text or "as windows of channels-last images" in text


def test_rows_that_are_vectors_at_no_position() -> None:
    """Rows of halves that come again and again (tile) are no neighbours: they are packed one by one."""
    def f(x: Any) -> Any:
        square = nd.dot(x, x, transpose_b=True)
        even = square * square.astype("float32")
        halves = (even.T + even).astype("float16").astype("float32")
        y = nd.dot(nd.tile(halves, (2, 1)), nd.minimum(halves, square).T, transpose_b=True)
        return (y * y).mean()
    x = nd.array([[1], [-2]])
    x.attach_grad()
    found = []
    for g in (f, mx.hybridize(f)):
        with autograd.record():
            y = g(x)
        y.backward()
        found.append((y.asnumpy(), x.grad.asnumpy()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-5)
