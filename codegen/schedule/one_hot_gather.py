"""Sums that are one element: sum over an axis of where(place == i, x, 0), as ``pick`` and ``gather`` along an axis are
said, reads x at i alone."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Val, Var, var, variables
from hybrid.ir.stmt import Name, Op
from hybrid.ir.pattern import constant

if TYPE_CHECKING:
    from hybrid.codegen.emit import Block, Emitter


def picked(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str | None:
    """The sum's name, its statements in ``block``, which has the sum's index; None for other reductions."""
    if n.prim != "reduce" or n.attrs["op"] != "sum" or len(n.attrs["axes"]) != 1:
        return None
    chosen, axis = n.args[0], n.attrs["axes"][0]
    if chosen.fn != "where" or constant(chosen.args[2]) != 0 or chosen.args[0].fn != "eq":
        return None
    if any(m in e.stored or m in e.given or m in e.extra for m in (chosen, chosen.args[0])):
        return None
    r = Var(e.name("r"), chosen.shape[axis])
    full = (*idx[:axis], var(r), *idx[axis:])
    for place, wanted in (chosen.args[0].args, chosen.args[0].args[::-1]):
        iota, at = e.source(place, full)
        if (iota.prim == "iota" and at == (var(r),) and wanted.dtype.kind in "iu"
            and not any(r in variables(i) for i in e.source(wanted, full)[1])):
            i = e.value(wanted, full, block, guard)
            v = Val(e.let(block, iota.dtype, Op(f"hy_clamp({{0}}, {max(r.extent - 1, 0)})", (i,)), "g"),
                    max(r.extent, 2))
            block.vars = block.vars | {v}
            value = e.value(chosen.args[1], (*idx[:axis], var(v), *idx[axis:]), block, guard)
            return e.let(block, n.dtype, Op("{0} == {1} ? {2} : 0", (i, Name(v.name), value)))
    return None
