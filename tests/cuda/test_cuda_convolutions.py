"""Convolutions on GPUs and their gradients, channels last: pixels copied for one tap after another, zeros around them,
weights in order; sums over pixels for the gradients of filters."""
from __future__ import annotations

import math
from typing import Callable

import numpy as np
import pytest

from hybrid import gpu as gpu_context, ir, runtime
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import flat, warpgroup
from hybrid.ops.conv import convolve
from hybrid.passes import channels_last, winograd
from hybrid.passes.differentiate import cotangents
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.program import planned_for

from .cuda_forms import Form, normal, program
from ..programs import conv
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("any_size")


@pytest.fixture
def any_size(cuda_device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest convolutions too."""
    monkeypatch.setattr(channels_last, "LEAST_PRODUCTS", 1)


def text_of(form: Form, arch: str = "sm_90") -> str:
    return cuda.print_program(planned_for(program([form])[0], gpu_context(0)).groups, arch=arch).source


def block(x: ir.Node, w: ir.Node, b: ir.Node, w2: ir.Node, b2: ir.Node, w3: ir.Node) -> ir.Node:
    """Three channels, a pool, then two convolutions that meet, as at the begin of a residual network."""
    y = ir.map("relu", conv(x, w, b, 1, 1))
    y = ir.reduce("max", ir.window(y, (2, 3), (2, 2), (2, 2), (1, 1)), (4, 5))
    y = ir.map("relu", conv(y, w2, b2, 1, 2) + conv(y, w3, b2, 0, 2))
    return ir.reduce("sum", y, (2, 3)) / (y.shape[2] * y.shape[3])


def residual(dtype: str) -> Form:
    shapes = (2, 3, 10, 12), (16, 3, 3, 3), (16,), (24, 16, 3, 3), (24,), (24, 16, 1, 1)
    return Form(block, [normal(*s, dtype=dtype) for s in shapes], tol={"float32": 1e-5, "float16": 1e-2}[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_a_residual_block(dtype: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By single warps and by warpgroups: each piece of 16 bytes is copied, or zeros where it lies outside."""
    monkeypatch.setattr(EmulatorDriver, "arch", arch)
    monkeypatch.setattr(warpgroup, "best_cost", lambda p: math.inf)
    form = residual(dtype)
    text = text_of(form, arch)
    assert text.count("(unsigned)(a_at0[") >= 2 and ("hy_wgmma_tf32_n" in text or "hy_wgmma_half_n" in text) == (
        arch == "sm_90a")
    check([form])


def test_kinds_of_windows() -> None:
    """Dilated, of volumes, one tap with a stride, at one side alone; in groups, also one for each channel."""
    def one_side(x: ir.Node, w: ir.Node) -> ir.Node:
        win = ir.window(ir.pad(x, (0, 0, 2, 0), (0, 0, 0, 1)), (2, 3), (3, 2), (1, 1), (1, 1))
        return ir.permute(ir.dot(w, win, ((1, 2, 3), (1, 4, 5))), (1, 0, 2, 3))
    forms: list[tuple[Callable[..., ir.Node], list[np.ndarray]]] = [
        (lambda x, w, b: conv(x, w, b, 2, 1, 2), [normal(1, 8, 9, 7), normal(20, 8, 3, 3), normal(20)]),
        (lambda x, w: convolve(x, w, 1, (1, 2, 1), (1, 1, 1), (1, 0, 1)),
         [normal(1, 4, 4, 5, 6), normal(16, 4, 3, 3, 3)]),
        (lambda x, w, b: conv(x, w, b, 0, 2), [normal(2, 12, 7, 8), normal(16, 12, 1, 1), normal(16)]),
        (one_side, [normal(1, 8, 6, 7), normal(16, 8, 3, 2)]),
        (lambda x, w: convolve(x, w, 4, (1, 1), (1, 1), (1, 1)), [normal(1, 16, 6, 7), normal(32, 4, 3, 3)]),
        (lambda x, w: convolve(x, w, 3, (2, 1), (1, 1), (1, 1)), [normal(2, 6, 6, 7), normal(9, 2, 3, 3)]),
        (lambda x, w: convolve(x, w, 12, (2, 2), (1, 1), (1, 1)), [normal(2, 12, 6, 7), normal(12, 1, 3, 3)])]
    check([Form(fn, arrays) for fn, arrays in forms])


def three_layers(x: ir.Node, w: ir.Node, b: ir.Node, w2: ir.Node, w3: ir.Node, b3: ir.Node) -> ir.Node:
    """Behind one that puts pictures in order: two whose squares are transformed, a sum between them that is used
    twice, a scale, and another number of channels."""
    y = ir.map("relu", conv(x, w, b))
    y = ir.map("relu", conv(y, w2, b, 1, 1) + y)
    return conv(y, w3, b3, 1, 1) * 0.5


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformed wherever they can be."""
    monkeypatch.setattr(winograd, "pays", lambda *sizes: True)


@pytest.mark.parametrize("least", [1, 1 << 30])
def test_transformed_squares(least: int, squares: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd sizes, filters in another number than channels; a thread transforms a square, or one place of it."""
    monkeypatch.setattr(flat, "LEAST_BESIDE", least)
    shapes = (2, 8, 7, 6), (8, 8, 1, 1), (8,), (8, 8, 3, 3), (16, 8, 3, 3), (16,)
    form = Form(three_layers, [normal(*s) for s in shapes])
    kernels = planned_for(program([form])[0], gpu_context(0)).fused.kernels
    assert [k.root.shape for k in kernels if k.root.prim == "concat"] == [
        (16, 24, 8), (16, 8, 8), (4, 24, 8), (16, 24, 8), (16, 16, 8), (4, 24, 16)]
    assert [k.root.shape for k in kernels if k.dot is not None and k.root.ndim == 3] == [(16, 24, 8), (16, 24, 16)]
    check([form])


def test_gradients_of_transformed_squares(squares: None) -> None:
    """The data's gradient is a convolution too, with filters and channels exchanged."""
    shapes = (2, 8, 6, 5), (8, 8, 1, 1), (8,), (8, 8, 3, 3), (16, 8, 3, 3), (16,)
    form = gradients(three_layers, [normal(*s) for s in shapes], (0, 1, 3, 4))
    kernels = planned_for(program([form])[0], gpu_context(0)).fused.kernels
    assert sum(k.root.prim == "concat" and k.root.shape[0] == 16 for k in kernels) >= 6
    check([form])


def test_squares_are_transformed_where_it_pays(squares: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not halves, other windows, channels that fill no 16 bytes, pictures that are put in order for it; by the
    counts, not few channels or pictures."""
    def transformed(fn: Callable[..., ir.Node], *shapes: tuple[int, ...], dtype: str = "float32") -> bool:
        form = Form(fn, [normal(*s, dtype=dtype) for s in shapes])
        return any(k.root.prim == "concat" for k in planned_for(program([form])[0], gpu_context(0)).fused.kernels)
    one = (2, 8, 8, 8), (8, 8, 1, 1), (8,), (8, 8, 3, 3)

    def behind(pad: int, stride: int, *dilate: int) -> Callable[..., ir.Node]:
        return lambda x, w, b, w2: conv(ir.map("relu", conv(x, w, b)), w2, b, pad, stride, *dilate)
    assert transformed(behind(1, 1), *one)
    assert not transformed(behind(1, 1), *one, dtype="float16")
    assert not transformed(behind(1, 2), *one) and not transformed(behind(2, 1, 2), *one)
    assert not transformed(lambda x, w, b, w2: conv(x, w2, b, 1, 1), *one)
    assert not transformed(behind(1, 1), (2, 6, 8, 8), (6, 6, 1, 1), (6,), (6, 6, 3, 3))
    monkeypatch.undo()
    assert [winograd.pays(batch * side ** 2, batch * (-(-side // 2)) ** 2, n, n) for batch, side, n in (
        (32, 56, 64), (32, 28, 128), (32, 14, 256), (32, 7, 512), (1, 14, 256), (1, 7, 512))] == [
            False, False, True, True, False, False]


def test_groups_between_other_convolutions() -> None:
    """A block of MobileNet: pictures are channels last throughout, and no thread of the middle one reads across."""
    def block(x: ir.Node, w: ir.Node, w2: ir.Node, b: ir.Node) -> ir.Node:
        y = ir.map("relu", conv(x, w, b))
        return conv(ir.map("relu", convolve(y, w2, 16, (1, 1), (1, 1), (1, 1))), w, b)
    form = Form(block, [normal(2, 16, 6, 8), normal(16, 16, 1, 1), normal(16, 1, 3, 3), normal(16)])
    kernels = planned_for(program([form])[0], gpu_context(0)).fused.kernels
    assert [k.root.shape for k in kernels] == [(2, 6, 8, 16), (3, 3, 16), (2, 6, 8, 16), (2, 6, 8, 16), (2, 16, 6, 8)]
    assert [k.dot is not None for k in kernels] == [False, False, True, True, True]
    check([form])


def test_what_is_put_in_order_is_one_launch() -> None:
    form = residual("float32")
    deeper = Form(lambda *a: ir.map("relu", conv(conv(a[0], a[3], a[4], 1, 1), a[6], a[4], 1, 1)),
                  [normal(1, 16, 6, 6), *form.arrays[1:], normal(24, 24, 3, 3)])
    groups = planned_for(program([deeper])[0], gpu_context(0)).groups
    assert [k.root.prim for k in groups[0].kernels] == ["permute"] * 3         # of pictures, and of weights


# ---- gradients
def gradients(fn: Callable[..., ir.Node], arrays: list[np.ndarray], wrt: tuple[int, ...]) -> Form:
    """Those of sum(f(...)^2), with the result: what a step of training computes."""
    def both(*x: ir.Node) -> tuple[ir.Node, ...]:
        y = fn(*x)
        return y, *cotangents([y], [y], [x[i] for i in wrt])
    return Form(both, arrays, tol={"float32": 1e-5, "float16": 1e-2}[arrays[0].dtype.name])


def two_layers(x: ir.Node, w: ir.Node, b: ir.Node, w2: ir.Node, b2: ir.Node, w3: ir.Node) -> ir.Node:
    """Convolutions with a stride and of one tap, behind one with overlapping pools, that meet."""
    y = ir.map("relu", conv(x, w, b, 1, 1))
    y = ir.reduce("max", ir.window(y, (2, 3), (3, 3), (2, 2), (1, 1)), (4, 5))
    y = ir.map("relu", conv(y, w2, b2, 1, 1) + conv(y, w3, b2))
    return conv(y, w2, b2, 1, 2) * 0.1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_gradients_of_a_network(dtype: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By single warps and by warpgroups. Pieces are copied as they lie in memory; what passes through registers is the
    function of the pool's gradient alone."""
    monkeypatch.setattr(EmulatorDriver, "arch", arch)
    monkeypatch.setattr(warpgroup, "best_cost", lambda p: math.inf)
    shapes = (2, 3, 14, 16), (16, 3, 3, 3), (16,), (16, 16, 3, 3), (16,), (16, 16, 1, 1)
    form = gradients(two_layers, [normal(*s, dtype=dtype) for s in shapes], (1, 2, 3, 5))
    text = text_of(form, arch)
    kernels = text.split("__global__")[1:]
    assert sum("tile_memory" in k for k in kernels) >= 10 and sum("rb[" in k or "ra[" in k for k in kernels) == 1
    check([form])


def test_gradients_of_kinds_of_windows() -> None:
    """Dilated, of volumes, with a stride; with few channels and filters that fill no piece of 16 bytes."""
    check([gradients(fn, arrays, (0, 1)) for fn, arrays in (
        (lambda x, w, b: conv(x, w, b, 2, 1, 2), [normal(1, 8, 9, 7), normal(20, 8, 3, 3), normal(20)]),
        (lambda x, w: convolve(x, w, 1, (1, 2, 1), (1, 1, 1), (1, 0, 1)),
         [normal(1, 4, 4, 5, 6), normal(16, 4, 3, 3, 3)]),
        (lambda x, w, b: conv(x, w, b, 0, 2), [normal(2, 12, 7, 8), normal(16, 12, 1, 1), normal(16)]),
        (lambda x, w, b: conv(x, w, b, 1, 1), [normal(2, 5, 6, 7), normal(7, 5, 3, 3), normal(7)]))])


def forms_of(form: Form) -> list[str]:
    """In which form each kernel with products is printed."""
    return [k.form for k in runtime.compile(program([form])[0], gpu_context(0)).report.kernels if k.products]


PIXELS, FILTERS, EACH = "convolution of small groups", "filters of small groups", "product for each group"


def in_groups(groups: int, stride: int = 1, pad: int = 1, dilate: int = 1) -> Callable[..., ir.Node]:
    """Of what lies between other convolutions: functions before and behind, read by several kernels."""
    def fn(x: ir.Node, w: ir.Node, *b: ir.Node) -> ir.Node:
        y = convolve(ir.map("relu", x), w, groups, (stride,) * 2, (dilate,) * 2, (pad,) * 2)
        return ir.map("tanh", y + ir.reshape(b[0], (1, -1, 1, 1))) if b else ir.map("relu", y)
    return fn


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.thorough)])
def test_gradients_of_small_groups(dtype: str) -> None:
    """A group for each channel, and groups of four, with a stride too: neighbouring channels are read together by the
    convolution, its data's gradient (one for each phase of the stride) and its filters'."""
    forms = [gradients(fn, [normal(*x, dtype=dtype), normal(*w, dtype=dtype), normal(w[0], dtype=dtype)], (0, 1, 2))
             for fn, x, w in ((in_groups(16), (2, 16, 20, 20), (16, 1, 3, 3)),
                              (in_groups(8, 2), (3, 8, 23, 26), (8, 1, 3, 3)),
                              (in_groups(4), (2, 16, 18, 16), (16, 4, 3, 3)))]
    assert [forms_of(f) for f in forms] == [[PIXELS] * 2 + [FILTERS], [PIXELS] * 5 + [FILTERS],
                                            [PIXELS] * 2 + [FILTERS]]
    check(forms)


def test_other_groups() -> None:
    """Two filters for a channel, eight of a group, wide kernels, dilated, of volumes; few pixels; what tensor cores
    multiply; sizes that no vector takes."""
    wanted = [([PIXELS, EACH, EACH], in_groups(8), (2, 8, 9, 8), (16, 1, 3, 3)),
              ([PIXELS] * 2 + [FILTERS], in_groups(2), (2, 16, 20, 20), (16, 8, 3, 3)),
              ([PIXELS] * 2 + [FILTERS], in_groups(12, 1, 2), (2, 12, 12, 14), (12, 1, 5, 5)),
              ([PIXELS] * 2 + [FILTERS], in_groups(8, 1, 2, 2), (1, 8, 18, 16), (8, 1, 3, 3)),
              ([EACH] * 3, in_groups(2), (2, 32, 6, 8), (32, 16, 3, 3)),
              ([EACH] * 3, in_groups(3), (2, 3, 18, 18), (3, 1, 3, 3))]
    forms = [gradients(fn, [normal(*x), normal(*w)], (0, 1)) for _, fn, x, w in wanted]
    assert [forms_of(f) for f in forms] == [w[0] for w in wanted]
    check([*forms, gradients(lambda x, w: convolve(x, w, 8, (1, 1, 1), (1, 1, 1), (1, 1, 1)),
                             [normal(1, 8, 5, 6, 7), normal(8, 1, 3, 3, 3)], (0, 1))])


def test_channels_of_groups_lie_beside_each_other() -> None:
    """Also where several kernels read them, as batch statistics do: no result has another order."""
    def fn(x: ir.Node, w: ir.Node, v: ir.Node) -> ir.Node:
        y = convolve(convolve(x, v, 1, (1, 1), (1, 1), (0, 0)), w, 16, (1, 1), (1, 1), (1, 1))
        mean = ir.reduce("sum", y, (0, 2, 3), True) / 100
        return ir.map("relu", (y - mean) * ir.map("rsqrt", ir.reduce("sum", (y - mean) * (y - mean), (0, 2, 3), True)))
    form = gradients(fn, [normal(2, 16, 12, 12), normal(16, 1, 3, 3), normal(16, 16, 1, 1)], (0, 1, 2))
    planned = planned_for(program([form])[0], gpu_context(0))
    results = {n for n, _ in planned.fused.results}
    large = [k.root.shape for k in planned.fused.kernels if k.dot is not None and k.root.size == 2 * 16 * 12 * 12
             and k.root not in results]
    assert len(large) == 3 and all(s[-1] == 16 or s[-2:] == (16, 1) for s in large), large
    check([form])


def test_a_deep_sum_over_pixels_is_shared_by_blocks() -> None:
    """The grid of a gradient of filters is small: blocks take parts of the pixels."""
    form = gradients(lambda x, w, b: conv(x, w, b, 1, 1), [normal(2, 8, 20, 20), normal(8, 8, 3, 3), normal(8)], (1,))
    assert "_parts" in text_of(form)
    check([form])


def test_gradients_read_the_weights_of_the_forward_pass() -> None:
    """Weights are put in order once, and pictures lie channels last from the first convolution to the last gradient."""
    x, w, b = normal(2, 8, 8, 8), normal(8, 8, 3, 3), normal(8)
    form = gradients(lambda x, w, b: conv(ir.map("relu", conv(x, w, b, 1, 1)), w, b, 1, 1), [x, w, b], (0, 1))
    planned = planned_for(program([form])[0], gpu_context(0))
    moved = [n for k in planned.fused.kernels for n in k.stores if n.prim == "permute" and n.args[0].prim == "input"]
    assert sorted(n.shape for n in moved) == [(2, 8, 8, 8), (8, 3, 3, 8)]
    dots = [n for k in planned.fused.kernels for n in k.members if n.prim == "dot"]
    assert len(dots) == 6 and all(n.shape[-1] == 8 for n in dots)


def test_small_convolutions_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    form = residual("float32")
    assert "a_at0[" in text_of(form)
    monkeypatch.setattr(channels_last, "LEAST_PRODUCTS", 1 << 26)
    assert "a_at0[" not in text_of(form)
    monkeypatch.setattr(channels_last, "LEAST_PRODUCTS", 1)
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_86")               # multiplies floats without tensor cores
    assert "a_at0[" not in text_of(form, "sm_86")
