"""Contractions in C: register tiles over packed columns (matrix products and convolutions alike), and dot products of
rows where one side is a few vectors. Prologue and epilogue are printed into the loops.

A tile has ``mr`` rows and ``nv`` vectors of columns. The last tile of an axis begins earlier and overlaps the one before
it instead of being smaller: elements are then written twice with the same value.
"""
from __future__ import annotations

import math

import numpy as np

from hybrid.ir import Node
from hybrid.ir.index import Ix, Var, coefficient, linear, substitute, text
from hybrid.ir.kernel import Kernel

from .dialect import C, is_half
from .emit import Block, Emitter, loop_nest
from .epilogue import Epilogue
from .operand import Matmul, Operand, matmul, root_index
from .tiling import PARALLEL_WORK, Target, Tile, choose_tile, decode, flat, inner_name

STACK = 1 << 20                 # bytes of packed columns kept on a thread's stack
NEAR = 432 << 10                # bytes of packed rows that stay in a core's second cache beside a panel of columns
BLOCK = 4 << 20                 # bytes of packed columns that go with them in turn
FEW = 4                         # rows up to which a product is done as dot products


def supported(k: Kernel) -> bool:
    """Whether the templates take this contraction (else it is a plain loop)."""
    return k.dot is not None and (k.dot.dtype in (np.float32, np.float64) or is_half(k.dot.dtype)) and k.dot.size > 0 and k.dot.args[0].size > 0


def sum_dtype(dot: Node) -> np.dtype:
    """The dtype of products and sums: halves are multiplied and summed as float32."""
    return np.dtype(np.float32) if is_half(dot.dtype) else dot.dtype


class Contraction(Epilogue):
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
        self.begin: dict[Var | None, str] = {}             # first turn of the epilogue's loops, where no element may be written twice

    def source(self) -> str:
        """C text of the kernel, its helper functions before it."""
        straight = {n: p for n, p in self.reads.items() if not is_half(n.dtype)}           # halves are converted on the way into a panel
        plans = [matmul(self.dot, straight, swap) for swap in (False, True)]
        for m in sorted(plans, key=lambda m: m.sizes[0]):
            if self._few_rows(m):
                return self._dots(m)
        return self._tiles(min(plans, key=self._role_cost))

    # ---- which operand is packed
    def _role_cost(self, m: Matmul) -> float:
        rows, columns, depth = m.sizes
        last = m.columns[-1] if m.columns else None
        unit = last is None or m.b.stride(last) == 1
        across = last is not None and len(m.depth) == 1 and m.b.stride(last) is not None and m.b.stride(m.depth[0]) == 1     # turned in registers
        cost = columns * depth * (0.2 if unit else 0.4 if across else 2.0)
        if self._row_stride(m) is None:
            cost += rows * depth * 1.5
        store = linear(self.k.root.shape, root_index(self.k, m.dot_index))
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

    # ---- a few rows: dot products along the depth
    def _few_rows(self, m: Matmul) -> bool:
        rows, columns, depth = m.sizes
        return (rows <= FEW and columns > 1 or rows * columns == 1) and depth >= self.lanes and len(m.depth) == 1 and len(m.columns) <= 1 and \
            len(m.rows) <= 1 and m.a.stride(m.depth[0]) == 1 and m.b.stride(m.depth[0]) == 1 and (not m.columns or m.b.stride(m.columns[0]) is not None)

    def _dots(self, m: Matmul) -> str:
        rows, columns, depth = m.sizes
        unroll = max(1, min(4, self.target.accumulators // rows - 1, columns))
        n = m.columns[0] if m.columns else Var("n0", 1)
        row = m.rows[0] if m.rows else Var("m0", 1)
        starts = f"  for (long nt = 0; nt < {-(-columns // unroll)}; nt++) {{"
        work = math.prod(v.extent for v in m.batch) * rows * columns * depth
        lines = [self._head(), *self._batch_open(m, work if columns < 64 else 0)]
        if work >= PARALLEL_WORK and columns >= 64:
            lines.append("  #pragma omp parallel for schedule(static) num_threads(hy_threads)")
        lines += [starts, f"    long nb = nt * {unroll} < {columns - unroll} ? nt * {unroll} : {columns - unroll};",
                  f"    {self.T} acc[{rows * unroll}];"]
        if self.k.once and columns % unroll:
            self.begin = {n: f"nt * {unroll} - nb"}
        lines += ["    " + line for line in self._dot_body(m, row, n, rows, unroll, depth)]
        lines += ["    " + line for line in self._epilogue(m, {row: (rows, "0"), n: (unroll, "nb")}, lambda: f"acc[{inner_name(row)} * {unroll} + {inner_name(n)}]")]
        return "\n".join([*lines, "  }", *self._batch_close(m), "}"])

    def _dot_body(self, m: Matmul, row: Var, n: Var, rows: int, unroll: int, depth: int) -> list[str]:
        k = m.depth[0]
        zero = {row: Ix(), n: Ix(), k: Ix()}
        sm, sn = m.a.stride(row) or 0, m.b.stride(n) or 0
        a, b = self._base(m.a, zero), self._base(m.b, zero)
        out = [f"const {self.T} *A = {a}, *B = {b} + nb * {sn};",
               " ".join(f"{self.V} s{i}_{j} = {{0}};" for i in range(rows) for j in range(unroll)),
               f"for (long k = 0; k < {depth - depth % self.lanes}; k += {self.lanes}) {{"]
        out += [f"  {self.V} x{i} = *(const {self.U} *)(A + {i * sm} + k);" for i in range(rows)]
        for j in range(unroll):
            out.append(f"  {{ {self.V} w = *(const {self.U} *)(B + {j * sn}l + k); " + " ".join(f"s{i}_{j} += x{i} * w;" for i in range(rows)) + " }")
        out.append("}")
        for i in range(rows):
            for j in range(unroll):
                out.append(f"acc[{i * unroll + j}] = hsum_{self.V}(s{i}_{j});")
        if depth % self.lanes:
            out += [f"for (long k = {depth - depth % self.lanes}; k < {depth}; k++)",
                    f"  for (long i = 0; i < {rows}; i++) for (long j = 0; j < {unroll}; j++) acc[i * {unroll} + j] += A[i * {sm} + k] * B[j * {sn} + k];"]
        return out

    # ---- register tiles
    def _tiles(self, m: Matmul) -> str:
        rows, _, depth = m.sizes
        x = m.columns[-1] if m.columns else Var("n0", 1)
        y = m.columns[-2] if len(m.columns) > 1 else None
        tile = choose_tile(rows, y.extent if y else 1, x.extent, self.lanes, self.target.accumulators)
        width = tile.nv * self.lanes
        while depth * width * self.d.itemsize > STACK and tile.nv > 1:
            tile = choose_tile(rows, 1, min(x.extent, (tile.nv - 1) * self.lanes), self.lanes, self.target.accumulators)
            tile.c = min(tile.c, x.extent)
            width = tile.nv * self.lanes
        packed_rows = self._row_stride(m) is None
        direct = self._direct_columns(m, tile, rows)
        large = not direct and self._large(m, tile)
        sm, sk = self._packed_strides(m, tile) if packed_rows or large else self._row_stride(m)            # type: ignore[misc]
        if large:
            return "\n".join([self._micro(tile, depth, sm, sk, width), self._head(), *("  " + s for s in self._block_loop(m, tile, x)), "}"])
        ldb = m.b.stride(m.depth[0]) if direct and m.depth else width
        micro = self._micro(tile, depth, sm, sk, ldb or 0)
        lines = [micro, self._head()]
        if packed_rows:
            lines += ["  " + s for s in self._pack_rows(m, tile)]
        lines += ["  " + s for s in self._tile_loop(m, tile, x, y, packed_rows, direct)]
        return "\n".join([*lines, "}"])

    def _direct_columns(self, m: Matmul, tile: Tile, rows: int) -> bool:
        """Columns can be read in place: neighbours in memory, whole vectors, and too few rows to make packing pay."""
        return (m.b.address is not None and len(m.depth) == 1 and bool(m.columns) and m.b.stride(m.columns[-1]) == 1 and tile.r == 1
                and tile.c == tile.nv * self.lanes and m.b.stride(m.depth[0]) is not None and rows <= 2 * tile.mr)

    def _micro(self, t: Tile, depth: int, sm: int, sk: int, ldb: int) -> str:
        ij = [(i, j) for i in range(t.mr) for j in range(t.nv)]
        out = [f"static __attribute__((noinline)) void {self.name}_tile(const {self.T} *A, const {self.T} *B, {self.T} *C) {{",
               "  " + " ".join(f"{self.V} c{i}_{j} = {{0}};" for i, j in ij), f"  for (long k = 0; k < {depth}; k++) {{",
               "    " + " ".join(f"{self.V} b{j} = *(const {self.U} *)(B + k * {ldb}l + {j * self.lanes});" for j in range(t.nv))]
        for i in range(t.mr):
            copies = ", ".join(["a"] * self.lanes)
            out.append(f"    {{ {self.T} a = A[{i * sm}l + k * {sk}l]; {self.V} w = {{{copies}}}; " + " ".join(f"c{i}_{j} += w * b{j};" for j in range(t.nv)) + " }")
        out += ["  }", "  " + " ".join(f"*({self.U} *)(C + {(i * t.nv + j) * self.lanes}) = c{i}_{j};" for i, j in ij), "}"]
        return "\n".join(out)

    def _packed_strides(self, m: Matmul, t: Tile) -> tuple[int, int]:
        """Strides (row, depth) of a packed row tile. Rows that are neighbours in memory stay so; others keep their order along the
        depth, which is copied faster than turned, and begin at different places of the first cache.
        """
        line = 64 // self.d.itemsize
        return (1, t.mr) if self._rows_are_neighbours(m) else ((-(-m.sizes[2] // line) | 1) * line, 1)

    def _packed_size(self, m: Matmul, t: Tile) -> int:
        """Elements of a packed row tile."""
        return max(self._packed_strides(m, t)) * (m.sizes[2] if self._rows_are_neighbours(m) else t.mr)

    def _rows_are_neighbours(self, m: Matmul) -> bool:
        return len(m.rows) == 1 and m.a.address is not None and m.a.stride(m.rows[0]) == 1

    def _pack_rows(self, m: Matmul, t: Tile) -> list[str]:
        """All row tiles into scratch memory."""
        tiles = -(-m.sizes[0] // t.mr)
        copies = math.prod(v.extent for v in m.batch)
        self.scratch = copies * tiles * self._packed_size(m, t) * self.d.itemsize
        outer, mid, nest = self._row_packing(m, t, f"(({text(flat(m.batch))}) * {tiles} + rt)")
        lines = [f"{self.T} *Ap = ({self.T} *)scratch;", *outer]
        return [*lines, *loop_nest(m.batch, [*mid, "#pragma omp parallel for schedule(static) num_threads(hy_threads)", *loop_nest([Var("rt", tiles)], nest)])]

    def _row_packing(self, m: Matmul, t: Tile, number: str) -> tuple[list[str], list[str], list[str]]:
        """What packs row tile ``rt``: lines before all loops, lines within those of the batch, the rows of the tile.
        number: of the tile's place in Ap.
        """
        rows, (sm, sk) = m.sizes[0], self._packed_strides(m, t)
        e = Emitter(C, self.reads, count=1000)
        outer = Block(None, frozenset())
        mid = outer.child([*m.batch])
        inner = mid.child([*m.rows, *m.depth])
        value = e.value(m.a.node, m.a.index, inner)
        inner.lines.append(f"Ap[{number} * {self._packed_size(m, t)} + ({text(flat(m.depth))}) * {sk} + ri * {sm}] = {value};")
        body = [f"long rr = rt * {t.mr} < {rows - t.mr} ? rt * {t.mr} : {rows - t.mr};", "rr += ri;", *decode("rr", m.rows)]
        row = Var("ri", t.mr)
        if self._rows_are_neighbours(m):
            return outer.lines, mid.lines, loop_nest(m.depth, loop_nest([row], body + inner.lines))
        along = loop_nest(m.depth, inner.lines, "#pragma omp simd")
        return outer.lines, mid.lines, loop_nest([row], body + along)

    # ---- large products: blocks of packed rows that stay near, with blocks of packed columns
    def _large(self, m: Matmul, t: Tile) -> bool:
        """Whether rows would come from afar again for every panel of columns."""
        rows, columns, depth = m.sizes
        return (not m.batch and len(m.columns) == 1 and 2 * rows * depth * self.d.itemsize > STACK and columns >= 4 * t.c and rows >= 4 * t.mr
                and 2 * t.mr * depth * self.d.itemsize <= STACK)

    def _block_loop(self, m: Matmul, t: Tile, x: Var) -> list[str]:
        rows, columns, depth = m.sizes
        tiles, panels, panel = -(-rows // t.mr), -(-columns // t.c), depth * t.nv * self.lanes
        near = -(-tiles // max(1, NEAR // (t.mr * depth * self.d.itemsize)))            # blocks of rows
        together = max(1, BLOCK // (panel * self.d.itemsize))                           # panels of columns in a block
        self.scratch = min(together, panels) * panel * self.d.itemsize
        spans = {x: (t.c, "x0")}
        place = [f"long x0 = xt * {t.c} < {x.extent - t.c} ? xt * {t.c} : {x.extent - t.c};"]
        pragma = "#pragma omp parallel for schedule(static) num_threads(hy_threads)"
        outer, _, rows_nest = self._row_packing(m, t, "(rt - first)")
        return [f"{self.T} *panels = ({self.T} *)scratch;", *outer, f"for (long jb = 0; jb < {panels}; jb += {together}) {{",
                f"  const long je = jb + {together} < {panels} ? jb + {together} : {panels};",
                "  " + pragma, "  for (long xt = jb; xt < je; xt++) {", *("    " + s for s in place), f"    {self.T} *Bp = panels + (xt - jb) * {panel}l;",
                *("    " + s for s in self._pack_columns(m, t, spans)), "  }",
                "  " + pragma, f"  for (long ib = 0; ib < {near}; ib++) {{", f"    const long first = ib * {tiles} / {near}, last = (ib + 1) * {tiles} / {near};",
                f"    {self.T} Ap[{-(-tiles // near) * self._packed_size(m, t)}] __attribute__((aligned(64)));",
                "    for (long rt = first; rt < last; rt++) {", *("      " + s for s in rows_nest), "    }",
                "    for (long xt = jb; xt < je; xt++) {", *("      " + s for s in place), f"      const {self.T} *Bp = panels + (xt - jb) * {panel}l;",
                "      for (long rt = first; rt < last; rt++) {",
                *("        " + s for s in self._tile(m, t, x, None, f"Ap + (rt - first) * {self._packed_size(m, t)}l", spans)), "      }", "    }", "  }", "}"]

    def _tile_loop(self, m: Matmul, t: Tile, x: Var, y: Var | None, packed_rows: bool, direct: bool) -> list[str]:
        rows, columns, depth = m.sizes
        outer = [*m.batch, *m.columns[:-2 if y else -1]] if m.columns else list(m.batch)
        xt, yt = -(-x.extent // t.c), -(-(y.extent if y else 1) // t.r)
        count = math.prod(v.extent for v in outer) * yt * xt
        row_tiles = -(-rows // t.mr)
        split = max(1, min(row_tiles // 2, 8 // count)) if count < 8 and not direct else row_tiles if count < 8 else 1
        work = math.prod(v.extent for v in m.batch) * rows * columns * depth
        parallel = ["#pragma omp parallel for schedule(static) num_threads(hy_threads)"] if work >= PARALLEL_WORK else []
        spans = {x: (t.c, "x0")} if y is None else {y: (t.r, "y0"), x: (t.c, "x0")}
        where = [f"  long xt = u % {xt}; u /= {xt}; long yt = u % {yt}; u /= {yt};", *("  " + s for s in decode("u", outer)),
                 f"  long x0 = xt * {t.c} < {x.extent - t.c} ? xt * {t.c} : {x.extent - t.c};"]
        if y:
            where.append(f"  long y0 = yt * {t.r} < {y.extent - t.r} ? yt * {t.r} : {y.extent - t.r};")
        out: list[str] = []
        panel = depth * t.nv * self.lanes
        shared = split > 1 and not direct                  # several parts of the rows use one panel: packed before
        if shared:
            out += [f"{self.T} *panels = ({self.T} *)((char *)scratch + {self.scratch});", *(parallel if count > 1 else []),
                    f"for (long t = 0; t < {count}; t++) {{", "  long u = t;", *where, f"  {self.T} *Bp = panels + t * {panel}l;",
                    *("  " + s for s in self._pack_columns(m, t, spans)), "}"]
            self.scratch += -(-count * panel * self.d.itemsize // 64) * 64
        out += [*(parallel if count * split > 1 else []), f"for (long t = 0; t < {count * split}; t++) {{", f"  long u = t / {split}, part = t % {split};"]
        out += [f"  const {self.T} *Bp = panels + u * {panel}l;"] if shared else []
        out += where
        if not shared:
            declare = [] if direct else [f"  {self.T} Bp[{panel}] __attribute__((aligned(64)));"]
            out += [*declare, *("  " + s for s in (self._direct_base(m, x, y) if direct else self._pack_columns(m, t, spans)))]
        bounds = f"part * {row_tiles} / {split}", f"(part + 1) * {row_tiles} / {split}"
        body = self._tile(m, t, x, y, self._row_pointer(m, t, packed_rows, row_tiles), spans)
        return [*out, f"  for (long rt = {bounds[0]}; rt < {bounds[1]}; rt++) {{", *("    " + s for s in body), "  }", "}"]

    def _tile(self, m: Matmul, t: Tile, x: Var, y: Var | None, row_pointer: str, spans: dict[Var, tuple[int, str]]) -> list[str]:
        """One tile: its sums and what follows from them. Its place is rt, x0 and y0."""
        rows, width = m.sizes[0], t.nv * self.lanes
        out = [f"long m_first = rt * {t.mr} < {rows - t.mr} ? rt * {t.mr} : {rows - t.mr};",
               f"{self.T} acc[{max(t.mr, self.lanes) * width}] __attribute__((aligned(64)));", f"{self.name}_tile({row_pointer}, Bp, acc);"]
        if self.k.once:
            pairs = ((x, t.c, "xt", "x0"), *(((y, t.r, "yt", "y0"),) if y else ()))
            self.begin = {v: f"{number} * {size} - {first}" for v, size, number, first in pairs if v.extent % size}
            if rows % t.mr:
                self.begin[None] = f"rt * {t.mr} - m_first"
        line = f"{inner_name(y)} * {t.c} + " if y else ""
        row = "i_m" if rows > 1 else "0"                   # loops of one turn have no counter: values move out of them
        return out + (self._vector_epilogue(m, t, x, y, width) or
                      self._epilogue(m, {}, lambda: f"acc[{row} * {width} + {line}{inner_name(x)}]", (t.mr, "m_first"), spans))

    def _row_pointer(self, m: Matmul, t: Tile, packed: bool, tiles: int) -> str:
        if packed:
            return f"Ap + (({text(flat(m.batch))}) * {tiles} + rt) * {self._packed_size(m, t)}l"
        row = m.rows[0] if m.rows else None
        zero = {v: Ix() for v in [*m.rows, *m.depth]}
        return f"{self._base(m.a, zero)} + m_first * {(m.a.stride(row) or 0) if row else 0}l"

    def _direct_base(self, m: Matmul, x: Var, y: Var | None) -> list[str]:
        line = [f"long {y.name} = y0;"] if y else []         # a tile that is read in place has one line
        return line + [f"const {self.T} *Bp = {self._base(m.b, {x: Ix(), **{v: Ix() for v in m.depth}})} + x0;"]

    def _pack_columns(self, m: Matmul, t: Tile, spans: dict[Var, tuple[int, str]]) -> list[str]:
        """The tile's columns, depth by depth, lanes beyond the tile zero."""
        depth, width = m.sizes[2], t.nv * self.lanes
        e = Emitter(C, self.reads, count=2000)
        blocks = [Block(None, frozenset(), [])]
        blocks[0].vars = frozenset([*m.batch, *m.columns]) - frozenset(spans)
        across = m.b.address is not None and len(spans) == 1 and len(m.depth) == 1 and m.b.stride(m.depth[0]) == 1 and m.b.stride(list(spans)[0]) != 1
        if across:
            return self._pack_across(m, t, spans)
        loops = [*m.depth, *spans]
        for v in loops:
            blocks.append(blocks[-1].child([v]))
        value = e.value(m.b.node, m.b.index, blocks[-1])
        line = "".join(f"{inner_name(v)} * {t.c} + " for v in list(spans)[:-1]) + inner_name(list(spans)[-1])
        blocks[-1].lines.append(f"Bp[({text(flat(m.depth))}) * {width} + {line}] = {value};")
        body = blocks[-1].lines
        for at in reversed(range(len(loops))):
            v = loops[at]
            body = [*blocks[at].lines, *self._span_loop(v, spans, body, at == len(loops) - 1)]
        tail = [] if t.r * t.c == width else loop_nest([Var("zk", depth)], [f"for (long z = {t.r * t.c}; z < {width}; z++) Bp[zk * {width} + z] = 0;"])
        return [*tail, *body]

    def _pack_across(self, m: Matmul, t: Tile, spans: dict[Var, tuple[int, str]]) -> list[str]:
        """Columns that lie along the depth in memory: read in short runs, written across the panel."""
        depth, width = m.sizes[2], t.nv * self.lanes
        (x, (count, start)), k = next(iter(spans.items())), m.depth[0]
        source = self._base(m.b, {x: Ix(), k: Ix()})
        run = self.lanes
        out = [f"const {self.T} *from = {source} + {start} * {m.b.stride(x)}l;"]
        if count < width:
            out += loop_nest([Var("zk", depth)], [f"for (long z = {count}; z < {width}; z++) Bp[zk * {width} + z] = 0;"])
        body = [f"for (long q = 0; q < {run}; q++) Bp[(kb + q) * {width} + c] = from[c * {m.b.stride(x)}l + kb + q];"]
        blocks = count // run * run
        out += [f"for (long kb = 0; kb + {run} <= {depth}; kb += {run}) {{"]
        if blocks:
            out.append(f"  for (long c = 0; c < {blocks}; c += {run}) turn_{self.V}(Bp + kb * {width}l + c, {width}, from + c * {m.b.stride(x)}l + kb, {m.b.stride(x)}l);")
        out += [f"  for (long c = {blocks}; c < {count}; c++)", "    " + body[0]] if blocks < count else []
        out.append("}")
        rest = depth - depth % run
        if rest < depth:
            out += [f"for (long q = {rest}; q < {depth}; q++) for (long c = 0; c < {count}; c++) Bp[q * {width} + c] = from[c * {m.b.stride(x)}l + q];"]
        return out

    # ---- pieces
    def _head(self) -> str:
        parts = [f"{'' if i < len(self.k.stores) else 'const '}{C.storage(n.dtype)} *p{i}" for i, n in enumerate(self.args)]
        return f"static void {self.name}({', '.join([*parts, 'void *scratch'])}) {{"

    def _base(self, o: Operand, names: dict[Var, Ix]) -> str:
        assert o.base is not None and o.address is not None
        return f"({self.reads[o.base]} + ({text(substitute(o.address, names))}))"

    def _batch_open(self, m: Matmul, work: int) -> list[str]:
        out = []
        for i, v in enumerate(m.batch):
            if i == 0 and work >= PARALLEL_WORK:
                out.append("  #pragma omp parallel for schedule(static) num_threads(hy_threads)")
            out.append(f"  for (long {v.name} = 0; {v.name} < {v.extent}; {v.name}++) {{")
        return out

    def _batch_close(self, m: Matmul) -> list[str]:
        return ["  }" for _ in m.batch]
