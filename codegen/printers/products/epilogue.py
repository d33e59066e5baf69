"""The end of a contraction's tile: the kernel's results from the sums, element by element or as vectors."""
from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, coefficient, linear, substitute, text, var
from hybrid.ir.size import Int, greater, hint, may_exceed, same
from hybrid.ir.stmt import For, Stmt

from hybrid.codegen.block import Block, Level, level, within_levels
from hybrid.codegen.dialect import C
from hybrid.codegen.emit import Emitter
from hybrid.codegen.nest import count
from hybrid.codegen.printers.anchored import Anchored
from .operand import Matmul, root_index
from hybrid.codegen.schedule.tiling import Tile, inner_name, positions
from .tiles import Prefetch
from hybrid.codegen.lanes import F32, HALF_LANES, Refused, half
from hybrid.codegen.vector import VectorEmitter

Spans = dict[Var, tuple[Int, str]]      # of loops over a part of an axis: how many iterations, and from where

FAR = 128 << 10                 # bytes that an epilogue reads or writes, from which they are fetched beforehand


class Epilogue(Anchored):
    """What a Contraction prints after a tile's sums."""
    T: str
    V: str
    vectors: bool
    past: frozenset[Node] = frozenset()     # results that are written past the caches

    def _span(self, v: Var, spans: Spans, last: bool = False) -> Level:
        """The loop over a part of an axis. last: the innermost one."""
        def around(body: list[Stmt]) -> list[Stmt]:
            extent, start = spans[v]
            simd = last and may_exceed(extent, 3) and not any(isinstance(s, For) for s in body)
            return [*(["#pragma omp simd"] if simd else []),
                    count(f"i_{v.name}", extent, [f"long {v.name} = {start} + i_{v.name};", *body])]
        return ([v], around) if v in spans else level(v)

    @staticmethod
    def _rows(m: Matmul, rows: Int) -> Level:
        """The loop over a tile's rows."""
        return m.rows, lambda body: [count("i_m", rows, [*positions("mm", "m_first + i_m", m.rows), *body])]

    def _epilogue(self, m: Matmul, cell: str, rows: Int, spans: Spans) -> list[Stmt]:
        """The epilogue one by one. cell: a sum, in C."""
        e = Emitter(C, self.reads, given={self.dot: lambda idx: self._rounded(cell)}, extra=self.extra, count=3000)
        at, last = root_index(self.k, m.dot_index), list(spans)[-1]
        return within_levels({*m.batch, *m.columns} - spans.keys(),
                             [self._rows(m, rows), *(self._span(v, spans, v is last) for v in spans)],
                             lambda block: self.store_root(e, at, block),
                             None if same(self.dot.size, 1) else self.outside)    # it depends on no loop either

    def _vector_epilogue(self, m: Matmul, t: Tile, x: Var, y: Var | None, width: int,
                         fetches: Sequence[Stmt] = ()) -> list[Stmt]:
        """The epilogue as explicit vectors along the tile's columns, or along its rows if those are the neighbours in
        memory: then the tile is transposed first. Nothing where it is not of neighbours in float32 or a half type.
        fetches: statements that stand before each vector along the columns."""
        if not self._in_vectors():
            return []
        store, vectors = self._stored_at(m), self.vectors
        try:
            self.vectors = True
            if same(coefficient(store, x), 1):
                return self._along_columns(m, t, x, y, width, fetches)
            rows_are_neighbours = len(m.rows) == 1 and same(coefficient(store, m.rows[0]), 1)
            if y is None and 4 <= hint(t.mr) <= self.lanes and rows_are_neighbours:
                return self._along_rows(m, t, x, width)
        except Refused:
            pass
        self.vectors = vectors
        return []

    def _in_vectors(self) -> bool:
        types = self.dot.dtype, self.k.root.dtype
        least = HALF_LANES if any(map(is_half, types)) else 4
        return all(d == F32 or is_half(d) for d in types) and self.lanes >= least

    def emitter(self, lane: Var) -> VectorEmitter:
        """As of Anchored; vectors of half types are read and stored, too."""
        return replace(super().emitter(lane), allow_halves=self.lanes >= HALF_LANES, past=self.past)

    def _summed(self, at: str) -> str:
        """C that loads a vector of float32 sums, rounded to the product's type if that is a half type."""
        sums = f"HYV_LOAD@({at})"
        return f"HYV_NEAR{half(self.dot.dtype)}({sums})" if is_half(self.dot.dtype) else sums

    def _stored_at(self, m: Matmul) -> Ix:
        """Where an element of the product is stored."""
        return linear(self.k.root.shape, root_index(self.k, m.dot_index))

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
        reads = [n for n, _, _, written in found if not written]
        if hint(sum(n.nbytes for n, *_ in found)) < FAR or len(reads) > most:
            return []
        none = {m.rows[0]: Ix(), self._of_columns(m, t, x)[2]: Ix()}
        return [Prefetch(f"{self.names[n]} + {text(substitute(at, none))} + m_first * {step}l", step, written)
                for n, at, step, written in found[:most]]

    def _touched(self, m: Matmul, t: Tile, x: Var) -> list[tuple[Node, Ix, int, bool]]:
        """The arrays that the epilogue reads or writes along the columns of a tile: where, elements from row to row,
        and whether it only writes there. A result that is computed from what is read at the same index is left out: it
        may be written over it."""
        at, known, q = self._of_columns(m, t, x)
        e, row = self.emitter(q), m.rows[0]
        self.store_root(e, at, Block(None, frozenset({*known, *m.rows, q})))
        loads = list(dict.fromkeys(e.loads))
        new = [(n, at) for n, at in dict.fromkeys(e.stores)
               if hint(n.nbytes) >= FAR and not any(at == i and self.k.computed_from(n, source) for source, i in loads)]
        return [(n, at, step, written) for written, arrays in ((False, loads), (True, new)) for n, at in arrays
                if (step := coefficient(at, row))]

    def _of_columns(self, m: Matmul, t: Tile, x: Var) -> tuple[Index, set[Var], Var]:
        """The results along a tile's columns: their index, the variables around the tile, the lane variable."""
        q, first = Var("q_", t.c), Var("x0", greater(x.extent, 2))     # type: ignore[arg-type]
        at = root_index(self.k, tuple(substitute(i, {x: var(first) + var(q)}) for i in m.dot_index))
        return at, {*m.batch, *m.columns, first} - {x}, q

    def _along_columns(self, m: Matmul, t: Tile, x: Var, y: Var | None, width: int,
                       fetches: Sequence[Stmt]) -> list[Stmt]:
        at, known, q = self._of_columns(m, t, x)
        row, line = "i_m" if may_exceed(m.sizes[0], 1) else "0", f"{inner_name(y)} * {t.c} + " if y else ""
        lines = [self._span(y, {y: (t.r, "y0")})] if y else []
        return self.results(at, [self._rows(m, t.mr), *lines], q,
                            self._summed(f"acc + {row} * {width} + {line}q_"), known - {y}, fetches)

    def _along_rows(self, m: Matmul, t: Tile, x: Var, width: int) -> list[Stmt]:
        L, row, q = self.lanes, m.rows[0], Var("q_", t.mr)             # type: ignore[arg-type]
        first = Var("m_first", greater(row.extent, 2))                 # type: ignore[arg-type]
        at = root_index(self.k, tuple(substitute(i, {row: var(first) + var(q)}) for i in m.dot_index))
        known = {*m.batch, *m.columns, first} - {x}
        turned = count("j", width, [f"turn_{self.V}(turned + j * {L}, {L}, acc + j, {width});"], L)
        return [f"{self.T} turned[{width * L}] __attribute__((aligned(64)));", turned,
                *self.results(at, [self._span(x, {x: (t.c, "x0")})], q,
                              self._summed(f"turned + {inner_name(x)} * {L} + q_"), known)]

    def _rounded(self, value: str) -> str:
        """A sum as the value it stands for: that of a half dtype, if it has one."""
        return str(C.rounded(self.dot.dtype, value))
