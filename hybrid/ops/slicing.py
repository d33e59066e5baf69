"""Operators that slice and crop arrays."""
from __future__ import annotations

from typing import Sequence

from .. import ir
from ..base.errors import ShapeError
from ..base.indexing import slice_range
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, Int, Shape, op
from .shape import cut, normal_axis


@op("slice", "data", npx=("slice",), json=("_npx_slice", "crop"), begin=Shape(none=True), end=Shape(none=True),
    step=Shape((), none=True, empty=True))
def slice_(data: Node, a: Attrs) -> Node:
    """A range with steps along the first axes; None means from the start or to the end."""
    return ir.slice(data, *slice_ranges(data.shape, a))


def slice_ranges(shape: Sequence[int], a: Attrs) -> tuple[list[int], list[int], list[int]]:
    """Start, number of elements and step on each axis, of the attributes begin, end and step."""
    start, size, stride = [0] * len(shape), list(shape), [1] * len(shape)
    if len(a.begin) != len(a.end):
        raise ShapeError(f"slice needs as many begin as end entries, got begin={a.begin}, end={a.end}")
    if 0 in a.step:
        raise ShapeError(f"slice: step={a.step} has a 0; use 1 to keep every element")
    for i, (b, e) in enumerate(zip(a.begin, a.end)):
        if i >= len(shape):
            raise ShapeError(f"slice has {len(a.begin)} ranges for an array of {len(shape)} axes")
        start[i], stride[i], size[i] = slice_range(b, e, a.step[i] if i < len(a.step) else None, shape[i])
    return [b if n else 0 for b, n in zip(start, size)], size, stride


@op("slice_axis", "data", axis=Int(), begin=Int(), end=Int(None))
def slice_axis(data: Node, a: Attrs) -> Node:
    """A range along one axis; end None is the axis' end, negative counts from it."""
    axis = normal_axis(a.axis, data.ndim)
    n = data.shape[axis]
    for name, v in (("begin", a.begin), ("end", a.end)):
        if v is not None and not -n <= v <= n:
            raise ShapeError(f"slice_axis: {name}={v} is outside of axis {axis} of data {data.shape}: use {-n} to "
                             f"{n}, or end=None for all that follows")
    start, _, size = slice_range(a.begin, a.end, None, n)
    if n and not size:
        raise ShapeError(f"slice_axis: begin={a.begin} is not before end={a.end} on axis {axis} of data {data.shape}")
    return cut(data, axis, start, size)


@op("slice_like", "data shape_like", npx=("slice_like",), axes=Shape(()))
def slice_like(data: Node, shape_like: Node, a: Attrs) -> Node:
    """The front of data, as long as ``shape_like`` along ``axes`` (all when none is given)."""
    if not a.axes and data.ndim != shape_like.ndim:
        raise ShapeError(f"slice_like: {data.shape} and {shape_like.shape} differ in their number of axes: name those "
                         f"to cut, axes=(0, 1)")
    axes = [normal_axis(i, data.ndim) for i in a.axes] or list(range(data.ndim))
    for i in axes:
        normal_axis(i, shape_like.ndim)
    size = [shape_like.shape[i] if i in axes else d for i, d in enumerate(data.shape)]
    if any(s > d for s, d in zip(size, data.shape)):
        raise ShapeError(f"slice_like: {data.shape} is shorter than {shape_like.shape} along axes {axes}")
    return ir.slice(data, [0] * data.ndim, size)


@op("Crop", "*data", arity_attr="num_args", num_args=Int(None), offset=Shape((0, 0)), h_w=Shape((0, 0)),
    center_crop=Bool(False))
def crop(xs: list[Node], a: Attrs) -> Node:
    """A part of the last two axes of data (N, C, H, W): of the second input's height and width, or of ``h_w``; from
    ``offset`` on, or the middle."""
    data, size = xs[0], (xs[1].shape[2:] if len(xs) > 1 else tuple(a.h_w))
    if not 1 <= len(xs) <= 2 or data.ndim != 4 or len(size) != 2 or len(a.offset) != 2:
        raise ShapeError(f"Crop takes data (N, C, H, W) and perhaps an array of the wanted height and width, got "
                         f"{[x.shape for x in xs]}, h_w={a.h_w}, offset={a.offset}")
    room = [have - want for have, want in zip(data.shape[2:], size)]
    start = [r // 2 for r in room] if a.center_crop else list(a.offset)
    if any(n < 1 or not 0 <= s <= r for n, s, r in zip(size, start, room)):
        raise ShapeError(f"Crop to {size} from {tuple(start)} leaves the picture of {data.shape[2:]}")
    return ir.slice(data, (0, 0, *start), (*data.shape[:2], *size))
