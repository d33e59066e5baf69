"""Products of half types with parameters, as products of float32 rounded to halves: their sums are of float32 in any
case, and float32 has the packed forms (layout.py). The parameters are converted beforehand, once. Pools of halves are
those of float32, too, which have forms of their own; what precedes them then stores float32.
"""
from __future__ import annotations

from ..base import dtype as dt
from .. import ir
from ..ir import Node, Program
from ..ir.access import MOVEMENT, beneath, depth_of
from .frozen import Frozen
from .layout import LEAST_WORK, MOST_BYTES
from .rewrite import rebuild, rewrite


def _cast(x: Node) -> Node:
    """x in float32, converted before its elements are moved: some are then there several times."""
    return rebuild(x, [_cast(x.args[0])]) if x.prim in MOVEMENT else ir.cast(x, dt.float32)


def wide_pool(n: Node) -> Node | None:
    """A pool of computed halves; one of halves in memory reads them as they are."""
    win = n.args[0]
    if not dt.is_half(n.dtype) or n.attrs["op"] not in ("max", "sum") or win.prim != "window":
        return None
    if beneath(win, MOVEMENT).prim in ("input", "const", "data"):
        return None
    return ir.cast(ir.reduce(n.attrs["op"], _cast(win), n.attrs["axes"]), n.dtype)


def wide_products(program: Program, frozen: frozenset[int]) -> Program:
    """The program, with such products and pools. frozen: slots of the parameters."""
    if not any(n.prim == "dot" and dt.is_half(n.dtype) for n in program.order()):
        return program
    lasts = Frozen(program, frozen)

    def wide(n: Node) -> Node | None:
        if not dt.is_half(n.dtype) or lasts(n.args[0]) == lasts(n.args[1]):
            return None
        matrix = next(a for a in n.args if lasts(a))
        if n.size * depth_of(n) < LEAST_WORK >> 4 or matrix.size * 4 > MOST_BYTES:
            return None
        a, b = map(_cast, n.args)
        return ir.cast(ir.dot(a, b, n.attrs["contract"], n.attrs["batch"]), n.dtype)

    def outward(n: Node) -> Node | None:
        """Move a permute or reshape of a product below its rounding (wide_halves.py says why)."""
        y = n.args[0]
        if (y.prim != "cast" or not dt.is_half(y.dtype) or y.args[0].prim not in ("dot", "permute")
            or y.args[0].dtype != dt.float32):
            return None
        return ir.cast(rebuild(n, [y.args[0]]), n.dtype)
    return program.with_roots(rewrite(program.roots, {"dot": (wide,), "permute": (outward,), "reshape": (outward,),
                                                      "reduce": (wide_pool,)}))
