"""Matrix products without tensor cores: 256 threads compute a tile over slices in shared memory, each a few rows and
columns of it in registers."""
from __future__ import annotations

from dataclasses import dataclass

from .carried import merge_in_shared_memory, shared_names
from .grid import Grid
from .pieces import THREADS, PrintedCuda, indented
from .product import Product
from .shares import Division, best_division
from .tile import Fill

# rows and columns of a thread's sums
SIDES = ((8, 8), (8, 4), (4, 8), (4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (4, 1), (1, 2), (1, 1))


@dataclass(frozen=True)
class PlainTile:
    """A block's part of the result: each thread has the sums of ``down`` rows and ``across`` columns."""
    down: int
    across: int

    threads = THREADS

    @property
    def rows(self) -> int:
        """Rows of the tile."""
        return 16 * self.down

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return 16 * self.across

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.down * self.across

    @property
    def deep(self) -> int:
        """The depth of a slice."""
        return 8 if self.sums > 16 else 16

    @property
    def work(self) -> float:
        """A thread's work for each step of the depth, as of ``launch_cost``."""
        return self.sums + 1.5 * (self.down + self.across)


def tiles_for(p: Product) -> list[PlainTile]:
    """The tiles whose sums fit a thread's registers."""
    most = 8 if p.sum_dtype.itemsize <= 4 else 4
    return [PlainTile(*t) for t in SIDES if max(t) <= most]


def grid_of(p: Product) -> PlainGrid:
    """How blocks share a product."""
    return PlainGrid(p, best_division(p, tiles_for(p), lambda t: t.deep, lambda t: t.work))


def print_tiles(p: Product) -> PrintedCuda:
    """CUDA of a product; the next slice is loaded while one is multiplied."""
    grid = grid_of(p)
    return grid.printed(grid.products(), False, grid.shared)


class PlainGrid(Grid):
    """A grid whose blocks put slices into shared memory by way of registers, and finish results from there."""

    tile: PlainTile
    wait: list[str] = []

    def __init__(self, p: Product, division: Division[PlainTile]):
        tile, pad = division.tile, 16 // max(4, p.sum_dtype.itemsize)   # lines begin at other banks
        shapes = {"As": (2, tile.deep, tile.rows + pad), "Bs": (2, tile.deep, tile.columns + pad),
                  **dict.fromkeys(["S", *shared_names(p.k)], (16, tile.columns + pad))}
        (_, *self.arrays), self.shared = p.arrays(**shapes)
        super().__init__(p, division, tile.deep)

    def _places(self) -> list[str]:
        return [*self.arrays, "const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;"]

    def _declared(self) -> str:
        return f"__align__(16) {self.p.T} acc[{self.tile.down}][{self.tile.across}] = {{}};"

    def products(self) -> list[str]:
        """Statements that add up the products of a block's part of the depth."""
        p, tile, deep = self.p, self.tile, self.tile.deep
        fills = [Fill(p, side, size, deep) for side, size in (("a", tile.rows), ("b", tile.columns))]
        sides = [*_vectors(tile.down, tile.rows, "ty", "As[buffer][q]", "x", p.T),
                 *_vectors(tile.across, tile.columns, "tx", "Bs[buffer][q]", "y", p.T)]
        return ["int buffer = 0;", *(s for f in fills for s in f.declare(p.T)), "#pragma unroll 1",
                f"for ({p.kind} k0 = low;; k0 += {deep}) {{", "  if (k0 < high) {",
                *("    " + s for f in fills for s in f.load("high")), "  }", "  if (k0 > low) {", "    #pragma unroll",
                f"    for (int q = 0; q < {deep}; q++) {{",
                f"      __align__(16) {p.T} x[{tile.down}], y[{tile.across}];",
                *(f"      {own} = {at};" for at, own in sides), "      #pragma unroll",
                f"      for (int i = 0; i < {tile.down}; i++)", "        #pragma unroll",
                f"        for (int j = 0; j < {tile.across}; j++) acc[i][j] += x[i] * y[j];", "    }",
                "    buffer ^= 1;", "  }", "  if (k0 >= high) break;",
                *("  " + s for f, to in zip(fills, ("As[buffer]", "Bs[buffer]")) for s in f.keep_by_depth(to)),
                "  __syncthreads();", "}"]

    def _finished(self, mixed: bool, part: str | None) -> list[str]:
        """The tile, 16 rows at a time through shared memory, so that neighbouring threads finish neighbouring columns.
        Rows of which the kernel carries reductions are neighbours, too: those of a few threads."""
        p, tile = self.p, self.tile
        mine, line, row = "i == turn", "ty", _place(tile.down, tile.rows, "line", "turn")
        if p.k.sides:
            each = min(tile.down, 4)
            mine = f"i / {each} == turn / {each} && ty / {16 // each} == turn % {each}"
            line, row = f"ty % {16 // each} * {each} + i % {each}", "turn * 16 + line"
        put = [f"      {at} = {own};"
               for at, own in _vectors(tile.across, tile.columns, "tx", f"S[{line}]", "acc[i]", p.T)]
        kept = [f"{name}[line][column]" for name in shared_names(p.k)]
        return ["#pragma unroll 1", f"for (int turn = 0; turn < {tile.down}; turn++) {{", "  __syncthreads();",
                "  #pragma unroll", f"  for (int i = 0; i < {tile.down}; i++)", f"    if ({mine}) {{", *put, "    }",
                "  __syncthreads();", "  #pragma unroll 1",
                f"  for (int e = threadIdx.x; e < {16 * tile.columns}; e += {THREADS}) {{",
                f"    int line = e / {tile.columns}, column = e % {tile.columns};",
                f"    {p.kind} rr = r0 + ({row}), cc = c0 + column;",
                *("    " + s for s in p.last("rr", "cc", "S[line][column]", part, kept)), "  }",
                *indented(merge_in_shared_memory(p, tile.columns)), "}"]


def _place(count: int, size: int, thread: str, i: str) -> str:
    """Where in a tile's side the i-th of a thread's sums stands: stretches of up to four, so that they are read as
    vectors."""
    return f"{i} / 4 * {size // 2} + {thread} * 4 + {i} % 4" if count == 8 else f"{thread} * {count} + {i}"


def _vectors(count: int, size: int, thread: str, shared: str, own: str, T: str) -> list[tuple[str, str]]:
    """Where a thread's values of a tile's side lie in shared memory and in its own array, as vectors of up to 16 bytes:
    then the lanes of one memory transaction read each bank of shared memory once."""
    step = min(count, 4 if T in ("float", "int", "unsigned") else 2)
    if step == 1:
        return [(f"{shared}[{_place(count, size, thread, str(i))}]", f"{own}[{i}]") for i in range(count)]
    return [(f"*(hy_pack<{T}, {step}> *)({shared} + {_place(count, size, thread, str(i))})",
             f"*(hy_pack<{T}, {step}> *)({own} + {i})") for i in range(0, count, step)]
