"""Reductions whose results lie in lanes: each lane has a sum, product, greatest or least element, or a place of its
own."""
from __future__ import annotations

import math

from typing import TYPE_CHECKING

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, text

from . import partial_sums
from .emit import Block, Reduction, identity, loop_nest, plan_reduction, serial_reduce, try_merged
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


def reduce_lanes(e: VectorEmitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """A reduction whose results lie in lanes: its loops stay loops, the sums are vectors."""
    e._uniform(guard)
    r = planned(e, n, idx, guard, block)
    acc = e.name("a") + "@"
    e.kind[acc] = "v"
    block.lines.append(f"hy_v {acc} = HYV_B({identity(e, r.op, r.dtype)});")
    inner = block
    for v in r.loops:
        inner = inner.child([v])
    chain = [inner]
    while chain[0].parent is not block:
        chain.insert(0, chain[0].parent)                     # type: ignore[arg-type]
    value = e.floats(r.element(inner))
    inner.lines.append({"sum": f"{acc} += {value};", "prod": f"{acc} *= {value};",
                        "max": f"{acc} = HYV_MAXN({acc}, {value});",
                        "min": f"{acc} = HYV_MINN({acc}, {value});"}[r.op])
    count = math.prod(v.extent for v in r.loops)
    flush: list[str] = []
    if partial_sums.in_blocks(r.op, r.dtype, count):
        begin, *flush, end = partial_sums.vector_total(acc, acc[:-1], count)
        block.lines.append(begin)
    block.lines += partial_sums.nest(r.loops, [b.lines for b in chain], 1, flush)
    if flush:
        block.lines.append(end)
    return e.near(n, acc, block) if is_half(n.dtype) else acc


def arg_lanes(e: VectorEmitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """The place of the first greatest or least element, in each lane; NaN counts as both."""
    e._uniform(guard)
    x, axis = n.args[0], n.attrs["axis"]
    if not e.holds(x.dtype):
        raise Refused("a search of other types")
    best, where = e.name("a") + "@", e.name("w") + "@"
    e.kind[where] = "i"
    if x.shape[axis] > TAPS:
        r = planned(e, n, idx, guard, block)
        (v,) = r.loops
        inner = block.child([v])
        value = e.floats(r.element(inner))
        loop = loop_nest([v], [*inner.lines, better(n, best, where, value,
                                                    f"HYV_IB((int)({text(r.position or Ix())}))")])
        block.lines += [f"hy_v {best} = HYV_B({identity(e, r.op[3:], e.type)});", f"hy_vi {where} = {{0}};", *loop]
        return where
    spots = [(*idx[:axis], Ix(i), *idx[axis:]) for i in range(x.shape[axis])]
    values = [e.floats(e.value(x, at, block, guard)) for at in spots]
    block.lines.append(f"hy_v {best} = {values[0]}; hy_vi {where} = {{0}};")
    block.lines += [better(n, best, where, v, f"HYV_IB({i})") for i, v in enumerate(values[1:], 1)]
    return where


def better(n: Node, best: str, where: str, value: str, place: str) -> str:
    """A statement of a search: values that are beyond the best so far, or the first that is no number, with their
    places."""
    beyond = "LE" if n.attrs["op"] == "argmax" else "GE"
    return (f"{{ const hy_v x_ = {value}; const hy_m m_ = (hy_m)(HYV_NOT(HYV_{beyond}(x_, {best})) & HYV_EQ({best}, "
            f"{best})); "
            f"{best} = HYV_SELECT(m_, x_, {best}); {where} = HYV_BITS(HYV_SELECT(m_, HYV_FLOAT({place}), "
            f"HYV_FLOAT({where}))); }}")
