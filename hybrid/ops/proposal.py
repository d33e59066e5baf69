"""Region proposals of a region proposal network: Ren et al., "Faster R-CNN" (2015)."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .order import along
from .registry import Bool, Float, Floats, Int, op


def anchors_of(stride: int, ratios: tuple[float, ...], scales: tuple[float, ...]) -> np.ndarray:
    """The boxes (ratios * scales, 4) around one place, of stride² pixels times scale², in whole pixels."""
    middle = 0.5 * (stride - 1)
    boxes = []
    for ratio in ratios:
        side = math.floor(math.sqrt(math.floor(stride * stride / ratio)) + 0.5)
        for scale in scales:
            w, h = side * scale, math.floor(side * ratio + 0.5) * scale
            boxes.append([middle - 0.5 * (w - 1), middle - 0.5 * (h - 1), middle + 0.5 * (w - 1),
                          middle + 0.5 * (h - 1)])
    return np.array(boxes, np.float32)


def _moved(anchors: Node, moves: Node, plain: bool) -> list[Node]:
    """Corners of the boxes (each (N, boxes)) that anchors become by the network's moves (N, boxes, 4)."""
    def column(x: Node, k: int) -> Node:
        return ir.reshape(ir.slice(x, (0,) * (x.ndim - 1) + (k,), (*x.shape[:-1], 1)), x.shape[:-1])
    left, top, right, bottom = (column(anchors, k) for k in range(4))
    d = [column(moves, k) for k in range(4)]
    if plain:
        return [left + d[0], top + d[1], right + d[2], bottom + d[3]]
    w, h = right - left + 1.0, bottom - top + 1.0
    x, y = d[0] * w + (left + (w - 1.0) * 0.5), d[1] * h + (top + (h - 1.0) * 0.5)
    half_w, half_h = (ir.map("exp", d[2]) * w - 1.0) * 0.5, (ir.map("exp", d[3]) * h - 1.0) * 0.5
    return [x - half_w, y - half_h, x + half_w, y + half_h]


def _propose(cls_prob: Node, bbox_pred: Node, im_info: Node, a: Attrs) -> tuple[Node, Node]:
    base = anchors_of(a.feature_stride, a.ratios, a.scales)
    kinds = len(base)
    if cls_prob.ndim != 4 or cls_prob.shape[1] != 2 * kinds:
        raise ShapeError(f"cls_prob must be (N, {2 * kinds}, H, W) for {kinds} anchors a place, got {cls_prob.shape}")
    n, _, h, w = cls_prob.shape
    if bbox_pred.shape != (n, 4 * kinds, h, w) or im_info.shape != (n, 3):
        raise ShapeError(f"bbox_pred must be {(n, 4 * kinds, h, w)} and im_info {(n, 3)}, got {bbox_pred.shape} and "
                         f"{im_info.shape}")
    rows, columns = (np.arange(m, dtype=np.float32) * a.feature_stride for m in (h, w))
    shift = np.zeros((h, w, 1, 4), np.float32)
    shift[..., 0::2], shift[..., 1::2] = columns[None, :, None, None], rows[:, None, None, None]
    count = h * w * kinds
    anchors = ir.data((shift + base).reshape(1, count, 4))
    moves = ir.reshape(ir.permute(ir.reshape(bbox_pred, (n, kinds, 4, h, w)), (0, 3, 4, 1, 2)), (n, count, 4))
    score = ir.reshape(ir.permute(ir.slice(cls_prob, (0, kinds, 0, 0), (n, kinds, h, w)), (0, 2, 3, 1)), (n, count))
    height, width, scale = (ir.slice(im_info, (0, k), (n, 1)) for k in range(3))
    box = _moved(anchors, moves, a.iou_loss)
    box = [ir.map("maximum", ir.map("minimum", x, limit - 1.0), 0)
           for x, limit in zip(box, (width, height, width, height))]
    # places beyond the image, which was padded, and boxes that are too small come last
    row = ir.data(np.repeat(np.arange(h, dtype=np.float32), w * kinds)[None])
    column = ir.data(np.tile(np.repeat(np.arange(w, dtype=np.float32), kinds), h)[None])
    beyond = ir.map("logical_or", ir.map("ge", row, ir.map("floor", height / a.feature_stride)),
                    ir.map("ge", column, ir.map("floor", width / a.feature_stride)))
    least = scale * float(a.rpn_min_size)
    small = ir.map("logical_or", ir.map("lt", box[2] - box[0] + 1.0, least), ir.map("lt", box[3] - box[1] + 1.0, least))
    half = least * 0.5
    box = [ir.map("where", small, x - half if k < 2 else x + half, x) for k, x in enumerate(box)]
    return ir.concat([ir.reshape(x, (n, count, 1)) for x in box],
                     -1), ir.map("where", ir.map("logical_or", beyond, small), -1.0, score)


def _selected(boxes: Node, score: Node, a: Attrs) -> tuple[Node, Node]:
    """The best boxes that overlap no better one: (N, rpn_post_nms_top_n, 4) and their scores; where they are fewer they
    are repeated."""
    n, count = score.shape
    before = min(a.rpn_pre_nms_top_n, count) if a.rpn_pre_nms_top_n > 0 else count
    after = a.rpn_post_nms_top_n
    order = ir.slice(ir.argsort(score, True), (0, 0), (n, before))
    at = order + ir.reshape(ir.iota(n) * count, (n, 1))
    best = ir.gather(ir.reshape(boxes, (-1, 4)), at)
    score = along(score, order)
    # a box of pixels from x1 to x2 is x2 - x1 + 1 wide: the kernel, which knows no pixels, gets the far corners one
    # further
    wide = ir.concat([ir.slice(best, (0, 0, 0), (n, before, 2)), ir.slice(best, (0, 0, 2), (n, before, 2)) + 1.0], -1)
    keep = ir.rows("nms", (wide, ir.full(0, (n, before), score.dtype), ir.full(1, (n, before), score.dtype)),
                   (before, True, a.threshold))
    first = ir.argsort(keep, True)
    held = ir.map("minimum", ir.reduce("sum", ir.cast(ir.map("ne", keep, 0), np.int64), (1,), True), min(after, before))
    place = ir.reshape(ir.iota(after), (1, after))
    chosen = along(first, ir.map("mod", place, ir.map("maximum", held, 1)))
    rows = ir.gather(ir.reshape(best, (-1, 4)), chosen + ir.reshape(ir.iota(n) * before, (n, 1)))
    return rows, along(score, chosen)


def _proposals(cls_prob: Node, bbox_pred: Node, im_info: Node, a: Attrs) -> tuple[Node, Node]:
    if a.rpn_post_nms_top_n < 1:
        raise ShapeError(f"rpn_post_nms_top_n={a.rpn_post_nms_top_n} must be at least 1")
    boxes, score = _selected(*_propose(ir.detach(cls_prob), ir.detach(bbox_pred), ir.detach(im_info), a), a)
    n, m = score.shape
    batch = ir.expand(ir.cast(ir.reshape(ir.iota(n), (n, 1, 1)), boxes.dtype), (n, m, 1))
    return ir.reshape(ir.concat([batch, boxes], -1), (n * m, 5)), ir.reshape(score, (n * m, 1))


_ATTRS: dict[str, Any] = {"rpn_pre_nms_top_n": Int(6000), "rpn_post_nms_top_n": Int(300), "threshold": Float(0.7),
                          "rpn_min_size": Int(16),
                          "scales": Floats((4.0, 8.0, 16.0, 32.0)), "ratios": Floats((0.5, 1.0, 2.0)),
                          "feature_stride": Int(16),
                          "output_score": Bool(False), "iou_loss": Bool(False)}


def _visible(a: Attrs) -> int:
    return 2 if a.output_score else 1


@op("_contrib_Proposal", "cls_prob bbox_pred im_info", mx=("contrib.Proposal",), outputs=lambda a: 2, visible=_visible,
    **_ATTRS)
def proposal(cls_prob: Node, bbox_pred: Node, im_info: Node, a: Attrs) -> tuple[Node, Node]:
    """Proposals for one picture: (rpn_post_nms_top_n, 5) of batch number and corners, best first; with output_score
    also their scores. cls_prob (1, 2 * anchors, H, W), bbox_pred (1, 4 * anchors, H, W), im_info (1, 3): height, width,
    scale."""
    if cls_prob.ndim and cls_prob.shape[0] != 1:
        raise ShapeError(f"Proposal takes one picture, got {cls_prob.shape[0]}: use MultiProposal")
    return _proposals(cls_prob, bbox_pred, im_info, a)


@op("_contrib_MultiProposal", "cls_prob bbox_pred im_info", mx=("contrib.MultiProposal",), outputs=lambda a: 2,
    visible=_visible, **_ATTRS)
def multi_proposal(cls_prob: Node, bbox_pred: Node, im_info: Node, a: Attrs) -> tuple[Node, Node]:
    """Proposal for several pictures: (N * rpn_post_nms_top_n, 5)."""
    return _proposals(cls_prob, bbox_pred, im_info, a)
