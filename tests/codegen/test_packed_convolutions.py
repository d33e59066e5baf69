"""Channels-last convolutions with packed weights: values against float64 for odd shapes, every width of vector, one and
two threads; and that what is prepared from parameters never goes stale.
"""
from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.codegen.printers.convolutions import blocked, packed_winograd
from hybrid.gluon import nn
from hybrid.ir import Node, Program
from hybrid.passes import layout
from hybrid.runtime import cpu, reference

from ..cpu_kernels import conv, random, vectors_of
from .exact_values import checked, compare, exact

# name: batch, channels, height, width, filters, kernel, stride, dilation, padding, groups
SHAPES: dict[str, tuple[Any, ...]] = {
    "3x3": (1, 32, 12, 14, 64, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "3x3_odd": (2, 37, 17, 13, 65, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "3x3_inside": (2, 33, 9, 7, 17, (3, 3), (1, 1), (1, 1), (0, 0), 1),
    "3x3_wide_pad": (1, 32, 5, 23, 31, (3, 3), (1, 1), (1, 1), (2, 3), 1),
    "3x3_four": (2, 35, 17, 14, 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "3x3_four_inside": (1, 32, 18, 23, 48, (3, 3), (1, 1), (1, 1), (0, 0), 1),
    "3x3_deep": (1, 150, 16, 13, 40, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "3x3_narrow": (1, 9, 17, 13, 17, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "3x3_dilated": (2, 33, 17, 23, 37, (3, 3), (1, 1), (2, 3), (2, 3), 1),
    "3x3_dilated_whole": (1, 17, 16, 24, 16, (3, 3), (1, 1), (4, 2), (4, 2), 1),
    "3x3_dilated_inside": (1, 16, 33, 25, 65, (3, 3), (1, 1), (5, 1), (0, 0), 1),
    "strided": (2, 19, 21, 17, 48, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "dilated": (1, 24, 21, 17, 63, (3, 2), (1, 2), (2, 3), (2, 1), 1),
    "stem": (1, 3, 37, 41, 64, (7, 7), (2, 2), (1, 1), (3, 3), 1),
    "one_line": (2, 16, 9, 31, 33, (1, 5), (1, 1), (1, 1), (0, 2), 1),
    "small": (5, 16, 3, 3, 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "far_apart": (2, 19, 2, 3, 48, (3, 3), (1, 1), (4, 2), (4, 2), 1),
    "last_map": (1, 35, 2, 2, 64, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "several_2x2": (5, 33, 2, 2, 48, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "several_3x3": (29, 16, 3, 3, 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "several_5x5": (9, 17, 4, 5, 63, (5, 5), (1, 1), (1, 1), (2, 2), 1),
    "several_strided": (17, 512, 4, 3, 32, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "several_dilated": (7, 16, 5, 4, 33, (3, 3), (1, 1), (3, 2), (3, 2), 1),
    "several_beyond": (6, 16, 3, 2, 32, (2, 3), (1, 1), (1, 1), (3, 4), 1),
    "several_grouped": (8, 48, 3, 3, 70, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    "1x1": (2, 40, 9, 11, 24, (1, 1), (1, 1), (1, 1), (0, 0), 1),
    "1x1_strided": (2, 40, 9, 11, 80, (1, 1), (2, 2), (1, 1), (0, 0), 1),
    "1x1_apart": (1, 512, 5, 7, 96, (1, 1), (1, 1), (1, 1), (0, 0), 1),
    "1x1_apart_strided": (1, 512, 5, 7, 96, (1, 1), (2, 1), (1, 1), (0, 0), 1),
    "3x3_apart": (1, 512, 6, 5, 33, (3, 3), (2, 1), (1, 1), (1, 1), 1),
    "grouped": (2, 48, 9, 11, 96, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    "grouped_odd": (1, 57, 9, 7, 111, (3, 2), (2, 1), (1, 2), (1, 1), 3),
    "grouped_1x1": (2, 40, 9, 11, 85, (1, 1), (1, 1), (1, 1), (0, 0), 5),
    "grouped_1x1_strided": (1, 40, 9, 11, 160, (1, 1), (2, 2), (1, 1), (0, 0), 5),
    "grouped_apart": (1, 512, 5, 6, 70, (3, 3), (2, 1), (1, 1), (1, 1), 2),
    "groups_together": (2, 48, 9, 11, 48, (3, 3), (1, 1), (1, 1), (1, 1), 12),
    "groups_all_together": (1, 12, 9, 11, 16, (3, 3), (2, 2), (1, 1), (1, 1), 4),
    "depthwise": (2, 35, 11, 13, 35, (3, 3), (1, 1), (1, 1), (1, 1), 35),
    "depthwise_strided": (1, 48, 12, 17, 48, (5, 3), (2, 3), (1, 1), (2, 1), 48),
    "depthwise_dilated": (1, 16, 12, 17, 16, (3, 3), (1, 1), (2, 2), (2, 2), 16),
}


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LEAST_WORK", 1)


def convolution(x: Node, w: Node, stride: Any, dilation: Any, pad: Any, groups: int) -> Node:
    if groups == 1 and stride[0] == stride[1] and pad[0] == pad[1] and dilation == (1, 1):
        return conv(x, w, pad[0], stride[0])
    win = ir.window(ir.pad(x, (0, 0, *pad), (0, 0, *pad)), (2, 3), w.shape[2:], stride, dilation)
    if groups == 1:
        return ir.permute(ir.dot(w, win, ((1, 2, 3), (1, 4, 5))), (1, 0, 2, 3))
    win = ir.reshape(win, (x.shape[0], groups, x.shape[1] // groups, *win.shape[2:]))
    y = ir.dot(ir.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:])), win, ((2, 3, 4), (2, 5, 6)), ((0,), (1,)))
    return ir.reshape(ir.permute(y, (2, 0, 1, 3, 4)), (x.shape[0], w.shape[0], *y.shape[3:]))


def program(name: str) -> tuple[Program, list[np.ndarray]]:
    """relu(scale * convolution + shift), a residual of it, and a pool of that."""
    n, c, h, w, o, kernel, stride, dilation, pad, groups = SHAPES[name]
    arrays = [random(n, c, h, w), random(o, c // groups, *kernel), random(o), random(o)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    y = convolution(leaves[0], leaves[1], stride, dilation, pad, groups)
    scale, shift = (ir.reshape(v, (1, o, 1, 1)) for v in leaves[2:])
    y = ir.map("relu", y * ir.map("rsqrt", scale * scale + 1) + shift)
    windows = ir.window(ir.pad(y, (0, 0, 1, 1), (0, 0, 1, 1), -np.inf), (2, 3), (3, 2), (2, 1), (1, 1))
    p = Program(leaves, (y, ir.reduce("max", windows, (4, 5)), ir.reduce("sum", y, (2, 3))))
    p.memo["frozen"] = frozenset({1, 2, 3})
    return p, arrays


@pytest.mark.share(2)
@pytest.mark.parametrize("width", (64, 32, 16), ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_values(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    p, arrays = program(name)
    exe = checked(p, arrays, monkeypatch)
    assert exe.prepare is not None and any(k.kind == "convolution" for k in exe.planned.fused.kernels)


PARTS = ("strided", "stem", "small", "several_3x3", "several_strided", "1x1_strided", "1x1_apart", "1x1_apart_strided",
         "3x3_apart", "dilated", "grouped_apart")


@pytest.mark.parametrize("name", PARTS)
def test_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pixels put together for few tiles at a time."""
    monkeypatch.setattr(blocked, "TOGETHER", 1)
    p, arrays = program(name)
    exe = cpu.compiled(p)
    compare(exe(arrays), exact(p, arrays))


@pytest.mark.parametrize("name", [name for name in SHAPES if name.startswith("3x3") and name != "3x3_apart"])
def test_winograd_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few tiles, channels and sums at a time."""
    monkeypatch.setattr(packed_winograd, "STRIP", 1)
    monkeypatch.setattr(packed_winograd, "FEWEST", 19)
    monkeypatch.setattr(packed_winograd, "PANEL", 1)
    monkeypatch.setattr(packed_winograd, "SUMS", 1)
    p, arrays = program(name)
    checked(p, arrays, monkeypatch, ("1", "7"))


@pytest.mark.parametrize("name", SHAPES)
def test_reference_backend(name: str) -> None:
    """The primitive's NumPy row gives what its C gives."""
    p, arrays = program(name)
    exe = cpu.compiled(p)
    main = exe.planned.fused.program
    prepared = reference.run(exe.planned.prepare, [arrays[s] for s in exe.planned.slots], np)[0]
    compare(reference.run(main, [*arrays, *prepared], np)[0], exact(p, arrays))


# ---- what is prepared follows the parameters
def small_net() -> tuple[nn.HybridSequential, Any]:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, in_channels=32), nn.BatchNorm(in_channels=32), nn.Activation("relu"),
            nn.Conv2D(16, 1, in_channels=32))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net, nd.array(random(2, 32, 8, 8))


def eager(net: Any, x: Any) -> np.ndarray:
    net.hybridize(False)
    y = net(x).asnumpy()
    net.hybridize()
    return y


def weight(net: Any) -> Any:
    return net[0].weight


WRITES = {
    "assignment": lambda p: p.data().__setitem__(slice(None), nd.array(random(*p.shape) * 2)),
    "part": lambda p: p.data().__setitem__((0, 0), 7.0),
    "set_data": lambda p: p.set_data(nd.array(random(*p.shape) * 3)),
    "inplace_add": lambda p: p.data().__iadd__(1.0),
    "copyto": lambda p: nd.array(random(*p.shape) * 4).copyto(p.data()),
    "detached": lambda p: p.data().detach().__setitem__(slice(None), 0.5),
    "raw": lambda p: p.data().handle.__setitem__(0, 2.5),
}


@pytest.mark.parametrize("how", WRITES)
def test_writes_are_seen(how: str) -> None:
    net, x = small_net()
    before = [net(x).asnumpy() for _ in range(3)][-1]
    WRITES[how](weight(net))
    after = net(x).asnumpy()
    assert np.abs(after - before).max() > 1e-3
    fresh, _ = small_net()
    for a, b in zip(fresh.collect_params().values(), net.collect_params().values()):
        a.set_data(b.data().copy())
    np.testing.assert_array_equal(after, fresh(x).asnumpy())
    np.testing.assert_array_equal(net(x).asnumpy(), after)


def test_memory_that_others_write() -> None:
    """Nothing is kept of an array whose memory came from, or went, outside."""
    net, x = small_net()
    net(x)
    seen = np.from_dlpack(weight(net).data())
    for value in (0.5, 1.5, 2.5):
        writable = np.asarray(weight(net).data().handle)
        writable[...] = value
        assert seen[0, 0, 0, 0] == value
        want = eager(net, x)
        np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_arrays_taken_over_without_a_copy() -> None:
    raw = random(32, 32, 3, 3)
    # what is handed over can no longer be written itself
    w, x = nd.from_numpy(raw.view()), nd.array(random(2, 32, 8, 8))

    @mx.hybridize
    def f(x: Any) -> Any:
        return nd.Convolution(x, w, kernel=(3, 3), num_filter=32, pad=(1, 1), no_bias=True)
    for value in (1.0, 2.0, 3.0):
        raw[...] = value
        want = nd.Convolution(x, nd.array(raw), kernel=(3, 3), num_filter=32, pad=(1, 1), no_bias=True).asnumpy()
        for _ in range(3):
            np.testing.assert_allclose(f(x).asnumpy(), want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_training_between_calls() -> None:
    net, x = small_net()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    for _ in range(3):
        y = net(x).asnumpy()
        np.testing.assert_allclose(y, eager(net, x), rtol=1e-4, atol=1e-5)
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        assert np.abs(net(x).asnumpy() - y).max() > 1e-6
    np.testing.assert_allclose(net(x).asnumpy(), eager(net, x), rtol=1e-4, atol=1e-5)


def test_load_parameters(tmp_path: Path) -> None:
    net, x = small_net()
    want = net(x).asnumpy()
    net.save_parameters(str(tmp_path / "a.params"))
    weight(net).data()[:] = 3
    assert np.abs(net(x).asnumpy() - want).max() > 1e-3
    net.load_parameters(str(tmp_path / "a.params"))
    np.testing.assert_array_equal(net(x).asnumpy(), want)


def test_threads_share_a_net() -> None:
    net, x = small_net()
    want = net(x).asnumpy()
    wrong: list[float] = []

    def work() -> None:
        for _ in range(50):
            wrong.append(float(np.abs(net(x).asnumpy() - want).max()))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(wrong) == 200 and max(wrong) == 0


def test_report_says_what_was_prepared() -> None:
    net, x = small_net()
    net(x)
    text = str(net.report())
    assert ("winograd" in text and "packed as" in text and "prepared from parameters" in text
            and net.report().prepared_bytes > 0)


def test_two_nets_that_share_weights() -> None:
    net, x = small_net()
    other = nn.HybridSequential()
    other.add(nn.Conv2D(32, 3, padding=1, in_channels=32, params=net[0].params))
    other.hybridize()
    first, second = net(x).asnumpy(), other(x).asnumpy()
    weight(net).data()[:] = nd.array(random(*weight(net).shape) * 2)
    assert np.abs(net(x).asnumpy() - first).max() > 1e-3 and np.abs(other(x).asnumpy() - second).max() > 1e-3
    np.testing.assert_allclose(other(x).asnumpy(), eager(other, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", (64, 32, 16), ids=str)
def test_limits_keep_nan(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """clip as one step of vectors each limit: NaN stays, limits in the wrong order count as they are written."""
    vectors_of(width, monkeypatch)
    values = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 6.0, 5.9, 6.1, -1e-30, 1e-30, 3.0], np.float32).repeat(7)
    x = ir.input(0, values.shape, values.dtype)

    def clip(low: float, high: float) -> Node:
        limited = ir.map("where", ir.map("lt", x, low), ir.const(low, np.float32), x)
        return ir.map("where", ir.map("gt", x, high), ir.const(high, np.float32), limited)
    p = Program((x,), (clip(0.0, 6.0), clip(6.0, 0.0), clip(-0.0, 5.9),
                       ir.map("where", ir.map("gt", x, 1.0), ir.const(2.0, np.float32), x)))
    want = reference.run(p, [values], np)[0]
    for got, exact_ in zip(cpu.compiled(p)([values]), want, strict=True):
        np.testing.assert_array_equal(got, exact_)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(exact_))


def test_normalisation_is_one_product() -> None:
    """(x - m) s + b after a convolution: the second part is computed beforehand, with the numbers of now."""
    net, x = small_net()
    net[1].running_mean.set_data(nd.array(random(32)))
    net[1].running_var.set_data(nd.array(random(32) ** 2 + 0.1))
    np.testing.assert_allclose(net(x).asnumpy(), eager(net, x), rtol=1e-5, atol=1e-5)
    net(x)
    assert "sub" not in " ".join(" ".join(k.nodes) for k in net.report().kernels)
    net[1].beta.data()[:] = 2
    np.testing.assert_allclose(net(x).asnumpy(), eager(net, x), rtol=1e-5, atol=1e-5)


class ReadThrice(gluon.HybridBlock):
    """A value that stays channels first, read by convolutions, by the sum after one of them, and returned."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.one, self.two = nn.Conv2D(16, 3, padding=1, in_channels=16), nn.Conv2D(16, 3, 2, 1, in_channels=16)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        v = F.softmax(x, axis=1)
        return self.one(v) + v, self.two(v), v


def test_a_turned_picture_that_several_kernels_read_is_in_memory() -> None:
    net, x = ReadThrice(), nd.array(random(2, 16, 10, 12))
    net.initialize()
    eager = [y.asnumpy() for y in net(x)]
    net.hybridize()
    for mine, wanted in zip(net(x), eager, strict=True):
        np.testing.assert_allclose(mine.asnumpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("pictures", "channels", "size", "filters"),
                         ((1, 65, (1, 1), 37), (3, 17, (3, 5), 63), (17, 3, (7, 7), 1)), ids=("one", "lines", "many"))
def test_filters_as_large_as_the_picture(pictures: int, channels: int, size: tuple[int, int], filters: int) -> None:
    """Such a convolution is a product of two matrices; also of data that is no parameter, and with its gradients."""
    arrays = [random(pictures, channels, *size), random(filters, channels, *size)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    y = convolution(*leaves, (1, 1), (1, 1), (0, 0), 1)
    p = Program(leaves, (y, ir.map("relu", y + 1)))
    exe = cpu.compiled(p)
    assert not any(n.prim == "window" for k in exe.planned.fused.kernels for n in k.members)
    compare(exe(arrays), exact(p, arrays))


@pytest.mark.parametrize(("size", "before"), (((1, 1), (1, 1)), ((1, 2), (0, 3)), ((3, 5), (2, 1))),
                         ids=("one", "line", "picture"))
def test_filters_as_large_as_the_padded_picture(size: tuple[int, int], before: tuple[int, int]) -> None:
    """The part of the filters that meets zeros alone is never read."""
    kernel = tuple(d + 2 * b for d, b in zip(size, before))
    arrays = [random(2, 33, *size), random(17, 33, *kernel)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    p = Program(leaves, (convolution(*leaves, (1, 1), (1, 1), before, 1),))
    for frozen in (frozenset[int](), frozenset({1})):
        p.memo["frozen"] = frozen
        exe = cpu.compiled(p)
        assert not any(n.prim in ("window", "pad") for k in exe.planned.fused.kernels for n in k.members)
        compare(exe(arrays), exact(p, arrays))


@pytest.mark.parametrize("pictures", (1, 3, 17), ids=str)
def test_a_mean_is_divided_where_it_is_summed(pictures: int) -> None:
    """The product that reads a mean over images reads finished numbers: one row of them is no panel of vectors."""
    arrays = [random(pictures, 65, 7, 5), random(37, 65)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    mean = ir.reshape(ir.reduce("sum", leaves[0], (2, 3)), (pictures, 65, 1, 1)) / 35.0
    p = Program(leaves, (ir.dot(ir.reshape(mean, (pictures, 65)), leaves[1], ((1,), (1,))),))
    exe = cpu.compiled(p)
    summed, product = exe.planned.fused.kernels
    assert any(n.prim == "map" for n in summed.members) and not any(n.prim == "map" for n in product.members)
    compare(exe(arrays), exact(p, arrays))
