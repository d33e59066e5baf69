"""The table of reductions: each an associative scalar function with its identity. A row says everything about one.

A further one, from outside::

    register_reduction(Reduction("norm", "hypot", lambda dtype: 0, lambda g, y, x, axes: g * x / y))
    length = ir.reduce("norm", x, (1,))
"""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ..base import dtype as dt
from ..base.records import dataclass
from .scalar import SCALARS


@dataclass(frozen=True)
class Reduction:
    """A reduction.

    fn: the scalar function that joins two values (scalar.py), associative. identity: the value that changes no other,
    for a dtype; what an empty reduction gives. vjp: the gradient for the elements ``x``, from that of the result and
    the result, both in the shape of ``x``, and the axes; None: it has none. vector: its step on vectors
    (kernels/c/vector.h); without one, plain loops compute it. own: NumPy has a function of its name that reduces so.
    """
    name: str
    fn: str
    identity: Callable[[np.dtype], Any]
    vjp: Callable[..., Any] | None
    vector: str = ""
    own: bool = False

    def numpy(self, xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
        """The reduction of an array, in halves: each element of one half is joined with one of the other."""
        keep = [a for a in range(x.ndim) if a not in axes]
        x = xp.transpose(x, (*axes, *keep)).reshape(-1, *(x.shape[a] for a in keep))
        if not len(x):
            return xp.full(x.shape[1:], self.identity(x.dtype), x.dtype)
        while len(x) > 1:
            half = len(x) // 2
            joined = SCALARS[self.fn].np(xp, x[:half], x[half:2 * half])
            x = xp.concatenate([joined, x[2 * half:]])
        return x[0]


REDUCTIONS: dict[str, Reduction] = {}


def register_reduction(row: Reduction) -> Reduction:
    """Add a row. A name that is taken, or a function that is not in the table of scalar functions, is an error."""
    if row.name in REDUCTIONS:
        raise ValueError(f"reduction {row.name!r} is in the table already")
    if row.fn not in SCALARS or SCALARS[row.fn].arity != 2:
        raise ValueError(f"reduction {row.name!r}: {row.fn!r} is no scalar function of two values")
    REDUCTIONS[row.name] = row
    return row


def reduce_identity(op: str, dtype: np.dtype) -> Any:
    """The value that leaves a reduction unchanged; what an empty reduction gives."""
    return REDUCTIONS[op].identity(dtype)


def _least(dtype: np.dtype) -> Any:
    return False if dtype == np.bool_ else -np.inf if dt.is_float(dtype) else np.iinfo(dtype).min


def _most(dtype: np.dtype) -> Any:
    return True if dtype == np.bool_ else np.inf if dt.is_float(dtype) else np.iinfo(dtype).max


# gradients of these four stand in vjp.py, which builds them of nodes
register_reduction(Reduction("sum", "add", lambda dtype: 0, None, "({0} + {1})", True))
register_reduction(Reduction("prod", "mul", lambda dtype: 1, None, "({0} * {1})", True))
register_reduction(Reduction("max", "maximum", _least, None, "HYV_MAXN({0}, {1})", True))
register_reduction(Reduction("min", "minimum", _most, None, "HYV_MINN({0}, {1})", True))
