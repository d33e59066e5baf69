"""More rows for record_ops.py: sorting and the largest elements."""
from __future__ import annotations

from cases import arr, case, f, i

ties = arr([[3, 1, 3, 2, 1], [2, 2, 2, 0, 5]])
for kind in ("value", "indices", "mask", "both"):
    case("topk", [f(3, 5)], k=2, ret_typ=kind, _grad=[0] if kind in ("value", "both") else [])
    case("topk", [f(3, 5)], k=3, ret_typ=kind, axis=0, is_ascend=True, _grad=[])
    case("topk", [f(2, 3, 4)], k=2, ret_typ=kind, axis=1, _grad=[0] if kind == "value" else [])
    case("topk", [ties], k=4, ret_typ=kind, _grad=[])
    case("topk", [f(3, 5)], k=4, ret_typ=kind, axis=None, _grad=[])
    case("topk", [i(3, 5)], k=0, ret_typ=kind, _grad=[])
case("topk", [f(3, 5)], k=2, dtype="int32", _grad=[])
case("topk", [f(3, 5, dtype="float64")], k=2, ret_typ="both", dtype="int64", _grad=[])
case("topk", [i(4, 5, dtype="int64")], k=2, ret_typ="value", is_ascend=True)
for up in (True, False):
    for axis in (-1, 0, 1, None):
        case("sort", [f(2, 3, 4)], axis=axis, is_ascend=up)
        case("argsort", [f(2, 3, 4)], axis=axis, is_ascend=up, _grad=[])
    case("argsort", [ties], is_ascend=up, _grad=[])
    case("sort", [i(3, 4)], is_ascend=up)
case("argsort", [f(3, 4)], dtype="int32", _grad=[])
case("argsort", [i(3, 4, dtype="uint8", low=0)], _grad=[])
