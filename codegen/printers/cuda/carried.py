"""Reductions that a product's kernel carries (``Kernel.sides``): of each 16 rows of its result, or of what is computed
from it. The values that are reduced are kept while the result is finished, and are then put together: where tensor
cores multiply by the lanes of a warp, otherwise from shared memory, by a thread for each column.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from hybrid.base.records import dataclass
from hybrid.ir.access import Index, beneath
from hybrid.ir.index import regroup
from hybrid.ir.kernel import Kernel
from hybrid.passes.tile_statistics import ROWS, sum_of_squares

from .pieces import CudaEmitter, indented
from .rows import operation
from hybrid.codegen.emit import Block, combine

if TYPE_CHECKING:
    from .product import Product
    from .stages import Tile


def has_squares(k: Kernel) -> bool:
    """Whether a kernel carries sums of its results, and of squared differences from their mean: both are of one
    value."""
    return any(sum_of_squares(n) is not None for n, _ in k.sides)


def reduced_values(k: Kernel, e: CudaEmitter, at: Index, block: Block) -> list[str]:
    """The values that the reductions reduce, at an index of the root; not in the shape of tiles."""
    of = [k.root] if has_squares(k) else [beneath(n.args[0], ("reshape",)) for n, _ in k.sides]
    return [e.value(x, regroup(x.shape, k.root.shape, at), block) for x in of]


def _stored(p: Product, row: str, column: str) -> list[str]:
    """Statements that store the results of a group of rows, if it is inside."""
    return [f"const {p.kind} row = {row}, cc = {column};", f"if (row < {p.rows // ROWS} && cc < {p.columns}) {{",
            *(f"  {p.names[n]}[row * {p.columns} + cc] = part{i}[0];" for i, (n, _) in enumerate(p.k.sides)), "}"]


# ---- in registers
def declare_parts(k: Kernel, tile: Tile) -> list[str]:
    """Declare an array for each reduction: a thread's partial results, of two rows of a column each. With squares none
    is needed: results overwrite the sums of products."""
    return [] if has_squares(k) else [f"float side{i}[{tile.mi}][{tile.ni}][2] = {{}};" for i in range(len(k.sides))]


@dataclass(frozen=True)
class Place:
    """Where a thread has an element of two rows of its part of a tile (``x % 2``): ``piece`` is the index of 16 rows
    and 8 columns, ``column`` the number of one of its two columns there."""
    piece: str
    column: str

    @property
    def sum(self) -> str:
        """The element's sum of products."""
        return f"acc{self.piece}[x % 2 * 2 + {self.column}]"

    def part(self, number: int) -> str:
        """The part, of both rows, of a reduction."""
        return f"side{number}{self.piece}[{self.column}]"


def keep_values(k: Kernel, e: CudaEmitter, at: Index, block: Block, place: Place) -> None:
    """Adds statements that keep the values that are reduced, of the root's element at an index."""
    found = reduced_values(k, e, at, block)
    if has_squares(k):
        block.body.append(f"{place.sum} = {found[0]};")
        return
    for i, ((n, _), value) in enumerate(zip(k.sides, found)):
        to = place.part(i)
        block.body.append(f"{to} = x % 2 ? {combine(e, n.attrs['op'], n.dtype, to, value)} : {value};")


def merge_in_registers(p: Product, tile: Tile, mixed: bool) -> list[str]:
    """Lines that store the results of each 16 rows of a warp: lanes merge their parts by halves, until each has one of
    8 columns."""
    if not p.k.sides:
        return []
    at = (f"lane % 4 * {2 * tile.ni} + y * 8 + lane / 4" if mixed else
          "y * 32 + lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2")
    return ["#pragma unroll", f"for (int i = 0; i < {tile.mi}; i++)", "  #pragma unroll",
            f"  for (int y = 0; y < {tile.ni // 4}; y++) {{",
            *indented(indented([*(_squares_of_lanes() if has_squares(p.k) else _of_lanes(p.k)),
                                *_stored(p, f"(r0 + top) / {ROWS} + i", f"c0 + left + {at}")])), "  }"]


def _squares_of_lanes() -> list[str]:
    return ["float part0[8], part1[8];", "#pragma unroll", "for (int n = 0; n < 8; n++) {",
            "  const float a = acc[i][y * 4 + n / 2][n % 2], b = acc[i][y * 4 + n / 2][n % 2 + 2];",
            "  part0[n] = a + b, part1[n] = (a - b) * (a - b) * 0.5f;", "}", "hy_merge_columns(part0, part1, lane);"]


def _of_lanes(k: Kernel) -> list[str]:
    out = []
    for i, (n, _) in enumerate(k.sides):
        out += [f"float part{i}[8];", "#pragma unroll",
                f"for (int n = 0; n < 8; n++) part{i}[n] = side{i}[i][y * 4 + n / 2][n % 2];",
                f"hy_merge_columns(part{i}, {operation(n.attrs['op'], n.dtype)}, lane);"]
    return out


# ---- in shared memory
def shared_names(k: Kernel) -> list[str]:
    """Names of the arrays of 16 lines in which ``reduced_values`` are kept."""
    return [f"side{i}" for i in range(1 if has_squares(k) else len(k.sides))]


def merge_in_shared_memory(p: Product, width: int) -> list[str]:
    """Lines that store the results of the 16 rows of a turn. width: columns of the block."""
    if not p.k.sides:
        return []
    total = "float part{0}[1] = {{side{1}[0][column]}};"
    loop = ["#pragma unroll", f"for (int line = 1; line < {ROWS}; line++)"]
    if has_squares(p.k):
        added = [total.format(0, 0), *loop, "  part0[0] += side0[line][column];", "float part1[1] = {};",
                 "#pragma unroll", f"for (int line = 0; line < {ROWS}; line++) {{",
                 f"  const float d = side0[line][column] - part0[0] * {1 / ROWS}f;", "  part1[0] += d * d;", "}"]
    else:
        added = [s for i, (n, _) in enumerate(p.k.sides) for s in (
            total.format(i, i), *loop,
            f"  part{i}[0] = {operation(n.attrs['op'], n.dtype)}(part{i}[0], side{i}[line][column]);")]
    return ["__syncthreads();", f"if (threadIdx.x < {width}) {{", "  const int column = threadIdx.x;",
            *indented([*added, *_stored(p, f"r0 / {ROWS} + turn", "c0 + column")]), "}"]
