"""Operators that cut and resize images, (height, width, channels) or a batch of them, as OpenCV resizes."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import AttributeValueError, ShapeError
from ..ir import Node
from . import resampling
from .attributes import Attrs
from .image import check_image, image_op
from .registry import Bool, Int, Shape, op


def _sizes(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[-3], shape[-2]


def _prepare(shape: tuple[int, ...], new: tuple[int, int], interp: int) -> tuple[int, resampling.Taps, resampling.Taps]:
    old = _sizes(shape)
    if min(new) < 1 or min(old) < 1:
        raise AttributeValueError(f"a picture of {old[1]} x {old[0]} cannot be resized to {new[1]} x {new[0]}: widths "
                                  f"and heights must be positive")
    method = resampling.method_of(interp, old, new)
    shrinks = new[0] <= old[0] and new[1] <= old[1]
    return method, resampling.taps(method, old[0], new[0], shrinks,
                                   True), resampling.taps(method, old[1], new[1], shrinks, False)


def resize_array(xp: Any, x: Any, new: tuple[int, int], interp: int) -> Any:
    """A NumPy or CuPy image (…, height, width, channels) resized to ``new`` = (height, width)."""
    if new == _sizes(x.shape):
        return x.copy()
    method, rows, columns = _prepare(x.shape, new, interp)
    integer = x.dtype == np.uint8 and columns.integer is not None and rows.integer is not None

    def pick(a: Any, taps: resampling.Taps, axis: int, k: int) -> Any:
        return xp.take(a, xp.asarray(taps.index[:, k]), axis=axis)

    def weight(taps: resampling.Taps, axis: int, k: int) -> Any:
        w = taps.integer if integer else taps.weight
        assert w is not None
        return xp.asarray(w[:, k].astype(work)).reshape((-1,) + (1,) * (-axis - 1))
    if method == resampling.NEAREST:
        return pick(pick(x, rows, -3, 0), columns, -2, 0)
    work: Any = np.int32 if integer else np.float64 if x.dtype == np.float64 else np.float32

    def along(a: Any, taps: resampling.Taps, axis: int) -> Any:
        out = pick(a, taps, axis, 0) * weight(taps, axis, 0)
        for k in range(1, taps.index.shape[1]):
            out += pick(a, taps, axis, k) * weight(taps, axis, k)
        return out
    wide = along(x.astype(work), columns, -2)
    if not integer:
        return _rounded_array(xp, along(wide, rows, -3), x.dtype, halves=_halves(method, x.shape, new))
    if rows.index.shape[1] == 2:                                 # two taps: OpenCV keeps 16 bits of each product
        wide >>= 4
        out = (((pick(wide, rows, -3, 0) * weight(rows, -3,
                                                  0)) >> 16) + ((pick(wide, rows, -3,
                                                                      1) * weight(rows, -3, 1)) >> 16) + 2) >> 2
    else:
        out = (along(wide, rows, -3) + (1 << 21)) >> 22
    return xp.clip(out, 0, 255).astype(np.uint8)


def _halves(method: int, shape: tuple[int, ...], new: tuple[int, int]) -> bool:
    """Whether 2 x 2 pixels become one, whose mean OpenCV rounds up at a half."""
    return method == resampling.AREA and _sizes(shape) == (2 * new[0], 2 * new[1])


def _rounded_array(xp: Any, x: Any, dtype: Any, halves: bool) -> Any:
    if not dt.is_int(np.dtype(dtype)):
        return x.astype(dtype)
    info = np.iinfo(dtype)
    return xp.clip(xp.floor(x + 0.5) if halves else xp.rint(x), info.min, info.max).astype(dtype)


def resize_node(x: Node, new: tuple[int, int], interp: int) -> Node:
    """The same over primitives."""
    if new == _sizes(x.shape):
        return x
    method, rows, columns = _prepare(x.shape, new, interp)
    if method == resampling.NEAREST:
        return _gather(_gather(x, rows, -3, 0), columns, -2, 0)
    integer = x.dtype == dt.uint8 and columns.integer is not None and rows.integer is not None
    work = dt.int32 if integer else dt.float64 if x.dtype == dt.float64 else dt.float32
    wide = _along(ir.cast(x, work), columns, -2, integer)
    if not integer:
        return _rounded(_along(wide, rows, -3, False), x.dtype, _halves(method, x.shape, new))
    if rows.index.shape[1] == 2:
        wide = ir.map("shr", wide, 4)
        parts = [ir.map("shr", _gather(wide, rows, -3, k) * _weight(rows, -3, k, work, True), 16) for k in range(2)]
        out = ir.map("shr", parts[0] + parts[1] + 2, 2)
    else:
        out = ir.map("shr", _along(wide, rows, -3, True) + (1 << 21), 22)
    return ir.cast(ir.map("minimum", ir.map("maximum", out, 0), 255), dt.uint8)


def _gather(x: Node, taps: resampling.Taps, axis: int, k: int) -> Node:
    return ir.gather(x, ir.data(taps.index[:, k]), axis % x.ndim)


def _weight(taps: resampling.Taps, axis: int, k: int, work: Any, integer: bool) -> Node:
    w = taps.integer if integer else taps.weight
    assert w is not None
    return ir.data(w[:, k].astype(work).reshape((-1,) + (1,) * (-axis - 1)))


def _along(x: Node, taps: resampling.Taps, axis: int, integer: bool) -> Node:
    out = _gather(x, taps, axis, 0) * _weight(taps, axis, 0, x.dtype, integer)
    for k in range(1, taps.index.shape[1]):
        out = out + _gather(x, taps, axis, k) * _weight(taps, axis, k, x.dtype, integer)
    return out


def _rounded(x: Node, dtype: np.dtype, halves: bool) -> Node:
    if not dt.is_int(dtype):
        return ir.cast(x, dtype)
    info = np.iinfo(dtype)
    whole = ir.map("floor", x + 0.5) if halves else ir.map("rint", x)
    return ir.cast(ir.map("minimum", ir.map("maximum", whole, float(info.min)), float(info.max)), dtype)


def wanted_size(shape: tuple[int, ...], size: tuple[int, ...], keep_ratio: bool) -> tuple[int, int]:
    """(height, width) that ``size`` means: (width, height), or one number for both, or with keep_ratio for the shorter
    edge."""
    if len(size) == 2:
        return size[1], size[0]
    if len(size) != 1:
        raise AttributeValueError(f"resize: size is one number or (width, height), got {size}")
    height, width = _sizes(shape)
    if not keep_ratio:
        return size[0], size[0]
    return (height * size[0] // width, size[0]) if height > width else (size[0], width * size[0] // height)


@image_op("resize", size=Shape(()), keep_ratio=Bool(False), interp=Int(1),
    eager=lambda xp, arrays, a: [resize_array(xp, arrays[0], wanted_size(arrays[0].shape, a.size, a.keep_ratio),
                                              a.interp)])
def resize(data: Node, a: Attrs) -> Node:
    """An image in another size: ``size`` is (width, height), or one number. interp: 0 nearest, 1 bilinear, 2 bicubic,
    3 area, 4 Lanczos, 9 by the sizes. Equal to OpenCV's within 1 for bicubic and exactly otherwise (uint8).
    """
    check_image(data)
    return resize_node(data, wanted_size(data.shape, a.size, a.keep_ratio), a.interp)


@op("_cvimresize", "src", mx=("imresize",), w=Int(), h=Int(), interp=Int(1),
    eager=lambda xp, arrays, a: [resize_array(xp, arrays[0], (a.h, a.w), a.interp)])
def imresize(src: Node, a: Attrs) -> Node:
    """An image in the size w x h."""
    check_image(src)
    return resize_node(src, (a.h, a.w), a.interp)


@image_op("crop", x=Int(), y=Int(), width=Int(), height=Int())
def crop(data: Node, a: Attrs) -> Node:
    """The part of an image from column x and row y, of a width and a height."""
    check_image(data)
    rows, columns = _sizes(data.shape)
    if a.x < 0 or a.y < 0 or a.width < 1 or a.height < 1 or a.x + a.width > columns or a.y + a.height > rows:
        raise ShapeError(f"crop of {a.width} x {a.height} from column {a.x}, row {a.y} leaves the picture of "
                         f"{columns} x {rows}")
    lead, size = (0,) * (data.ndim - 3), data.shape[:-3]
    return ir.slice(data, (*lead, a.y, a.x, 0), (*size, a.height, a.width, data.shape[-1]))
