"""Contractions in C: register tiles over packed columns (matrix products and convolutions alike), and dot products of
rows where one side is a few vectors. Prologue and epilogue are printed into the loops.

A tile has ``mr`` rows and ``nv`` vectors of columns. Rows go in tiles of two sizes, a row apart; the last tile of the
columns begins earlier and overlaps the one before it instead of being smaller: elements are then written twice with the
same value.
"""
from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from hybrid import ir
from hybrid.base.dtype import is_half
from hybrid.ir.size import fixed, may_exceed, same
from hybrid.ir import Node
from hybrid.ir.access import beneath
from hybrid.ir.index import Ix, Var, coefficient, substitute, text
from hybrid.ir.kernel import Kernel

from hybrid.codegen.program import local
from . import packing
from hybrid.codegen.dialect import C, PARALLEL
from .epilogue import FAR
from .operand import Matmul
from .prefetch import Prefetch
from hybrid.codegen.schedule.tiling import (PARALLEL_WORK, Target, Tile, choose_tile, decode, flat, in_one_set,
                                            inner_name)
from .sparsity import Zeros

# a packed panel of columns on a thread's stack has at most this part of the result's bytes, and no more than these,
SHARE, MOST = 20, 128 << 10
LEAST = 64 << 10                # but it may have these where that part is less than PANEL bytes
PANEL = 48 << 10
SUMS = 64 << 10                 # bytes of sums so far that a thread has on its stack, where the result cannot keep them
SHARED = 128 << 10              # bytes of packed panels that threads share, in working memory at once
ROWS = 256 << 10                # bytes of packed rows, in working memory at once
NEAR = 2 << 20                  # bytes of rows that go by for a panel of columns
AFAR = 1 << 20                  # bytes of rows that do not stay in a second cache
WAYS = 7                        # lines of as many rows stay in one set of a first cache, beside those of the columns
TURN = 2                        # cycles to transpose an element of a matrix


def supported(k: Kernel) -> bool:
    """Whether the templates take this contraction (else it is a plain loop)."""
    if k.dot is None or k.dot.dtype not in (np.float32, np.float64) and not is_half(k.dot.dtype):
        return False
    return all(may_exceed(n.size, 0) for n in (k.dot, k.dot.args[0]))


def sum_dtype(dot: Node) -> np.dtype:
    """The dtype of products and sums: halves are multiplied and summed as float32."""
    return np.dtype(np.float32) if is_half(dot.dtype) else dot.dtype


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
    names = {n: f"p{i}" for i, n in enumerate([dot, *dot.args])}
    if not supported(k) or not all(map(fixed, dot.shape)):
        return None
    return Contraction(k, "", list(names), names, target).form()[0]


class Contraction(Zeros):
    """Prints one contraction kernel."""

    def __init__(self, k: Kernel, name: str, args: list[Node], names: dict[Node, str], target: Target):
        assert k.dot is not None
        self.k, self.name, self.args, self.names, self.target = k, name, args, names, target
        self.dot = k.dot
        self.d = sum_dtype(self.dot)
        self.T = C.storage(self.d)
        self.lanes = target.lanes(self.d)
        self.V, self.U = f"v{self.T}{self.lanes}", f"u{self.T}{self.lanes}"
        self.reads = {n: p for n, p in names.items() if n not in k.stores}
        self.scratch = 0
        self.vectors = False                               # whether it needs lanes.support
        self.plain: tuple[str, int] | None = None          # where tiles are stored, if nothing follows their sums
        self.steps = 0                                     # of the depth, that are packed and summed at once
        self.deep = False                                  # whether a tile sums blocks of the depth (packing.py)
        # whether what is summed of some steps is added up in working memory of a thread
        self.inside = False
        self.fetched = False                               # whether a tile asks for the rows of the next one
        self.prefetches: list[Prefetch] = []               # what the epilogue touches, fetched while a tile is summed
        # first turn of the epilogue's loops, where no element may be written twice
        self.begin: dict[Var | None, str] = {}

    def source(self) -> str:
        """C text of the kernel, its helper functions before it."""
        _, form, m = self.form()
        skipping = self._skipping() if form == self._tiles else None
        return self._either(lambda: form(m), skipping) if skipping else form(m)

    def form(self) -> tuple[float, Callable[[Matmul], str], Matmul]:
        """The form that needs fewest cycles: their number, what prints it, the product as it sees it."""
        plans = self._plans()
        forms = [(self._role_cost(m), self._tiles, m)
                 for m in plans] + [(cost, self._dots, m) for m in plans if (cost := self._dots_cost(m)) is not None]
        return min(forms, key=lambda f: f[0])

    # ---- which operand is packed
    def _role_cost(self, m: Matmul) -> float:
        """Cycles of the tiles, about."""
        rows, columns, depth = m.sizes
        last = m.columns[-1] if m.columns else None
        unit = last is None or m.b.stride(last) == 1
        # transposed in registers
        across = last is not None and len(m.depth) == 1 and m.b.stride(last) is not None and m.b.stride(m.depth[0]) == 1
        x, y = last or Var("n0", 1), m.columns[-2] if len(m.columns) > 1 else None
        tile = choose_tile(rows, y.extent if y else 1, x.extent, self.lanes, self.target.accumulators)
        cost = depth * tile.cost * (columns // (x.extent * (y.extent if y else 1)))
        if not self._direct_columns(m, tile):
            cost += columns * depth * (0.2 if unit else 0.4 if across else 2.0)
        if self._row_stride(m) is None:
            cost += rows * depth * 1.5
        store = self._stored_at(m)
        if last is not None and coefficient(store, last) != 1:
            turns = len(m.rows) == 1 and coefficient(store, m.rows[0]) == 1 and len(m.columns) == 1
            cost += rows * columns * (0.7 if turns else 3.0)
        return cost + 1e-3 * columns

    def _row_stride(self, m: Matmul) -> tuple[int, int] | None:
        """Strides (row, depth) of the row operand when it can be read in place."""
        if m.a.address is None or len(m.depth) > 1 or len(m.rows) > 1:
            return None
        strides = [m.a.stride(g[0]) if g else 0 for g in (m.rows, m.depth)]
        return None if None in strides else (strides[0], strides[1])       # type: ignore[return-value]

    # ---- register tiles
    def _tiles(self, m: Matmul) -> str:
        depth = m.sizes[2]
        x = m.columns[-1] if m.columns else Var("n0", 1)
        y = m.columns[-2] if len(m.columns) > 1 else None
        t = self._tile_of(m, x, y)
        width, direct = t.nv * self.lanes, self._direct_columns(m, t)
        stored = self._plain_store(m, x, y)
        in_place = self._row_stride(m)
        self.inside = not direct and stored is None and in_place is not None and depth * width * self.d.itemsize >= MOST
        self.deep = self.d == np.float32 and depth > packing.DEEP
        self.steps = self._steps_at_once(m, t, stored is not None and not direct)
        private = direct or self.steps < depth or self._private(m, t, x, y)
        reads = (m.b.stride(m.depth[0]) or 0) if m.depth and m.b.address is not None else 0
        added = self.inside and t.c < width                # vectors that overlap would be added twice
        packs = reads if private and not direct and not added and self._packs_while_it_sums(m, t, x) else None
        self.plain = stored if t.c == width or direct or packs is not None else None
        self.prefetches = self._prefetches(m, t, x) if y is None and depth >= t.mr else []
        if self.plain and self.k.root.nbytes >= FAR and self.steps >= t.mr * 4:
            self.prefetches = [Prefetch(*self.plain, True)]                # where it is stored
        # rows of two tiles in one set put one another out: with short vectors, that costs more than to wait for them
        self.fetched = (self._far(m) and in_place is not None and in_place[1] == 1
                        and (self.lanes * self.d.itemsize == 64 or not self._crowded(m, 2 * t.mr)))
        micros = self._micros(t, self.steps if self.steps == depth else None, in_place or self._packed_strides(m, t),
                              reads if direct else None,
                              self.plain[1] if self.plain else width, packs)
        packed = in_place is None

        def tiles(first: str, last: str) -> list[str]:
            if private:
                return self._private_loop(m, t, x, y, (first, last), packed, direct, packs)
            return self._shared_loop(m, t, x, y, (first, last), packed)
        lines = self._rows_loop(m, t, tiles) if packed else tiles("0", str(t.tiles))
        lines = lines if self.inside else self._depth_loop(m, lines)
        return "\n".join([micros, self._head(), *("  " + s for s in lines), "}"])

    def _tile_of(self, m: Matmul, x: Var, y: Var | None) -> Tile:
        """The tile of a product. Half as many rows and twice the columns where rows come from afar or, read in place,
        would put one another out of the first cache.
        """
        uneven = self.lanes == 16 or not self._turns(m, x, y)

        def tile(most: int) -> Tile:
            return choose_tile(m.sizes[0], y.extent if y else 1, x.extent, self.lanes, self.target.accumulators,
                               uneven, most)
        t = tile(14)
        few = tile(WAYS) if t.mr > WAYS else t
        return few if few.cost <= t.cost * (1.2 if self._crowded(m, t.mr) else 1.03 if self._far(m)
                                            and not self._turns(m, x, y) else 0) else t

    def _far(self, m: Matmul) -> bool:
        return m.sizes[0] * m.sizes[2] * self.d.itemsize > AFAR

    def _crowded(self, m: Matmul, rows: int) -> bool:
        """Whether lines of too many rows fall into one of the 64 sets of a first cache."""
        step, along = self._row_stride(m) or (0, 0)
        if along != 1 or m.sizes[2] * self.d.itemsize < 256:
            return False
        return in_one_set(rows, step * self.d.itemsize) > WAYS

    def _steps_at_once(self, m: Matmul, t: Tile, kept: bool) -> int:
        """Steps of the depth that are packed and summed at once: all, or as many as keep a panel of columns small, if
        the result can keep what is summed already.
        """
        depth, step = m.sizes[2], t.nv * self.lanes * self.d.itemsize
        if not self.inside and (not kept or len(m.depth) != 1 or t.c < t.nv * self.lanes):
            return depth
        share = self.k.root.nbytes // SHARE
        blocks = -(-depth * step // (min(share, MOST) if share >= PANEL and kept else LEAST))
        steps = min(depth, -(-depth // (blocks * self.lanes)) * self.lanes)
        return min(steps, packing.STEPS) if self.deep else steps

    def _private(self, m: Matmul, t: Tile, x: Var, y: Var | None) -> bool:
        """Whether each thread packs panels of columns for itself: small ones, or not too large ones where there are
        enough for all."""
        panel = m.sizes[2] * t.nv * self.lanes * self.d.itemsize
        return panel <= (MOST if self._panels(m, t, x, y) >= 8 else LEAST)

    def _panels(self, m: Matmul, t: Tile, x: Var, y: Var | None) -> int:
        """Panels of columns of all batches."""
        return math.prod(v.extent for v in self._outer(m, y)) * -(-x.extent // t.c) * -(-(y.extent if y else 1) // t.r)

    def _outer(self, m: Matmul, y: Var | None) -> list[Var]:
        """Loops around those of a tile's columns."""
        return [*m.batch, *m.columns[:-2 if y else -1]] if m.columns else list(m.batch)

    def _turns(self, m: Matmul, x: Var, y: Var | None) -> bool:
        """Whether rows, not columns, are neighbours in the result."""
        store = self._stored_at(m)
        return coefficient(store, x) != 1 and y is None and len(m.rows) == 1 and coefficient(store, m.rows[0]) == 1

    def _direct_columns(self, m: Matmul, tile: Tile) -> bool:
        """Columns can be read in place: neighbours in memory, at least a vector of them, and too few rows to make
        packing pay."""
        return (m.b.address is not None and len(m.depth) == 1 and bool(m.columns) and m.b.stride(m.columns[-1]) == 1
                and tile.r == 1
                and tile.c >= self.lanes and m.b.stride(m.depth[0]) is not None and m.sizes[0] <= 2 * tile.mr)

    def _packs_while_it_sums(self, m: Matmul, tile: Tile, x: Var) -> bool:
        """Whether the first row tile of a panel can read its columns in place, at least a vector of neighbours, and
        pack them for the others."""
        return (m.b.address is not None and len(m.depth) == 1 and m.b.stride(m.depth[0]) is not None
                and m.b.stride(x) == 1 and bool(m.columns)
                and tile.r == 1 and tile.c >= self.lanes)

    def _plain_store(self, m: Matmul, x: Var, y: Var | None) -> tuple[str, int] | None:
        """Where the first element of a tile stands and how far apart its rows are, if nothing follows the sums and they
        are stored in whole vectors."""
        found = self._store_of_sums(m, x) if y is None else None
        return (f"{found[0]} + m_first * {found[1]}l", found[1]) if found is not None else None

    def _store_of_sums(self, m: Matmul, x: Var) -> tuple[str, Any] | None:
        """Where the first element of the first tile of some columns is stored, and how far apart rows are, if nothing
        follows the sums and columns lie side by side."""
        k = self.k
        if (len(m.rows) > 1 or len(k.stores) != 1 or k.extra or k.root.dtype != self.d
                or beneath(k.root, ("reshape", "permute")) is not self.dot):
            return None
        store = self._stored_at(m)
        step = coefficient(store, m.rows[0]) if m.rows else 0
        if not same(coefficient(store, x), 1) or step is None:
            return None
        at = text(substitute(store, {x: Ix(), **{v: Ix() for v in m.rows}}))
        return f"{self.names[k.root]} + ({at}) + x0", step

    # ---- loops over tiles
    def _rows_loop(self, m: Matmul, t: Tile, tiles: Callable[[str, str], list[str]]) -> list[str]:
        """Packs rows, some tiles of them at once, before what is done with these tiles."""
        size = self._packed_size(m, t) * self.d.itemsize
        together = t.tiles if m.batch else max(1, min(t.tiles, ROWS // size))
        self.scratch = math.prod(v.extent for v in m.batch) * together * size
        if together == t.tiles:
            return [*self._pack_rows(m, t, "0", str(t.tiles)), *tiles("0", str(t.tiles))]
        body = [f"const long re = rb + {together} < {t.tiles} ? rb + {together} : {t.tiles};",
                *self._pack_rows(m, t, "rb", "re"), *tiles("rb", "re")]
        return [f"for (long rb = 0; rb < {t.tiles}; rb += {together}) {{", *("  " + s for s in body), "}"]

    def _place(self, m: Matmul, t: Tile, x: Var, y: Var | None) -> list[str]:
        """Where panel ``u`` of the columns begins."""
        xt, yt = -(-x.extent // t.c), -(-(y.extent if y else 1) // t.r)
        out = [f"long xt = u % {xt}; u /= {xt}; long yt = u % {yt}; u /= {yt};", *decode("u", self._outer(m, y)),
               f"long x0 = xt * {t.c} < {x.extent - t.c} ? xt * {t.c} : {x.extent - t.c};"]
        return [*out, f"long y0 = yt * {t.r} < {y.extent - t.r} ? yt * {t.r} : {y.extent - t.r};"] if y else out

    def _spans(self, t: Tile, x: Var, y: Var | None) -> dict[Var, tuple[int, str]]:
        return {x: (t.c, "x0")} if y is None else {y: (t.r, "y0"), x: (t.c, "x0")}

    def _parallel(self, m: Matmul) -> bool:
        return math.prod([*m.sizes, *(v.extent for v in m.batch)]) >= PARALLEL_WORK

    def _row_pointer(self, m: Matmul, t: Tile, packed: bool, first: str) -> str:
        """The rows of tile ``rt``; ``first`` is the one whose rows are packed first."""
        if not packed:
            return self._in_place(m)
        number = f"({text(flat(m.batch))}) * {t.tiles} + rt" if m.batch else f"rt - {first}"
        return f"Ap + ({number}) * {self._packed_size(m, t)}l"

    def _private_loop(self, m: Matmul, t: Tile, x: Var, y: Var | None, bounds: tuple[str, str], packed: bool,
                      direct: bool, packs: int | None) -> list[str]:
        """Threads take panels of columns, and parts of the rows where panels are few or rows come from afar. A panel is
        packed for each part."""
        count, most = self._panels(m, t, x, y), max(1, t.tiles // 2)
        size = t.mr * t.nv * self.lanes                    # sums of a tile
        near = -(-t.tiles // max(1,
                                 SUMS // (size * self.d.itemsize))) if self.inside else -(
                -m.sizes[0] * self.steps * self.d.itemsize // NEAR)
        near = min(most, near)
        parts = [f"const long parts = {(t.tiles if count < 8 else 1) if direct else near};"]
        loop = []
        if self._parallel(m) and count * t.tiles > 1:
            loop = [PARALLEL]
            if not direct and most > near:
                parts = [f"long parts = hy_threads < 2 ? {near} : ({1 if self.inside else 4} * hy_threads + "
                         f"{count - 1}) / {count};",
                         f"parts = parts < {near} ? {near} : parts < {most} ? parts : {most};"]
        # a tile that is read in place has one line
        line = [f"long {y.name} = y0;"] if y and (direct or packs is not None) else []
        begin, end = bounds
        body = [f"long u = t % {count}; const long part = t / {count};", *self._place(m, t, x, y), *line,
                f"const long first = {begin} + part * ({end} - {begin}) / parts, last = {begin} + (part + 1) * ({end} "
                f"- {begin}) / parts;"]
        base = "" if not direct and packs is None else self._columns_base(m, x)
        if direct:
            body.append(f"const {self.T} *Bp = {base};")
        else:
            body.append(local.array(self.T, "Bp", self.steps * t.nv * self.lanes, self.d.itemsize))
        if self.inside:
            body.append(local.array(self.T, "sums", -(-t.tiles // near) * size + self.lanes * t.nv * self.lanes,
                                    self.d.itemsize))
        columns: list[str] = []
        if not direct:
            columns = self._pack_columns(m, t, self._spans(t, x,
                                                           y)) if packs is None else self._copy_columns(m, t, base,
                    packs) if t.uneven else []
        inner = self._tile(m, t, x, y, self._row_pointer(m, t, packed, bounds[0]), self._spans(t, x, y),
                           base if packs is not None else "")
        tiles = [*columns, "for (long rt = first; rt < last; rt++) {", *("  " + s for s in inner), "}"]
        body += self._depth_loop(m, tiles) if self.inside else tiles
        return [*parts, *loop, f"for (long t = 0; t < {count} * parts; t++) {{", *("  " + s for s in body), "}"]

    def _shared_loop(self, m: Matmul, t: Tile, x: Var, y: Var | None, bounds: tuple[str, str],
                     packed: bool) -> list[str]:
        """Threads share panels of columns, some at once, and take parts of the rows."""
        count, panel = self._panels(m, t, x, y), m.sizes[2] * t.nv * self.lanes
        together = max(1, min(count, SHARED // (panel * self.d.itemsize)))
        split = max(1, min(t.tiles // 2, -(-8 // together)))
        loop = [PARALLEL] if self._parallel(m) else []
        at, self.scratch = self.scratch, self.scratch + -(-together * panel * self.d.itemsize // 64) * 64
        place, (begin, end) = ["  " + s for s in self._place(m, t, x, y)], bounds
        inner = self._tile(m, t, x, y, self._row_pointer(m, t, packed, bounds[0]), self._spans(t, x, y))
        body = [*(loop if together > 1 else []), "for (long t = jb; t < je; t++) {", "  long u = t;", *place,
                f"  {self.T} *Bp = panels + (t - jb) * {panel}l;",
                *("  " + s for s in self._pack_columns(m, t, self._spans(t, x, y),
                                                       "" if together > 1 or len(m.depth) > 1 else "".join(loop))), "}",
                *loop, f"for (long t = 0; t < (je - jb) * {split}; t++) {{",
                f"  long u = jb + t / {split}, part = t % {split};",
                f"  const {self.T} *Bp = panels + t / {split} * {panel}l;", *place,
                f"  for (long rt = {begin} + part * ({end} - {begin}) / {split}; rt < {begin} + (part + 1) * ({end} - "
                f"{begin}) / {split}; rt++) {{",
                *("    " + s for s in inner), "  }", "}"]
        return [f"{self.T} *panels = ({self.T} *)((char *)scratch + {at});",
                f"for (long jb = 0; jb < {count}; jb += {together}) {{",
                f"  const long je = jb + {together} < {count} ? jb + {together} : {count};", *("  " + s for s in body),
                "}"]

    def _tile(self, m: Matmul, t: Tile, x: Var, y: Var | None, row_pointer: str, spans: dict[Var, tuple[int, str]],
              packs: str = "") -> list[str]:
        """One tile: its sums and what follows from them. Its place is rt, x0 and y0. packs: where its columns are, if
        tile ``first`` packs them into Bp."""
        rows, width = m.sizes[0], t.nv * self.lanes
        out = [f"const long m_first = {t.first(rows)};"]
        if t.uneven:
            out.append(f"const long m_rows = {t.mr - 1} + (rt < {t.full});")
            if "Ap" in row_pointer:                        # packed as the mr rows up to the last
                row_pointer += f" + (m_first > {rows - t.mr}) * {self._packed_strides(m, t)[0]}"
        blocked, ragged = (self.steps < m.sizes[2],
                           self.plain is not None and self.steps < m.sizes[2] and x.extent % t.c != 0)
        to = self.plain[0] if self.plain else "acc"
        if self.inside:
            out.append(f"{self.T} *acc = sums + (rt - first) * {t.mr * width}l;")
        elif not self.plain or ragged:
            out.append(f"{self.T} acc[{max(t.mr, self.lanes) * width}] __attribute__((aligned(64)));")
        more = "".join(f", {p.start}" for p in self.prefetches)
        # the last panel overlaps the one before, whose sums it must not add to
        if ragged:
            assert self.plain is not None
            out += [f"const long over = xt * {t.c} - x0, apart = over ? {width} : {self.plain[1]}l;",
                    f"{self.T} *C = {to}, *to = over ? acc : C;"]
            to, more = "to", f"{more}, kn, kb > 0 && !over, apart"
        elif self.inside:
            more = f"{more}, kn, kb > 0, {width}l"
        elif blocked:
            assert self.plain is not None
            more = f"{more}, kn, kb > 0, {self.plain[1]}l"
        call = f"({row_pointer}, Bp, {to}{more});"
        call = (f"if (rt < {t.full}) {self.name}_tile{call} else {self.name}_less{call}" if t.uneven
                else f"{self.name}_tile{call}")
        if packs:
            when = f"rt == first && rt < {t.full}" if t.uneven else "rt == first"
            call = f"if ({when}) {self.name}_first({row_pointer}, {packs}, {to}, Bp{more}); else {call}"
        out.append(call)
        if ragged:
            out.append(f"for (long i = 0; over && i < {t.count}; i++) for (long j = over; j < {t.c}; j++) "
                       f"C[i * {self.plain[1] if self.plain else 0}l + j] = (kb ? C[i * "
                       f"{self.plain[1] if self.plain else 0}l + j] : 0) + acc[i * {width} + j];")
        if self.plain:
            return out
        if self.inside:
            out.append(f"if (kb + kn < {m.sizes[2]}) continue;")
        if self.k.once:
            pairs = ((x, t.c, "xt", "x0"), *(((y, t.r, "yt", "y0"),) if y else ()))
            self.begin = {v: f"{number} * {size} - {first}" for v, size, number, first in pairs if v.extent % size}
            if rows % t.mr and not t.uneven:
                self.begin[None] = f"rt * {t.mr} - m_first"
        line = f"{inner_name(y)} * {t.c} + " if y else ""
        row = "i_m" if rows > 1 else "0"                   # loops of one turn have no counter: values move out of them
        return out + (self._vector_epilogue(m, t, x, y, width) or
                      self._epilogue(m, {}, lambda: f"acc[{row} * {width} + {line}{inner_name(x)}]",
                                     (t.count, "m_first"), spans))

    # ---- pieces
    def _in_place(self, m: Matmul) -> str:
        """The rows of a tile where they are."""
        row = m.rows[0] if m.rows else None
        return f"{self._base(m.a, {v: Ix() for v in m.rows}, m)} + m_first * {(m.a.stride(row) or 0) if row else 0}l"

    def _columns_base(self, m: Matmul, x: Var) -> str:
        """The columns of a tile where they are."""
        return f"{self._base(m.b, {x: Ix()}, m)} + x0"
