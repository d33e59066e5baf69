"""The end of a contraction's tile: the kernel's results from the sums, element by element or as vectors."""
from __future__ import annotations

from dataclasses import replace

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, coefficient, linear, substitute, text, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import Int, greater, hint, may_exceed, same

from hybrid.codegen.dialect import C
from hybrid.codegen.emit import Block, Emitter, loop_nest
from .operand import Matmul, root_index
from hybrid.codegen.schedule.tiling import Tile, decode, inner_name
from .prefetch import Prefetch
from hybrid.codegen.lanes import F32, Refused, lane_loop
from hybrid.codegen.vector import VectorEmitter
from hybrid.codegen.vector_forms import one_plus

Spans = dict[Var, tuple[Int, str]]      # of loops over a part of an axis: how many iterations, and from where
FAR = 128 << 10                 # bytes that an epilogue reads or writes, from which they are fetched beforehand


class Epilogue:
    """What a Contraction prints after a tile's sums."""
    k: Kernel
    dot: Node
    names: dict[Node, str]
    reads: dict[Node, str]
    lanes: int
    T: str
    V: str
    begin: dict[Var | None, str]
    vectors: bool
    outside: list[str]                  # statements of the last epilogue that no loop changes, for the kernel's begin

    def _span_loop(self, v: Var, spans: Spans, body: list[str], last: bool) -> list[str]:
        if v not in spans:
            return loop_nest([v], body)
        extent, start = spans[v]
        pragma = ["#pragma omp simd"] if last and may_exceed(extent, 3) and not any("for (" in s for s in body) else []
        head = f"for (long i_{v.name} = {self.begin.get(v, 0)}; i_{v.name} < {extent}; i_{v.name}++) {{"
        return [*pragma, head, f"  long {v.name} = {start} + i_{v.name};", *body, "}"]

    def _epilogue(self, m: Matmul, flat_spans: Spans, cell: object,
                  rows: tuple[str, str] | None = None,
                  spans: Spans | None = None) -> list[str]:
        e = Emitter(C, self.reads, given={self.dot: lambda idx: self._rounded(cell())},  # type: ignore[operator]
                    extra={n: self.names[n] for n in self.k.extra}, count=3000)
        every = {**flat_spans, **(spans or {})}
        at = root_index(self.k, m.dot_index)
        outside = Block(None, frozenset())
        blocks = [outside.child(frozenset([*m.batch, *m.columns]) - frozenset(every))]
        loops: list[Var | None] = []
        if rows:
            blocks.append(blocks[-1].child(m.rows))
            loops.append(None)
        for v in every:
            blocks.append(blocks[-1].child([v]))
            loops.append(v)
        value = e.value(self.k.root, at, blocks[-1])
        blocks[-1].body.append(e.store(self.names[self.k.root], self.k.root, at, value))
        body = blocks[-1].lines
        for i in reversed(range(len(loops))):
            loop = loops[i]
            if loop is None:
                assert rows is not None
                head = [f"long mm = {rows[1]} + i_m;", *decode("mm", m.rows)]
                body = [*blocks[i].lines, f"for (long i_m = 0; i_m < {rows[0]}; i_m++) {{",
                        *(head + body), "}"]
            else:
                body = [*blocks[i].lines, *self._span_loop(loop, every, body, i == len(loops) - 1)]
        if same(self.dot.size, 1):                         # it depends on no loop either
            return [*outside.lines, *body]
        self.outside = outside.lines
        return body

    def _vector_epilogue(self, m: Matmul, t: Tile, x: Var, y: Var | None, width: int) -> list[str]:
        """The epilogue as explicit vectors along the tile's columns, or along its rows if those are the neighbours in
        memory:
        then the tile is transposed first. Nothing where it is not of float32 neighbours.
        """
        if not self._in_vectors():
            return []
        store = self._stored_at(m)
        try:
            if same(coefficient(store, x), 1):
                return self._along_columns(m, t, x, y, width)
            rows_are_neighbours = len(m.rows) == 1 and same(coefficient(store, m.rows[0]), 1)
            if y is None and 4 <= hint(t.mr) <= self.lanes and rows_are_neighbours:
                return self._along_rows(m, t, x, width)
        except Refused:
            pass
        return []

    def _in_vectors(self) -> bool:
        return self.dot.dtype == F32 and self.k.root.dtype == F32 and self.lanes >= 4

    def _stored_at(self, m: Matmul) -> Ix:
        """Where an element of the product is stored."""
        return linear(self.k.root.shape, root_index(self.k, m.dot_index))

    def _emitter(self, lane: Var) -> VectorEmitter:
        e = VectorEmitter(C, self.reads, given={self.dot: lambda idx: "sum@"},
                          extra={n: self.names[n] for n in self.k.extra}, count=3000,
                          width=self.lanes, lanes={lane}, one_plus=one_plus(self.k))
        e.kind["sum@"] = "v"
        return e

    def _root_value(self, e: VectorEmitter, at: Index, block: Block) -> None:
        value = e.value(self.k.root, at, block)
        block.body.append(e.store(self.names[self.k.root], self.k.root, at, value))
        self.vectors = True

    def _prefetches(self, m: Matmul, t: Tile, x: Var) -> list[Prefetch]:
        """What the epilogue touches along the columns of a tile, from the tile's first row on. Only large arrays, if
        there are few of them: they are fetched while the tile is summed.
        """
        if not self._in_vectors() or len(m.rows) != 1 or len(m.columns) != 1 or coefficient(self._stored_at(m), x) != 1:
            return []
        try:
            found = self._touched(m, t, x)
        except Refused:
            return []
        most = t.mr * t.nv // 4 // -(-t.c * 4 // 64)
        reads = [n for n, p in found if not p.written]
        if hint(sum(n.nbytes for n, _ in found)) < FAR or len(reads) > most:
            return []
        return [replace(p, start=f"{p.start} + m_first * {p.step}l") for _, p in found[:most]]

    def _touched(self, m: Matmul, t: Tile, x: Var) -> list[tuple[Node, Prefetch]]:
        """The arrays that the epilogue reads or writes along the columns of a tile, from the array's first row on. A
        result that is computed from what is read at the same index is left out: it may be written over it.
        """
        e, q, _ = self._columns_value(m, t, x, None)
        row, loads = m.rows[0], list(dict.fromkeys(e.loads))
        new = [(n, at) for n, at in dict.fromkeys(e.stores)
               if hint(n.nbytes) >= FAR and not any(at == i and self.k.computed_from(n, source) for source, i in loads)]
        return [(n, Prefetch(f"{self.names[n]} + {text(substitute(at, {row: Ix(), q: Ix()}))}", step, written))
                for written, arrays in ((False, loads), (True, new)) for n, at in arrays
                if (step := coefficient(at, row))]

    def _columns_value(self, m: Matmul, t: Tile, x: Var, y: Var | None) -> tuple[VectorEmitter, Var, list[Block]]:
        """The results of a tile along its columns: statements outside of all loops and of the tile's, in those of its
        rows, lines and vectors."""
        q, first = Var("q_", t.c), Var("x0", greater(x.extent, 2))     # type: ignore[arg-type]
        e = self._emitter(q)
        outside = Block(None, frozenset())
        top = outside.child((frozenset([*m.batch, *m.columns]) - {x, *([y] if y else [])}) | {first})
        rows = top.child(m.rows)
        lines = rows.child([y] if y else [])
        last = lines.child([q])
        self._root_value(e, root_index(self.k, tuple(substitute(i, {x: var(first) + var(q)}) for i in m.dot_index)),
                         last)
        return e, q, [outside, top, rows, lines, last]

    def _along_columns(self, m: Matmul, t: Tile, x: Var, y: Var | None, width: int) -> list[str]:
        _, q, (outside, top, rows, lines, last) = self._columns_value(m, t, x, y)
        row, line = "i_m" if may_exceed(m.sizes[0], 1) else "0", f"{inner_name(y)} * {t.c} + " if y else ""
        cell = f"acc + {row} * {width} + {line}q_"
        body = [*lines.lines, *lane_loop(q, [f"const hy_v sum@ = HYV_LOAD@({cell});", *last.lines], self.lanes, 1)]
        if y:
            body = self._span_loop(y, {y: (t.r, "y0")}, body, False)
        head = ["long mm = m_first + i_m;", *decode("mm", m.rows)]
        self.outside = outside.lines
        return [*top.lines, f"for (long i_m = 0; i_m < {t.mr}; i_m++) {{",
                *head, *rows.lines, *body, "}"]

    def _along_rows(self, m: Matmul, t: Tile, x: Var, width: int) -> list[str]:
        q, first = Var("q_", t.mr), Var("m_first", greater(m.rows[0].extent, 2))     # type: ignore[arg-type]
        row = m.rows[0]
        e = self._emitter(q)
        outside = Block(None, frozenset())
        top = outside.child((frozenset([*m.batch, *m.columns]) - {x}) | {first})
        column = top.child([x])
        last = column.child([q])
        self._root_value(e, root_index(self.k, tuple(substitute(i, {row: var(first) + var(q)}) for i in m.dot_index)),
                         last)
        L = self.lanes
        turned = [f"{self.T} turned[{width * L}] __attribute__((aligned(64)));",
                  f"for (long j = 0; j < {width}; j += {L}) turn_{self.V}(turned + j * {L}, {L}, acc + j, {width});"]
        lines = [f"const hy_v sum@ = HYV_LOAD@(turned + {inner_name(x)} * {L} + q_);", *last.lines]
        body = [*column.lines, *lane_loop(q, lines, self.lanes, 1)]
        self.outside = outside.lines
        return [*turned, *top.lines, *self._span_loop(x, {x: (t.c, "x0")}, body, False)]

    def _rounded(self, value: str) -> str:
        """A sum as the value it stands for: that of a half dtype, if it has one."""
        return str(C.rounded(self.dot.dtype, value))
