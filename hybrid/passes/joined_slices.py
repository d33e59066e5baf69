"""A sum of zero-padded slices that are adjacent and fill the axis becomes one concatenation. Such a sum is the gradient
of a value that is sliced into parts (queries, keys and values of one product); products that read it would otherwise
compute it again and again.
"""
from __future__ import annotations

from typing import Sequence

from .. import ir
from ..ir import Node, Program
from ..ir.access import MOVEMENT, beneath
from ..ir.size import fixed
from .rewrite import rewrite

MOVED = MOVEMENT - {"pad"} | {"cast"}     # what may stand between such a sum and a product
MOST = 64                       # slices of a sum, at most


def _slices(n: Node) -> list[Node] | None:
    """The terms of a sum if each is a zero-padded value; None where one is not, or there are more than ``MOST``."""
    out: list[Node] = []
    todo = [n]
    while todo:
        m = todo.pop()
        if m.fn == "add":
            todo += m.args
        elif m.prim != "pad" or m.attrs["value"] != 0 or len(out) == MOST:
            return None
        else:
            out.append(m)
    return out


def joined(n: Node) -> Node | None:
    """A sum of zero-padded slices that fill one axis, as their concatenation; None for other nodes."""
    if n.fn != "add" or not any(a.prim == "pad" for a in n.args) or (found := _slices(n)) is None:
        return None
    cut = {a for p in found for a in range(n.ndim) if p.attrs["lo"][a] or p.attrs["hi"][a]}
    if len(cut) != 1 or not fixed(n.shape[axis := cut.pop()]):
        return None
    found.sort(key=lambda p: p.attrs["lo"][axis])
    return ir.concat([p.args[0] for p in found], axis) if _fill(found, axis) else None


def _fill(slices: Sequence[Node], axis: int) -> bool:
    """Whether each slice begins where the one before it ends, the last one at the end of the axis."""
    end = 0
    for p in slices:
        if p.attrs["lo"][axis] != end or not fixed(p.args[0].shape[axis]):
            return False
        end += p.args[0].shape[axis]
    return end == slices[0].shape[axis]


def joined_slices(program: Program) -> Program:
    """The program with such sums where a product reads them."""
    read = {a for n in program.order() if n.prim == "dot" for a in (beneath(a, MOVED) for a in n.args) if a.fn == "add"}
    return program.with_roots(rewrite(program.roots, {"map": (joined,)})) if any(map(joined, read)) else program
