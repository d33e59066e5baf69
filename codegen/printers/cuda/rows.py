"""CUDA row kernels: softmax, LayerNorm and the like. The threads that share a row reduce together; a warp takes a short
row, a block a long one. Where neighbouring rows are neighbours in memory, a thread takes a row by itself.
"""
from __future__ import annotations

import math
from typing import Callable, Sequence

import numpy as np

from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index, of_index
from hybrid.ir.index import Ix, Var, coefficient, linear, text, unlinear, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.reductions import REDUCTIONS
from hybrid.ir.scalar import SCALARS
from hybrid.ir.stmt import Name, lines

from .flat import thread_number
from .kept import Kept, why_not_kept
from .pieces import (PROCESSORS, THREADS, CudaEmitter, PrintedCuda, emitter, index_type, joined,
                     launched, names_of, widths)
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.block import nested
from hybrid.codegen.emit import Block, Emitter, Reducer, identity, serial_reduce
from hybrid.codegen.reductions import reduced_index, rounded
from hybrid.codegen.schedule.tiling import decode

SHORT_ROW, MIDDLE_ROW = 128, 1024     # elements up to which a warp takes a row: always, and where there are many rows
MANY_ROWS = PROCESSORS * 24
ALONE = 8                             # elements up to which every thread reduces by itself


@dataclass(frozen=True)
class Team:
    """Threads that share a row: a warp of a block, or a whole block."""
    width: int
    threads: int

    def reduce(self, value: str, op: str, start: str, shared: str) -> str:
        """C text of a reduction over the team."""
        return (f"hy_warp_reduce({value}, {op})" if self.width == 32
                else f"hy_block_reduce({value}, {op}, {start}, {shared})")

    def head(self, rows: int, kind: str) -> list[str]:
        """Statements that define row and lane."""
        if self.width == 32:
            return [f"{kind} row = ({kind})blockIdx.x * {self.threads // 32} + ({kind})(threadIdx.x / 32), lane = "
                    f"({kind})(threadIdx.x % 32);",
                    f"if (row >= {rows}) return;", "HY_ASSUME(row >= 0 && lane >= 0);"]
        return [f"{kind} row = ({kind})blockIdx.x, lane = ({kind})threadIdx.x;", "HY_ASSUME(row >= 0 && lane >= 0);"]

    def blocks(self, rows: int) -> int:
        """Blocks of a launch."""
        return -(-rows // (self.threads // self.width))


def choose_team(rows: int, work: int) -> Team:
    """A team for rows of that many elements."""
    if work <= SHORT_ROW or work <= MIDDLE_ROW and rows >= MANY_ROWS:
        return Team(32, THREADS)
    width = 64
    while width < 512 and width * 8 < work:
        width *= 2
    return Team(width, width)


def team_loop(e: CudaEmitter, outer: Block, vs: Sequence[Var], team: Team, items: Sequence[int],
              body: Callable[[CudaEmitter, Block, dict[Var, Ix]], None],
              part: tuple[str, str] | None = None) -> list[str]:
    """A loop of a team over all positions of some variables: neighbouring threads at neighbouring elements, whole
    vectors where every access allows it. part: C text of the first position and the one after the last (multiples of 8,
    or the end).
    """
    total = math.prod(v.extent for v in vs)
    for w in [*(w for w in widths(total, *items) if total // w >= team.width // 2), 1]:
        lane, counter = Var(e.name("j"), w), e.name("q")
        q, at = joined(counter, vs, lane)
        names = dict(zip(vs, unlinear(at, [v.extent for v in vs])))

        def emit(to: CudaEmitter, base: Block, q: Var = q, lane: Var = lane, names: dict[Var, Ix] = names) -> list[str]:
            middle = base.child([q])
            inner = middle.child([lane]) if lane.extent > 1 else middle
            with to.counted_by(lane):
                body(to, inner, names)
                return [*middle.lines, *to.lanes(inner.lines)] if lane.extent > 1 else middle.lines
        if w > 1:
            trial = e.trial()
            emit(trial, Block(outer.parent, outer.vars, list(outer.lines), dict(outer.memo)))
            if trial.loose or not trial.packed:
                continue
        lines = emit(e, outer)
        first, last = ("lane", str(q.extent)) if part is None else (f"{part[0]} + lane",
                                                                    part[1]) if w == 1 else (f"{part[0]} / {w} + lane",
                f"{part[1]} / {w}")
        return ["#pragma unroll 4",
                f"for ({e.index} {counter} = {first}; {counter} < {last}; {counter} += {team.width}) {{",
                *("  " + s for s in lines), "}"]
    raise AssertionError("one element at a time always fits")


def team_reducer(team: Team, kept: Kept | None = None) -> Reducer:
    """A reducer in which all threads of a team work together; every thread gets the result. kept: the row's values in
    registers."""
    def reduce(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        at = of_index(idx)
        x = n.args[0]
        if (block.parent is not None or n.prim not in ("reduce", "argreduce") or not at <= block.vars
            or x.size // max(n.size, 1) <= ALONE
                or not isinstance(e, CudaEmitter)):
            return serial_reduce(e, n, idx, guard, block)
        return _team_arg(e, team, n, idx, guard,
                         block) if n.prim == "argreduce" else _team_reduce(e, team, n, idx, guard, block, kept)
    return reduce


def operation(op: str, d: np.dtype) -> str:
    """A function object that joins two values of a reduction; argmax and argmin have one too."""
    row = REDUCTIONS.get(op)
    if row is None or row.own:
        return f"hy_{op}_op()"
    kind, of = CUDA.compute(d), np.dtype(np.float32) if is_half(d) else d
    step = Emitter(CUDA, {}).spell(SCALARS[row.fn], of, (Name("a"), Name("b")))
    return f"[]({kind} a, {kind} b) {{ return ({kind}){step}; }}"


def accumulator_loop(e: CudaEmitter, n: Node, idx: Index, guard: Guard, block: Block, team: Team, acc: str,
                     part: tuple[str, str] | None = None) -> list[str]:
    """The loop of a reduction: every thread adds up its share."""
    x, op, axes = n.args[0], n.attrs["op"], n.attrs["axes"]
    vs = [Var(e.name("r"), x.shape[a]) for a in axes]

    def body(to: CudaEmitter, inner: Block, names: dict[Var, Ix]) -> None:
        value = to.value(x, reduced_index(x, axes, idx, [names[v] for v in vs]), inner, guard)
        inner.body.append(f"{acc} = {operation(op, x.dtype)}({acc}, {value});")
    return team_loop(e, block, vs, team, [x.dtype.itemsize], body, part)


def _team_reduce(e: CudaEmitter, team: Team, n: Node, idx: Index, guard: Guard, block: Block,
                 kept: Kept | None = None) -> str:
    T, op = CUDA.compute(n.args[0].dtype), n.attrs["op"]
    zero = identity(e, op, n.args[0].dtype)
    acc = e.let(block, n.args[0].dtype, zero, "a")
    if kept is not None and not guard and kept.takes(n):
        lines = kept.reduction(e, n, idx, block, acc)
    else:
        lines = accumulator_loop(e, n, idx, guard, block, team, acc)
    block.body += lines
    shared = _shared(e, team, T, block)
    block.body.append(f"{acc} = {team.reduce(acc, operation(op, n.args[0].dtype), f'({T}){zero}', shared)};")
    return rounded(e, n, acc, block)


def _shared(e: Emitter, team: Team, T: str, block: Block) -> str:
    if team.width == 32:
        return ""
    name = e.name("shared")
    block.body.append(f"__shared__ {T} {name}[32];")
    return name


def _team_arg(e: CudaEmitter, team: Team, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    x, which, axis = n.args[0], n.attrs["op"], n.attrs["axis"]
    T = f"hy_indexed<{CUDA.compute(x.dtype)}>"
    worst = identity(e, "max" if which == "argmax" else "min", x.dtype)
    start, best = f"{T}{{({CUDA.compute(x.dtype)}){worst}, 0x7fffffffffffffffll}}", e.name("best")
    v = Var(e.name("r"), x.shape[axis])

    def body(to: CudaEmitter, inner: Block, names: dict[Var, Ix]) -> None:
        value = to.value(x, reduced_index(x, [axis], idx, [names[v]]), inner, guard)
        inner.body.append(f"{best} = hy_{which}_op()({best}, {T}{{{value}, (long long)({text(names[v])})}});")
    lines = team_loop(e, block, [v], team, [x.dtype.itemsize], body)
    block.body += [f"{T} {best} = {start};", *lines]
    shared = _shared(e, team, T, block)
    block.body.append(f"{best} = {team.reduce(best, f'hy_{which}_op()', start, shared)};")
    return e.let(block, n.dtype, f"({CUDA.compute(n.dtype)}){best}.index", "w")


def lies_across(k: Kernel, rows: Sequence[Var]) -> bool:
    """Whether in memory neighbours are elements of neighbouring rows, not of one row."""
    last = next((v for v in reversed(k.loops) if v in rows and v.extent > 1), None)
    if last is None:
        return False
    across = along = 0
    for n, uses in k.reads.items():
        for x in {linear(n.shape, u.idx) for u in uses}:
            steps = {a: c for a, c in x.terms if isinstance(a, Var)}
            across += n.size if coefficient(x, last) == 1 else 0
            along += n.size if any(c == 1 and v not in rows for v, c in steps.items()) else 0
    return across > along


def print_rows(k: Kernel, name: str, rows: list[Var]) -> PrintedCuda:
    """Row kernels: a team owns one position of the row axes; its threads share the rest."""
    count = math.prod(v.extent for v in rows)
    rest = [v for v in k.loops if v not in rows and v.extent > 1]
    if count >= 8 * THREADS and lies_across(k, rows):
        k.form = k.form or "a thread for each row"
        return _print_alone(k, name, rows, rest, count)
    args, names = names_of(k)
    work = max([math.prod(v.extent for v in rest),
                *(m.args[0].size // max(m.size, 1) for m in k.members if m.prim in ("reduce", "argreduce"))])
    team = choose_team(count, work)
    body, kept = next((b, kept) for b, kept in ((_row_body(k, names, rows, rest, team, kept), kept)
                                                for kept in Kept.choices(k, rest, team.width)) if b is not None)
    k.form = k.form or ("rows in registers" if kept is not None else "rows that are read in each pass")
    if kept is None:
        k.not_taken.append(("rows in registers", why_not_kept(k, rest, team.width)))
    kind = index_type(k)
    text_ = [*team.head(count, kind), *decode("row", rows, kind), *body]
    return launched(name, args, len(k.stores), text_, team.blocks(count), team.threads, alone=True)


def _row_body(k: Kernel, names: dict[Node, str], rows: list[Var], rest: list[Var], team: Team,
              kept: Kept | None) -> list[str] | None:
    """Statements of a row; None where its values cannot be kept so."""
    e = emitter(k, names, team_reducer(team, kept))
    block = Block(None, frozenset(rows))
    e.same = frozenset(rows)
    for n in reversed(k.hoisted):                              # inner reductions first: the later ones find them done
        e.value(n, k.members[n][0].idx, block)
    sides = [(n, at, e.value(n, at, block)) for n, at in k.sides]
    if rest:
        def body(to: CudaEmitter, inner: Block, at: dict[Var, Ix]) -> None:
            idx = tuple(at.get(v, var(v)) for v in k.loops)
            to.put(names[k.root], k.root, idx, inner)
        items = [k.root.dtype.itemsize, *(n.dtype.itemsize for n in k.reads if n.size == k.root.size)]
        tail = (team_loop(e, block, rest, team, items, body) if kept is None else
                kept.loop(e, block, rest, lambda inner, at, turn: body(e, inner, at)))
    else:
        idx = tuple(var(v) for v in k.loops)
        value = e.value(k.root, idx, block)
        tail = [str(e.store(names[k.root], k.root, idx, value))]
    if kept is not None and (e.loose or not kept.used):
        return None
    return [*(kept.declared() if kept is not None else []), *block.lines,
            *(str(e.store(names[n], n, at, v)) for n, at, v in sides), *tail]


def _print_alone(k: Kernel, name: str, rows: list[Var], rest: list[Var], count: int) -> PrintedCuda:
    """One thread a row."""
    args, names = names_of(k)
    e, kind = emitter(k, names), index_type(k)
    block = Block(None, frozenset(rows))
    inner = block.child(rest) if rest else block
    idx = tuple(var(v) for v in k.loops)
    sides = [(n, at, e.value(n, at, block)) for n, at in k.sides]
    value = e.value(k.root, idx, inner)
    store = str(e.store(names[k.root], k.root, idx, value))
    tail = lines(nested(rest, [*inner.body, store], "", kind))
    body = [*thread_number(kind, count), *decode("t", rows, kind), *block.lines,
            *(str(e.store(names[n], n, at, v)) for n, at, v in sides), *tail]
    return launched(name, args, len(k.stores), body, -(-count // THREADS))
