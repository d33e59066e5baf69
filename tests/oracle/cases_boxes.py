"""More rows for record_ops.py: boxes, regions, factorisations of matrices."""
from __future__ import annotations

import numpy as np

from cases import arr, case, f

_r = np.random.RandomState(77)


def boxes(*shape):
    """Corners in the unit square, wide enough to overlap."""
    left = _r.uniform(0, 0.6, (*shape, 2))
    return np.concatenate([left, left + _r.uniform(0.2, 0.4, (*shape, 2))], -1).astype("float32")


def detections(n, *lead, classes=3):
    """(…, n, 6): class, score, box."""
    cls = _r.randint(0, classes, (*lead, n, 1))
    score = _r.permutation(n * int(np.prod(lead, dtype=int))).reshape(*lead, n, 1) / 40
    return np.concatenate([cls, score, boxes(*lead, n)], -1).astype("float32")


def spd(*shape, dtype="float64"):
    """Positive definite matrices."""
    a = _r.uniform(-1, 1, shape)
    return (a @ a.swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


for form in ("corner", "center"):
    case("contrib.box_iou", [boxes(3), boxes(2)], format=form, _grad=[])
case("contrib.box_iou", [boxes(2, 3), boxes(4)], _grad=[])
case("contrib.box_iou", [arr([[0, 0, 1, 1], [2, 2, 1, 1]]), arr([[0.5, 0.5, 2, 2], [3, 3, 3, 3]])], _grad=[])
for options in ({}, {"id_index": 0}, {"id_index": 0, "force_suppress": True}, {"topk": 4}, {"valid_thresh": 0.1},
                {"overlap_thresh": 0.1},
                {"id_index": 0, "background_id": 1},
                {"id_index": 0, "topk": 5, "valid_thresh": 0.05, "overlap_thresh": 0.3}):
    case("contrib.box_nms", [detections(12)], **options)
    case("contrib.box_nms", [detections(8, 2)], **options)
for source, target in (("corner", "center"), ("center", "corner"), ("center", "center")):
    case("contrib.box_nms", [detections(9)], in_format=source, out_format=target, _grad=[])
case("contrib.box_nms", [detections(9)[:, 1:]], coord_start=1, score_index=0)
for options in ({"threshold": 0.1}, {"threshold": 0.6}, {"threshold": 0.1, "topk": 2},
                {"threshold": 0.5, "is_ascend": True}):
    case("contrib.bipartite_matching", [_r.uniform(0, 1, (4, 3)).astype("float32")], _grad=[], **options)
    case("contrib.bipartite_matching", [_r.uniform(0, 1, (2, 3, 5)).astype("float32")], _grad=[], **options)
case("contrib.box_encode", [arr([[1, 0, 1, 1]]), arr([[0, 1, 1, 0]]), boxes(1, 4), boxes(1, 2), arr([0, 0.1, 0, 0.2]),
                            arr([0.1, 0.1, 0.2, 0.2])], _grad=[])
for options in ({}, {"std0": 0.1, "std1": 0.1, "std2": 0.2, "std3": 0.2}, {"format": "corner"}, {"clip": 0.3}):
    case("contrib.box_decode", [f(2, 4, 4), boxes(1, 4)], _grad=[], **options)

# ---- matrices
case("linalg.potrf", [spd(3, 3)])
case("linalg.potrf", [spd(2, 4, 4, dtype="float32")], _tol=1e-4)
case("linalg.potri", [np.linalg.cholesky(spd(3, 3))])
case("linalg.potri", [np.linalg.cholesky(spd(2, 3, 3))])
for lower in (True, False):
    for transpose in (True, False):
        for rightside in (True, False):
            a, b = np.tril(spd(2, 3, 3)), f(2, *((4, 3) if rightside else (3, 4)), dtype="float64")
            case("linalg.trsm", [a if lower else a.swapaxes(1, 2), b], lower=lower, transpose=transpose,
                 rightside=rightside, alpha=1.5)
case("linalg.inverse", [spd(2, 3, 3) + np.triu(np.ones((3, 3)))])
case("linalg.det", [spd(2, 3, 3) - 1.5])
case("linalg.det", [spd(3, 3, dtype="float32")], _tol=1e-4)
case("linalg.slogdet", [spd(2, 3, 3) - 1.5])
case("linalg.syrk", [f(2, 3, 4)], alpha=0.5, transpose=True)
case("linalg.trmm", [np.tril(f(3, 3)), f(3, 2)], alpha=2.0)
