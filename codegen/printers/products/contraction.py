"""Contractions in C: register tiles over packed columns (matrix products and convolutions alike), and dot products of
rows where one side is a few vectors. Prologue and epilogue are printed into the loops. Sizes are integers or names.

A tile has at most ``most`` rows and ``nv`` vectors of columns. Rows are dealt to the fewest tiles that registers hold,
of two heights, a row apart. Columns are packed into panels of constant width, each once for all of its rows; few rows
read whole vectors of them where they are. A long depth goes by in blocks, whose sums stay in memory of the thread, or
in the result.
"""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Mapping

import numpy as np

from hybrid import ir
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import beneath
from hybrid.ir.index import Ix, Var, coefficient, substitute, text
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import Dim, Int, fixed, hint, may_exceed, product, same, size
from hybrid.ir.stmt import For, Literal, Stmt, When

from hybrid.codegen.dialect import C
from hybrid.codegen.loops import Printed
from hybrid.codegen.nest import Cut, count
from hybrid.codegen.program import local
from hybrid.codegen.schedule.tiling import Target, Tile, choose_tile, in_one_set, inner_name
from . import tiles
from .epilogue import FAR
from .operand import Matmul, any_size, sum_dtype
from .packing import NEAR as NEAR_TILES, threads
from .tiles import Prefetch
from .forms import MOST_ROWS, Forms

FEW, DEEPER = 8, 8              # dot products are used for at most FEW rows, if the reduction is >= DEEPER * rows
BLOCK = 32 << 10                # bytes of the columns of a panel in one block of the depth
WHOLE = 64 << 10                # bytes of a panel up to which its depth is one block
LONGEST = 4096                  # steps of a block where columns are read in place
DEEP = 8192                     # steps above which a block has DIGITS of them: longer sums lose digits of float32
DIGITS = 512
TILES = 24                      # tiles at most whose partial sums a thread keeps on its stack between blocks
NEAR = 2 << 20                  # bytes of rows that go by for a panel of columns
AFAR = 1 << 20                  # bytes of rows that do not stay in a second cache
# bytes of columns that do not stay in the second cache: asked for AHEAD bytes before they are read
FAR_COLUMNS, AHEAD = 256 << 10, 8 << 10
WAYS = 7                        # lines of as many rows stay in one set of a first cache, beside those of the columns
TURN = 2                        # cycles to transpose an element of a matrix


def supported(k: Kernel) -> bool:
    """Whether the templates take this contraction (else it is a plain loop)."""
    if k.dot is None or k.dot.dtype not in (np.float32, np.float64) and not is_half(k.dot.dtype):
        return False
    return all(may_exceed(n.size, 0) for n in (k.dot, k.dot.args[0]))


def turns(dot: Node, which: int, steps: int, target: Target) -> bool:
    """Whether a product in a loop is done in fewer cycles if one of its matrices is transposed before all steps, that
    work included."""
    axes = dot.attrs["contract"]
    w, turned = dot.args[which], [(1 - a[0],) if i == which else a for i, a in enumerate(axes)]
    a, b = (ir.input(i, x.shape[::-1] if i == which else x.shape, x.dtype) for i, x in enumerate(dot.args))
    now, then = _cycles(dot, target), _cycles(ir.dot(a, b, (turned[0], turned[1])), target)
    return now is not None and then is not None and then * steps + TURN * w.size < now * steps


def _cycles(dot: Node, target: Target) -> float | None:
    """Cycles of a product alone, its operands in memory; None where the templates do not take it."""
    k = Kernel(dot, 0, (), dot=dot)
    if not supported(k) or not all(map(fixed, dot.shape)):
        return None
    p = Contraction(k, "", target)
    p.reads = {n: "p" for n in dot.args}
    return p.form()[0]


class Contraction(Forms):
    """Prints one contraction kernel."""

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, k.dot, name, target)
        self.any = any_size(self.dot)
        self.d = sum_dtype(self.dot)
        self.T = C.storage(self.d)
        self.lanes = target.lanes(self.d)
        self.V, self.U = f"v{self.T}{self.lanes}", f"u{self.T}{self.lanes}"
        self.vectors = False                               # whether it needs lanes.support

    def print(self) -> Printed:
        """The kernel, its helper functions before it."""
        _, dots, m = self.form()
        skipping = None if dots else self._skipping()
        code = self._either(lambda: self._tiles(m, False), skipping) if skipping else self._tiles(m, dots)
        return replace(self.printed(code, "contraction"), vectors=self.vectors)

    # ---- register tiles
    def _tile_of(self, m: Matmul) -> Tile:
        """The largest tile of a product. Half as many rows and twice the columns where rows come from afar or, read in
        place, would put one another out of the first cache.
        """
        x, y = m.columns[-1] if m.columns else Var("n_0", 1), m.columns[-2] if len(m.columns) > 1 else None
        if self.any:
            nv = self._vectors(m, x)
            return Tile(tiles.most_rows(self.target, nv), nv, 1, nv * self.lanes)

        def tile(most: int) -> Tile:
            return choose_tile(m.sizes[0], y.extent if y else 1, x.extent, self.lanes, self.target.accumulators, most)
        t = tile(14)
        few = tile(WAYS) if t.mr > WAYS else t
        return few if few.cost <= t.cost * (1.2 if self._crowded(m, hint(t.mr)) else 1.03 if self._far(m)
                                            and not self._prefers_transposed(m, x, y) else 0) else t

    def _vectors(self, m: Matmul, x: Var) -> int:
        """Vectors in a panel whose rows only the call tells: one for few columns, else two; four (with half as many
        rows in a tile) where rows read in place would conflict in the L1 cache."""
        if hint(x.extent) <= self.lanes:
            return 1
        crowded = self._crowded(m, tiles.most_rows(self.target, 2))
        return 4 if crowded and hint(x.extent) > 2 * self.lanes and hint(m.sizes[0]) > WAYS else 2

    def _far(self, m: Matmul) -> bool:
        return m.sizes[0] * m.sizes[2] * self.d.itemsize > AFAR

    def _crowded(self, m: Matmul, rows: int) -> bool:
        """Whether lines of too many rows fall into one of the 64 sets of a first cache."""
        step, along = self._row_stride(m) or (0, 0)
        if not fixed(step) or not same(along, 1) or hint(m.sizes[2]) * self.d.itemsize < 256:
            return False
        return in_one_set(rows, step * self.d.itemsize) > WAYS

    def _along_depth_too(self, m: Matmul) -> bool:
        """Whether columns lie along the depth in memory, as rows do, so that dot products of vectors are possible for
        few rows."""
        strides = self._row_stride(m)
        return (self.any and self.lanes >= tiles.LEAST and strides is not None and same(strides[1], 1)
                and self._along(m) and may_exceed(m.sizes[2], self.lanes - 1))

    def _tiles(self, m: Matmul, dots: bool) -> list[Stmt]:
        """Panels of columns, each with all rows in tiles of two heights. dots: of dot products."""
        self.any = self._varies(m)
        tile = Tile(min(m.sizes[0], MOST_ROWS), 1, 1, self.lanes) if dots else self._tile_of(m)
        step, (rows, _, depth) = tile.nv * self.lanes * self.d.itemsize, m.sizes
        deep = product(depth, math.prod(v.extent for v in m.over))
        most = DIGITS if self.d == np.float32 and may_exceed(deep, DEEP) else LONGEST
        self.lay(m, tile, most)
        self.direct = None if self.any else dots or (
            self.whole and self._in_reach(m, self.x) and rows <= NEAR_TILES * self.most)
        if not self.direct:
            whole = fixed(depth) and depth * step <= WHOLE or not self.any and self.lanes * self.d.itemsize < 64
            self.lay(m, tile, min(most, (WHOLE if whole else BLOCK) // step))
        self.dots = dots or self._along_depth_too(m)
        self.cut = Cut("rows_", "(each_ - 1)", "tiles_", "full_") if self.any else Cut.even(rows, self.most)  # type: ignore[arg-type]
        own: Int = self.cut.size if not self.any and not self.cut.longer else 1 if same(rows, 1) else size(
            Dim("m_rows", 2, self.most, self.most))
        self.tile = replace(self.tile, mr=own)
        self.plain, self.functions = self._plain(), []
        self.group()
        outer = math.prod(v.extent for v in self._outer(m, self.y))
        head: list[Stmt] = [f"const long count_ = {product(self.groups, outer)};"]
        if self.any:
            head += [f"const long rows_ = {rows}, depth_ = {depth};", "if (!rows_ || !count_) return;", *self._height(),
                     "const long tiles_ = (rows_ + high_ - 1) / high_, each_ = (rows_ + tiles_ - 1) / tiles_;",
                     "const long full_ = rows_ - tiles_ * (each_ - 1);"]
        loops = self._rows_loop()
        return [*self.functions, self.head(), *head, *(self.outside or []), *loops, "}"]

    def _height(self) -> list[Stmt]:
        """Rows of the highest tile, which are fewer in tiles of dot products."""
        if not self.dots:
            return [f"const long high_ = {self.most};"]
        least = min(tiles.DOTS[self.target.accumulators], self.most)
        return [f"const long few_ = rows_ <= {FEW} && rows_ * {DEEPER} <= depth_ && depth_ >= {self.lanes};",
                f"const long high_ = few_ ? {least} : {self.most};"]

    def _plain(self) -> tuple[str, Int] | None:
        """Where the first element of a tile is stored, and how far apart its rows are, if nothing follows the sums and
        they can be stored in whole vectors."""
        k, m = self.k, self.m
        if (self.y is not None or not self.whole and not self.ragged or len(m.rows) > 1 or len(k.stores) != 1 or k.extra
                or k.root.dtype != self.d or beneath(k.root, ("reshape", "permute")) is not self.dot):
            return None
        store = self._stored_at(m)
        step = coefficient(store, m.rows[0]) if m.rows else 0
        if not same(coefficient(store, self.x), 1) or step is None:
            return None
        at = text(substitute(store, {self.x: Ix(), **{v: Ix() for v in m.rows}}))
        return f"{self.names[k.root]} + ({at}) + x0 + m_first * {step}", step

    # ---- loops over tiles
    def _rows_loop(self) -> list[Stmt]:
        """The panels, after their rows are packed if need be: all of them, or some tiles of constant size at once."""
        m, (rows, _, depth) = self.m, self.m.sizes
        near = self.any or not self.dots                                   # dot products want rows along the depth
        strides, cut = self._row_stride(m), self.cut
        if strides is not None and (near or strides[1] == 1):
            start = self._base(m.a, {v: Ix() for v in m.rows}, m)
            return self._panels_loop(f"{start} + m_first * {strides[0]}", strides, "0", str(cut.count))
        if self.any or m.batch:
            lines, start, strides = self._packed_rows(rows, near)
            return [f"const long r0 = 0, r1 = {rows};", *lines,
                    *self._panels_loop(f"{start} + m_first * {strides[0]}", strides, "0", str(cut.count))]
        together = max(1, min(cut.count, self._rows_at_once(m) // (cut.largest * depth * self.d.itemsize)))
        lines, start, strides = self._packed_rows(min(rows, together * cut.largest), near)
        return [count("rb", cut.count, [
            f"const long re = rb + {together} < {cut.count} ? rb + {together} : {cut.count};",
            f"const long r0 = {cut.first('rb')}, r1 = re < {cut.count} ? {cut.first('re')} : {rows};", *lines,
            *self._panels_loop(f"{start} + (m_first - r0) * {strides[0]}", strides, "rb", "re")], together)]

    def _panels_loop(self, start: str, strides: tuple[Int, Int], begin: str, end: str) -> list[Stmt]:
        """Threads take panels of columns, and parts of the rows where panels are few. start: a tile's rows."""
        m, (rows, columns, depth) = self.m, self.m.sizes
        batch = math.prod(v.extent for v in (*m.batch, *m.over))
        share = threads(product(product(rows, columns), product(depth, batch)))
        kept = self.kept
        near = f"({end} - {begin} + {TILES - 1}) / {TILES}" if kept else "1"
        if not self.any and not kept and self.grouped == 1:
            near = str(max(1, min(self.cut.count // 2, -(-rows * self.block * self.d.itemsize // NEAR))))
        out, t, last, body = self._parts_loop(begin, end, near, bool(share))
        body += self._room()
        if kept:
            body.append(local.array(self.T, "sums", TILES * self.most * self.width + self.lanes * self.width,
                                    self.d.itemsize))
        body += self._depth_blocks([*self._in_group(self._panel_columns(), f"{self.T} *Bp"),
                                    self._tiles_loop(start, strides, kept)])
        return [*out, For(t, Literal("0"), Literal(last), tuple(body), 1, share)]

    def _panel_columns(self) -> list[Stmt]:
        """The columns of a panel: packed unless tiles are dot products, which read them where they are."""
        if not self.dots:
            return self._columns(self.direct)
        if not self.any:
            return [f"const {self.T} *from = {self._from(self.x)};"]
        columns = self._columns(self.direct)
        return [*columns[:2], When("!few_", tuple(columns[2:]))]

    def _tiles_loop(self, start: str, strides: tuple[Int, Int], kept: bool) -> Stmt:
        """The tiles of a panel: sums, and what follows from them."""
        sm, sk = strides
        at = start + (f" + kb * {sk}" if self.blocked else "")
        body: list[Stmt] = [f"const long m_first = {self.cut.first('rt')};"]
        if not fixed(self.tile.mr):
            body.append(f"const long {self.tile.mr} = {self.cut.rows('rt')};")
        if kept:
            tile = "rt - t0" if fixed(self.depth) else f"{self.depth} <= {self.block} ? 0 : rt - t0"
            body.append(f"{self.T} *acc = sums + ({tile}) * {self.most * self.width};")
        elif not (self.plain and self.whole):
            body.append(f"{self.T} acc[{max(self.most, self.lanes) * self.width}] __attribute__((aligned(64)));")
        to, apart = "acc", str(self.width)
        if self.plain and self.whole:
            to, apart = self.plain[0], str(self.plain[1])
        elif self.plain:
            body += [f"const long plain = {self.count} >= {self.lanes};",
                     f"const long apart = plain ? {self.plain[1]} : {self.width};",
                     f"{self.T} *to = plain ? {self.plain[0]} : acc;"]
            to, apart = "to", "apart"
        body += self._sums_of_tile(at, {"sm": sm, "sk": sk, "ldb": self._ldb(), "apart": apart}, to)
        if not (self.plain and self.whole):
            stop = ["plain"] * (self.plain is not None) + [f"kb + kn < {self.depth}"] * self.blocked
            stop += [f"{v.name} + 1 < {v.extent}" for v in self.m.over]
            body += [*([f"if ({' || '.join(stop)}) continue;"] if stop else []), *self._finish()]
        return count("rt", "t1", self._in_group(body, f"const {self.T} *B"), first="t0")

    def _ldb(self) -> Int | str:
        """From step to step of the columns."""
        if self.any:
            return "ldb"
        return self.m.b.stride(self.m.depth[0]) if self.direct else self.width       # type: ignore[return-value]

    def _sums_of_tile(self, rows: str, given: dict[str, Any], to: str) -> list[str]:
        """What calls the function of a tile's height. given: its arguments: numbers are constants of the function."""
        # more: not zero behind the first block of the depth, whose sums nothing is added to
        given = {**given, "n": self.steps_at_once, "last": self.last, "more": " + ".join(
            [*(v.name for v in self.m.over), "kb"]) if self.blocked else "0"}
        dots = {**given, "sn": self.m.b.stride(self.x), "columns": self.columns} if self.dots else {}
        if self.any:
            return [self._sums_of_any(rows, given, dots, to)]
        longs = tiles.DOT_LONGS if dots else tiles.LONGS
        constants = {n: int(v) for n in longs if str(v := (dots or given)[n]).lstrip("-").isdigit()}
        prefetches = [] if dots else self._asked()
        calls = []
        for height in dict.fromkeys([self.cut.largest, self.cut.size]):
            f = self._dot_function(height, constants) if dots else tiles.TileFunction(
                self.d, self.lanes, height, self.nv, constants, 1, self._fetched(constants), tuple(prefetches))
            self.functions.append(f.text(f"{self.name}_tile{height}"))
            rest = [*(str((dots or given)[n]) for n in longs if n not in constants), *(p.start for p in prefetches)]
            calls.append(f"{self.name}_tile{height}({', '.join([rows, 'from' if dots else 'B', to, *rest])});")
        return [f"if (rt < {self.cut.longer}) {calls[0]} else {calls[1]}" if len(calls) > 1 else calls[0]]

    def _dot_function(self, rows: int, constants: dict[str, int]) -> tiles.DotFunction:
        """The function of a tile of dot products. Columns that do not stay in the second cache are fetched ahead."""
        item, step, depth = self.d.itemsize, constants["sn"], self.m.sizes[2]
        together = tiles.together(rows, self.lanes, depth)
        far = rows > 1 and self.x.extent * depth * item > FAR_COLUMNS
        ahead = max(together * step, AHEAD // item if step == depth else 0) if far else 0
        return tiles.DotFunction(self.d, self.lanes, rows, together, constants, ahead)

    def _fetched(self, constants: Mapping[str, int]) -> bool:
        """Whether a tile asks for the rows of the next one."""
        return (self._far(self.m) and self._row_stride(self.m) is not None and constants.get("sk") == 1
                and (self.lanes * self.d.itemsize == 64 or not self._crowded(self.m, 2 * self.most)))

    def _sums_of_any(self, rows: str, given: dict[str, Any], dots: dict[str, Any], to: str) -> str:
        """What calls the function of a family, for as many vectors as a panel has columns."""
        def call(function: str, columns: str, of: dict[str, Any]) -> str:
            arguments = [str(of[n]) for n in (tiles.DOT_LONGS if of is dots else tiles.LONGS)]
            return f"{function}({', '.join([str(self.tile.mr), rows, columns, to, *arguments])});"
        out = call(tiles.name(self.d, self.lanes, self.nv), "B", given)
        for v in [v for v in (2, 1) if self.ragged and v < self.nv]:
            fewer = call(tiles.name(self.d, self.lanes, v), "B", given)
            out = f"if ({self.count} <= {v * self.lanes}) {fewer} else {out}"
        return f"if (few_) {call(tiles.dots(self.d, self.lanes), 'from', dots)} else {out}" if dots else out

    def _asked(self) -> list[Prefetch]:
        """What is fetched while a tile is summed: what the epilogue touches, or where the sums are stored."""
        if self.plain:
            far = self.whole and hint(self.k.root.nbytes) >= FAR and self.block >= self.most * 4
            return [Prefetch(self.plain[0], int(self.plain[1]), True)] if far else []
        if self.y is not None or self.depth < self.most:
            return []
        return self._prefetches(self.m, replace(self.tile, mr=self.most, c=min(self.width, self.x.extent)), self.x)

    def _finish(self) -> list[Stmt]:
        """What follows from the sums of a tile."""
        row = "i_m" if may_exceed(self.m.sizes[0], 1) else "0"
        line = f"{inner_name(self.y)} * {self.tile.c} + " if self.y else ""
        spans = {**({self.y: (self.tile.r, "y0")} if self.y else {}), self.x: (self.tile.c, "x0")}
        return (self._vector_epilogue(self.m, self.tile, self.x, self.y, self.width) or self._epilogue(
            self.m, f"acc[{row} * {self.width} + {line}{inner_name(self.x)}]", self.tile.mr, spans))
