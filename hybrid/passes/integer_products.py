"""Products of small integers in floating point, where that is exact: multipliers are of floats, and every sum along the
way is an integer that the type holds (2^24 in float32, 2^53 in float64), so that the order of the sums and fused
rounding change nothing.

Quantized networks are such products: int8 times int8 is at most 2^14, which 1024 times is 2^24.
"""
from __future__ import annotations

import numpy as np

from .. import ir
from ..ir import Node
from ..ir.access import depth_of

_MOVES = ("reshape", "permute", "expand", "slice", "window")
_HOLD = ((np.dtype(np.float32), 1 << 24), (np.dtype(np.float64), 1 << 53))


def in_floats(n: Node) -> Node | None:
    """The product in the smallest type that is exact, and back; None where there is none."""
    if n.dtype.kind not in "iu" or not n.size:
        return None
    a, b = n.args
    most = depth_of(n) * _magnitude(a) * _magnitude(b)
    wide = next((t for t, held in _HOLD if most <= held), None)
    if wide is None:
        return None
    exact = ir.dot(_narrow(a, wide), _narrow(b, wide), n.attrs["contract"], n.attrs["batch"])
    # what does not fit wraps around, as its sums would have
    return ir.cast(ir.cast(exact, np.int32 if most < 1 << 31 else np.int64), n.dtype)


def _inner(x: Node) -> Node | None:
    """What x is a cast of, where that changed no number: not a negative one made unsigned, nor one cut to fewer
    bits."""
    return (x.args[0] if x.prim == "cast" and x.args[0].dtype.kind in "biu" and np.can_cast(x.args[0].dtype, x.dtype)
            else None)


def _magnitude(x: Node) -> int:
    """What no element's magnitude exceeds."""
    inner = x.args[0] if x.prim in _MOVES else _inner(x)
    if inner is not None:
        return _magnitude(inner)
    return 1 if x.dtype.kind == "b" else 1 << (8 * x.dtype.itemsize - (x.dtype.kind == "i"))


def _narrow(x: Node, wide: np.dtype) -> Node:
    """x in another type, without the integer type between."""
    inner = _inner(x)
    return ir.cast(x if inner is None else inner, wide)
