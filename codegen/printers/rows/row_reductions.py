"""Reductions along the innermost axis to one number, with vectors of partial results: sums, products, largest, least
and their places."""
from __future__ import annotations

import math

from hybrid.ir.size import hint, fixed, may_exceed
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix
from hybrid.ir.rewriting import calls
from hybrid.ir.stmt import Assign, Do, Expr, Keep, Let, Literal, Name, Op, Scope, Stmt

from hybrid.codegen import partial_sums
from hybrid.codegen.block import Block, chain
from hybrid.codegen.emit import Emitter, Reduction, identity, serial_reduce
from hybrid.codegen.lane_reductions import better, planned, vector_step
from hybrid.codegen.lanes import F64, LaneLoop, Refused, iterations
from hybrid.codegen.reductions import rounded
from hybrid.codegen.vector import VectorEmitter

ZERO = Literal("{0}")


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
    vector_step(n.attrs["op"])
    r = planned(e, n, idx, (), block)
    lane = r.loops[-1]
    if fixed(lane.extent) and lane.extent < (4 if e.width == 16 else min(e.width, 4) if e.type == F64 else e.width):
        raise Refused("short")
    e.lanes.add(lane)
    blocks = chain(r.loops, block)
    inner = blocks[-1]
    known = set(e.kept)
    value = e.floats(r.element(inner))
    for m, key in [(m, key) for m in e.keep for key in inner.memo if key[0] is m and m not in e.kept]:
        e.remember(m, key[1], inner.memo[key], inner, block)
    name = e.name("a")
    size = hint(lane.extent)
    # a function keeps the multipliers busy by itself, and few registers hold its constants and few accumulators
    busy = len(inner.lines) >= 8 or e.width < 16 and calls(inner.body, "hyv_")
    unroll = 1 if size < 2 * e.width else 4 if not busy and size >= 4 * e.width else 2
    inner.body += _accumulate(e, r, name, value)
    accumulators = [Name(f"{name}_{q}") for q in range(unroll)]
    out: list[Stmt] = [Let("hy_v", a, Op("HYV_B({0})", (identity(e, r.op, r.dtype),))) for a in accumulators]
    if r.op in ("max", "min"):
        out += [Let("hy_m", Name(f"{name}n_{q}"), ZERO) for q in range(unroll)]
    along = -(-lane.extent // (e.width * unroll))                # additions to one vector
    flush: list[Stmt] = []
    end: list[Stmt] = []
    additions = along * math.prod(v.extent for v in r.loops[:-1])
    if partial_sums.in_blocks(r.op, r.dtype, additions):
        declared, block_end, last = partial_sums.vector_total(accumulators[0], name, additions)
        out += declared
        flush = [*_halved(name, unroll, "sum"), block_end,
                 *(Assign(a, Literal("(hy_v){}")) for a in accumulators[1:])]
        end = [last]
    body = iterations(lane, inner.body, e.width, unroll, flush=flush if may_exceed(along, partial_sums.TERMS) else ())
    if len(r.loops) > 1:
        before = [[*b.body] for b in blocks[1:-1]]
        before[-1] += body
        # behind whole groups of vectors, few are left
        left = unroll if not fixed(along) else (lane.extent % (e.width * unroll) + e.width
                                                - 1) // e.width if along > partial_sums.TERMS else along
        body = partial_sums.nest(r.loops[:-1], before, left, flush)
    begin = len(block.body) + len(out)
    if len(r.loops) == 1:
        e.loops.append((block, begin, begin + len(body), LaneLoop(lane, inner.body, unroll)))
    block.body += [*out, *body, *_joined(e, r, name, unroll, end)]
    e.defined[name] = block
    e.ready |= set(e.kept) - known
    return name


def _arg_vectors(e: VectorEmitter, n: Node, idx: Index, block: Block) -> str:
    """A search along the innermost axis: each lane finds its own, then the first of the best is taken."""
    r = planned(e, n, idx, (), block)
    (lane,) = r.loops
    size = hint(lane.extent)              # a lane without elements keeps index 0, so fewer than the hint are right, too
    if size < 2 * e.width:
        raise Refused("short")
    e.lanes.add(lane)
    inner = block.child([lane])
    value = e.floats(r.element(inner))
    name, word = e.name("a"), r.op[3:]
    worst = Op("HYV_B({0})", (identity(e, word, e.type),))
    unroll = 1 if size < 4 * e.width or len(inner.lines) > 8 else 2 if size < 16 * e.width else 4
    inner.body.append(better(n, Name(f"{name}@"), Name(f"{name}w@"), Keep(value, worst),
                             Op("HYV_COUNT + HYV_IB((int)({0}))", (r.position or Ix(),))))
    pairs = [(Name(f"{name}_{q}"), Name(f"{name}w_{q}")) for q in range(unroll)]
    least = int(word == "min")
    block.body += [*(Let("hy_v", best, worst) for best, _ in pairs), *(Let("hy_vi", where, ZERO) for _, where in pairs),
                   *iterations(lane, inner.body, e.width, unroll),
                   *(Do(Op(f"hyv_first_of(&{{0}}, &{{1}}, {{2}}, {{3}}, {least})", (*pairs[0], *pair)))
                     for pair in pairs[1:]),
                   Let("long", name, Op(f"hyv_first({{0}}, {{1}}, {least})", pairs[0]), True)]
    e.defined[name] = block
    return name


def _accumulate(e: VectorEmitter, r: Reduction, name: str, value: Expr) -> list[Stmt]:
    acc, nan = Name(f"{name}@"), Name(f"{name}n@")
    kept = Keep(value, Op("HYV_B({0})", (identity(e, r.op, r.dtype),)))
    if r.op in ("sum", "prod"):
        return [Assign(acc, kept, "+=" if r.op == "sum" else "*=")]
    x = Name("x_")
    return [Scope((Let("hy_v", x, kept, True), Assign(nan, Op("HYV_NAN({0}, {0})", (x,)), "|="),
                   Assign(acc, Op(f"HYV_{r.op.upper()}({{0}}, {{1}})", (acc, x)))))]


def _halved(name: str, count: int, op: str) -> list[Stmt]:
    """Statements that join the partial results of several vectors in the first."""
    out: list[Stmt] = []
    while count > 1:
        count //= 2
        for q in range(count):
            a, b = Name(f"{name}_{q}"), Name(f"{name}_{q + count}")
            if op in ("sum", "prod"):
                out.append(Assign(a, b, "+=" if op == "sum" else "*="))
            else:
                out += [Assign(a, Op(f"HYV_{op.upper()}({{0}}, {{1}})", (a, b))),
                        Assign(Name(f"{name}n_{q}"), Name(f"{name}n_{q + count}"), "|=")]
    return out


def _joined(e: VectorEmitter, r: Reduction, name: Name, unroll: int, end: list[Stmt]) -> list[Stmt]:
    whole = Op(f"hyv_{r.op}({{0}})", (Name(f"{name}_0"),))
    if r.op in ("max", "min"):
        whole = Op("HYV_ANY({0}) ? HY_NANf : {1}", (Name(f"{name}n_0"), whole))
    return [*_halved(name, unroll, r.op), *end, Let(e.real, name, whole, True)]
