"""What sums over the ranks agree on wherever the arrays lie: the dtype that is sent, and how parts are added up."""
from __future__ import annotations

import operator
from typing import Any, Callable

import numpy as np

from ..base import dtype as dt


COMBINED: dict[str, Callable[..., Any]] = {"sum": operator.iadd, "product": operator.imul, "min": np.minimum,
                                           "max": np.maximum}


def sent_dtype(dtype: np.dtype, wire: np.dtype | None) -> np.dtype:
    """The dtype in which an array is sent: ``wire`` where that is narrower, and the array one of floating numbers."""
    return wire if wire is not None and dt.is_float(dtype) and wire.itemsize < dtype.itemsize else dtype


def in_one_call(dtype: np.dtype, sent: np.dtype, deterministic: bool, how: str = "sum") -> bool:
    """Whether MPI or NCCL may add up an array by itself: in any order, and in the array's own dtype."""
    return how == "sum" and sent == dtype and not deterministic and not dt.is_half(dtype)


def total_of(parts: Any, how: str = "sum") -> Any:
    """The sum of arrays (NumPy's or CuPy's) of all ranks in their order, in their dtype: added up in float32, or in
    their dtype if that is wider. how: ``sum``, or another way to make one of them (COMBINED)."""
    wide = np.dtype(np.float32) if dt.is_half(parts.dtype) else parts.dtype
    total = parts[0].astype(wide)
    for part in parts[1:]:
        total = COMBINED[how](total, part.astype(wide, copy=False))
    return total.astype(parts.dtype, copy=False)
