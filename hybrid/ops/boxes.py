"""Operators on boxes for detection: overlap, suppression, matching, encoding. A box is (left, top, right, bottom), or
with ``center`` (x, y, width, height). The greedy parts are row kernels (kernels/include/rows_boxes.h).
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import DTypeError, ShapeError
from ..ir import Node, RowKernel
from ..ir.size import smaller
from .attributes import Attrs
from .order import along
from .registry import Bool, Enum, Float, Int, op

CORNER = Enum("corner", "corner", "center")


def _column(x: Node, k: int) -> Node:
    """Entry k of the last axis, which stays with length 1."""
    return ir.slice(x, (0,) * (x.ndim - 1) + (k,), (*x.shape[:-1], 1))


def to_corners(x: Node) -> Node:
    """(x, y, width, height) to (left, top, right, bottom)."""
    cx, cy, w, h = (_column(x, k) for k in range(4))
    return ir.concat([cx - w * 0.5, cy - h * 0.5, cx + w * 0.5, cy + h * 0.5], -1)


def to_center(x: Node) -> Node:
    """(left, top, right, bottom) to (x, y, width, height)."""
    left, top, right, bottom = (_column(x, k) for k in range(4))
    return ir.concat([(left + right) * 0.5, (top + bottom) * 0.5, right - left, bottom - top], -1)


def _check_boxes(x: Node, name: str) -> None:
    if x.ndim < 1 or x.shape[-1] != 4:
        raise ShapeError(f"{name} must be boxes (…, 4), got {x.shape}")


# ---- overlap
@op("_contrib_box_iou", "lhs rhs", mx=("contrib.box_iou",), json=("_npx_box_iou",), format=CORNER)
def box_iou(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """Intersection over union of every box of lhs (…, 4) with every box of rhs (…, 4); shape lhs[:-1] + rhs[:-1]. As in
    MXNet no gradient flows through it."""
    _check_boxes(lhs, "lhs")
    _check_boxes(rhs, "rhs")
    lhs, rhs = ir.detach(lhs), ir.detach(rhs)
    shape = lhs.shape[:-1] + rhs.shape[:-1]
    x, y = (to_corners(v) if a.format == "center" else v for v in (lhs, rhs))
    x = ir.reshape(x, (math.prod(lhs.shape[:-1]), 1, 4))
    y = ir.reshape(y, (1, math.prod(rhs.shape[:-1]), 4))
    return ir.reshape(overlap(x, y), shape)


def overlap(x: Node, y: Node) -> Node:
    """Intersection over union of boxes (…, 4) by their corners, which broadcast: (…, 1)."""
    both = _area([ir.map(fn, _column(x, k), _column(y, k))
                  for k, fn in enumerate(("maximum", "maximum", "minimum", "minimum"))])
    union = _area([_column(x, k) for k in range(4)]) + _area([_column(y, k) for k in range(4)]) - both
    full = ir.map("gt", union, 0)
    return ir.map("where", full, both / ir.map("where", full, union, 1), 0)


def _area(sides: list[Node]) -> Node:
    left, top, right, bottom = sides
    return ir.map("relu", right - left) * ir.map("relu", bottom - top)


# ---- suppression
def _iou_with(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    size = np.maximum(np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]), 0)
    both = size.prod(1)
    union = np.maximum(box[2:] - box[:2], 0).prod() + np.maximum(others[:, 2:] - others[:, :2], 0).prod(1) - both
    return np.where(union > 0, both / np.where(union > 0, union, 1), 0)


def _nms_eager(xp: Any, arrays: Any, params: Any) -> Any:
    box, cls, valid = (x if xp is np else x.get() for x in arrays)
    limit, force, threshold = params
    keep = (valid != 0) & (np.arange(valid.shape[1]) < limit)
    for r in range(len(keep)):
        for i in np.flatnonzero(keep[r]):
            if keep[r, i]:
                later = np.flatnonzero(keep[r, i + 1:]) + i + 1
                if not force:
                    later = later[cls[r, later] == cls[r, i]]
                keep[r, later[_iou_with(box[r, i], box[r, later]) > box.dtype.type(threshold)]] = False
    return xp.asarray(keep.astype(box.dtype))


ir.register_rows(RowKernel("nms", "rows_boxes.h", (2, 1, 1), lambda s, p: s[1],
                           lambda s, p: (s[1][0], p[0], p[1], float(p[2])), _nms_eager))


@op("_contrib_box_nms", "data", mx=("contrib.box_nms", "contrib.box_non_maximum_suppression"),
    json=("_contrib_box_non_maximum_suppression", "_npx_box_nms"),
    outputs=lambda a: 2, visible=lambda a: 1, overlap_thresh=Float(0.5), valid_thresh=Float(0.0), topk=Int(-1),
    coord_start=Int(2), score_index=Int(1),
    id_index=Int(-1), background_id=Int(-1), force_suppress=Bool(False), in_format=CORNER, out_format=CORNER)
def box_nms(data: Node, a: Attrs) -> tuple[Node, Node]:
    """Non-maximum suppression of boxes (…, N, width): in order of score, a box drops those that overlap it by more than
    overlap_thresh (of its class, where id_index says which column holds it, unless force_suppress). The kept ones come
    first; all other entries are -1. Boxes with scores up to valid_thresh, or (with id_index) of background_id, -1 too,
    are dropped; so are all beyond the topk best. The hidden second output says where the kept ones stood.
    """
    if data.ndim < 2 or not 0 <= a.coord_start <= data.shape[-1] - 4:
        raise ShapeError(f"data must be (…, N, width) with 4 coordinates from column {a.coord_start} on, got "
                         f"{data.shape}")
    if not 0 <= a.score_index < data.shape[-1] or a.id_index >= data.shape[-1]:
        raise ShapeError(f"score_index={a.score_index} and id_index={a.id_index} must be columns of {data.shape}")
    if not dt.is_float(data.dtype):
        raise DTypeError(f"boxes must be floats, got {data.dtype.name}")
    n, width = data.shape[-2:]
    lead = data.shape[:-2]
    x = ir.reshape(data, (math.prod(lead), n, width))
    order, keep = _kept(ir.detach(x if data.dtype.itemsize > 2 else ir.cast(x, dt.float32)), a)
    # places of the kept ones, in order of score, then the others
    first = along(order, ir.argsort(keep, True))
    kept = ir.reshape(ir.map("ne", along(keep, ir.argsort(keep, True)), 0), (*keep.shape, 1))
    rows = ir.gather(ir.reshape(x, (-1, width)), first + ir.reshape(ir.iota(x.shape[0]) * n, (x.shape[0], 1)), 0)
    if a.in_format != a.out_format:
        c = a.coord_start
        box = ir.slice(rows, (0, 0, c), (*rows.shape[:2], 4))
        box = to_corners(box) if a.in_format == "center" else to_center(box)
        rows = ir.concat([p for p in (ir.slice(rows, (0, 0, 0), (*rows.shape[:2], c)), box,
                                      ir.slice(rows, (0, 0, c + 4 if c + 4 < width else 0),
                                               (*rows.shape[:2], width - c - 4))) if p.shape[-1]], -1)
    out = ir.map("where", kept, rows, -1)
    index = ir.map("where", kept, ir.cast(ir.reshape(first, kept.shape), data.dtype), -1)
    return ir.reshape(out, data.shape), ir.reshape(index, (*lead, n, 1))


def _kept(x: Node, a: Attrs) -> tuple[Node, Node]:
    """Order by score, and 1 for each in that order that is kept."""
    rows, n = x.shape[:2]
    score = ir.reshape(_column(x, a.score_index), (rows, n))
    cls = ir.reshape(_column(x, a.id_index), (rows, n)) if a.id_index >= 0 else ir.full(0, (rows, n), x.dtype)
    valid = ir.map("gt", score, a.valid_thresh)
    if a.id_index >= 0:
        valid = ir.map("logical_and", valid, ir.map("ne", cls, a.background_id))
    order = ir.argsort(ir.map("where", valid, score, -math.inf), True)
    box = ir.slice(x, (0, 0, a.coord_start), (rows, n, 4))
    if a.in_format == "center":
        box = to_corners(box)
    flat = order + ir.reshape(ir.iota(rows) * n, (rows, 1))
    sorted_box = ir.gather(ir.reshape(box, (-1, 4)), flat, 0)
    force = a.force_suppress or a.id_index < 0
    limit = n if a.topk < 0 else smaller(a.topk, n)
    return order, ir.rows("nms", (sorted_box, along(cls, order), along(ir.cast(valid, x.dtype), order)),
                          (limit, force, a.overlap_thresh))


# ---- matching
def _match_eager(xp: Any, arrays: Any, params: Any) -> Any:
    score, order = (x if xp is np else x.get() for x in arrays)
    limit, ascend, threshold = params
    rows, n, m = score.shape
    out = np.full((rows, n + m), -1.0, score.dtype)
    for b in range(rows):
        found = 0
        for at in order[b].astype(np.int64):
            r, c = divmod(int(at), m)
            if found >= limit:
                break
            if out[b, r] != -1 or out[b, n + c] != -1:
                continue
            if score[b, r, c] > threshold if ascend else score[b, r, c] < threshold:
                break
            out[b, r], out[b, n + c], found = c, r, found + 1
    return xp.asarray(out)


ir.register_rows(RowKernel("match", "rows_boxes.h", (2, 1), lambda s, p: (s[0][0] + s[0][1],),
                           lambda s, p: (*s[0], p[0], p[1], float(p[2])), _match_eager))


@op("_contrib_bipartite_matching", "data", mx=("contrib.bipartite_matching",), json=("_npx_bipartite_matching",),
    outputs=lambda a: 2,
    is_ascend=Bool(False), threshold=Float(), topk=Int(-1))
def bipartite_matching(data: Node, a: Attrs) -> tuple[Node, Node]:
    """Greedy matching of rows and columns of scores (…, N, M): the best pair first, while scores are not worse than
    threshold and no more than topk are matched before (so topk + 1 pairs at most, as MXNet counts). Returns each row's
    column (…, N) and each column's row (…, M), or -1."""
    if data.ndim < 2:
        raise ShapeError(f"scores must be (…, N, M), got {data.shape}")
    n, m = data.shape[-2:]
    rows = math.prod(data.shape[:-2])
    score = ir.reshape(ir.detach(ir.cast(data, dt.float64)), (rows, n, m))          # exact also for the order's numbers
    order = ir.argsort(ir.reshape(score, (rows, n * m)), not a.is_ascend)
    limit = smaller(n, m) if a.topk < 1 else a.topk + 1
    out = ir.cast(ir.rows("match", (score, ir.cast(order, dt.float64)), (limit, a.is_ascend, a.threshold)), data.dtype)
    return (ir.reshape(ir.slice(out, (0, 0), (rows, n)), (*data.shape[:-2], n)),
            ir.reshape(ir.slice(out, (0, n if m else 0), (rows, m)), (*data.shape[:-2], m)))


# ---- encoding
@op("_contrib_box_encode", "samples matches anchors refs means stds", mx=("contrib.box_encode",),
    json=("_npx_box_encode",), outputs=lambda a: 2)
def box_encode(samples: Node, matches: Node, anchors: Node, refs: Node, means: Node, stds: Node,
               a: Attrs) -> tuple[Node, Node]:
    """Targets of box regression (Faster R-CNN): of each anchor (B, N, 4) towards its match among refs (B, M, 4), where
    samples (B, N) is 1 (elsewhere 0). Returns targets and masks (B, N, 4); as in MXNet no gradient flows through it."""
    if anchors.ndim != 3 or anchors.shape[-1] != 4 or refs.ndim != 3 or refs.shape[-1] != 4:
        raise ShapeError(f"anchors and refs must be (B, N, 4) and (B, M, 4), got {anchors.shape} and {refs.shape}")
    batch, many = refs.shape[:2]
    at = ir.map("minimum", ir.map("maximum", ir.cast(matches, dt.int64), 0),
                many - 1) + ir.reshape(ir.iota(batch) * many, (batch, 1))
    target = to_center(ir.gather(ir.reshape(refs, (batch * many, 4)), at, 0))
    box = to_center(anchors)
    parts = [(_column(target, k) - _column(box, k)) / _column(box, k + 2) for k in (0, 1)]
    parts += [ir.map("log", _column(target, k) / _column(box, k)) for k in (2, 3)]
    chosen = ir.expand(ir.reshape(ir.map("gt", samples, 0.5), (*samples.shape, 1)), anchors.shape)
    out = (ir.concat(parts, -1) - means) / stds
    return ir.detach(ir.map("where", chosen, out, 0)), ir.cast(chosen, anchors.dtype)


@op("_contrib_box_decode", "data anchors", mx=("contrib.box_decode",), json=("_npx_box_decode",), std0=Float(1.0),
    std1=Float(1.0), std2=Float(1.0), std3=Float(1.0),
    clip=Float(-1.0), format=Enum("center", "corner", "center"))
def box_decode(data: Node, anchors: Node, a: Attrs) -> Node:
    """Corners of boxes from predicted targets (B, N, 4) and anchors (1, N, 4); clip > 0 limits the logarithm of the
    sizes. As in MXNet no gradient flows through it."""
    _check_boxes(data, "data")
    _check_boxes(anchors, "anchors")
    data, anchors = ir.detach(data), ir.detach(anchors)
    base = to_center(anchors) if a.format == "corner" else anchors
    center = [_column(data, k) * std * _column(base, k + 2) + _column(base, k) for k, std in ((0, a.std0), (1, a.std1))]
    size = []
    for k, std in ((2, a.std2), (3, a.std3)):
        log = _column(data, k) * std
        size.append(ir.map("exp", ir.map("minimum", log, a.clip) if a.clip > 0 else log) * _column(base, k) * 0.5)
    return ir.concat([center[0] - size[0], center[1] - size[1], center[0] + size[0], center[1] + size[1]], -1)
