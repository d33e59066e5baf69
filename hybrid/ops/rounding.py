"""Numbers rounded to integers and to decimals, as MXNet and as NumPy do it."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..ir import Node
from ..ir.quiet import silently
from .attributes import Attrs
from .registry import Int, op


@op("_npi_rint", "data", np=("rint",))
def np_rint(data: Node, a: Attrs) -> Node:
    """The nearest integer; halves to the even one, as in NumPy."""
    return ir.map("rint", data)


def _rint_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    x = arrays[0]
    if x.dtype not in (dt.float16, dt.float32, dt.float64):
        return None
    wide = x.astype(dt.float32) if x.dtype == dt.float16 else x
    out = xp.rint(wide)
    if xp is np and x.ndim:
        _to_lower(out.reshape(-1), wide.reshape(-1))
    else:
        out = out - (out - wide == 0.5)
    return [out.astype(x.dtype, copy=False)]


_PIECE = 1 << 15                     # elements of which differences are made at a time: they stay in cache


@silently
def _to_lower(out: np.ndarray, x: np.ndarray) -> None:
    """Numbers rounded to even where x is in the middle, to the lower ones there."""
    n = min(out.size, _PIECE)
    gap, above = np.empty(n, out.dtype), np.empty(n, bool)
    for start in range(0, out.size, _PIECE):
        part = out[start:start + _PIECE]
        found = above[:part.size]
        np.equal(np.subtract(part, x[start:start + _PIECE], out=gap[:part.size]), 0.5, out=found)
        if found.any():
            part -= found


@op("rint", "data", eager=_rint_eager, same_bits="lower rint")
def rint(data: Node, a: Attrs) -> Node:
    """The nearest integer; halves to the lower one, as in MXNet: 1.5 to 1, -1.5 to -2."""
    if not dt.is_float(data.dtype):
        return ir.map("rint", data)
    even = ir.map("rint", data)                              # of halves this one may be above
    return even - ir.cast(ir.map("eq", even - data, 0.5), data.dtype)


@op("_npi_around", "data", np=("around", "round"), decimals=Int(0))
def around(data: Node, a: Attrs) -> Node:
    """Rounded to so many decimals, halves to even."""
    if not dt.is_float(data.dtype):
        return data if a.decimals >= 0 else ir.cast(around(ir.cast(data, dt.float64), decimals=a.decimals), data.dtype)
    if not a.decimals:
        return ir.map("rint", data)
    scale = 10.0 ** abs(a.decimals)
    return ir.map("rint", data * scale) / scale if a.decimals > 0 else ir.map("rint", data / scale) * scale
