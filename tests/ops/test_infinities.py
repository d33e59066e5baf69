"""Infinities and NaN in data or weights reach the results that depend on them and no others: also where fast
convolutions transform tiles, where groups are computed together and where zeros are left out."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.ir import Program
from hybrid.runtime import cpu

from ..cpu_kernels import vectors_of

VALUES = pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])

# batch, channels, filters, extent, and what else the layer is given
CONVOLUTIONS: dict[str, tuple[int, int, int, tuple[int, ...], dict[str, Any]]] = {
    "small tiles": (1, 16, 16, (28, 28), {}),
    "large tiles": (1, 32, 32, (20, 20), {}),
    "edges of tiles": (2, 32, 24, (13, 15), {}),
    "few filters of a panel": (1, 32, 35, (14, 14), {}),
    "dilated": (1, 32, 32, (18, 18), {"dilation": 2, "padding": 2}),
    "no border": (1, 32, 32, (16, 16), {"padding": 0}),
    "volumes": (1, 16, 16, (6, 10, 10), {}),
    "pictures in lanes": (32, 64, 64, (7, 7), {}),
    "groups": (2, 32, 32, (16, 16), {"groups": 4}),
    "few groups": (2, 56, 56, (7, 9), {"groups": 7}),
    "groups of points": (2, 32, 32, (16, 16), {"groups": 8, "kernel_size": 1, "padding": 0}),
    "groups of small pictures": (16, 32, 32, (4, 4), {"groups": 4}),
    "depthwise": (1, 32, 32, (16, 16), {"groups": 32}),
    "points": (1, 64, 64, (14, 14), {"kernel_size": 1, "padding": 0}),
    "of five": (1, 8, 8, (20, 20), {"kernel_size": 5, "padding": 2})}


def _same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    scale = np.where(np.abs(want) > 1e30, 1e38, 1)
    np.testing.assert_allclose(np.where(finite, got, 0) / scale, np.where(finite, want, 0) / scale, rtol=1e-3,
                               atol=1e-3)


def _compared(net: Any, data: Any) -> None:
    x = nd.array(data)
    with np.errstate(all="ignore"):
        want = net(x).asnumpy()
    net.hybridize()
    for _ in range(3):
        got = net(x)
    _same(got.asnumpy(), want)


@VALUES
@pytest.mark.parametrize("pooled", [False, True], ids=["alone", "relu, pool"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, pooled: bool, value: float) -> None:
    batch, channels, filters, extent, more = CONVOLUTIONS[name]
    layers = gluon.nn
    net = layers.HybridSequential()
    conv = layers.Conv2D if len(extent) == 2 else layers.Conv3D
    net.add(conv(filters, **{"kernel_size": 3, "padding": 1, "in_channels": channels, **more}))
    if pooled:
        net.add(layers.Activation("relu"), (layers.MaxPool2D if len(extent) == 2 else layers.MaxPool3D)())
    net.initialize()
    data = np.maximum(np.random.default_rng(1).normal(size=(batch, channels, *extent)), 0).astype("float32")
    data[(0, 1, *(n // 2 for n in extent))] = data[(-1, 0, *(0 for _ in extent))] = value
    _compared(net, data)


@VALUES
@pytest.mark.parametrize("rows, depth, columns", [(1, 512, 512), (4, 512, 512), (32, 256, 256), (2, 4096, 64)])
def test_weights_that_meet_zeros(rows: int, depth: int, columns: int, value: float) -> None:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Activation("relu"), gluon.nn.Dense(columns, in_units=depth))
    net.initialize()
    data = np.random.default_rng(2).normal(size=(rows, depth)).astype("float32")
    weight = net[1].weight.data().asnumpy()
    weight[3, int(np.argmin(data[0]))] = value
    net[1].weight.set_data(nd.array(weight))
    _compared(net, data)


@VALUES
@pytest.mark.parametrize("kernel", [1, 3])
def test_filters_that_meet_zeros(kernel: int, value: float) -> None:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Activation("relu"), gluon.nn.Conv2D(64, kernel, padding=kernel // 2, in_channels=64))
    net.initialize()
    data = np.random.default_rng(3).normal(size=(1, 64, 14, 14)).astype("float32")
    data[:, 5] = -1
    weight = net[1].weight.data().asnumpy()
    weight[7, 5, 0, 0] = value
    net[1].weight.set_data(nd.array(weight))
    _compared(net, data)


SIGNED = [float("nan"), -0.0, 0.0, 2.0, -3.0] * 7            # longer than a vector


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("hybridize", [lambda f: f, mx.hybridize], ids=["eager", "compiled"])
def test_the_sign_of_nan_is_that_of_mxnet_in_nd_and_that_of_numpy_in_np(hybridize: Any, dtype: str) -> None:
    """MXNet 1.9.1 gives 0 for nd.sign and for the gradient of abs at NaN."""
    want = np.array([0, 0, 0, 1, -1] * 7)
    np.testing.assert_array_equal(hybridize(nd.sign)(nd.array(SIGNED, dtype=dtype)).asnumpy(), want)
    np.testing.assert_array_equal(hybridize(mx.np.sign)(mx.np.array(SIGNED, dtype=dtype)).asnumpy(), np.sign(SIGNED))
    for absolute, x in ((nd.abs, nd.array(SIGNED, dtype=dtype)), (mx.np.abs, mx.np.array(SIGNED, dtype=dtype))):
        x.attach_grad()
        with autograd.record():
            y = hybridize(absolute)(x)
        y.backward()
        np.testing.assert_array_equal(y.asnumpy(), np.abs(SIGNED))
        np.testing.assert_array_equal(x.grad.asnumpy(), want)


@pytest.mark.parametrize("name, given, want", [
    ("signum", {"momentum": .9}, [1, 1, .8, 1.2]), ("signum", {"momentum": 0}, [1, 1, .8, 1.2]),
    ("signum", {"momentum": .9, "wd_lh": .1}, [.9801, .9801, .7811, 1.1791]),
    ("ftrl", {}, [np.nan, 0, .4081, .5909])])
def test_steps_at_a_gradient_of_nan_are_those_of_mxnet(name: str, given: dict[str, float], want: list[float]) -> None:
    w, update = nd.ones((4,)), mx.optimizer.get_updater(mx.optimizer.create(name, learning_rate=.1, **given))
    for _ in range(2):
        update(0, nd.array([np.nan, 0, 1, -1]), w)
    np.testing.assert_allclose(w.asnumpy(), want, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("vector", [64, 32])
def test_limits_that_are_constants_keep_nan_and_the_sign_of_zero(dtype: str, vector: int,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Maxima and minima with a constant are one or two instructions, those of what a ReLU gave none; numbers and signs
    are those of the form for two arrays."""
    vectors_of(vector, monkeypatch)
    points = np.tile([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.25, -0.25, 3e4, 2.5, 1e-30, 255.0], 5)
    limits = [0.0, -0.0, 1.0, -1.0, np.inf, np.nan]
    x, *others = leaves = tuple(ir.input(i, points.shape, dtype) for i in range(1 + len(limits)))
    inner = [x, ir.map("relu", x), ir.map("rint", ir.map("relu", x) * 51.0), ir.map("neg", ir.map("relu", x))]
    given = [points.astype(x.dtype), *(np.full(points.shape, c, x.dtype) for c in limits)]

    def results(bounds: Any) -> list[np.ndarray]:
        """Of the limit's tanh, which no other form than vectors is quick for; the sign of a zero is kept."""
        outputs = tuple(ir.map("tanh", ir.map(fn, n, b) * 0.001) for n in inner for fn in ("maximum", "minimum")
                        for b in bounds)
        exe = cpu.compiled(Program(leaves, outputs))
        assert "    as vectors" in str(exe.report)
        return [r.astype(np.float64) for r in exe(given)]
    for got, want in zip(results(limits), results(others), strict=True):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got)[got == got], np.signbit(want)[got == got])
