"""Row kernels with several rows under way: while one row is summed, the next is searched for its largest element and
the one before is stored.

A row's loops wait for each other, and each leaves much of a core idle: the first reads memory, the second calculates,
the last writes. Here turn t of the loop over rows does the first loop of row t, the second of row t - 1 and so on, all
in one loop over their elements (softmax: 0.75 of the time). What lives from one loop to a later one is kept for as many
rows as lie between them.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from hybrid.base.records import dataclass
from hybrid.ir.size import fixed, greater, hint
from hybrid.ir.index import Ix, Var
from hybrid.ir.rewriting import Unstructured, calls, renamed, used, walk
from hybrid.ir.stmt import Assign, For, Let, Literal, Local, Name, Op, Prefetch, Scope, Stmt, Store, When

from hybrid.codegen.lanes import LaneLoop, copies, iterations

ROWS = 4                        # rows of a loop from which it pays
NEAR = 1 << 16                  # bytes of rows under way that stay in a core's own caches while functions are computed
FIRST = 3 << 12                 # and beside parameters and what is written in its first one
AHEAD = 1 << 11                 # floats between what is read and what is asked for
TYPES = ("hy_vi", "hy_v", "hy_m", "float", "double", "long", "unsigned long", "unsigned", "int", "short",
         "unsigned short", "signed char", "unsigned char")
TURN, FROM, TO, BASE = Name("t_"), Name("from_"), Name("to_"), Name("b_")


@dataclass
class _Value:
    """A name that lives from its stage on: its C type, of an array its length, and how many stages later it is last
    used."""
    kind: str
    stage: int
    count: int = 0
    age: int = 0


def in_stages(row: Var, body: Sequence[Stmt], loops: Sequence[tuple[int, int, LaneLoop]], last: LaneLoop | None,
              width: int, fetch: Prefetch | None,
              pragma: str, item: int, far: bool, filled: bool) -> list[Stmt] | None:
    """The loop over rows; None where its statements are of another form. body: a row's statements; loops: the loops
    among them (where they begin and end, and of what); last: the loop behind them. fetch: a statement that asks for
    what the last loop will write. pragma: of threads that share the rows. item: bytes of an element; far: whether the
    arrays do not stay in the caches; filled: whether the result's lines come from afar before they are written.
    """
    stages = [LaneLoop(s.lane, [_further(t) for t in s.body], s.unroll)
              for s in (*(loop for _, _, loop in loops), *([last] if last else []))]
    if hint(row.extent) < ROWS or len(stages) < 2 or len({s.lane.extent for s in stages}) > 1:
        return None
    if not fixed(stages[0].lane.extent):
        return None
    heavy = any(calls(s.body, "hyv_") for s in stages)
    if stages[0].lane.extent * item * len(stages) > (NEAR if heavy else FIRST * 2 // 3 if filled
                                                     else FIRST) or far and not heavy and len(stages) == 2:
        return None
    ends = [0, *(end for _, end, _ in loops)]
    begins = [*(begin for begin, _, _ in loops), len(body)]
    values: dict[str, _Value] = {}
    parts = [_assigned(body[a:b], u, values) for u, (a, b) in enumerate(zip(ends, begins))]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts) or any(isinstance(t, For) for s in stages for t in walk(s.body)):
        return None
    try:
        return _Stages(row, known, stages, values, width, fetch).print(pragma)
    except Unstructured:
        return None


def _further(s: Stmt) -> Stmt:
    """Prefetches the row that stage 0 of a later iteration reads, into the second cache."""
    if not isinstance(s, Prefetch) or not s.step:
        return s
    return replace(s, ahead=max(3, AHEAD // hint(s.step)), how=", 0, 2")


def _assigned(body: Sequence[Stmt], stage: int, values: dict[str, _Value]) -> list[Stmt] | None:
    """A row's statements between two loops, its definitions as assignments; None where one is of another form."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Local):
            values[s.name] = _Value(s.type, stage, s.count)
        elif isinstance(s, Let) and s.type in TYPES:
            values[s.name] = _Value(s.type, stage)
            braces = isinstance(s.value, Literal) and s.value.startswith("{")
            out.append(Assign(s.name, Op(f"({s.type}){{0}}", (s.value,)) if braces else s.value))
        elif isinstance(s, (Assign, Prefetch)) or isinstance(s, Store) and not s.vector:
            out.append(s)
        else:
            return None
    return out


class _Stages:
    def __init__(self, row: Var, parts: list[list[Stmt]], stages: list[LaneLoop], values: dict[str, _Value],
                 width: int, fetch: Prefetch | None):
        self.row, self.parts, self.stages, self.values, self.width, self.fetch = (row, parts, stages, values, width,
                                                                                  fetch)
        self.most = max(s.unroll for s in stages)
        self.whole = stages[0].lane.extent // (self.most * width) * self.most * width
        for u, part in enumerate(parts):
            copied = [s for q in range(stages[u].unroll) for s in copies(stages[u].body, q)] if u < len(stages) else []
            for s in (*part, *copied):
                for name in used(s) & values.keys():
                    values[name].age = max(values[name].age, u - values[name].stage)

    def _older(self, stage: int, body: Sequence[Stmt]) -> list[Stmt]:
        """A stage's statements, which use values of its own row."""
        names: dict[str, str] = {n: _aged(n, stage - v.stage) for n, v in self.values.items() if v.stage < stage}
        return [renamed(s, names) for s in body]

    def _of_row(self, stage: int, body: Sequence[Stmt]) -> Scope:
        return Scope((self._row(stage), *self._older(stage, body)))

    def _row(self, stage: int) -> Let:
        return Let("long", Name(self.row.name), Op(f"{{0}} - {stage}", (TURN,)), True)

    def print(self, pragma: str) -> list[Stmt]:
        """The loop over rows, in as many parts as threads may take."""
        body = [*self._kept(), For(TURN, FROM, Op(f"{{0}} + {len(self.parts) - 1}", (TO,)), tuple(self._turn()))]
        n = self.row.extent
        if not pragma:
            return [Scope((Let("long", FROM, Ix(), True), Let("long", TO, Ix(n), True), *body))]
        most = greater(n // ROWS, 1)
        parts, part, threads = Name("parts_"), Name("part_"), Name("hy_threads")
        return [Let("long", parts, Op(f"{{0}} < {most} ? {{0}} : {most}", (threads,)), True),
                For(part, Ix(), parts,
                    (Let("long", FROM, Op(f"{n} * {{0}} / {{1}}", (part, parts)), True),
                     Let("long", TO, Op(f"{n} * ({{0}} + 1) / {{1}}", (part, parts)), True), *body), 1, pragma)]

    def _kept(self) -> list[Stmt]:
        out: list[Stmt] = []
        for name, v in self.values.items():
            names = [_aged(name, a) for a in range(v.age + 1)]
            if v.count:
                rows = Name(f"{name}_of")
                out.append(Local(v.kind, rows, v.count, v.age + 1))
                out += [Let(f"{v.kind} *", n, Op(f"{{0}}[{a}]", (rows,))) for a, n in enumerate(names)]
            else:
                out += [Let(v.kind, n, Literal("{0}")) for n in names]
        return out

    def _turn(self) -> list[Stmt]:
        """Values grow older by a row; what stands before each loop; the loops."""
        out: list[Stmt] = []
        for name, v in self.values.items():
            names = [_aged(name, a) for a in range(v.age + 1)]
            moves = [Assign(to, of) for of, to in reversed(list(zip(names, names[1:])))]
            if v.age and v.count:
                last = Name("last_")
                out.append(Scope((Let(f"{v.kind} *", last, names[-1]), *moves, Assign(Name(name), last))))
            else:
                out += moves
        out += [When(self._active(u), (self._of_row(u, part),)) for u, part in enumerate(self.parts) if part]
        alone = [When(self._active(u),
                      (self._of_row(u, iterations(stage.lane, stage.body, self.width, stage.unroll)),))
                 for u, stage in enumerate(self.stages)]
        full = Op(f"{{0}} >= {{1}} + {len(self.stages) - 1} && {{0}} < {{2}}", (TURN, FROM, TO))
        return [*out, When(full, tuple(self._together()), tuple(alone))]

    def _active(self, u: int) -> Op:
        return Op(f"{{0}} >= {{1}} + {u} && {{0}} < {{2}} + {u}", (TURN, FROM, TO))

    def _together(self) -> list[Stmt]:
        """All stages in one loop, each at its own row."""
        out: list[Stmt] = []
        if self.whole:
            body = []
            if self.fetch is not None:
                body += [self._at(len(self.stages) - 2, self.stages[-1], [self.fetch], q) for q in range(self.most)
                         if self._begins_line(q)]
            for u, stage in enumerate(self.stages):
                body += [self._at(u, stage, [s for s in copies(stage.body, q % stage.unroll)
                                             if self._begins_line(q) or not isinstance(s, Prefetch)], q)
                         for q in range(self.most)]
            out.append(For(BASE, Ix(), Ix(self.whole), tuple(body), self.most * self.width))
        for u, stage in enumerate(self.stages):
            if self.whole < stage.lane.extent:
                out.append(self._of_row(u, iterations(stage.lane, stage.body, self.width, stage.unroll,
                                                      start=self.whole)))
        return out

    def _begins_line(self, q: int) -> bool:
        """Whether a vector of an iteration is the first of a cache line: one prefetch is enough for a line."""
        return q * self.width * 4 % 64 == 0

    def _at(self, u: int, stage: LaneLoop, body: Sequence[Stmt], q: int) -> Scope:
        lane = Let("long", Name(stage.lane.name), Op(f"{{0}} + {q * self.width}", (BASE,)), True)
        return Scope((self._row(u), lane, *self._older(u, body)))


def _aged(name: str, age: int) -> Name:
    return Name(f"{name}_o{age}" if age else name)
