"""Single-shot detection (Liu et al., SSD, 2016): prior boxes, training targets, detections. Boxes are (left, top,
right, bottom), from 0 to 1."""
from __future__ import annotations

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from ..ir.size import smaller
from .attributes import Attrs
from .boxes import _column, box_iou, to_center
from .order import along
from .registry import Bool, Float, Floats, Int, op

_VARIANCES = (0.1, 0.1, 0.2, 0.2)


@op("_contrib_MultiBoxPrior", "data", mx=("contrib.MultiBoxPrior",), json=("_npx_multibox_prior",),
    npx=("multibox_prior",), sizes=Floats((1.0,)), ratios=Floats((1.0,)),
    clip=Bool(False), steps=Floats((-1.0, -1.0)), offsets=Floats((0.5, 0.5)))
def multibox_prior(data: Node, a: Attrs) -> Node:
    """Prior boxes (1, H * W * (sizes + ratios - 1), 4) around each pixel of data (N, C, H, W): every size with the
    first ratio, then the first size with every other ratio. steps, offsets: (down, right) distance of the centres and
    place of the first, in pixels."""
    if data.ndim != 4 or not a.sizes or not a.ratios:
        raise ShapeError(f"data must be (N, C, H, W), with at least one size and one ratio; got {data.shape}, "
                         f"{a.sizes}, {a.ratios}")
    if len(a.steps) != 2 or len(a.offsets) != 2 or min(a.sizes) <= 0 or min(a.ratios) <= 0:
        raise ShapeError(f"steps and offsets are pairs, sizes and ratios positive; got {a.steps}, {a.offsets}, "
                         f"{a.sizes}, {a.ratios}")
    h, w = data.shape[2:]
    kinds = [(s, a.ratios[0]) for s in a.sizes] + [(a.sizes[0], r) for r in a.ratios[1:]]
    half = np.array([(s * h / w * r ** 0.5 / 2, s / r ** 0.5 / 2) for s, r in kinds], np.float32)
    n = len(kinds)
    centres = []
    for axis, length in ((1, w), (0, h)):                   # x, y
        step = a.steps[axis] if a.steps[axis] > 0 else 1.0 / length
        line = (ir.cast(ir.iota(length), dt.float32) + a.offsets[axis]) * step
        centres.append(ir.expand(ir.reshape(line, (1, w, 1, 1) if axis else (h, 1, 1, 1)), (h, w, n, 1)))
    size = ir.expand(ir.reshape(ir.data(half), (1, 1, n, 2)), (h, w, n, 2))
    middle = ir.concat(centres, -1)
    out = ir.reshape(ir.concat([middle - size, middle + size], -1), (1, h * w * n, 4))
    return ir.cast(ir.map("minimum", ir.map("maximum", out, 0), 1) if a.clip else out,
                   data.dtype if dt.is_float(data.dtype) else dt.float32)


def _check_anchors(anchor: Node) -> int:
    if anchor.ndim != 3 or anchor.shape[0] != 1 or anchor.shape[2] != 4:
        raise ShapeError(f"anchors must be (1, N, 4), got {anchor.shape}")
    return anchor.shape[1]


def _at(x: Node, index: Node) -> Node:
    """Rows of x (B, M, k) at index (B, N)."""
    batch, many = x.shape[:2]
    return ir.gather(ir.reshape(x, (batch * many, x.shape[2])), index + ir.reshape(ir.iota(batch) * many, (batch, 1)),
                     0)


@op("_contrib_MultiBoxTarget", "anchor label cls_pred", mx=("contrib.MultiBoxTarget",), json=("_npx_multibox_target",),
    npx=("multibox_target",), outputs=lambda a: 3,
    overlap_threshold=Float(0.5), ignore_label=Float(-1.0), negative_mining_ratio=Float(-1.0),
    negative_mining_thresh=Float(0.5),
    minimum_negative_samples=Int(0), variances=Floats(_VARIANCES))
def multibox_target(anchor: Node, label: Node, cls_pred: Node, a: Attrs) -> tuple[Node, Node, Node]:
    """Targets for anchors (1, N, 4) from labels (B, M, 5 or more: class, box; class -1 ends the list) and predictions
    (B, classes + 1, N).

    Each label gets the anchor that overlaps it most (greedily), then every anchor that overlaps a label by more than
    overlap_threshold belongs to it. With negative_mining_ratio only that many of the other anchors for each matched one
    are background:
    those that look least like it; the rest get ignore_label (minimum_negative_samples has no effect, as in MXNet).
    Returns the moves (B, 4 N), their mask (B, 4 N) and classes (B, N). No gradient.
    """
    n = _check_anchors(anchor)
    if (label.ndim != 3 or label.shape[2] < 5 or cls_pred.ndim != 3 or cls_pred.shape[0] != label.shape[0]
        or cls_pred.shape[2] != n or len(a.variances) != 4):
        raise ShapeError(f"label must be (B, M, 5), cls_pred (B, classes, {n}) and variances four numbers, got "
                         f"{label.shape}, {cls_pred.shape} and {a.variances}")
    anchor, label, cls_pred = ir.detach(anchor), ir.detach(label), ir.detach(cls_pred)
    batch, m = label.shape[:2]
    valid = _until_end(ir.map("ne", ir.reshape(_column(label, 0), (batch, m)), -1))
    truth = ir.slice(label, (0, 0, 1), (batch, m, 4))
    iou = box_iou(ir.reshape(anchor, (n, 4)), truth)                                              # N B M
    iou = ir.map("where", ir.reshape(valid, (batch, 1, m)), ir.permute(iou, (1, 0, 2)), -1.0)
    best, owner = ir.reduce("max", iou, (2,)), ir.argreduce("argmax", iou, 2)
    exact = ir.cast(iou, dt.float64)
    order = ir.argsort(ir.reshape(exact, (batch, n * m)), True)
    pairs = ir.rows("match", (exact, ir.cast(order, dt.float64)), (min(n, m), False, 1e-6))
    first = ir.cast(ir.slice(pairs, (0, 0), (batch, n)), dt.int64)
    forced = ir.map("ge", first, 0)
    positive = ir.map("logical_or", forced, ir.map("gt", best,
                                                   a.overlap_threshold)) if a.overlap_threshold > 0 else forced
    matched = ir.map("where", forced, first, owner)
    negative = _negatives(positive, best, cls_pred, a)
    chosen = _at(label, matched)                                                                  # B N 5
    some = ir.reduce("max", ir.cast(valid, dt.int32), (1,), keepdims=True)
    positive, negative = (ir.map("logical_and", x, ir.map("gt", some, 0)) for x in (positive, negative))
    cls = ir.map("where", positive, ir.reshape(_column(chosen, 0), (batch, n)) + 1,
                 ir.map("where", negative, 0.0, float(a.ignore_label)))
    mask = ir.expand(ir.reshape(positive, (batch, n, 1)), (batch, n, 4))
    moves = ir.map("where", mask, _moves(anchor, ir.slice(chosen, (0, 0, 1), (batch, n, 4)), a), 0)
    return ir.reshape(moves, (batch, 4 * n)), ir.cast(ir.reshape(mask, (batch, 4 * n)),
                                                      anchor.dtype), ir.cast(cls, anchor.dtype)


def _until_end(valid: Node) -> Node:
    """Truth values along the last axis up to the first false one."""
    m = valid.shape[1]
    before = ir.map("le", ir.reshape(ir.iota(m), (1, m)), ir.reshape(ir.iota(m), (m, 1)))         # [i, j]: j up to i
    all_before = ir.map("where", before, ir.reshape(ir.cast(valid, dt.int32), (valid.shape[0], 1, m)), 1)
    return ir.map("gt", ir.reduce("min", all_before, (2,)), 0)


def _moves(anchor: Node, truth: Node, a: Attrs) -> Node:
    own, to = to_center(anchor), to_center(truth)
    parts = [(_column(to, k) - _column(own, k)) / _column(own, k + 2) / a.variances[k] for k in (0, 1)]
    parts += [ir.map("log", _column(to, k) / _column(own, k)) / a.variances[k] for k in (2, 3)]
    return ir.concat(parts, -1)


def _negatives(positive: Node, best: Node, cls_pred: Node, a: Attrs) -> Node:
    """Which anchors are background."""
    other = ir.map("logical_not", positive)
    if a.negative_mining_ratio <= 0:
        return other
    batch, _, n = cls_pred.shape
    free = ir.map("logical_and", other, ir.map("lt", best, a.negative_mining_thresh))
    most = ir.reduce("max", cls_pred, (1,), keepdims=True)
    powers = ir.map("exp", cls_pred - most)
    background = ir.reshape(ir.slice(powers, (0, 0, 0), (batch, 1, n)), (batch, n)) / ir.reduce("sum", powers, (1,))
    # least like background first
    order = ir.argsort(ir.map("where", free, background, float("inf")))
    rank = ir.argsort(order)
    count = ir.reduce("sum", ir.cast(positive, dt.int64), (1,), keepdims=True)
    wanted = ir.map("minimum", ir.cast(ir.cast(count, dt.float32) * a.negative_mining_ratio, dt.int64), n - count)
    return ir.map("logical_and", free, ir.map("lt", rank, wanted))


@op("_contrib_MultiBoxDetection", "cls_prob loc_pred anchor", mx=("contrib.MultiBoxDetection",),
    json=("_npx_multibox_detection",), npx=("multibox_detection",),
    clip=Bool(True), threshold=Float(0.01), background_id=Int(0), nms_threshold=Float(0.5), force_suppress=Bool(False),
    variances=Floats(_VARIANCES), nms_topk=Int(-1))
def multibox_detection(cls_prob: Node, loc_pred: Node, anchor: Node, a: Attrs) -> Node:
    """Detections (B, N, 6: class, score, box) in order of score from probabilities (B, classes + 1, N), moves (B, 4 N)
    and anchors (1, N, 4). A suppressed detection has class -1; what is no detection is -1 altogether. No gradient."""
    n = _check_anchors(anchor)
    if (cls_prob.ndim != 3 or cls_prob.shape[2] != n or cls_prob.shape[1] < 2
        or loc_pred.shape != (cls_prob.shape[0], 4 * n) or len(a.variances) != 4):
        raise ShapeError(f"cls_prob must be (B, classes + 1, {n}), loc_pred (B, {4 * n}) and variances four numbers, "
                         f"got {cls_prob.shape}, {loc_pred.shape}, {a.variances}")
    batch, classes = cls_prob.shape[:2]
    prob = ir.slice(ir.detach(cls_prob), (0, 1, 0), (batch, classes - 1, n))
    score, cls = ir.reduce("max", prob, (1,)), ir.cast(ir.argreduce("argmax", prob, 1), cls_prob.dtype)
    valid = ir.map("ge", score, a.threshold)
    box = _decoded(ir.reshape(ir.detach(loc_pred), (batch, n, 4)), ir.detach(anchor), a)
    # else MXNet leaves the detections in the order of their anchors
    suppress = 0 < a.nms_threshold <= 1
    limit = n if a.nms_topk < 0 else smaller(a.nms_topk, n)
    order = ir.argsort(ir.map("where", valid, ir.map("mul", score, 1.0 if suppress else 0.0), -1.0), True)
    if suppress and limit < n:                             # beyond the topk too
        order = ir.map("where", ir.map("lt", ir.iota(n), limit), order, ir.argsort(ir.cast(valid, dt.float32), True))
    rows = _at(ir.concat([ir.reshape(cls, (batch, n, 1)), ir.reshape(score, (batch, n, 1)), box], -1), order)
    valid = along(ir.cast(valid, cls_prob.dtype), order)
    keep = valid
    if suppress:
        # suppressed where the overlap reaches the threshold
        least = float(np.nextafter(np.float32(a.nms_threshold), np.float32(0)))
        kind = ir.reshape(_column(rows, 0), (batch, n))
        keep = ir.rows("nms", (ir.slice(rows, (0, 0, 2), (batch, n, 4)), kind, valid), (limit, a.force_suppress, least))
    rows = ir.map("where", ir.reshape(ir.map("ne", valid, 0), (batch, n, 1)), rows, -1)
    first = ir.map("where", ir.reshape(ir.map("ne", keep, 0), (batch, n, 1)), ir.slice(rows, (0, 0, 0), (batch, n, 1)),
                   -1)
    return ir.concat([first, ir.slice(rows, (0, 0, 1), (batch, n, 5))], -1)


def _decoded(moves: Node, anchor: Node, a: Attrs) -> Node:
    own = to_center(anchor)
    centre = [_column(moves, k) * a.variances[k] * _column(own, k + 2) + _column(own, k) for k in (0, 1)]
    half = [ir.map("exp", _column(moves, k) * a.variances[k]) * _column(own, k) * 0.5 for k in (2, 3)]
    box = ir.concat([centre[0] - half[0], centre[1] - half[1], centre[0] + half[0], centre[1] + half[1]], -1)
    return ir.map("minimum", ir.map("maximum", box, 0), 1) if a.clip else box
