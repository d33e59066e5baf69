"""A reduction, the Euclidean length, and its operator."""
from __future__ import annotations

from typing import Any

from hybrid import ir
from hybrid.ops.registry import Int, op

ir.register_reduction(ir.Reduction("length", "hypot", lambda dtype: 0, lambda g, y, x, axes: g * x / y))


@op("vector_length", "data", axis=Int(-1))
def vector_length(data: Any, a: Any) -> Any:
    """The Euclidean length along an axis; no square overflows on the way."""
    return ir.reduce("length", data, (a.axis,))
