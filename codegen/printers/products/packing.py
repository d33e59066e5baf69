"""Panels of a contraction: its rows and columns, where they are or packed, and loops over blocks of the depth."""
from __future__ import annotations

import math

import numpy as np

from hybrid.ir import Node
from hybrid.ir.index import Ix, Var, coefficient, substitute, text
from hybrid.ir.size import Dim, Int, fixed, product, quotient, same, size

from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.emit import Block, Emitter, loop_nest
from hybrid.codegen.program.size_parameters import more_declared
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Tile, decode, flat, inner_name
from .epilogue import Epilogue
from .operand import Matmul, Operand

COPY = 50                       # multiplications that take as long as to put an element elsewhere
NEAR = 2                        # tiles up to which columns are read in place


def up(n: Int, to: int) -> Int:
    """How many pieces of a size cover n."""
    return quotient(n + (to - 1), to)


def threads(work: Int, least: int = PARALLEL_WORK) -> str:
    """The pragma of a loop whose iterations threads share, where the work is worth it."""
    if fixed(work):
        return PARALLEL if work >= least else ""
    return f"{PARALLEL} if ({work} >= {least})"


class Panels(Epilogue):
    """What a Contraction prints to pack its operands. Sizes are integers or names; ``lay`` cuts a product into panels
    of columns: the last one that is no whole vectors ends with a vector that overlaps the one before."""
    name: str
    d: np.dtype
    args: list[Node]
    any: bool                                              # whether sizes are known only at the call
    scratch: int
    U: str
    most: int                                              # rows of a tile, at most
    step: int                                              # columns, or lines of columns, of a panel

    def lay(self, m: Matmul, tile: Tile, block: int) -> None:
        """Cuts a product into panels and blocks. tile: rows, and columns of a panel, at most; block: steps of the depth
        that are summed at once, of a longer one."""
        self.m, self.nv, self.width = m, tile.nv, tile.nv * self.lanes
        self.outside: list[str] = []
        self.most = tile.mr                                                 # type: ignore[assignment]
        self.x = m.columns[-1] if m.columns else Var("n_0", 1)
        self.y = m.columns[-2] if tile.r > 1 else None
        self.depth = m.sizes[2]
        self.block = self.depth if fixed(self.depth) and self.depth <= block else block
        self.blocked = not same(self.block, self.depth)
        v, self.step = (self.y, tile.r) if self.y else (self.x, self.width)           # type: ignore[assignment]
        self.pieces, each = up(v.extent, self.step), self.x.extent if self.y else 1
        self.ragged = self.step > 1 and (not fixed(v.extent) or v.extent > self.step and v.extent % self.step != 0)
        count: Int = min(v.extent, self.step) if fixed(v.extent) else self.step
        if self.ragged:
            count = size(Dim("cn", 2, self.step, self.step))
        self.count = count
        self.tile = Tile(tile.mr, tile.nv, count if self.y else 1, self.x.extent if self.y else count)
        self.columns = product(count, each)
        # whether each panel has a vector of columns at least
        self.whole = fixed(v.extent) and not self.y and v.extent >= self.lanes and (
            self.nv > 1 or v.extent % self.lanes == 0)
        self.last = "last" if self.ragged else str(max(self.columns - self.lanes, 0))

    @property
    def steps_at_once(self) -> str:
        """How many steps of the depth are summed, in C."""
        return "kn" if self.blocked else str(self.depth)

    def _place(self) -> list[str]:
        """Where panel ``u`` begins, how many columns it has. Where few are left for the last one, it takes a vector of
        those of the one before."""
        number, others = ("x0" if self.y is None else "y0"), [] if self.y is None else ["const long x0 = 0;"]
        out = [f"const long xt = u % {self.pieces}; u /= {self.pieces};", *decode("u", self._outer(self.m, self.y)),
               *others]
        if not self.ragged:
            return [*out, f"const long {number} = xt * {self.step};"]
        v, W = self.y or self.x, self.step
        few = self.nv > 1 and self.y is None and not (fixed(v.extent) and v.extent % W >= self.lanes)
        at = [f"xt * {W}", f"(xt + 1) * {W}"]
        if few:
            at = [f"{a} - (xt == {self.pieces} - {i} ? short_ : 0)" for a, i in zip(at, (1, 2))]
            out.append(f"const long short_ = {v.extent} > {W} && ({v.extent} - 1) % {W} < {self.lanes - 1} ? "
                       f"{self.lanes} : 0;")
        out.append(f"const long {number} = {at[0]};")
        out.append(f"const long {self.count} = (xt + 1 < {self.pieces} ? {at[1]} : {v.extent}) - {number};")
        return [*out, f"const long last = {self.columns} > {self.lanes} ? {self.columns} - {self.lanes} : 0;"]

    def _outer(self, m: Matmul, y: Var | None) -> list[Var]:
        """Loops around those of a tile's columns."""
        return [*m.batch, *m.columns[:-2 if y else -1]] if m.columns else list(m.batch)

    # ---- rows
    def _row_stride(self, m: Matmul) -> tuple[Int, Int] | None:
        """Strides (row, depth) of the row operand when it can be read in place."""
        if m.a.address is None or len(m.depth) > 1 or len(m.rows) > 1:
            return None
        strides = [m.a.stride(g[0]) if g else 0 for g in (m.rows, m.depth)]
        return None if None in strides else (strides[0], strides[1])       # type: ignore[return-value]

    def _packed_rows(self, rows: Int) -> tuple[list[str], str, tuple[Int, Int]]:
        """What copies rows ``r0`` to ``r1``, at most so many, that are not in memory as they are needed: its lines,
        where they begin, and their strides (row, depth): neighbours stay neighbours."""
        m, depth = self.m, self.depth
        near = len(m.rows) == 1 and m.a.place is not None and same(coefficient(m.a.place, m.rows[0]), 1)
        pitch = (2 * quotient((rows if near else depth) + 15, 32) + 1) * 16       # an odd number of lines
        sm, sk = (1, pitch) if near else (pitch, 1)
        each, batch = product(pitch, depth if near else rows), math.prod(v.extent for v in m.batch)
        self.scratch = product(product(batch, each), self.d.itemsize)             # type: ignore[assignment]
        e = Emitter(C, self.reads, count=1000)
        top = Block(None, frozenset())
        outer = top.child(m.batch)
        groups = [m.depth, m.rows] if near else [m.rows, m.depth]
        middle = outer.child(groups[0])
        last = middle.child(groups[1])
        value = e.value(m.a.node, m.a.index, last)
        at = f"({text(flat(m.batch) * each)}) + (r - r0) * {sm} + ({text(flat(m.depth))}) * {sk}"
        inner = [*last.lines, f"Ap[{at}] = {value};"]
        simd = [] if any("for (" in s for s in last.lines) else ["#pragma omp simd"]
        share = threads(product(product(rows, depth), batch), PARALLEL_WORK // COPY)
        run, own = ["for (long r = r0; r < r1; r++) {"], ["  " + s for s in decode("r", m.rows)]
        if near:
            inner = [*middle.lines, *simd, *run, *own, *inner, "}"]
            body = loop_nest(m.depth, inner, "" if m.batch else share)
        else:
            nest = loop_nest(m.depth, inner, "".join(simd))
            body = [*([share] if share and not m.batch else []), *run, *own,
                    *middle.lines, *nest, "}"]
        nest = loop_nest(m.batch, [*outer.lines, *body], share) if m.batch else [*outer.lines, *body]
        return ([f"{self.T} *Ap = ({self.T} *)scratch;", *top.lines, *nest],
                f"Ap + ({text(flat(m.batch) * each)})", (sm, sk))

    def _base(self, o: Operand, names: dict[Var, Ix], m: Matmul) -> str:
        """Where an operand begins at some positions, at the first step of the depth."""
        assert o.base is not None and o.address is not None
        return f"({self.reads[o.base]} + ({text(substitute(o.address, {**names, **{v: Ix() for v in m.depth}}))}))"

    def _head(self) -> str:
        parts = [f"{'' if i < len(self.k.stores) else 'const '}{C.storage(n.dtype)} *p{i}"
                 for i, n in enumerate(self.args)]
        return f"static void {self.name}({', '.join([*parts, 'void *scratch'])}{more_declared()}) {{"

    # ---- depth
    def _depth_blocks(self, body: list[str]) -> list[str]:
        """Lines inside a loop over blocks of the depth, which runs at least once."""
        if not self.blocked:
            return body
        return [f"const long end_ = {self.depth} > 1 ? {self.depth} : 1;",
                f"for (long kb = 0; kb < end_; kb += {self.block}) {{",
                f"  const long kn = {self.depth} - kb < {self.block} ? {self.depth} - kb : {self.block};",
                *body, "}"]

    # ---- columns
    def _in_reach(self, m: Matmul, x: Var) -> bool:
        """Whether columns are neighbours in memory."""
        return (m.b.address is not None and len(m.depth) == 1 and bool(m.columns) and same(m.b.stride(x), 1)
                and m.b.stride(m.depth[0]) is not None)

    def _along(self, m: Matmul) -> bool:
        """Whether columns lie along the depth in memory."""
        return (m.b.address is not None and len(m.depth) == 1 and same(m.b.stride(m.depth[0]), 1) and bool(m.columns)
                and m.b.stride(m.columns[-1]) is not None)

    def _columns(self, direct: bool | None) -> list[str]:
        """The columns of a panel as B, a step ``ldb`` apart: where they are, if ``direct``, or packed; None: as is
        better for the tiles t0 to t1."""
        if self.y is not None or not self._in_reach(self.m, self.x):
            return [f"const {self.T} *B = Bp; const long ldb = {self.width};", *self._packed_columns()]
        step, n, L = self.m.b.stride(self.m.depth[0]), self.steps_at_once, self.lanes
        at = f"{self._base(self.m.b, {self.x: Ix()}, self.m)} + x0" + (f" + kb * {step}" if self.blocked else "")
        if direct:
            return [f"const {self.T} *B = {at}; const long ldb = {step};"]

        def copied(j: str) -> str:
            return f"*({self.U} *)(Bp + k * {self.width} + {j}) = *(const {self.U} *)(from + k * {step} + {j});"
        every = " ".join(copied(str(j)) for j in range(0, self.width, L))
        if not self.ragged:
            every = " ".join(copied(f"{min(j, int(self.last))}") for j in range(0, self.width, L))
        lines = [f"const {self.T} *from = {at}, *B = Bp; long ldb = {self.width};"]
        some = [f"for (long k = 0; k < {n}; k++) {{", f"  for (long j = 0; j < {self.columns}; j++) "
                f"Bp[k * {self.width} + j] = from[k * {step} + j];", *self._zeros(), "}"]
        if not self.whole and not self.ragged and self.columns < L:
            return [*lines, *some]
        copy = [f"for (long k = 0; k < {n}; k++) {{ {every} }}"]
        if self.ragged:
            copy = [f"if ({self.count} == {self.width}) {copy[0]}", f"else for (long k = 0; k < {n}; k++) {{",
                    f"  for (long j = 0; j < last; j += {L}) {copied('j')}", f"  {copied('last')}", "}"]
        if direct is None:
            copy = [f"if (t1 - t0 <= {NEAR}) {{ B = from; ldb = {step}; }} else {{", *copy, "}"]
        if self.whole:
            return [*lines, *copy]
        return [*lines, f"if ({self.count} < {L}) {{", *some, "} else {", *copy,
                "}"]

    def _zeros(self) -> list[str]:
        """Zeros beyond fewer columns than a vector has."""
        if self.whole or fixed(self.columns) and self.columns >= self.lanes:
            return []
        return [f"  for (long j = {self.columns}; j < {self.lanes}; j++) Bp[k * {self.width} + j] = 0;"]

    def _packed_columns(self) -> list[str]:
        """Elements that are computed, or are no neighbours, step by step."""
        m, x, y, t = self.m, self.x, self.y, self.tile
        if y is None and self._along(m):
            return self._turned_columns()
        spans = {**({y: (t.r, "y0")} if y else {}), x: (t.c, "x0")}
        e = Emitter(C, self.reads, count=2000)
        blocks = [Block(None, frozenset([*m.batch, *m.columns]) - frozenset(spans))]
        for vs in (m.depth, *([v] for v in spans)):
            blocks.append(blocks[-1].child(vs))
        value = e.value(m.b.node, m.b.index, blocks[-1])
        line = f"{inner_name(y)} * {t.c} + " if y else ""
        body = [*blocks[-1].lines, f"Bp[k * {self.width} + {line}{inner_name(x)}] = {value};"]
        for i, v in reversed(list(enumerate(spans))):
            body = [*(blocks[i + 1].lines if i else []), *self._span_loop(v, spans, body, v is x)]
        number = "long kk = kb + k;" if self.blocked else "long kk = k;"
        return [*blocks[0].lines, f"for (long k = 0; k < {self.steps_at_once}; k++) {{", f"  {number}",
                *decode("kk", m.depth), *blocks[1].lines, *body, *self._zeros(), "}"]

    def _turned_columns(self) -> list[str]:
        """Columns that lie along the depth in memory: read in short runs, written across the panel. The last runs
        overlap those before them."""
        L, n, W, step = self.lanes, self.steps_at_once, self.width, self.m.b.stride(self.x)
        at = f"{self._base(self.m.b, {self.x: Ix()}, self.m)} + x0 * {step}" + (" + kb" if self.blocked else "")
        return [f"const {self.T} *from = {at};", f"if ({self.columns} >= {L} && {n} >= {L})",
                f"  for (long kt = 0; kt < {n}; kt += {L}) for (long jt = 0; jt < {self.columns}; jt += {L}) {{",
                f"    const long k = kt < {n} - {L} ? kt : {n} - {L}, j = jt < {self.last} ? jt : {self.last};",
                f"    turn_{self.V}(Bp + k * {W} + j, {W}, from + j * {step} + k, {step});", "  }",
                f"else for (long k = 0; k < {n}; k++) {{",
                f"  for (long j = 0; j < {self.columns}; j++) Bp[k * {W} + j] = from[j * {step} + k];",
                *self._zeros(), "}"]
