"""Contractions with symbolic sizes: tiles whose rows and columns are counted at the call.

Rows are dealt to the fewest tiles that registers hold, of two heights, a row apart; one set of functions serves all
heights, strides and depths (any_rows.py). Columns are packed into panels of constant width, the last of which has
zeros beyond them; few rows read whole panels where they are. A long depth goes by in blocks, whose sums stay in memory
of the thread.
"""
from __future__ import annotations

import math
from typing import Any

from hybrid.ir import Node
from hybrid.ir.index import Ix, Var, coefficient, substitute, text
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import Dim, Int, fixed, hint, may_exceed, product, quotient, same, size

from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.emit import Block, Emitter, loop_nest
from hybrid.codegen.program import local
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Target, Tile, decode, flat, in_one_set, inner_name
from . import any_rows
from .contraction import WAYS, Contraction
from .operand import Matmul, Operand, matmul
from .packing import COPY

LETTERS = ("b_", "m_", "n_", "k_")     # names of loops begin so: no size has such a name (n_0 is none)
STEPS = 256                     # reduction steps in one block
WHOLE = 512                     # a constant reduction length up to this is not blocked
TILES = 24                      # tiles at most whose partial sums a thread keeps on its stack between blocks
FEW, DEEPER = 32, 8             # dot products are used for at most FEW rows, if the reduction is >= DEEPER * rows
NEAR = 2                        # tiles up to which columns are read in place
PIECES = 4                      # of work for each thread, for load balance


def any_size(dot: Node) -> bool:
    """Whether sizes of a product are known only at the call."""
    return not all(fixed(d) for a in (dot, *dot.args) for d in a.shape)


def _up(n: Int, to: int) -> Int:
    return quotient(n + (to - 1), to)


class SizedContraction(Contraction):
    """Prints one contraction kernel whose sizes are symbols."""

    def __init__(self, k: Kernel, name: str, args: list[Node], names: dict[Node, str], target: Target):
        super().__init__(k, name, args, names, target)
        self.m = min(self._plans(), key=self._cost)
        self.x = self.m.columns[-1] if self.m.columns else Var("n_0", 1)
        self.nv = self._vectors(self.m, self.x)
        self.width = self.nv * self.lanes
        self.most = any_rows.most_rows(target, self.nv)
        rows, _, self.depth = self.m.sizes
        self.blocked = not fixed(self.depth) or self.depth > WHOLE
        self.block = STEPS if self.blocked else max(self.depth, 1)
        extent = self.x.extent
        self.ragged = not fixed(extent) or extent > self.width and extent % self.width != 0
        count: Any = size(Dim("cn", 2, self.width, self.width)) if self.ragged else min(extent, self.width)
        own: Any = 1 if same(rows, 1) else size(Dim("m_rows", 2, self.most, self.most))
        self.tile = Tile(own, self.nv, 1, count)
        self.dots = self._along_depth_too()

    def _plans(self) -> list[Matmul]:
        straight = {n: p for n, p in self.reads.items() if n.dtype == self.d}
        return [matmul(self.dot, straight, swap, LETTERS) for swap in (False, True)]

    def source(self) -> str:
        """C text of the kernel."""
        m, (rows, _, depth) = self.m, self.m.sizes
        panels = _up(self.x.extent, self.width)
        outer = math.prod(v.extent for v in self._outer(m, None))
        lines = [f"const long rows_ = {rows}, columns_ = {self.x.extent}, depth_ = {depth}, across_ = {panels};",
                 f"const long count_ = across_ * {outer};", "if (!rows_ || !count_) return;",
                 *self._height(),
                 "const long tiles_ = (rows_ + high_ - 1) / high_, each_ = (rows_ + tiles_ - 1) / tiles_;",
                 f"const long full_ = rows_ - tiles_ * (each_ - 1), one_ = depth_ <= {self.block};"]
        strides: tuple[Int, Int] | None = self._row_stride(m)
        if strides is None:
            packing, strides = self._packed_rows()
            lines += packing
        return "\n".join([self._head(), *("  " + s for s in [*lines, *self._panels_loop(strides)]), "}"])

    # ---- the schedule, from the sizes at trace
    def _vectors(self, m: Matmul, x: Var) -> int:
        """Vectors in a panel: one for few columns, else two; four (with half as many rows in a tile) where rows read in
        place would conflict in the L1 cache."""
        if hint(x.extent) <= self.lanes:
            return 1
        strides, (rows, _, depth) = self._row_stride(m), map(hint, m.sizes)
        if strides is None or not fixed(strides[0]) or not same(strides[1], 1) or depth * self.d.itemsize < 256:
            return 2
        crowded = in_one_set(any_rows.most_rows(self.target, 2), strides[0] * self.d.itemsize) > WAYS
        return 4 if crowded and hint(x.extent) > 2 * self.lanes and rows > WAYS else 2

    def _cost(self, m: Matmul) -> float:
        """Cycles of the tiles, about."""
        rows, columns, depth = map(hint, m.sizes)
        last = m.columns[-1] if m.columns else Var("n_0", 1)
        extent = max(hint(last.extent), 1)
        beyond = 0 if fixed(last.extent) else 1            # about half a panel of two vectors
        vectors = (-(-extent // self.lanes) + beyond) * (columns // extent)
        cost = rows * vectors * max(depth, 1) / 2
        tiles = -(-rows // any_rows.most_rows(self.target, 2))
        if not (tiles <= NEAR and self._in_reach(m, last)):
            unit = m.b.address is not None and same(m.b.stride(last), 1)
            cost += columns * depth * (0.2 if unit else 0.4 if self._along(m) else 2.0)
        if self._row_stride(m) is None:
            cost += rows * depth * 1.5
        store = self._stored_at(m)
        if m.columns and not same(coefficient(store, last), 1):
            turns = len(m.rows) == len(m.columns) == 1 and same(coefficient(store, m.rows[0]), 1)
            cost += rows * columns * (0.7 if turns else 3.0)
        return cost + 1e-3 * columns

    def _in_reach(self, m: Matmul, x: Var) -> bool:
        """Whether columns are neighbours in memory."""
        return (m.b.address is not None and len(m.depth) == 1 and bool(m.columns) and same(m.b.stride(x), 1)
                and m.b.stride(m.depth[0]) is not None)

    def _along_depth_too(self) -> bool:
        """Whether columns lie along the depth in memory, as rows do, so that dot products of vectors are possible."""
        strides = self._row_stride(self.m)
        return (self.lanes >= any_rows.LEAST and strides is not None and same(strides[1], 1) and self._along(self.m)
                and may_exceed(self.depth, self.lanes - 1))

    def _along(self, m: Matmul) -> bool:
        """Whether columns lie along the depth in memory."""
        return (m.b.address is not None and len(m.depth) == 1 and same(m.b.stride(m.depth[0]), 1) and bool(m.columns)
                and m.b.stride(m.columns[-1]) is not None)

    def _height(self) -> list[str]:
        """Rows of the highest tile, which are fewer in tiles of dot products."""
        if not self.dots:
            return [f"const long high_ = {self.most};"]
        least = min(any_rows.DOTS[self.target.accumulators], self.most)
        return [f"const long few_ = rows_ <= {FEW} && rows_ * {DEEPER} <= depth_ && depth_ >= {self.lanes};",
                f"const long high_ = few_ ? {least} : {self.most};"]

    # ---- rows
    def _packed_rows(self) -> tuple[list[str], tuple[Int, Int]]:
        """What copies rows that are not in memory as they are needed, and their strides (row, depth): neighbours stay
        neighbours."""
        m, (rows, _, depth) = self.m, self.m.sizes
        near = len(m.rows) == 1 and m.a.place is not None and same(coefficient(m.a.place, m.rows[0]), 1)
        pitch = (2 * quotient((rows if near else depth) + 15, 32) + 1) * 16       # an odd number of lines
        strides = (1, pitch) if near else (pitch, 1)
        self.packed_size = product(pitch, depth if near else rows)
        batch = math.prod(v.extent for v in m.batch)
        self.scratch = product(product(batch, self.packed_size), self.d.itemsize)      # type: ignore[assignment]
        groups = [m.batch, m.depth, m.rows] if near else [m.batch, m.rows, m.depth]
        e = Emitter(C, self.reads, count=1000)
        loops = [v for g in groups for v in g]
        blocks = [Block(None, frozenset())]
        for v in loops:
            blocks.append(blocks[-1].child([v]))
        value = e.value(m.a.node, m.a.index, blocks[-1])
        at = flat(m.batch) * self.packed_size + flat(m.rows) * strides[0] + flat(m.depth) * strides[1]
        body = [*blocks[-1].lines, f"Ap[{text(at)}] = {value};"]
        for i in reversed(range(len(loops))):
            pragma = "#pragma omp simd" if i == len(loops) - 1 and not any("for (" in s for s in body) else ""
            if not i:
                pragma = f"{PARALLEL} if (rows_ * depth_ * {batch} >= {PARALLEL_WORK // COPY})"
            body = [*blocks[i].lines, *loop_nest([loops[i]], body, pragma)]
        return [f"{self.T} *Ap = ({self.T} *)scratch;", *body], strides

    def _row_pointer_of(self) -> str:
        """The rows of a tile, at the first step that is summed, in C."""
        m = self.m
        strides = self._row_stride(m)
        if strides is None:
            return f"Ap + ({text(flat(m.batch) * self.packed_size)})"
        return self._base(m.a, {v: Ix() for v in m.rows}, m)

    def _base(self, o: Operand, names: dict[Var, Ix], m: Matmul) -> str:
        assert o.base is not None and o.address is not None
        return f"{self.reads[o.base]} + ({text(substitute(o.address, {**names, **{v: Ix() for v in m.depth}}))})"

    # ---- loops
    def _panels_loop(self, strides: tuple[Int, Int]) -> list[str]:
        """Threads take panels of columns, and parts of the rows where panels are few."""
        m, batch = self.m, math.prod(v.extent for v in self.m.batch)
        least = f"(tiles_ + {TILES - 1}) / {TILES}" if self.blocked else "1"
        out = [f"const long near_ = {least};",
               f"const long more_ = hy_threads < 2 ? 1 : ({PIECES} * hy_threads + count_ - 1) / count_;",
               "const long most_ = tiles_ / 2 > 1 ? tiles_ / 2 : 1, split_ = more_ < most_ ? more_ : most_;",
               "const long parts_ = near_ > split_ ? near_ : split_;",
               f"{PARALLEL} if (rows_ * columns_ * depth_ * {product(batch, self._others())} >= {PARALLEL_WORK})",
               "for (long t = 0; t < count_ * parts_; t++) {"]
        body = ["long u = t % count_; const long part = t / count_, xt = u % across_; u /= across_;",
                *decode("u", self._outer(m, None)), f"const long x0 = xt * {self.width};"]
        if self.ragged:
            body.append(f"const long {self.tile.c} = columns_ - x0 < {self.width} ? columns_ - x0 : {self.width};")
        body.append("const long first = part * tiles_ / parts_, last = (part + 1) * tiles_ / parts_;")
        body.append(local.array(self.T, "Bp", self.block * self.width, self.d.itemsize))
        sums = self.most * self.width
        if self.blocked:
            body.append(local.array(self.T, "sums", TILES * sums + self.lanes * self.width, self.d.itemsize))
        body += self._depth_blocks([*self._columns(), *self._tiles_loop(strides)])
        return [*out, *("  " + s for s in body), "}"]

    def _others(self) -> Int:
        """Product of the extents of all column axes but the innermost, which panels split."""
        return math.prod(v.extent for v in self.m.columns[:-1])

    def _depth_blocks(self, lines: list[str]) -> list[str]:
        """Lines inside a loop over blocks of the reduction axis, which runs at least once."""
        if not self.blocked:
            return lines
        return ["const long end_ = depth_ > 1 ? depth_ : 1;", f"for (long kb = 0; kb < end_; kb += {self.block}) {{",
                f"  const long kn = depth_ - kb < {self.block} ? depth_ - kb : {self.block};",
                *("  " + s for s in lines), "}"]

    @property
    def steps_at_once(self) -> str:
        """How many steps of the depth are summed, in C."""
        return "kn" if self.blocked else str(self.depth)

    def _tiles_loop(self, strides: tuple[Int, Int]) -> list[str]:
        """The tiles of a panel: sums, and what follows from them."""
        sm, sk = strides
        at = self._row_pointer_of() + f" + m_first * {sm}" + (f" + kb * {sk}" if self.blocked else "")
        rows = self.tile.count
        body = ["const long m_first = rt * (each_ - 1) + (rt < full_ ? rt : full_);"]
        if not fixed(self.tile.mr):
            body.append(f"const long {self.tile.mr} = each_ - (rt >= full_);")
        sums = max(self.most, self.lanes) * self.width
        body.append(f"{self.T} *acc = sums + (one_ ? 0 : rt - first) * {self.most * self.width};" if self.blocked else
                    f"{self.T} acc[{sums}] __attribute__((aligned(64)));")
        to, apart, more = "acc", str(self.width), "kb" if self.blocked else "0"
        if plain := self._stored_as_summed():
            whole = f"one_ && {self.tile.c} == {self.width}" if self.ragged else "one_"
            body += [f"const long plain = {whole}, apart = plain ? {plain[1]} : {self.width};",
                     f"{self.T} *to = plain ? {plain[0]} : acc;"]
            to, apart = "to", "apart"
        given = f"({rows}, {at}, {sm}, {sk}, B, ldb, {to}, {apart}, {self.steps_at_once}, {more});"
        call = f"{any_rows.name(self.d, self.lanes, self.nv)}{given}"
        for v in [v for v in (2, 1) if self.ragged and v < self.nv]:
            call = f"if ({self.tile.c} <= {v * self.lanes}) {any_rows.name(self.d, self.lanes, v)}{given} else {call}"
        if self.dots:
            columns = f"from, {self.m.b.stride(self.x)}, {to}, {apart}, {self.steps_at_once}, {self.tile.c}, {more}"
            call = f"if (few_) {any_rows.dots(self.d, self.lanes)}({rows}, {at}, {sm}, {columns}); else {call}"
        body.append(call)
        stop = ["plain"] * (plain is not None) + ["kb + kn < depth_"] * self.blocked
        if stop:
            body.append(f"if ({' || '.join(stop)}) continue;")
        return ["for (long rt = first; rt < last; rt++) {", *("  " + s for s in body + self._finish()), "}"]

    def _stored_as_summed(self) -> tuple[str, Int] | None:
        """Where the first element of a tile is stored, and how far apart its rows are, if nothing follows the sums and
        they can be stored in whole vectors."""
        whole = self.ragged or self.tile.c == self.width
        found = self._store_of_sums(self.m, self.x) if whole else None
        return (f"{found[0]} + m_first * {found[1]}", found[1]) if found is not None else None

    def _finish(self) -> list[str]:
        """What follows from the sums of a tile."""
        m, row = self.m, "i_m" if not same(self.m.sizes[0], 1) else "0"
        return (self._vector_epilogue(m, self.tile, self.x, None, self.width) or
                self._epilogue(m, {}, lambda: f"acc[{row} * {self.width} + {inner_name(self.x)}]",
                               (self.tile.count, "m_first"), {self.x: (self.tile.c, "x0")}))

    # ---- columns
    def _columns(self) -> list[str]:
        """The columns of a panel: where they are, or packed."""
        m, x = self.m, self.x
        if not self._in_reach(m, x):
            return [f"const {self.T} *B = Bp; const long ldb = {self.width};", *self._packed_columns()]
        step = m.b.stride(m.depth[0])
        at = f"{self._base(m.b, {x: Ix()}, m)} + x0" + (f" + kb * {step}" if self.blocked else "")
        whole = f"{self.tile.c} == {self.width}" if self.ragged else ""
        copies = " ".join(f"*({self.U} *)(Bp + k * {self.width} + {j}) = *(const {self.U} *)(from + k * {step} + {j});"
                          for j in range(0, self.width, self.lanes))
        copy = f"for (long k = 0; k < {self.steps_at_once}; k++) {{ {copies} }}"
        some = self._some_columns(f"from[k * {step} + j]")
        if not self.ragged:
            whole = "1" if self.tile.c == self.width else "0"
        lines = [f"const {self.T} *from = {at}, *B = Bp; long ldb = {self.width};"]
        if whole == "0":
            return [*lines, *some]
        direct = f"last - first <= {NEAR}" if whole == "1" else f"{whole} && last - first <= {NEAR}"
        lines.append(f"if ({direct}) {{ B = from; ldb = {step}; }}")
        if whole == "1":
            return [*lines, f"else {copy}"]
        return [*lines, f"else if ({whole}) {copy}", "else {", *("  " + s for s in some), "}"]

    def _some_columns(self, value: str) -> list[str]:
        """Some columns of a panel one by one, and zeros beyond them."""
        count = self.tile.c
        return [f"for (long k = 0; k < {self.steps_at_once}; k++) {{",
                f"  for (long j = 0; j < {count}; j++) Bp[k * {self.width} + j] = {value};",
                f"  for (long j = {count}; j < {self.width}; j++) Bp[k * {self.width} + j] = 0;", "}"]

    def _packed_columns(self) -> list[str]:
        m, x = self.m, self.x
        if self._along(m):
            return self._turned_columns()
        e = Emitter(C, self.reads, count=2000)
        outer = Block(None, frozenset([*m.batch, *m.columns]) - {x})
        steps = outer.child(m.depth)
        last = steps.child([x])
        value = e.value(m.b.node, m.b.index, last)
        count = self.tile.c
        inner = [f"for (long i_x = 0; i_x < {count}; i_x++) {{", f"  const long {x.name} = x0 + i_x;",
                 *("  " + s for s in last.lines), f"  Bp[k * {self.width} + i_x] = {value};", "}"]
        if not any("for (" in s for s in last.lines):
            inner = ["#pragma omp simd", *inner]
        number = "long kk = kb + k;" if self.blocked else "long kk = k;"
        return [*outer.lines, f"for (long k = 0; k < {self.steps_at_once}; k++) {{", f"  {number}",
                *("  " + s for s in [*decode("kk", m.depth), *steps.lines, *inner]),
                f"  for (long j = {count}; j < {self.width}; j++) Bp[k * {self.width} + j] = 0;", "}"]

    def _turned_columns(self) -> list[str]:
        """Columns that lie along the depth in memory: read in short runs, written across the panel."""
        m, count, run, steps = self.m, self.tile.c, self.lanes, self.steps_at_once
        step = m.b.stride(self.x)
        at = f"{self._base(m.b, {self.x: Ix()}, m)} + x0 * {step}" + (" + kb" if self.blocked else "")
        lines = [f"const {self.T} *from = {at};"]
        turned = [
                f"const long whole_ = {steps} / {run} * {run}, turned_ = {count} / {run} * {run};",
                f"for (long k = 0; k < whole_; k += {run}) for (long j = 0; j < turned_; j += {run})",
                f"  turn_{self.V}(Bp + k * {self.width} + j, {self.width}, from + j * {step} + k, {step});",
                "for (long j = 0; j < turned_; j++) for (long k = whole_; k < "
                f"{steps}; k++) Bp[k * {self.width} + j] = from[j * {step} + k];",
                f"for (long j = turned_; j < {count}; j++) for (long k = 0; k < {steps}; k++) "
                f"Bp[k * {self.width} + j] = from[j * {step} + k];",
                f"for (long k = 0; k < {steps}; k++) for (long j = {count}; j < {self.width}; j++) "
                f"Bp[k * {self.width} + j] = 0;"]
        return [*lines, "if (!few_) {", *("  " + s for s in turned), "}"] if self.dots else [*lines, *turned]
