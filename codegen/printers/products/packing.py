"""Panels of a contraction: its rows and columns, where they are or packed, and loops over blocks of the depth."""
from __future__ import annotations

import math

import numpy as np

from hybrid.ir.index import Ix, Var, coefficient, substitute, text
from hybrid.ir.size import Dim, Int, fixed, product, quotient, same, size
from hybrid.ir.stmt import For, Literal, Stmt, When

from hybrid.codegen.block import Level, nested, within_levels
from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.emit import Emitter
from hybrid.codegen.nest import count
from hybrid.codegen.program import local
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Tile, counted, decode, flat, positions
from .operand import Matmul, Operand
from .vector_packing import VectorPacking

COPY = 50                       # multiplications that take as long as to put an element elsewhere
NEAR = 2                        # tiles up to which columns are read in place
GROUP = 128 << 10               # bytes of panels that are packed at once
REACH = 256 << 10               # bytes of rows that stay in a second cache beside these
PIECES = 4                      # least parts for each thread, for load balance, where tiles are many enough


def up(n: Int, to: int) -> Int:
    """How many pieces of a size cover n."""
    return quotient(n + (to - 1), to)


def element(pointer: str, at: Ix) -> str:
    """The address of an array's element."""
    return pointer if same(at.const, 0) and at.is_const else f"({pointer} + ({text(at)}))"


def threads(work: Int, least: int = PARALLEL_WORK) -> str:
    """The pragma of a loop whose iterations threads share, where the work is worth it."""
    if fixed(work):
        return PARALLEL if work >= least else ""
    return f"{PARALLEL} if ({work} >= {least})"


class Panels(VectorPacking):
    """What a Contraction prints to pack its operands. Sizes are integers or names; ``lay`` cuts a product into panels
    of columns: the last one that is no whole vectors ends with a vector that overlaps the one before."""
    d: np.dtype
    any: bool                                              # whether sizes are known only at the call
    U: str
    most: int                                              # rows of a tile, at most
    step: int                                              # columns, or lines of columns, of a panel
    grouped: int                                           # panels for which rows go by at once
    direct: bool | None                                    # whether columns are read where they are
    plain: tuple[str, Int] | None                          # where sums are stored, where nothing follows them
    functions: list[Stmt]                                  # of tiles

    def lay(self, m: Matmul, tile: Tile, block: int) -> None:
        """Cuts a product into panels and blocks. tile: rows, and columns of a panel, at most; block: steps of the depth
        that are summed at once, of a longer one."""
        self.m, self.nv, self.width = m, tile.nv, tile.nv * self.lanes
        self.outside = []
        self.most = tile.mr                                                 # type: ignore[assignment]
        self.x = m.columns[-1] if m.columns else Var("n_0", 1)
        self.y = m.columns[-2] if tile.r > 1 else None
        self.depth = m.sizes[2]
        self.block = self.depth if fixed(self.depth) and self.depth <= block else block
        self.blocked = not same(self.block, self.depth) or bool(m.over)
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
        self.grouped = 1

    def group(self) -> None:
        """Puts several panels of short vectors together, for which a tile's rows are read from the first cache, where
        all rows do not stay in the second one: they have few columns for each time that rows come from farther away."""
        rows, panel = self.m.sizes[0], self.block * self.width * self.d.itemsize
        if (not self.any and self.direct is False and self.lanes * self.d.itemsize < 64 and fixed(self.pieces)
                and not self.kept and self._row_stride(self.m) is not None
                and rows * self.block * self.d.itemsize > REACH):
            self.grouped = max(1, min(GROUP // panel, int(self.pieces)))

    @property
    def kept(self) -> bool:
        """Whether sums are kept in memory of their own between blocks of the depth."""
        return self.blocked and not (self.plain and self.whole)

    @property
    def groups(self) -> Int:
        """Groups of panels."""
        return up(self.pieces, self.grouped) if self.grouped > 1 else self.pieces

    def _room(self) -> list[Stmt]:
        """The declaration of memory for packed panels."""
        if self.direct:
            return []
        return [local.array(self.T, "Bp" if self.grouped == 1 else "Bg", self.grouped * self.block * self.width,
                            self.d.itemsize)]

    def _in_group(self, body: list[Stmt], name: str) -> list[Stmt]:
        """Statements for each panel of a group, whose columns are at ``name``."""
        if self.grouped == 1:
            return body
        first, size = f"xg * {self.grouped}", self.block * self.width
        last = f"(xg + 1) * {self.grouped}"
        return [For("xt", Literal(first), Literal(f"({last} < {self.pieces} ? {last} : {self.pieces})"), (
            *self._position(), f"{name} = Bg + (xt - {first}) * {size};", *body))]

    @property
    def number(self) -> str:
        """The variable that counts panels, or groups of them."""
        return "xt" if self.grouped == 1 else "xg"

    def _panel_index(self, u: str) -> list[str]:
        """Which panel, or group of them, a number is, and where a panel begins."""
        outer, number = self._around(), f"{u} % {self.groups}" if self._around() else u
        at = [f"const long {self.number} = {number};"] if number != self.number else []
        return [*at, *decode(f"({u} / {self.groups})", outer), *(self._position() if self.grouped == 1 else [])]

    def _around(self) -> list[Var]:
        """Loops around the panels that have several iterations."""
        return counted(self._outer(self.m, self.y))

    def _parts_loop(self, begin: str, end: str, near: str, shared: bool) -> tuple[list[Stmt], str, str, list[Stmt]]:
        """A loop over panels and parts of their tiles. Returns (statements before the loop, variable, count, first
        statements of the body, which set t0 and t1). near: parts per panel; shared: whether more are made so that each
        thread gets several."""
        if near == "1" and not shared:
            u = "u" if self._around() else self.number
            return [], u, "count_", [*self._panel_index(u), f"const long t0 = {begin}, t1 = {end};"]
        tiles, first = (end, "") if begin == "0" else (f"({end} - {begin})", f"{begin} + ")
        before: list[Stmt] = [f"const long near_ = {near};"]
        if shared:
            before += [f"const long more_ = hy_threads < 2 ? 1 : ({PIECES} * hy_threads + count_ - 1) / count_;",
                       f"const long most_ = {tiles} > 3 ? {tiles} / 2 : 1;",
                       "const long split_ = more_ < most_ ? more_ : most_, parts_ = near_ > split_ ? near_ : split_;"]
        parts = "parts_" if shared else "near_"
        return before, "t", f"count_ * {parts}", [
            "const long u = t % count_, part = t / count_;", *self._panel_index("u"),
            f"const long t0 = {first}part * {tiles} / {parts}, t1 = {first}(part + 1) * {tiles} / {parts};"]

    def _position(self) -> list[str]:
        """Where panel ``xt`` begins, how many columns it has. Where few are left for the last one, it takes a vector of
        those of the one before."""
        number, out = ("x0" if self.y is None else "y0"), [] if self.y is None else ["const long x0 = 0;"]
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

    def _packed_rows(self, rows: Int, near: bool) -> tuple[list[Stmt], str, tuple[Int, Int]]:
        """What copies rows ``r0`` to ``r1``, at most so many, that are not in memory as they are needed: its
        statements, where they begin, and their strides (row, depth). near: whether rows that are neighbours stay so."""
        m, depth = self.m, self.depth
        near = near and len(m.rows) == 1 and (m.a.place is not None and same(coefficient(m.a.place, m.rows[0]), 1)
                                              or self._runs(m.a, m.rows[0]))
        pitch = (2 * quotient((rows if near else depth) + 15, 32) + 1) * 16       # an odd number of lines
        sm, sk = (1, pitch) if near else (pitch, 1)
        each, batch = product(pitch, depth if near else rows), math.prod(v.extent for v in m.batch)
        self.scratch = product(product(batch, each), self.d.itemsize)             # type: ignore[assignment]
        e = Emitter(C, self.reads, count=1000)
        at = f"({text(flat(m.batch) * each)}) + (r - r0) * {sm} + ({text(flat(m.depth))}) * {sk}"
        share = threads(product(product(rows, depth), batch), PARALLEL_WORK // COPY)
        outer = "" if m.batch else share

        def simd(body: list[Stmt]) -> str:
            return "" if any(isinstance(s, For) for s in body) else "#pragma omp simd"

        def run(body: list[Stmt]) -> list[Stmt]:
            pragma = simd(body) if near else outer
            return [For("r", Literal("r0"), Literal("r1"), (*decode("r", m.rows), *body), 1, pragma)]
        depths: Level = m.depth, lambda body: nested(m.depth, body, outer if near else simd(body))
        along: list[Level] = [depths, (m.rows, run)]
        batches: Level = m.batch, lambda body: nested(m.batch, body, share)
        body = self._rows_in_lanes(batches, near, flat(m.batch) * each, (sm, sk), outer) or within_levels(
            (), [batches, *along[::1 if near else -1]],
            lambda b: b.body.append(f"Ap[{at}] = {e.value(m.a.node, m.a.index, b)};"))
        return ([f"{self.T} *Ap = ({self.T} *)scratch;", *body], f"Ap + ({text(flat(m.batch) * each)})", (sm, sk))

    def _base(self, o: Operand, names: dict[Var, Ix], m: Matmul) -> str:
        """Where an operand begins at some positions, at the first step of the depth."""
        assert o.base is not None and o.address is not None
        return element(self.reads[o.base], substitute(o.address, {**names, **{v: Ix() for v in m.depth}}))

    # ---- depth
    def _depth_blocks(self, body: list[Stmt]) -> list[Stmt]:
        """Statements inside loops over blocks of the depth, which run at least once."""
        if not self.blocked:
            return body
        steps = f"const long kn = {self.depth} - kb < {self.block} ? {self.depth} - kb : {self.block};"
        blocks: list[Stmt] = [f"const long end_ = {self.depth} > 1 ? {self.depth} : 1;",
                              count("kb", "end_", [steps, *body], self.block)]
        return nested(self.m.over, blocks)

    # ---- columns
    def _in_reach(self, m: Matmul, x: Var) -> bool:
        """Whether columns are neighbours in memory."""
        return (m.b.address is not None and len(m.depth) == 1 and bool(m.columns) and same(m.b.stride(x), 1)
                and m.b.stride(m.depth[0]) is not None)

    def _along(self, m: Matmul) -> bool:
        """Whether columns lie along the depth in memory."""
        return (m.b.address is not None and len(m.depth) == 1 and same(m.b.stride(m.depth[0]), 1) and bool(m.columns)
                and m.b.stride(m.columns[-1]) is not None)

    def _from(self, x: Var) -> str:
        """Where the columns of a panel begin in memory, at the first step of a block."""
        x0, kb = (v if same(step := self.m.b.stride(of), 1) else f"{v} * {step}"
                  for v, of in (("x0", x), ("kb", self.m.depth[0])))
        return f"{self._base(self.m.b, {x: Ix()}, self.m)} + {x0}" + (f" + {kb}" if self.blocked else "")

    def _columns(self, direct: bool | None) -> list[Stmt]:
        """The columns of a panel as B, a step ``ldb`` apart if that is no number: where they are, if ``direct``, or
        packed; None: as is better for the tiles t0 to t1."""
        def apart(step: Int | None) -> str:
            return f" long ldb = {step};" if self.any or not fixed(step) else ""
        if self.y is not None or not self._in_reach(self.m, self.x):
            return [f"const {self.T} *B = Bp;{apart(self.width)}", *self._packed_columns()]
        step, n, L = self.m.b.stride(self.m.depth[0]), self.steps_at_once, self.lanes
        if direct:
            return [f"const {self.T} *B = {self._from(self.x)};{apart(step)}"]

        def copied(j: str) -> str:
            return f"*({self.U} *)(Bp + k * {self.width} + {j}) = *(const {self.U} *)(from + k * {step} + {j});"
        head = f"const {self.T} *from = {self._from(self.x)}, *B = Bp;{apart(self.width)}"
        some = count("k", n, [self._copied_columns(f"from[k * {step} + j]"), *self._zeros()])
        if not self.whole and not self.ragged and self.columns < L:
            return [head, some]
        at = [j if self.ragged else min(j, int(self.last)) for j in range(0, self.width, L)]
        copy: Stmt = count("k", n, [" ".join(copied(str(j)) for j in at)])
        if self.ragged:
            copy = When(f"{self.count} == {self.width}", (copy,), (count("k", n, [
                count("j", "last", [copied("j")], L), copied("last")]),))
        if direct is None:
            copy = When(f"t1 - t0 <= {NEAR}", (f"B = from; ldb = {step};",), (copy,))
        return [head, copy if self.whole else When(f"{self.count} < {L}", (some,), (copy,))]

    def _copied_columns(self, element: str) -> Stmt:
        """A step of the columns, one by one."""
        return count("j", self.columns, [f"Bp[k * {self.width} + j] = {element};"])

    def _zeros(self) -> list[Stmt]:
        """Zeros beyond fewer columns than a vector has."""
        if self.whole or fixed(self.columns) and self.columns >= self.lanes:
            return []
        return [count("j", self.lanes, [f"Bp[k * {self.width} + j] = 0;"], first=self.columns)]

    def _packed_columns(self) -> list[Stmt]:
        """Elements that are computed, or are no neighbours, step by step."""
        m = self.m
        if self.y is None and self._along(m):
            return self._transposed_columns()

        def steps(body: list[Stmt]) -> list[Stmt]:
            step = positions("kk", "kb + k" if self.blocked else "k", m.depth)
            return [count("k", self.steps_at_once, [*step, *body, *self._zeros()])]
        return self._columns_in_lanes((m.depth, steps)) or self._one_by_one((m.depth, steps))

    def _transposed_columns(self) -> list[Stmt]:
        """Columns that lie along the depth in memory: read in short runs, written across the panel. The last runs
        overlap those before them."""
        L, n, W, step = self.lanes, self.steps_at_once, self.width, self.m.b.stride(self.x)
        block = [f"const long k = kt < {n} - {L} ? kt : {n} - {L}, j = jt < {self.last} ? jt : {self.last};",
                 f"turn_{self.V}(Bp + k * {W} + j, {W}, from + j * {step} + k, {step});"]
        return [f"const {self.T} *from = {self._from(self.x)};", *self._in_squares(
            block, [count("k", n, [self._copied_columns(f"from[j * {step} + k]"), *self._zeros()])])]
