"""Reductions whose results lie in lanes: each lane has a sum, product, largest or least element, or a place of its
own."""
from __future__ import annotations

import math

from typing import TYPE_CHECKING

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix
from hybrid.ir.reductions import REDUCTIONS
from hybrid.ir.stmt import COPIED, Assign, Expr, Let, Literal, Name, Op, Scope, Stmt
from hybrid.ir.size import may_exceed

from . import partial_sums
from .block import chain, loop
from .emit import Block, Reduction, identity, plan_reduction, serial_reduce, try_merged
from .lanes import Refused

if TYPE_CHECKING:
    from .vector import VectorEmitter

TAPS = 32                       # elements up to which a search is written out


def planned(e: VectorEmitter, n: Node, idx: Index, guard: Guard, block: Block) -> Reduction:
    """The reduction, its axes one loop where that takes no divisions; tried by an emitter of plain loops."""
    e.reducer, own = serial_reduce, e.reducer
    merged = try_merged(e, n, idx, guard, block)
    e.reducer = own
    return plan_reduction(e, n, idx, guard, merged)


def vector_step(op: str) -> str:
    """The template of a reduction's step on vectors of float32; Refused where it has none."""
    if not REDUCTIONS[op].vector:
        raise Refused(f"the reduction {op} has no vector form")
    return REDUCTIONS[op].vector


def reduce_lanes(e: VectorEmitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """A reduction whose results lie in lanes: its loops stay loops, the sums are vectors."""
    e._uniform(guard)
    vector_step(n.attrs["op"])
    r = planned(e, n, idx, guard, block)
    acc = Name(e.name("a") + COPIED)
    e.kind[acc] = "v"
    block.body.append(Let("hy_v", acc, Op("HYV_B({0})", (identity(e, r.op, r.dtype),))))
    blocks = chain(r.loops, block)
    inner = blocks[-1]
    value = e.floats(r.element(inner))
    inner.body.append(Assign(acc, value, {"sum": "+=", "prod": "*="}[r.op]) if r.op in ("sum", "prod") else
                      Assign(acc, Op(vector_step(r.op), (acc, value))))
    count = math.prod(v.extent for v in r.loops)
    flush: list[Stmt] = []
    end: list[Stmt] = []
    if partial_sums.in_blocks(r.op, r.dtype, count):
        begin, flushed, last = partial_sums.vector_total(acc, acc[:-1], count)
        block.body += begin
        flush, end = [flushed], [last]
    block.body += partial_sums.nest(r.loops, [b.body for b in blocks[1:]], 1, flush)
    block.body += end
    return e.near(n, acc, block) if is_half(n.dtype) else acc


def arg_lanes(e: VectorEmitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """The place of the first largest or least element, in each lane; NaN counts as both."""
    e._uniform(guard)
    x, axis = n.args[0], n.attrs["axis"]
    if not e.holds(x.dtype):
        raise Refused("a search of other types")
    best, where = Name(e.name("a") + COPIED), Name(e.name("w") + COPIED)
    e.kind[where] = "i"
    worst = Op("HYV_B({0})", (identity(e, n.attrs["op"][3:], e.type),))
    if may_exceed(x.shape[axis], TAPS):
        r = planned(e, n, idx, guard, block)
        (v,) = r.loops
        inner = block.child([v])
        value = e.floats(r.element(inner))
        found = better(n, best, where, value, Op("HYV_IB((int)({0}))", (r.position or Ix(),)))
        block.body += [Let("hy_v", best, worst), Let("hy_vi", where, Literal("{0}")), loop(v, [*inner.body, found])]
        return where
    spots = [(*idx[:axis], Ix(i), *idx[axis:]) for i in range(x.shape[axis])]
    values = [e.floats(e.value(x, at, block, guard)) for at in spots]
    block.body += [Let("hy_v", best, values[0]), Let("hy_vi", where, Literal("{0}"))]
    block.body += [better(n, best, where, v, Op("HYV_IB({0})", (Ix(i),))) for i, v in enumerate(values[1:], 1)]
    return where


def better(n: Node, best: Name, where: Name, value: Expr, place: Expr) -> Stmt:
    """A statement of a search: values that are beyond the best so far, or the first that is no number, with their
    places."""
    beyond = "LE" if n.attrs["op"] == "argmax" else "GE"
    x, m = Name("x_"), Name("m_")
    found = Op(f"(hy_m)(HYV_NOT(HYV_{beyond}({{0}}, {{1}})) & HYV_EQ({{1}}, {{1}}))", (x, best))
    return Scope((Let("hy_v", x, value, True), Let("hy_m", m, found, True),
                  Assign(best, Op("HYV_SELECT({0}, {1}, {2})", (m, x, best))),
                  Assign(where, Op("HYV_BITS(HYV_SELECT({0}, HYV_FLOAT({1}), HYV_FLOAT({2})))", (m, place, where)))))
