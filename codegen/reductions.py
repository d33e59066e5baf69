"""Reductions of the printer: their loops and elements, and one thread that goes through them."""
from __future__ import annotations

import math

from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Sequence

import numpy as np

from hybrid.base import dtype as dt
from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir.size import fixed, hint
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index, pull_unwindow
from hybrid.ir.index import Ix, Var, unlinear, var
from hybrid.ir.reductions import REDUCTIONS, reduce_identity
from hybrid.ir.scalar import SCALARS
from hybrid.ir.stmt import Assign, Expr, For, Literal, Name, Op, Stmt, When

from . import partial_sums
from .block import Block, nested

if TYPE_CHECKING:
    from .emit import Emitter


def identity(e: Emitter, op: str, d: np.dtype) -> Literal:
    """Literal of a reduction's identity."""
    return e.d.literal(reduce_identity(op, np.dtype(np.float32) if is_half(d) else d),
                       np.dtype(np.float32) if is_half(d) else d)


def combine(e: Emitter, op: str, d: np.dtype, a: Expr, b: Expr) -> Op:
    """One step of a reduction."""
    if not REDUCTIONS[op].own:
        return e.spell(SCALARS[REDUCTIONS[op].fn], d, (a, b))
    if op in ("sum", "prod"):
        return Op("{0} + {1}" if op == "sum" else "{0} * {1}", (a, b))
    nan = " || {1} != {1}" if dt.is_float(d) else ""
    return Op(f"({{1}} {'>' if op == 'max' else '<'} {{0}}{nan}) ? {{1}} : {{0}}", (a, b))


@dataclass
class Reduction:
    """A reduction ready to be looped over: its loops, and how one element is evaluated in a block."""
    op: str
    dtype: np.dtype
    loops: list[Var]
    element: Callable[[Block], Expr]
    position: Ix | None = None             # argreduce: the index along the axis


def plan_reduction(e: Emitter, n: Node, idx: Index, guard: Guard, merge: bool) -> Reduction:
    """Loops and element of reduce, argreduce, dot (as a plain sum of products) and unwindow."""
    if n.prim == "dot":
        return _plan_dot(e, n, idx, guard, merge)
    if n.prim == "unwindow":
        sizes = n.args[0].shape[n.ndim:]
        loops, at = reduce_vars(e, sizes, False)
        inner, own = pull_unwindow(n, idx, tuple(at))

        def windowed(block: Block) -> Expr:
            value = e.value(n.args[0], inner, block, guard + own)
            return Op("({0} ? {1} : 0)", (e.condition(own), value)) if own else value
        return Reduction("sum", n.dtype, loops, windowed)
    x = n.args[0]
    axes = n.attrs["axes"] if n.prim == "reduce" else (n.attrs["axis"],)
    loops, at = [], []
    for run in _runs(axes) if merge else [[a] for a in axes]:                    # neighbouring axes are one loop
        more = reduce_vars(e, [x.shape[a] for a in run], merge)
        loops, at = loops + more[0], at + more[1]
    full = reduced_index(x, axes, idx, at)
    return Reduction(n.attrs["op"], x.dtype, loops, lambda block: e.value(x, full, block, guard),
                     at[0] if n.prim == "argreduce" else None)


def reduced_index(x: Node, axes: Sequence[int], idx: Index, inner: Sequence[Ix]) -> Index:
    """Index into the argument of a reduction: the result's, with that of each axis that is reduced."""
    fresh, free = dict(zip(axes, inner)), iter(idx)
    return tuple(fresh[a] if a in fresh else next(free) for a in range(x.ndim))


def written_out(n: Node, idx: Index) -> Iterator[Index]:
    """The index of each element that a reduction of constant sizes reads, in order."""
    x, axes = n.args[0], n.attrs["axes"]
    for at in np.ndindex(*(x.shape[a] for a in axes)):
        yield reduced_index(x, axes, idx, [Ix(int(i)) for i in at])


def _runs(axes: Iterable[int]) -> list[list[int]]:
    """Neighbouring axes together."""
    out: list[list[int]] = []
    for a in axes:
        if out and out[-1][-1] == a - 1:
            out[-1].append(a)
        else:
            out.append([a])
    return out


def _plan_dot(e: Emitter, n: Node, idx: Index, guard: Guard, merge: bool) -> Reduction:
    a, b = n.args
    (ca, cb), (ba, bb) = n.attrs["contract"], n.attrs["batch"]
    loops, at = reduce_vars(e, [a.shape[i] for i in ca], merge)
    nb = len(ba)
    fa = [i for i in range(a.ndim) if i not in ca + ba]
    ia: list[Ix] = [Ix()] * a.ndim
    ib: list[Ix] = [Ix()] * b.ndim
    for k, (i, j) in enumerate(zip(ba, bb)):
        ia[i] = ib[j] = idx[k]
    for k, i in enumerate(fa):
        ia[i] = idx[nb + k]
    for k, j in enumerate(j for j in range(b.ndim) if j not in cb + bb):
        ib[j] = idx[nb + len(fa) + k]
    for v, i, j in zip(at, ca, cb):
        ia[i] = ib[j] = v
    wide = np.dtype(np.float32) if is_half(n.dtype) else n.dtype
    return Reduction("sum", wide, loops,
                     lambda block: Op("{0} * {1}", (e.value(a, tuple(ia), block, guard),
                                                    e.value(b, tuple(ib), block, guard))))


def reduce_vars(e: Emitter, sizes: Iterable[int], merge: bool) -> tuple[list[Var], list[Ix]]:
    """Loop variables over some axes, as one loop when they can be merged."""
    sizes = list(sizes)
    if merge and len(sizes) > 1:
        n = math.prod(sizes)
        v = Var(e.name("r"), n)
        return [v], unlinear(var(v), sizes)
    loops = [Var(e.name("r"), s) for s in sizes]
    return loops, [var(v) for v in loops]


def try_merged(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> bool:
    """Whether neighbouring reduced axes are one loop without divisions: tried on a copy, where reductions within are
    plain loops."""
    probe = e.probe()
    r = plan_reduction(probe, n, idx, guard, True)
    if n.prim == "dot" and len(r.loops) != 1:
        return False
    r.element(Block(None, block.vars | frozenset(r.loops)))
    return probe.divisions == 0


def rounded(e: Emitter, n: Node, acc: Expr, block: Block) -> str:
    """A sum at the precision of its dtype."""
    if is_half(n.dtype):
        return e.let(block, n.dtype, e.d.rounded(n.dtype, acc))
    return acc if isinstance(acc, str) else str(acc)


def serial_reduce(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """One thread loops over the reduced elements."""
    if _short(n):
        return _unrolled(e, n, idx, guard, block)
    merged = try_merged(e, n, idx, guard, block)
    r = plan_reduction(e, n, idx, guard, merged)
    if n.prim == "argreduce":
        return _serial_arg(e, r, block)
    acc = e.let(block, r.dtype, identity(e, r.op, r.dtype), "a")
    inner = block.child(r.loops)
    value = r.element(inner)
    inner.body.append(Assign(acc, combine(e, r.op, r.dtype, acc, value)) if r.op in ("sum", "prod") else
                      _extremum(e, inner, r, acc, value))
    simple = not any(isinstance(s, For) for s in inner.body)
    pragma = _simd(e, r, acc) if simple and r.loops[-1:] and hint(r.loops[-1].extent) >= 16 else ""
    # what the compiler makes vectors of has an accumulator in every lane
    lanes = LANES if pragma else 1
    if partial_sums.in_blocks(r.op, r.dtype, math.prod(v.extent for v in r.loops) // lanes):
        total = e.let(block, np.dtype(np.float64), Literal("0.0"), "a")
        before = [*([[]] * (len(r.loops) - 1)), inner.body]
        flush = [Assign(total, acc, "+="), Assign(acc, Literal("0"))]
        block.body += partial_sums.nest(r.loops, before, 1, flush, pragma, e.index, partial_sums.TERMS * lanes)
        acc = e.let(block, r.dtype, Op("{0} + {1}", (total, acc)))
    else:
        block.body += nested(r.loops, inner.body, pragma, e.index)
    return rounded(e, n, acc, block)


LANES = 8                      # of vectors that the compiler makes of a plain loop
UNROLL = 9                     # elements of a reduction that is written out instead of looped over


def _short(n: Node) -> bool:
    work = n.args[0].size // max(n.size, 1)
    return n.prim == "reduce" and fixed(work) and 0 < work <= UNROLL


def _unrolled(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """A short reduction (a pooling window) as straight code, which the compiler can vectorise across its results."""
    op, wide = n.attrs["op"], np.dtype(np.float32) if is_half(n.dtype) else n.dtype
    acc: Expr = Literal("0" if op == "sum" and dt.is_float(wide) else "")          # not -0 where all are -0
    for at in written_out(n, idx):
        value = e.value(n.args[0], at, block, guard)
        if not isinstance(value, Name):
            value = e.let(block, wide, value)
        acc = e.let(block, wide, combine(e, op, wide, acc, value)) if acc else value
    return rounded(e, n, acc, block)


def _extremum(e: Emitter, block: Block, r: Reduction, acc: Name, value: Expr) -> Stmt:
    v = value if isinstance(value, Name) else e.let(block, r.dtype, value)
    return Assign(acc, combine(e, r.op, r.dtype, acc, v))


def _simd(e: Emitter, r: Reduction, acc: str) -> str:
    if e.d.name != "c" or not REDUCTIONS[r.op].own:
        return ""
    op = {"sum": "+", "prod": "*"}.get(r.op, f"hy_{r.op}" if dt.is_float(r.dtype) else r.op)
    return f"#pragma omp simd reduction({op}:{acc})"


def _serial_arg(e: Emitter, r: Reduction, block: Block) -> str:
    best = e.let(block, r.dtype, identity(e, "max" if r.op == "argmax" else "min", r.dtype), "a")
    where = e.let(block, np.dtype(np.int64), Literal("-1"), "w")
    inner = block.child(r.loops)
    value = e.let(inner, r.dtype, r.element(inner))
    sign = ">" if r.op == "argmax" else "<"
    nan = " || ({1} != {1} && {2} == {2})" if dt.is_float(r.dtype) else ""
    better = Op(f"{{0}} < 0 || {{1}} {sign} {{2}}{nan}", (where, value, best))
    inner.body.append(When(better, (Assign(best, value), Assign(where, r.position or Ix()))))
    block.body += nested(r.loops, inner.body, "", e.index)
    return where
