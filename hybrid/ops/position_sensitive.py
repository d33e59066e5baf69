"""Pooling of regions where each bin reads channels of its own (R-FCN, deformable R-FCN), and alignment of turned
regions."""
from __future__ import annotations

import math

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, Float, Int, Shape, op


def _columns(rois: Node, width: int, axes: int) -> tuple[Node, list[Node]]:
    """Batch numbers and the other columns of rois (R, width), each (R, 1, …) of ``axes`` axes."""
    if rois.ndim != 2 or rois.shape[1] != width:
        raise ShapeError(f"rois must be (R, {width}), got {rois.shape}")
    r = rois.shape[0]
    own = [ir.reshape(ir.slice(rois, (0, k), (r, 1)), (r,) + (1,) * (axes - 1)) for k in range(width)]
    return ir.cast(own[0], dt.int64), own[1:]


def _along(values: np.ndarray, axis: int, axes: int) -> Node:
    """Constants along one of some axes."""
    return ir.data(values.reshape(tuple(len(values) if i == axis else 1 for i in range(axes))))


def _check(data: Node, a: Attrs, group: int) -> None:
    if data.ndim != 4 or a.output_dim < 1 or a.pooled_size < 1 or data.shape[1] != a.output_dim * group * group:
        raise ShapeError(f"data must be (N, output_dim * group_size², H, W) = (N, {a.output_dim * group * group}, H, "
                         f"W), got {data.shape}")


def _group_of(bins: int, group: int) -> np.ndarray:
    return np.clip(np.floor(np.arange(bins) * group / bins), 0, group - 1).astype(np.int64)


@op("_contrib_PSROIPooling", "data rois", mx=("contrib.PSROIPooling",), spatial_scale=Float(), output_dim=Int(),
    pooled_size=Int(), group_size=Int(0))
def psroi_pooling(data: Node, rois: Node, a: Attrs) -> Node:
    """Means over a grid of bins in each region, each bin over channels of its own: (R, output_dim, pooled_size,
    pooled_size). rois (R, 5): batch number and corners. Dai et al., "R-FCN" (2016). From sums over all rectangles that
    begin in the corner."""
    group = a.group_size or a.pooled_size
    _check(data, a, group)
    n, c, h, w = data.shape
    p, axes = a.pooled_size, 4
    index, (left, top, right, bottom) = _columns(ir.detach(rois), 5, axes)
    whole = ir.pad(ir.running_sum(ir.running_sum(data, 2), 3), (0, 0, 1, 1), (0, 0, 0, 0))
    edges = []
    for low, high, length, axis in ((top, bottom, h, 2), (left, right, w, 3)):
        start = ir.map("round", low) * a.spatial_scale
        size = ir.map("maximum", ir.map("round", high + 1.0) * a.spatial_scale - start, 0.1) / p
        k = _along(np.arange(p, dtype=data.dtype), axis, axes)
        first = ir.map("floor", k * size + start)
        last = ir.map("ceil", (k + 1) * size + start)
        edges.append([ir.cast(ir.map("minimum", ir.map("maximum", e, 0), length), dt.int64) for e in (first, last)])
    own = _group_of(p, group)
    channel = _along(np.arange(a.output_dim), 1,
                     axes) * group * group + _along(own, 2, axes) * group + _along(own, 3, axes)
    flat = ir.reshape(whole, (-1,))
    base = (index * c + channel) * (h + 1)

    def at(y: Node, x: Node) -> Node:
        return ir.gather(flat, (base + y) * (w + 1) + x)

    (y0, y1), (x0, x1) = edges
    full = ir.map("logical_and", ir.map("gt", y1, y0), ir.map("gt", x1, x0))
    total = at(y1, x1) - at(y0, x1) - at(y1, x0) + at(y0, x0)
    area = ir.cast((y1 - y0) * (x1 - x0), data.dtype)
    return ir.map("where", full, total / ir.map("where", full, area, 1), 0)


def _bilinear(flat: Node, base: Node, y: Node, x: Node, h: int, w: int) -> Node:
    """Values between pixels, for places within the image. base: where a plane begins."""
    out: Node | None = None
    parts = []
    for place, length in ((y, h), (x, w)):
        low = ir.map("floor", place)
        parts.append([(ir.cast(ir.map("minimum", at, length - 1), dt.int64), share)
                      for at, share in ((low, low + 1 - place), (low + 1, place - low))])
    for row, across in parts[0]:
        for column, down in parts[1]:
            term = ir.gather(flat, base + row * w + column) * (across * down)
            out = term if out is None else out + term
    assert out is not None
    return out


def _within(x: Node, low: float, high: float) -> Node:
    return ir.map("minimum", ir.map("maximum", x, low), high)


@op("_contrib_DeformablePSROIPooling", "data rois trans?", mx=("contrib.DeformablePSROIPooling",),
    takes={"trans": lambda a: not a.no_trans}, outputs=lambda a: 2,
    visible=lambda a: 1, spatial_scale=Float(), output_dim=Int(), group_size=Int(), pooled_size=Int(),
    part_size=Int(0), sample_per_part=Int(1), trans_std=Float(0.0),
    no_trans=Bool(False))
def deformable_psroi_pooling(data: Node, rois: Node, trans: Node | None, a: Attrs) -> tuple[Node, Node]:
    """PSROIPooling whose bins are moved by trans (R, 2 * classes, parts, parts), in shares trans_std of a region's
    size, and hold the mean of sample_per_part² places. Dai et al., "Deformable convolutional networks" (2017). The
    hidden second output counts places within the image."""
    group = a.group_size
    _check(data, a, group)
    if a.sample_per_part < 1:
        raise ShapeError(f"sample_per_part={a.sample_per_part} must be at least 1")
    n, c, h, w = data.shape
    # region, output, bin row, bin column, sample row, sample column
    p, s, axes = a.pooled_size, a.sample_per_part, 6
    index, (left, top, right, bottom) = _columns(ir.detach(rois), 5, axes)
    moves = _moves(None if a.no_trans else trans, rois.shape[0], a)
    places, extents = [], []
    for low, high, length, axis, move in ((top, bottom, h, 2, moves[1]), (left, right, w, 3, moves[0])):
        start = ir.map("round", low) * a.spatial_scale - 0.5
        size = ir.map("maximum", ir.map("round", high + 1.0) * a.spatial_scale - 0.5 - start, 0.1)
        each = size / p
        k = _along(np.arange(p, dtype=data.dtype), axis, axes)
        i = _along(np.arange(s, dtype=data.dtype), axis + 2, axes)
        place = k * each + start + i * (each / s)
        places.append(place if move is None else place + move * size)
        extents.append(length)
    (y, x) = places
    inside = ir.map("logical_and", ir.map("logical_and", ir.map("ge", y, -0.5), ir.map("le", y, h - 0.5)),
                    ir.map("logical_and", ir.map("ge", x, -0.5), ir.map("le", x, w - 0.5)))
    own = _group_of(p, group)
    channel = _along(np.arange(a.output_dim), 1,
                     axes) * group * group + _along(own, 2, axes) * group + _along(own, 3, axes)
    base = (index * c + channel) * (h * w)
    value = _bilinear(ir.reshape(data, (-1,)), base, _within(y, 0, h - 1), _within(x, 0, w - 1), h, w)
    shape = ir.broadcast_shapes(value.shape, inside.shape)
    inside = ir.expand(inside, shape)
    count = ir.reduce("sum", ir.cast(inside, data.dtype), (4, 5))
    total = ir.reduce("sum", ir.map("where", inside, ir.expand(value, shape), 0), (4, 5))
    return total / ir.map("maximum", count, 1), ir.detach(count)


def _moves(trans: Node | None, regions: int, a: Attrs) -> tuple[Node | None, Node | None]:
    """How far each bin moves right and down, as shares of its region: (R, output_dim, p, p, 1, 1)."""
    if trans is None:
        return None, None
    parts = a.part_size or a.pooled_size
    if (trans.ndim != 4 or trans.shape[0] != regions or trans.shape[1] % 2 or trans.shape[2:] != (parts, parts)
        or a.output_dim % max(1, trans.shape[1] // 2)):
        raise ShapeError(f"trans must be ({regions}, 2 * classes, {parts}, {parts}) with a number of classes that "
                         f"divides output_dim={a.output_dim}, got {trans.shape}")
    classes = trans.shape[1] // 2
    part = np.floor(np.arange(a.pooled_size) * parts / a.pooled_size).astype(np.int64)
    x = ir.gather(ir.gather(trans, ir.data(part), 2), ir.data(part), 3)
    x = ir.gather(ir.reshape(x, (regions, classes, 2, a.pooled_size, a.pooled_size)),
                  ir.data(np.arange(a.output_dim) // (a.output_dim // classes)), 1)

    def one(k: int) -> Node:
        own = ir.slice(x, (0, 0, k, 0, 0), (regions, a.output_dim, 1, a.pooled_size, a.pooled_size))
        return ir.reshape(own, (regions, a.output_dim, a.pooled_size, a.pooled_size, 1, 1)) * a.trans_std
    return one(0), one(1)


@op("_contrib_RROIAlign", "data rois", mx=("contrib.RROIAlign",), pooled_size=Shape(), spatial_scale=Float(),
    sampling_ratio=Int(-1))
def rotated_roi_align(data: Node, rois: Node, a: Attrs) -> Node:
    """Means of places in a grid of bins in turned regions: (R, C, *pooled_size). rois (R, 6): batch number, middle x
    and y, width, height, degrees. sampling_ratio² places a bin; where it is not positive, one a pixel. Ma et al.,
    "Arbitrary-oriented scene text detection" (2018)."""
    if data.ndim != 4 or len(a.pooled_size) != 2 or min(a.pooled_size) < 1:
        raise ShapeError(f"data (N, C, H, W) and pooled_size of two positive numbers are needed, got {data.shape} and "
                         f"{a.pooled_size}")
    n, c, h, w = data.shape
    # region, channel, bin row, bin column, sample row, sample column
    axes = 6
    index, (cx, cy, width, height, degrees) = _columns(ir.detach(rois), 6, axes)
    offsets, used = [], []
    for size, bins, axis in ((height, a.pooled_size[0], 2), (width, a.pooled_size[1], 3)):
        size = ir.map("maximum", size * a.spatial_scale, 1.0)
        most = a.sampling_ratio if a.sampling_ratio > 0 else -(-2 * max(h, w) // bins)
        count = ir.full(a.sampling_ratio, size.shape,
                        size.dtype) if a.sampling_ratio > 0 else ir.map("minimum", ir.map("ceil", size / bins), most)
        i = _along(np.arange(most, dtype=data.dtype), axis + 2, axes)
        offsets.append(size * -0.5 + _along(np.arange(bins, dtype=data.dtype), axis,
                                            axes) * (size / bins) + (i + 0.5) * (size / bins) / count)
        used.append((ir.map("lt", i, count), count))
    turn = degrees * (math.pi / 180)
    sin, cos = ir.map("sin", turn), ir.map("cos", turn)
    y = offsets[0] * cos - offsets[1] * sin + cy * a.spatial_scale
    x = offsets[1] * cos + offsets[0] * sin + cx * a.spatial_scale
    inside = ir.map("logical_and", ir.map("logical_and", ir.map("ge", y, -1), ir.map("le", y, h)),
                    ir.map("logical_and", ir.map("ge", x, -1), ir.map("le", x, w)))
    inside = ir.map("logical_and", inside, ir.map("logical_and", used[0][0], used[1][0]))
    base = (index * c + _along(np.arange(c), 1, axes)) * (h * w)
    value = _bilinear(ir.reshape(data, (-1,)), base, _within(y, 0, h - 1), _within(x, 0, w - 1), h, w)
    total = ir.reduce("sum", ir.map("where", ir.expand(inside, value.shape), value, 0), (4, 5))
    return total / ir.reshape(used[0][1] * used[1][1], (rois.shape[0], 1, 1, 1))
