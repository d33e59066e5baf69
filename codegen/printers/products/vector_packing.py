"""Operands of half types put into panels and rows of float32 as explicit vectors: what is read is converted by one
instruction, and what is computed on the way (a cast, a mask) is vectors too.

Vectors lie along the loop in which all that an operand reads are neighbours in memory. Where panels have other
neighbours, a square block of vectors is transposed on the way.
"""
from __future__ import annotations

from typing import AbstractSet, Sequence

import numpy as np

from hybrid.base.dtype import is_half
from hybrid.ir import reached
from hybrid.ir.index import Ix, Val, Var, substitute, var, variables
from hybrid.ir.size import Dim, Int, fixed, greater, hint, may_exceed, size
from hybrid.ir.stmt import For, Literal, Name, Stmt, Store, When

from hybrid.codegen.block import Block, Level, nested, within_levels
from hybrid.codegen.dialect import C
from hybrid.codegen.emit import Emitter
from hybrid.codegen.lanes import F32, HALF_LANES, Refused, iterations
from hybrid.codegen.nest import count
from hybrid.codegen.program import local
from hybrid.codegen.schedule.tiling import Tile, decode, flat, inner_name
from hybrid.codegen.vector import VectorEmitter
from .epilogue import Epilogue
from .operand import Matmul, Operand

# bytes of packed rows that are in working memory at once: of float32, and of those converted from halves
ROW_BYTES, HALF_ROW_BYTES = 256 << 10, 1 << 20


class VectorPacking(Epilogue):
    """What a Contraction prints to pack operands of half types."""
    d: np.dtype
    m: Matmul
    x: Var
    y: Var | None
    width: int
    last: str
    columns: Int
    depth: Int
    block: int
    blocked: bool
    tile: Tile

    @property
    def steps_at_once(self) -> str:
        """How many steps of the depth are summed, in C."""
        return "kn" if self.blocked else str(self.depth)

    # ---- whether
    def _converts_halves(self, o: Operand) -> bool:
        """Whether an operand of a half type is converted in vectors as it is packed."""
        return self.d == F32 and self.lanes >= HALF_LANES and o.address is None and any(
            is_half(n.dtype) for n in reached([o.node], lambda n: n not in self.reads))

    def _runs(self, o: Operand, v: Var) -> bool:
        """Whether an operand of halves can be read as vectors along a loop."""
        if not self._converts_halves(o):
            return False
        q = Var("q_", v.extent)
        around = Block(None, frozenset({*(u for i in o.index for u in variables(i)), q}))
        try:
            self._lanes_of(o, {v: var(q)}, q, around, Ix(), "")
        except Refused:
            return False
        return True

    def _along_depth(self, m: Matmul, o: Operand) -> bool:
        """Whether an operand of halves can be read as vectors along the depth."""
        return len(m.depth) == 1 and self._runs(o, m.depth[0])

    def _lanes_of(self, o: Operand, at: dict[Var, Ix], q: Var, block: Block, to: Ix, pointer: str,
                  e: VectorEmitter | None = None) -> None:
        """Emit into a block the conversion and the store of one vector of an operand. at: the operand's loops in terms
        of those around the block, of which ``q`` is the lane variable; pointer, to: where the vector is stored."""
        e = e or self._converter(q, 0)
        value = e.value(o.node, tuple(substitute(i, at) for i in o.index), block)
        block.body.append(Store(Name(pointer), to, e.floats(value), "STORE"))

    def _converter(self, q: Var, first: int) -> VectorEmitter:
        return VectorEmitter(C, self.reads, count=first, width=self.lanes, lanes={q}, allow_halves=True)

    def _in_lanes(self, known: AbstractSet[Var | Val], levels: Sequence[Level], o: Operand, at: dict[Var, Ix], q: Var,
                  to: Ix, pointer: str) -> list[Stmt]:
        """The loop nest that packs an operand vector by vector; its innermost loop is over the lane variable. An empty
        list where its elements, at these positions, cannot be read as vectors (``_runs`` asks at others)."""
        e = self._converter(q, 1000 if o is self.m.a else 2000)
        vectors: Level = [q], lambda body: iterations(q, body, self.lanes, 1)
        try:
            out = within_levels(known, [*levels, vectors], lambda b: self._lanes_of(o, at, q, b, to, pointer, e))
        except Refused:
            return []
        self.vectors = True
        return out

    # ---- rows
    def _rows_at_once(self, m: Matmul) -> int:
        """Bytes of packed rows that are in working memory at once. The columns are packed again for each such block of
        rows: blocks are larger where rows are converted from halves and there are no more columns than rows."""
        return HALF_ROW_BYTES if self._converts_halves(m.a) and hint(m.sizes[1]) <= hint(m.sizes[0]) else ROW_BYTES

    def _rows_in_lanes(self, batches: Level, near: bool, at: Ix, strides: tuple[Int, Int], shared: str) -> list[Stmt]:
        """Packs rows r0 to r1 as vectors along the rows, if ``near``, or along the depth; an empty list where that
        can't be vectorized. at, strides: where the rows of a batch go, from row to row and from step to step; shared:
        the pragma of the loop around the vectors.
        """
        m = self.m
        if not (len(m.rows) == 1 and self._runs(m.a, m.rows[0]) if near else self._along_depth(m, m.a)):
            return []
        v = (m.rows if near else m.depth)[0]
        start, row, (sm, sk) = Var("r0", greater(v.extent, 2)), Var("r", greater(v.extent, 2)), strides  # type: ignore[arg-type]
        if near:
            q = Var("q_", size(Dim("rn", 2, hint(v.extent), hint(v.extent))))                # type: ignore[arg-type]
            around: Level = m.depth, lambda body: nested(m.depth, body, shared)
            to = at + var(q) * sm + flat(m.depth) * sk
            out = self._in_lanes({start}, [batches, around], m.a, {v: var(start) + var(q)}, q, to, "Ap")
            return [f"const long {q.extent} = r1 - r0;", *out] if out else []
        q = Var("q_", v.extent)
        rows: Level = m.rows, lambda body: [For("r", Literal("r0"), Literal("r1"), (*decode("r", m.rows), *body), 1,
                                                shared)]
        to = at + var(row) * sm + var(start) * -sm + var(q)
        return self._in_lanes({start}, [batches, rows], m.a, {v: var(q)}, q, to, "Ap")

    # ---- columns
    def _columns_in_lanes(self, steps: Level) -> list[Stmt]:
        """Packs a panel's columns as vectors along the panel, or along the depth; an empty list where that can't be
        vectorized. steps: the loops over the depth."""
        m, x, y, t = self.m, self.x, self.y, self.tile
        if not self._runs(m.b, x):
            return self._turned_columns(steps) if y is None and self._along_depth(m, m.b) else []
        q, first = Var("q_", t.c), Var("x0", greater(x.extent, 2))               # type: ignore[arg-type]
        to = Ix(0, ((Var("k", greater(self.depth, 2)), self.width), (q, 1)))     # type: ignore[arg-type]
        if y and may_exceed(t.r, 1):
            to = to + var(Var(inner_name(y), y.extent)) * t.c                    # type: ignore[arg-type]
        lines = [self._span(y, {y: (t.r, "y0")})] if y else []
        return self._in_lanes({*m.batch, *m.columns, first} - {x, y}, [steps, *lines], m.b, {x: var(first) + var(q)}, q,
                              to, "Bp")

    def _turned_columns(self, steps: Level) -> list[Stmt]:
        """Columns that lie along the depth in memory: square blocks of vectors along the depth, transposed into the
        panel. The last blocks overlap those before them. Few columns or steps one by one."""
        L, W, n = self.lanes, self.width, self.steps_at_once
        names = [Var(v, greater(of, 2)) for v, of in (("x0", self.x.extent), ("j", self.width), ("kb", self.depth),
                                                      ("k", self.depth))]
        (first, j, kb, k), i, q = map(var, names), Var("i_", L), Var("q_", L)
        step = k + var(q) + (kb if self.blocked else 0)
        at = {self.x: first + j + var(i), self.m.depth[0]: step}
        rows: Level = [i], lambda body: nested([i], body)
        known = {*self.m.batch, *self.m.columns, *names} - {self.x}
        vectors = self._in_lanes(known, [rows], self.m.b, at, q, Ix(0, ((i, L), (q, 1))), "square")
        if not vectors:
            return []
        block = [f"const long k = kt < {n} - {L} ? kt : {n} - {L}, j = jt < {self.last} ? jt : {self.last};",
                 local.array(self.T, "square", L * L), *vectors, f"turn_{self.V}(Bp + k * {W} + j, {W}, square, {L});"]
        return self._in_squares(block, self._one_by_one(steps))

    def _in_squares(self, block: Sequence[Stmt], rest: list[Stmt]) -> list[Stmt]:
        """A panel's columns by square blocks of vectors, whose statements are given; the rest where there are fewer
        columns or steps than a vector has elements."""
        L, n = self.lanes, self.steps_at_once
        blocks = count("kt", n, [count("jt", self.columns, block, L)], L)
        if fixed(self.columns) and fixed(self.depth):
            least, most = (self.depth - 1) % self.block + 1, min(self.depth, self.block)
            if self.columns < L or most < L:
                return rest
            if least >= L:
                return [blocks]
        return [When(f"{self.columns} >= {L} && {n} >= {L}", (blocks,), tuple(rest))]

    def _one_by_one(self, steps: Level) -> list[Stmt]:
        """A panel's columns, element by element."""
        m, x, y, t = self.m, self.x, self.y, self.tile
        spans = {**({y: (t.r, "y0")} if y else {}), x: (t.c, "x0")}
        e = Emitter(C, self.reads, count=2000)
        line = f"{inner_name(y)} * {t.c} + " if y else ""
        cell = f"Bp[k * {self.width} + {line}{inner_name(x)}]"
        return within_levels({*m.batch, *m.columns} - spans.keys(),
                             [steps, *(self._span(v, spans, v is x) for v in spans)],
                             lambda b: b.body.append(f"{cell} = {e.value(m.b.node, m.b.index, b)};"))
