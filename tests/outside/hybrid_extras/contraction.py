"""An operator that is a contraction: a product of each row with a matrix of its group."""
from __future__ import annotations

from typing import Any

from hybrid import ir
from hybrid.ops.registry import op


@op("grouped_dense", "data weight")
def grouped_dense(data: Any, weight: Any, a: Any) -> Any:
    """data (batch, groups, k) times weight (groups, k, n), a matrix a group: (batch, groups, n)."""
    out = ir.dot(data, weight, ((2,), (1,)), ((1,), (0,)))
    return ir.permute(out, (1, 0, 2))
