"""Transposed convolutions for inference as ordinary ones, channels in another order, few channels, and what a refused
epilogue costs:
values against eager ones, and that the packed layout is taken.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import autograd, ir, nd
from hybrid.gluon import nn
from hybrid.ir import Program
from hybrid.passes import layout
from hybrid.passes.transposed import Axis
from hybrid.runtime import cpu, toolchain

from ..cpu_kernels import conv, random, run_sanitized, vectors_of, without_sanitizers
from ..hybridize_tools import multiplying

# shape of the data, filters, and the layer's options
SHAPES: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "gan": ((2, 33, 5, 4), 32, {"kernel_size": 4, "strides": 2, "padding": 1}),
    "few_filters": ((1, 19, 7, 6), 3, {"kernel_size": 4, "strides": 2, "padding": 1}),
    "odd": ((1, 17, 9, 7), 17, {"kernel_size": (3, 5), "strides": (2, 3), "padding": (1, 2), "output_padding": (1, 2)}),
    "apart": ((3, 16, 3, 5), 16, {"kernel_size": 2, "strides": 2}),
    "between": ((1, 16, 5, 6), 17, {"kernel_size": (2, 3), "strides": (3, 3)}),
    "wide": ((1, 16, 3, 4), 5, {"kernel_size": 16, "strides": 8, "padding": 4}),
    "cut": ((1, 32, 6, 6), 33, {"kernel_size": 5, "strides": 2, "padding": 3, "output_padding": 1}),
    "each_channel": ((2, 35, 6, 5), 35, {"kernel_size": 4, "strides": 2, "padding": 1, "groups": 35}),
    "groups": ((2, 32, 6, 5), 64, {"kernel_size": 4, "strides": 2, "padding": 1, "groups": 2}),
    "one_pixel": ((9, 23, 1, 1), 16, {"kernel_size": 4}),
    "one_pixel_of_one": ((1, 23, 1, 1), 16, {"kernel_size": 4, "strides": 2, "padding": 1}),
    "line": ((2, 18, 13), 32, {"kernel_size": 4, "strides": 2, "padding": 1}),
    "line_odd": ((1, 16, 11), 17, {"kernel_size": 5, "strides": 3, "padding": 2, "output_padding": 1}),
}


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LEAST_WORK", 1)


def as_eager(net: Any, x: Any) -> str:
    """The report of a net that gives what it gives eagerly."""
    net.initialize()
    with autograd.train_mode():
        net(x)
    want = net(x).asnumpy()
    net.hybridize()
    got = net(x).asnumpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5 * float(np.abs(want).max()))
    np.testing.assert_array_equal(net(x).asnumpy(), got)
    return str(net.report())


@pytest.mark.parametrize(("name", "width"), [(name, 64) for name in SHAPES] + [("odd", 32), ("few_filters", 32)],
                         ids=str)
def test_as_eager(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    shape, filters, options = SHAPES[name]
    net = nn.HybridSequential()
    line = len(shape) == 3
    net.add((nn.Conv1DTranspose if line else nn.Conv2DTranspose)(filters, **options), nn.BatchNorm(),
            nn.Activation("relu"),
            (nn.Conv1D if line else nn.Conv2D)(32, 3, padding=1), nn.Activation("tanh"))
    report = as_eager(net, nd.array(random(*shape)))
    at_least = {"groups": 1, "one_pixel_of_one": 0}.get(name, 2)
    assert multiplying(report) >= at_least, report


def test_phases() -> None:
    """Places of the data that each phase reads, by the definition: result first + r + s t adds up data i times weight
    first + r + s t - s i."""
    for length, taps, stride, first, size in ((5, 4, 2, 1, 10), (4, 5, 3, 2, 13), (6, 2, 3, 0, 17), (3, 16, 8, 4, 24)):
        a = Axis(length, taps, stride, first, size)
        for r in range(stride):
            weight, count, place = a.phase(r)
            reads = [(place + t - j, weight + stride * j) for t in range(a.results) for j in range(count)]
            want = [(i, first + r + stride * t - stride * i) for t in range(a.results)
                    for i in range(-taps, length + taps + size)
                    if 0 <= first + r + stride * t - stride * i < taps]
            assert sorted(reads) == sorted(want)
            assert all(a.reach[0] <= i - t < sum(a.reach) for t in range(a.results)
                       for i, _ in reads[t * count:(t + 1) * count])


@pytest.mark.parametrize("channels", (58, 17), ids=str)
def test_shuffled_channels(channels: int) -> None:
    """The order of channels changes where they are last."""
    class Net(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.a, self.b = nn.Conv2D(2 * channels, 3, padding=1), nn.Conv2D(32, 1)

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            y = F.relu(self.a(x))
            y = F.reshape(F.swapaxes(F.reshape(y, shape=(0, -4, 2, channels, -2)), 1, 2), shape=(0, -3, -2))
            return self.b(F.slice_axis(y, axis=1, begin=0, end=channels))
    report = as_eager(Net(), nd.array(random(2, 16, 7, 9)))
    assert multiplying(report) == 2 and f"slice[2, 7, 9, {channels}]" in report, report


@pytest.mark.parametrize("groups", (13, 7), ids=str)
def test_groups_of_half_a_vector(groups: int) -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8 * groups, 3, padding=1, groups=groups, in_channels=8 * groups), nn.Activation("relu"))
    assert "[convolution]" in as_eager(net, nd.array(random(2, 8 * groups, 7, 9)))


def test_half_a_vector_of_filters_between_others() -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1), nn.Conv2D(9, 3, padding=1), nn.Conv2D(32, 1))
    assert multiplying(as_eager(net, nd.array(random(1, 3, 11, 13)))) == 3


def test_a_flattened_picture_is_put_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MOST_BYTES", 0)                         # the matrix stays as it is
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3), nn.MaxPool2D(2), nn.Dense(64, activation="relu"), nn.Dense(3))
    report = as_eager(net, nd.array(random(1, 3, 16, 16)))
    assert "again and again" in report and report.count("[convolution]") == 1, report


def refused() -> tuple[Program, list[np.ndarray]]:
    """A convolution, and a product whose epilogue has other vectors than those of its columns."""
    arrays = [random(9, 24), random(24, 8 * 36), random(8), random(1, 17, 9, 9), random(32, 17, 3, 3)]
    x, w, shift, picture, filters = leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    y = ir.reshape(ir.dot(x, w, ((1,), (0,))), (9, 8, 36)) + ir.reshape(shift, (1, 8, 1))
    p = Program(leaves, (y, conv(picture, filters, 1, 1)))
    p.memo["frozen"] = frozenset({1, 2, 4})
    return p, arrays


def test_a_refused_epilogue_leaves_the_rest_packed() -> None:
    p, arrays = refused()
    exe = cpu.compiled(p)
    assert exe.prepare is not None and sum(k.kind == "convolution" for k in exe.planned.fused.kernels) == 2
    got = exe(arrays)
    want = (arrays[0].astype("d") @ arrays[1]).reshape(9, 8, 36) + arrays[2].reshape(1, 8, 1)
    np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-5)


def test_sanitized(tmp_path: Path) -> None:
    if why := without_sanitizers(tmp_path):
        pytest.skip(why)
    from hybrid.ops.conv import columns                                  # noqa: PLC0415
    arrays = [random(2, 1, 17, 3, 5), random(1, 17, 19, 4, 3)]
    x, w = leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    y = ir.slice(ir.unwindow(columns(x, w), (2, 3), (2, 2), (1, 1), (2, 19, 8, 11)), (0, 0, 1, 1), (2, 19, 6, 9))
    p = Program(leaves, (y,))
    p.memo["frozen"] = frozenset({1})
    exe = cpu.compiled(p)
    assert any(k.kind == "convolution" for k in exe.planned.fused.kernels)
    wide = np.zeros((2, 19, 8, 11))
    for i, j, a, b in np.ndindex(3, 5, 4, 3):
        wide[:, :, 2 * i + a, 2 * j + b] += arrays[0][:, 0, :, i, j].astype("d") @ arrays[1][0, :, :, a, b]
    np.testing.assert_allclose(run_sanitized(exe, arrays, tmp_path)[0], wide[:, :, 1:7, 1:10], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", (1, 5), ids=str)
def test_few_filters_after_packed_ones(kernel: int) -> None:
    """Data in the order of vectors of pixels before a convolution that is not packed."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, activation="relu"),
            nn.Conv2D(3, kernel, padding=kernel // 2, activation="sigmoid"))
    report = as_eager(net, nd.array(random(2, 16, 17, 23)))
    few = toolchain.vector_bytes() > 16                      # three filters nearly fill a vector of four
    assert ("vectors of a convolution hold pixels" in report) == few and report.count(
            "[convolution]") == 2 - few, report


def test_many_phases_are_put_in_order_at_once() -> None:
    """256 phases: their weights are one movement, not a kernel for each."""
    net = nn.Conv2DTranspose(3, 32, 16, 8, in_channels=16)
    as_eager(net, nd.array(random(1, 16, 3, 5)))
    prepare = list(net._engine.entries.values())[-1].exe.prepare
    assert prepare is not None and len(prepare.report.kernels) <= 2
