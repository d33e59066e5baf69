"""Reductions along the innermost axis to one number, with vectors of partial results: sums, products, greatest, least
and their places."""
from __future__ import annotations

import math

from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, text

from . import partial_sums
from .emit import Block, Emitter, Reduction, identity, serial_reduce
from .lane_reductions import better, planned
from .lanes import F64, LaneLoop, Refused, lane_loop
from .reductions import rounded
from .vector import VectorEmitter


def reduce_row(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """A reduction to one number: vectors of partial results along the innermost axis."""
    assert isinstance(e, VectorEmitter)
    if e.lane(idx, guard) is not None:
        raise Refused("a reduction in a lane")
    if n.prim == "reduce" and e.holds(n.dtype) and e.holds(n.args[0].dtype) and not guard:
        try:
            return rounded(e, n, _reduce_vectors(e, n, idx, block), block)
        except Refused:
            # lines that were placed further out stay: they are right, perhaps used
            pass
    if n.prim == "argreduce" and e.holds(n.args[0].dtype) and not guard:
        try:
            return _arg_vectors(e, n, idx, block)
        except Refused:
            pass
    return serial_reduce(e, n, idx, guard, block)


def _reduce_vectors(e: VectorEmitter, n: Node, idx: Index, block: Block) -> str:
    r = planned(e, n, idx, (), block)
    lane = r.loops[-1]
    if lane.extent < (4 if e.width == 16 else min(e.width, 4) if e.type == F64 else e.width):
        raise Refused("short")
    e.lanes.add(lane)
    blocks = [block]
    for v in r.loops:
        blocks.append(blocks[-1].child([v]))
    inner = blocks[-1]
    before = set(e.kept)
    value = e.floats(r.element(inner))
    for m, key in [(m, key) for m in e.keep for key in inner.memo if key[0] is m and m not in e.kept]:
        e.remember(m, key[1], inner.memo[key], inner, block)
    name = e.name("a")
    unroll = 1 if lane.extent < 2 * e.width else 4 if len(inner.lines) < 8 and lane.extent >= 4 * e.width else 2
    inner.lines += _accumulate(e, r, name, value)
    out = [f"hy_v {', '.join(f'{name}_{q} = HYV_B({identity(e, r.op, r.dtype)})' for q in range(unroll))};"]
    if r.op in ("max", "min"):
        out.append("hy_m " + ", ".join(f"{name}n_{q} = {{0}}" for q in range(unroll)) + ";")
    along = -(-lane.extent // (e.width * unroll))                # additions to one vector
    flush, end = [], ""
    additions = along * math.prod(v.extent for v in r.loops[:-1])
    if partial_sums.in_blocks(r.op, r.dtype, additions):
        declared, block_end, end = partial_sums.vector_total(f"{name}_0", name, additions)
        out.append(declared)
        flush = [*_halved(name, unroll, "{0} += {1};"), block_end,
                 *(f"{name}_{q} = (hy_v){{}};" for q in range(1, unroll))]
    body = lane_loop(lane, inner.lines, e.width, unroll, flush=flush if along > partial_sums.TERMS else ())
    if len(r.loops) > 1:
        lines = [[*b.lines] for b in blocks[1:-1]]
        lines[-1] += body
        # behind whole groups of vectors, few are left
        left = (lane.extent % (e.width * unroll) + e.width - 1) // e.width if along > partial_sums.TERMS else along
        body = partial_sums.nest(r.loops[:-1], lines, left, flush)
    begin = len(block.lines) + len(out)
    if len(r.loops) == 1:
        e.loops.append((block, begin, begin + len(body), LaneLoop(lane, inner.lines, unroll)))
    block.lines += [*out, *body, *_joined(e, r, name, unroll, end)]
    e.defined[name] = block
    e.ready |= set(e.kept) - before
    return name


def _arg_vectors(e: VectorEmitter, n: Node, idx: Index, block: Block) -> str:
    """A search along the innermost axis: each lane finds its own, then the first of the best is taken."""
    r = planned(e, n, idx, (), block)
    (lane,) = r.loops
    if lane.extent < 2 * e.width:
        raise Refused("short")
    e.lanes.add(lane)
    inner = block.child([lane])
    value = e.floats(r.element(inner))
    name, word = e.name("a"), r.op[3:]
    worst = f"HYV_B({identity(e, word, e.type)})"
    unroll = 1 if lane.extent < 4 * e.width or len(inner.lines) > 8 else 2 if lane.extent < 16 * e.width else 4
    inner.lines.append(better(n, f"{name}@", f"{name}w@", f"HYV_KEEP@({value}, {worst})",
                              f"HYV_COUNT + HYV_IB((int)({text(r.position or Ix())}))"))
    block.lines += [f"hy_v {', '.join(f'{name}_{q} = {worst}' for q in range(unroll))};",
                    f"hy_vi {', '.join(f'{name}w_{q} = {{0}}' for q in range(unroll))};",
                    *lane_loop(lane, inner.lines, e.width, unroll),
                    *(f"hyv_first_of(&{name}_0, &{name}w_0, {name}_{q}, {name}w_{q}, {int(word == 'min')});"
                      for q in range(1, unroll)),
                    f"const long {name} = hyv_first({name}_0, {name}w_0, {int(word == 'min')});"]
    e.defined[name] = block
    return name


def _accumulate(e: VectorEmitter, r: Reduction, name: str, value: str) -> list[str]:
    if r.op in ("sum", "prod"):
        return [f"{name}@ {'+' if r.op == 'sum' else '*'}= HYV_KEEP@({value}, HYV_B({identity(e, r.op, r.dtype)}));"]
    word = "MAX" if r.op == "max" else "MIN"
    kept = f"HYV_KEEP@({value}, HYV_B({identity(e, r.op, r.dtype)}))"
    return [f"{{ const hy_v x_ = {kept}; {name}n@ |= HYV_NAN(x_, x_); {name}@ = HYV_{word}({name}@, x_); }}"]


def _halved(name: str, count: int, step: str) -> list[str]:
    """Statements that join the partial results of several vectors in the first."""
    out = []
    while count > 1:
        count //= 2
        out += [step.format(f"{name}_{q}", f"{name}_{q + count}", f"{name}n_{q}", f"{name}n_{q + count}")
                for q in range(count)]
    return out


def _joined(e: VectorEmitter, r: Reduction, name: str, unroll: int, end: str) -> list[str]:
    out = _halved(name, unroll, {"sum": "{0} += {1};", "prod": "{0} *= {1};",
                                 "max": "{0} = HYV_MAX({0}, {1}); {2} |= {3};",
                                 "min": "{0} = HYV_MIN({0}, {1}); {2} |= {3};"}[r.op])
    if end:
        out.append(end)
    whole = f"hyv_{r.op}({name}_0)"
    if r.op in ("max", "min"):
        whole = f"HYV_ANY({name}n_0) ? HY_NANf : {whole}"
    return [*out, f"const {e.real} {name} = {whole};"]
