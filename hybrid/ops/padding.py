"""Padding, and channels moved into blocks of pixels and back."""
from __future__ import annotations

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Enum, Float, Int, Shape, op
from .shape import cut


@op("Pad", "data", mx=("pad",), npx=("pad",), json=("pad",), mode=Enum("constant", "constant", "edge", "reflect"),
    pad_width=Shape(), constant_value=Float(0.0))
def pad(data: Node, a: Attrs) -> Node:
    """Elements added before and after each axis: a constant, the edge, or the mirror image."""
    if len(a.pad_width) != 2 * data.ndim:
        raise ShapeError(f"pad_width {a.pad_width} needs two numbers for each of the {data.ndim} axes")
    if min(a.pad_width) < 0:
        raise ShapeError(f"pad_width {a.pad_width} must not be negative; use slice to cut elements off")
    lo, hi = a.pad_width[::2], a.pad_width[1::2]
    if a.mode == "constant":
        return ir.pad(data, lo, hi, a.constant_value)
    for axis, (before, after) in enumerate(zip(lo, hi)):
        data = pad_edge(data, axis, before, after) if a.mode == "edge" else pad_reflect(data, axis, before, after)
    return data


def pad_edge(x: Node, axis: int, before: int, after: int) -> Node:
    """The first and last element along an axis repeated."""
    def side(at: int, n: int) -> Node:
        return ir.expand(cut(x, axis, at, 1), x.shape[:axis] + (n,) + x.shape[axis + 1:])
    return ir.concat([p for p in ([side(0, before)] if before
                                  else []) + [x] + ([side(x.shape[axis] - 1, after)] if after else [])], axis)


def pad_reflect(x: Node, axis: int, before: int, after: int) -> Node:
    """The mirror image along an axis, without the edge itself."""
    n = x.shape[axis]
    if before >= n or after >= n:
        raise ShapeError(f"reflect padding of {max(before, after)} needs an axis longer than that; axis {axis} has {n}")

    def mirror(begin: int, size: int) -> Node:
        part = cut(x, axis, begin, size)
        return ir.slice(part, [d - 1 if i == axis else 0 for i, d in enumerate(part.shape)], part.shape,
                        [-1 if i == axis else 1 for i in range(x.ndim)])
    return ir.concat(([mirror(1, before)] if before else []) + [x] + ([mirror(n - 1 - after, after)] if after else []),
                     axis)


def _nchw(data: Node) -> tuple[int, ...]:
    if data.ndim != 4:
        raise ShapeError(f"an array of 4 axes (batch, channels, height, width) is needed, got {data.shape}")
    return data.shape


@op("depth_to_space", "data", block_size=Int())
def depth_to_space(data: Node, a: Attrs) -> Node:
    """Channels moved into blocks of pixels (NCHW)."""
    n, c, h, w = _nchw(data)
    b = a.block_size
    if b < 1 or c % (b * b):
        raise ShapeError(f"depth_to_space: {c} channels cannot be split into blocks of block_size={b} squared")
    x = ir.permute(ir.reshape(data, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    return ir.reshape(x, (n, c // (b * b), h * b, w * b))


@op("space_to_depth", "data", block_size=Int())
def space_to_depth(data: Node, a: Attrs) -> Node:
    """Blocks of pixels moved into channels (NCHW)."""
    n, c, h, w = _nchw(data)
    b = a.block_size
    if b < 1 or h % b or w % b:
        raise ShapeError(f"space_to_depth: {h} x {w} pixels cannot be cut into blocks of block_size={b}")
    x = ir.permute(ir.reshape(data, (n, c, h // b, b, w // b, b)), (0, 3, 5, 1, 2, 4))
    return ir.reshape(x, (n, c * b * b, h // b, w // b))
