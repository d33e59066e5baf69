"""Contractions in C: register tiles over packed columns (matrix products and convolutions alike), and dot products of
rows where one side is a few vectors. Prologue and epilogue are printed into the loops.

A tile has ``mr`` rows and ``nv`` vectors of columns. Rows go in tiles of two sizes, a row apart; the last tile of the columns begins
earlier and overlaps the one before it instead of being smaller: elements are then written twice with the same value.
"""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Callable

import numpy as np

from hybrid import ir
from hybrid.ir import Node
from hybrid.ir.index import Ix, Var, coefficient, substitute, text
from hybrid.ir.kernel import Kernel

from . import local
from .dialect import C, PARALLEL, is_half
from .dots import Dots
from .operand import Matmul, matmul
from .tiling import PARALLEL_WORK, Target, Tile, choose_tile, decode, flat, inner_name

STACK = 1 << 20                 # bytes of packed columns kept on a thread's stack
NEAR = 432 << 10                # bytes of packed rows that stay in a core's second cache beside a panel of columns
TURN = 2                        # cycles to transpose an element of a matrix
BLOCK = 4 << 20                 # bytes of packed columns that go with them in turn


def supported(k: Kernel) -> bool:
    """Whether the templates take this contraction (else it is a plain loop)."""
    return k.dot is not None and (k.dot.dtype in (np.float32, np.float64) or is_half(k.dot.dtype)) and k.dot.size > 0 and k.dot.args[0].size > 0


def sum_dtype(dot: Node) -> np.dtype:
    """The dtype of products and sums: halves are multiplied and summed as float32."""
    return np.dtype(np.float32) if is_half(dot.dtype) else dot.dtype


def turns(dot: Node, which: int, steps: int, target: Target) -> bool:
    """Whether a product in a loop is done in fewer cycles if one of its matrices is transposed before all steps, that work included."""
    axes = dot.attrs["contract"]
    w, turned = dot.args[which], [(1 - a[0],) if i == which else a for i, a in enumerate(axes)]
    a, b = (ir.input(i, x.shape[::-1] if i == which else x.shape, x.dtype) for i, x in enumerate(dot.args))
    now, then = _cycles(dot, target), _cycles(ir.dot(a, b, (turned[0], turned[1])), target)
    return now is not None and then is not None and then * steps + TURN * w.size < now * steps


def _cycles(dot: Node, target: Target) -> float | None:
    """Cycles of a product alone, its operands in memory; None where the templates do not take it."""
    k = Kernel(dot, 0, (), dot=dot)
    names = {n: f"p{i}" for i, n in enumerate([dot, *dot.args])}
    return Contraction(k, "", list(names), names, target).form()[0] if supported(k) else None


class Contraction(Dots):
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
        self.asked: list[tuple[str, int]] = []             # what the epilogue reads, fetched while a tile is summed
        self.begin: dict[Var | None, str] = {}             # first turn of the epilogue's loops, where no element may be written twice

    def source(self) -> str:
        """C text of the kernel, its helper functions before it."""
        _, form, m = self.form()
        return form(m)

    def form(self) -> tuple[float, Callable[[Matmul], str], Matmul]:
        """The form that needs fewest cycles: their number, what prints it, the product as it sees it."""
        straight = {n: p for n, p in self.reads.items() if not is_half(n.dtype)}           # halves are converted on the way into a panel
        plans = [matmul(self.dot, straight, swap) for swap in (False, True)]
        forms = [(self._role_cost(m), self._tiles, m) for m in plans] + [(cost, self._dots, m) for m in plans if (cost := self._dots_cost(m)) is not None]
        return min(forms, key=lambda f: f[0])

    # ---- which operand is packed
    def _role_cost(self, m: Matmul) -> float:
        """Cycles of the tiles, about."""
        rows, columns, depth = m.sizes
        last = m.columns[-1] if m.columns else None
        unit = last is None or m.b.stride(last) == 1
        across = last is not None and len(m.depth) == 1 and m.b.stride(last) is not None and m.b.stride(m.depth[0]) == 1     # turned in registers
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
        rows, _, depth = m.sizes
        x = m.columns[-1] if m.columns else Var("n0", 1)
        y = m.columns[-2] if len(m.columns) > 1 else None
        uneven = self.lanes == 16 or not self._turns(m, x, y)
        tile = choose_tile(rows, y.extent if y else 1, x.extent, self.lanes, self.target.accumulators, uneven)
        while depth * tile.nv * self.lanes * self.d.itemsize > STACK and tile.nv > 1:
            tile = choose_tile(rows, 1, min(x.extent, (tile.nv - 1) * self.lanes), self.lanes, self.target.accumulators, uneven)
            tile = replace(tile, c=min(tile.c, x.extent))
        width = tile.nv * self.lanes
        direct = self._direct_columns(m, tile)
        large = not direct and self._large(m, tile)
        in_place = self._rows_in_place(m, tile, large)
        strides = in_place or self._packed_strides(m, tile)
        reads = (m.b.stride(m.depth[0]) or 0) if m.depth and m.b.address is not None else 0
        packs = reads if not direct and self._packs_while_it_sums(m, tile, x) else None
        self.plain = self._plain_store(m, tile, x, y) if tile.c == width or direct or packs is not None else None
        self.asked = self._reads(m, tile, x) if y is None and depth >= tile.mr else []
        lines = [self._micros(tile, depth, strides, reads if direct else None, self.plain[1] if self.plain else width, packs), self._head()]
        if large:
            return "\n".join([*lines, *("  " + s for s in self._block_loop(m, tile, x, in_place is None, packs is not None)), "}"])
        if not in_place:
            lines += ["  " + s for s in self._pack_rows(m, tile)]
        return "\n".join([*lines, *("  " + s for s in self._tile_loop(m, tile, x, y, in_place is None, direct, packs is not None)), "}"])

    def _turns(self, m: Matmul, x: Var, y: Var | None) -> bool:
        """Whether rows, not columns, are neighbours in the result."""
        store = self._stored_at(m)
        return coefficient(store, x) != 1 and y is None and len(m.rows) == 1 and coefficient(store, m.rows[0]) == 1

    def _direct_columns(self, m: Matmul, tile: Tile) -> bool:
        """Columns can be read in place: neighbours in memory, at least a vector of them, and too few rows to make packing pay."""
        return (m.b.address is not None and len(m.depth) == 1 and bool(m.columns) and m.b.stride(m.columns[-1]) == 1 and tile.r == 1
                and tile.c >= self.lanes and m.b.stride(m.depth[0]) is not None and m.sizes[0] <= 2 * tile.mr)

    def _packs_while_it_sums(self, m: Matmul, tile: Tile, x: Var) -> bool:
        """Whether the first row tile of a panel can read its columns in place, at least a vector of neighbours, and pack them for the others."""
        return (m.b.address is not None and len(m.depth) == 1 and m.b.stride(m.depth[0]) is not None and m.b.stride(x) == 1 and bool(m.columns)
                and tile.r == 1 and tile.c >= self.lanes)

    def _rows_in_place(self, m: Matmul, t: Tile, large: bool) -> tuple[int, int] | None:
        """Strides (row, depth) of the rows when they are read where they are. In large products they come near block by block, if the depth
        is contiguous and they do not fall on few lines of the first cache (of 8 ways and 4096 bytes each).
        """
        strides = self._row_stride(m)
        if strides is None or not large:
            return strides
        step = strides[0] * self.d.itemsize
        return strides if strides[1] == 1 and t.mr * math.gcd(step, 4096) <= 7 * 4096 else None

    def _plain_store(self, m: Matmul, t: Tile, x: Var, y: Var | None) -> tuple[str, int] | None:
        """Where the first element of a tile stands and how far apart its rows are, if nothing follows the sums and they are stored in whole vectors."""
        k = self.k
        if y is not None or len(m.rows) > 1 or len(k.stores) != 1 or k.extra or k.root.dtype != self.d:
            return None
        n = k.root
        while n is not self.dot:
            if n.prim not in ("reshape", "permute"):
                return None
            n = n.args[0]
        store = self._stored_at(m)
        step = coefficient(store, m.rows[0]) if m.rows else 0
        if coefficient(store, x) != 1 or step is None:
            return None
        return f"{self.names[k.root]} + ({text(substitute(store, {x: Ix(), **{v: Ix() for v in m.rows}}))}) + x0 + m_first * {step}l", step

    # ---- large products: blocks of rows that stay near, with blocks of packed columns
    def _large(self, m: Matmul, t: Tile) -> bool:
        """Whether rows would come from afar again for every panel of columns."""
        rows, columns, depth = m.sizes
        return (not m.batch and len(m.columns) == 1 and 2 * rows * depth * self.d.itemsize > STACK and columns >= 4 * t.c and rows >= 4 * t.mr
                and 2 * t.mr * depth * self.d.itemsize <= STACK)

    def _block_loop(self, m: Matmul, t: Tile, x: Var, packed_rows: bool, packs: bool) -> list[str]:
        """Columns are packed by the first row tile, if it can; then blocks of rows, at least one a thread, and where rows are few of columns too."""
        columns, depth = m.sizes[1:]
        panels, panel, size = -(-columns // t.c), depth * t.nv * self.lanes, self._packed_size(m, t)
        begin = int(packs)                                                               # row tiles that are done when columns are packed
        tiles = t.tiles - begin
        near = -(-tiles // max(1, NEAR // (t.mr * depth * self.d.itemsize)))             # blocks of rows
        together = max(1, BLOCK // (panel * self.d.itemsize))                            # panels of columns in a block
        self.scratch = min(together, panels) * panel * self.d.itemsize
        spans = {x: (t.c, "x0")}
        place = [f"long x0 = xt * {t.c} < {x.extent - t.c} ? xt * {t.c} : {x.extent - t.c};"]
        pragma = PARALLEL
        outer, _, nest = self._row_packing(m, t, "(rt - first)") if packed_rows else ([], [], [])
        where = f"Ap + (rt - first) * {size}l" if packed_rows else self._in_place(m)
        first = ["const long rt = 0;", *self._tile(m, t, x, None, "A0" if packed_rows else where, spans, self._columns_base(m, x))] if packs else self._pack_columns(m, t, spans)
        before = [local.array(self.T, "A0", size, self.d.itemsize), "{", f"  {self.T} *Ap = A0; const long rt = 0, first = 0;", *("  " + s for s in nest), "}"]
        blocks = [f"long blocks = (({near} + hy_threads - 1) / hy_threads) * hy_threads;", f"if (blocks > {max(near, tiles // 4)}) blocks = {near};",
                  "const long groups = (hy_threads + blocks - 1) / blocks;"]
        inner = [*(["for (long rt = first; rt < last; rt++) {", *("  " + s for s in nest), "}"] if packed_rows else []),
                 "for (long xt = jb + (je - jb) * g / groups; xt < jb + (je - jb) * (g + 1) / groups; xt++) {", *("  " + s for s in place),
                 f"  const {self.T} *Bp = panels + (xt - jb) * {panel}l;", "  for (long rt = first; rt < last; rt++) {",
                 *("    " + s for s in self._tile(m, t, x, None, where, spans)), "  }", "}"]
        space = ["    " + local.array(self.T, "Ap", -(-tiles // near) * size, self.d.itemsize)] if packed_rows else []
        return [f"{self.T} *panels = ({self.T} *)scratch;", *outer, *(before if packs and packed_rows else []), *blocks, f"for (long jb = 0; jb < {panels}; jb += {together}) {{",
                f"  const long je = jb + {together} < {panels} ? jb + {together} : {panels};",
                "  " + pragma, "  for (long xt = jb; xt < je; xt++) {", *("    " + s for s in place), f"    {self.T} *Bp = panels + (xt - jb) * {panel}l;",
                *("    " + s for s in first), "  }",
                "  " + pragma, "  for (long u = 0; u < blocks * groups; u++) {", "    const long ib = u / groups, g = u % groups;",
                f"    const long first = {begin} + ib * {tiles} / blocks, last = {begin} + (ib + 1) * {tiles} / blocks;", *space, *("    " + s for s in inner), "  }", "}"]

    def _tile_loop(self, m: Matmul, t: Tile, x: Var, y: Var | None, packed_rows: bool, direct: bool, packs: bool) -> list[str]:
        rows, columns, depth = m.sizes
        outer = [*m.batch, *m.columns[:-2 if y else -1]] if m.columns else list(m.batch)
        xt, yt = -(-x.extent // t.c), -(-(y.extent if y else 1) // t.r)
        count = math.prod(v.extent for v in outer) * yt * xt
        split = max(1, min(t.tiles // 2, 8 // count)) if count < 8 and not direct else t.tiles if count < 8 else 1
        work = math.prod(v.extent for v in m.batch) * rows * columns * depth
        parallel = [PARALLEL] if work >= PARALLEL_WORK else []
        spans = {x: (t.c, "x0")} if y is None else {y: (t.r, "y0"), x: (t.c, "x0")}
        where = [f"  long xt = u % {xt}; u /= {xt}; long yt = u % {yt}; u /= {yt};", *("  " + s for s in decode("u", outer)),
                 f"  long x0 = xt * {t.c} < {x.extent - t.c} ? xt * {t.c} : {x.extent - t.c};"]
        if y:
            where.append(f"  long y0 = yt * {t.r} < {y.extent - t.r} ? yt * {t.r} : {y.extent - t.r};")
        out: list[str] = []
        panel = depth * t.nv * self.lanes
        shared = split > 1 and not direct                  # several parts of the rows use one panel: packed before
        row_pointer = f"Ap + (({text(flat(m.batch))}) * {t.tiles} + rt) * {self._packed_size(m, t)}l" if packed_rows else self._in_place(m)
        first = self._tile(m, t, x, y, row_pointer, spans, self._columns_base(m, x)) if packs else self._pack_columns(m, t, spans) if not direct else []
        if packs:
            first = ["{", "  const long rt = 0;", *([f"  const long {y.name} = y0;"] if y else []), *("  " + s for s in first), "}"]
        begin = int(packs)                                 # row tiles that are done when columns are packed
        if shared:
            out += [f"{self.T} *panels = ({self.T} *)((char *)scratch + {self.scratch});", *(parallel if count > 1 else []),
                    f"for (long t = 0; t < {count}; t++) {{", "  long u = t;", *where, f"  {self.T} *Bp = panels + t * {panel}l;", *("  " + s for s in first), "}"]
            self.scratch += -(-count * panel * self.d.itemsize // 64) * 64
        out += [*(parallel if count * split > 1 else []), f"for (long t = 0; t < {count * split}; t++) {{", f"  long u = t / {split}, part = t % {split};"]
        out += [f"  const {self.T} *Bp = panels + u * {panel}l;"] if shared else []
        out += where
        if not shared:
            declare = [] if direct else ["  " + local.array(self.T, "Bp", panel, self.d.itemsize)]
            line = [f"  long {y.name} = y0;"] if direct and y else []        # a tile that is read in place has one line
            out += [*declare, *line, *([f"  const {self.T} *Bp = {self._columns_base(m, x)};"] if direct else ("  " + s for s in first))]
        bounds = [f"{begin} + {part} * {t.tiles - begin} / {split}" for part in ("part", "(part + 1)")]
        body = self._tile(m, t, x, y, row_pointer, spans)
        return [*out, f"  for (long rt = {bounds[0]}; rt < {bounds[1]}; rt++) {{", *("    " + s for s in body), "  }", "}"]

    def _tile(self, m: Matmul, t: Tile, x: Var, y: Var | None, row_pointer: str, spans: dict[Var, tuple[int, str]], packs: str = "") -> list[str]:
        """One tile: its sums and what follows from them. Its place is rt, x0 and y0. packs: where its columns are, if it packs them into Bp."""
        rows, width = m.sizes[0], t.nv * self.lanes
        out = [f"const long m_first = {t.first(rows)};"]
        if t.uneven:
            out.append(f"const long m_rows = {t.mr - 1} + (rt < {t.full});")
            if "Ap" in row_pointer:                        # packed as the mr rows up to the last
                row_pointer += f" + (m_first > {rows - t.mr}) * {self._packed_strides(m, t)[0]}"
        to = self.plain[0] if self.plain else "acc"
        if not self.plain:
            out.append(f"{self.T} acc[{max(t.mr, self.lanes) * width}] __attribute__((aligned(64)));")
        more = "".join(f", {start}" for start, _ in self.asked)
        call = f"({row_pointer}, Bp, {to}{more});"
        out.append(f"{self.name}_first({row_pointer}, {packs}, {to}, Bp{more});" if packs else
                   f"if (rt < {t.full}) {self.name}_tile{call} else {self.name}_less{call}" if t.uneven else f"{self.name}_tile{call}")
        if self.plain:
            return out
        if self.k.once:
            pairs = ((x, t.c, "xt", "x0"), *(((y, t.r, "yt", "y0"),) if y else ()))
            self.begin = {v: f"{number} * {size} - {first}" for v, size, number, first in pairs if v.extent % size}
            if rows % t.mr and not t.uneven:
                self.begin[None] = f"rt * {t.mr} - m_first"
        line = f"{inner_name(y)} * {t.c} + " if y else ""
        row = "i_m" if rows > 1 else "0"                   # loops of one turn have no counter: values move out of them
        return out + (self._vector_epilogue(m, t, x, y, width) or
                      self._epilogue(m, {}, lambda: f"acc[{row} * {width} + {line}{inner_name(x)}]", (t.count, "m_first"), spans))

    # ---- pieces
    def _in_place(self, m: Matmul) -> str:
        """The rows of a tile where they are."""
        row = m.rows[0] if m.rows else None
        return f"{self._base(m.a, {v: Ix() for v in [*m.rows, *m.depth]})} + m_first * {(m.a.stride(row) or 0) if row else 0}l"

    def _columns_base(self, m: Matmul, x: Var) -> str:
        """The columns of a tile where they are."""
        return f"{self._base(m.b, {x: Ix(), **{v: Ix() for v in m.depth}})} + x0"
