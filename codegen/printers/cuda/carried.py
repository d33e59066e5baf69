"""Reductions that a product's kernel carries (``Kernel.sides``): of groups of its result, or of what is computed from
it, 16 rows of a column or 32 columns of a row. The values that are reduced are kept while the result is finished, and
are then put together: where tensor cores multiply by the lanes of a warp, otherwise from shared memory, by a thread for
each column or a warp for each row.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hybrid.base.records import dataclass
from hybrid.ir.access import Index
from hybrid.ir.index import regroup
from hybrid.ir.kernel import Kernel
from hybrid.ir.scalar import SCALARS
from hybrid.ir.stmt import Name
from hybrid.passes.result_groups import LOWEST, OF_COLUMNS, OF_ROWS, first_of_groups, groups_of, ungrouped

from .pieces import THREADS, CudaEmitter, indented
from .rows import operation
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block, Emitter, combine, identity

if TYPE_CHECKING:
    from .product import Product
    from .stages import Tile


ROWS, COLUMNS = OF_COLUMNS.size, OF_ROWS.size
F32 = np.dtype(np.float32)


def takes_first(k: Kernel) -> bool:
    """Whether a kernel carries two reductions of its results, the second of which takes the first: sums, and squared
    differences from their mean; or greatest values, and exponentials of differences from them."""
    return any(first_of_groups(n) is not None for n, _ in k.sides)


def of_rows(k: Kernel) -> bool:
    """Whether the reductions that a kernel carries are of rows."""
    return any(groups_of(n) is OF_ROWS for n, _ in k.sides)


def reduced_values(k: Kernel, e: CudaEmitter, at: Index, block: Block) -> list[str]:
    """The values that the reductions reduce, at an index of the root; not in the shape of groups."""
    of = [k.root] if takes_first(k) else [ungrouped(n) for n, _ in k.sides]
    return [e.value(x, regroup(x.shape, k.root.shape, at), block) for x in of]


def _stored(p: Product, row: str, column: str) -> list[str]:
    """Statements that store the results of a group of rows, if it is inside."""
    return [f"const {p.kind} row = {row}, cc = {column};", f"if (row < {p.rows // ROWS} && cc < {p.columns}) {{",
            *(f"  {p.names[n]}[row * {p.columns} + cc] = part{i}[0];" for i, (n, _) in enumerate(p.k.sides)), "}"]


def _stored_of_row(p: Product, row: str, group: str, mine: str) -> list[str]:
    """Statements that store the results of a group of columns, if it is inside. mine: the condition, in C, under which
    this thread stores."""
    groups = -(-p.columns // COLUMNS)
    return [f"const {p.kind} row = {row}, group = {group};", f"if ({mine} && row < {p.rows} && group < {groups}) {{",
            *(f"  {p.names[n]}[row * {groups} + group] = part{i};" for i, (n, _) in enumerate(p.k.sides)), "}"]


def _operations(k: Kernel) -> list[tuple[str, str]]:
    """Of each reduction: the operation in C, and its identity."""
    e = Emitter(CUDA, {})
    return [(operation(n.attrs["op"], n.dtype), identity(e, n.attrs["op"], n.dtype)) for n, _ in k.sides]


def _exponential(value: str) -> str:
    """The exponential of a value's difference from the greatest one of its group."""
    return str(Emitter(CUDA, {}).spell(SCALARS["exp"], F32, (Name(f"({value} - greatest)"),)))


def _greatest(k: Kernel) -> str:
    """Declares ``greatest``, which ``_exponential`` subtracts: finite where all are -infinity."""
    (op, _), *_ = _operations(k)
    return f"const float greatest = {op}(part0, {Emitter(CUDA, {}).d.literal(LOWEST, F32)});"


# ---- in registers
def declare_parts(k: Kernel, tile: Tile) -> list[str]:
    """Declare an array for each reduction: a thread's partial results, of two rows of a column each, or of its part of
    a group of each row. Where one takes the other none is needed: results overwrite the sums of products."""
    if takes_first(k):
        return []
    if not of_rows(k):
        return [f"float side{i}[{tile.mi}][{tile.ni}][2] = {{}};" for i in range(len(k.sides))]
    count = 2 * tile.mi * (tile.ni // 4)
    return [s for i, (_, none) in enumerate(_operations(k)) for s in (
        f"float side{i}[{2 * tile.mi}][{tile.ni // 4}];", "#pragma unroll",
        f"for (int n = 0; n < {count}; n++) ((float *)side{i})[n] = {none};")]


@dataclass(frozen=True)
class Place:
    """Where a thread has an element of its part of a tile, row ``x``. across: which block of 8 columns. column: the
    number of one of its two columns there."""
    across: str
    column: str

    @property
    def sum(self) -> str:
        """The element's sum of products."""
        return f"acc[x / 2][{self.across}][x % 2 * 2 + {self.column}]"

    def part(self, number: int) -> str:
        """The part, of two rows, of a reduction."""
        return f"side{number}[x / 2][{self.across}][{self.column}]"

    def part_of_row(self, number: int) -> str:
        """The part, of a thread's columns in a group, of a reduction."""
        return f"side{number}[x][({self.across}) / 4]"


def keep_values(k: Kernel, e: CudaEmitter, at: Index, block: Block, place: Place) -> None:
    """Adds statements that keep the values that are reduced, of the root's element at an index."""
    found = reduced_values(k, e, at, block)
    if takes_first(k):
        block.body.append(f"{place.sum} = {found[0]};")
        return
    for i, ((n, _), value) in enumerate(zip(k.sides, found)):
        to = place.part_of_row(i) if of_rows(k) else place.part(i)
        joined = combine(e, n.attrs["op"], n.dtype, to, value)
        block.body.append(f"{to} = {joined};" if of_rows(k) else f"{to} = x % 2 ? {joined} : {value};")


def merge_in_registers(p: Product, tile: Tile, mixed: bool) -> list[str]:
    """Lines that store the results of each group of a warp. Of 16 rows: lanes merge their parts by halves, until each
    has one of 8 columns."""
    if not p.k.sides:
        return []
    if of_rows(p.k):
        return _merge_of_rows(p, tile, mixed)
    at = (f"lane % 4 * {2 * tile.ni} + y * 8 + lane / 4" if mixed else
          "y * 32 + lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2")
    return ["#pragma unroll", f"for (int i = 0; i < {tile.mi}; i++)", "  #pragma unroll",
            f"  for (int y = 0; y < {tile.ni // 4}; y++) {{",
            *indented(indented([*(_squares_of_lanes() if takes_first(p.k) else _of_lanes(p.k)),
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


def _merge_of_rows(p: Product, tile: Tile, mixed: bool) -> list[str]:
    """The four lanes that have parts of a row merge those of each group."""
    assert tile.ni == 4 or not mixed                       # a lane has 8 neighbouring columns only with ni == 4
    if takes_first(p.k):
        merged = _two_of_row(p, tile, mixed)
    else:
        merged = [f"const float part{i} = hy_merge_lanes(side{i}[x][y], {op});" for i, (op, _) in enumerate(
            _operations(p.k))]
    return ["#pragma unroll", f"for (int x = 0; x < {2 * tile.mi}; x++)", "  #pragma unroll",
            f"  for (int y = 0; y < {tile.ni // 4}; y++) {{", *indented(indented(
                [*merged, *_stored_of_row(p, "r0 + top + x * 8 + lane / 4", f"(c0 + left) / {COLUMNS} + y",
                                          "lane % 4 == y % 4")])), "  }"]


def _two_of_row(p: Product, tile: Tile, mixed: bool) -> list[str]:
    """The greatest value of a group, and the sum of exponentials of differences from it."""
    (most, least), (total, _) = _operations(p.k)
    value = "acc[x / 2][y * 4 + n / 2][x % 2 * 2 + n % 2]"
    at = "lane % 4 * 8 + n" if mixed else "y * 32 + n / 2 * 8 + lane % 4 * 2 + n % 2"
    outside = [] if p.columns % tile.columns == 0 else [f"  if (c0 + left + {at} >= {p.columns}) {value} = {least};"]
    return [f"float part0 = {least}, part1 = 0.f;", "#pragma unroll", "for (int n = 0; n < 8; n++) {", *outside,
            f"  part0 = {most}(part0, {value});", "}", f"part0 = hy_merge_lanes(part0, {most});", _greatest(p.k),
            "#pragma unroll", f"for (int n = 0; n < 8; n++) part1 += {_exponential(value)};",
            f"part1 = hy_merge_lanes(part1, {total});"]


# ---- in shared memory
def shared_names(k: Kernel) -> list[str]:
    """Names of the arrays of 16 lines in which ``reduced_values`` are kept."""
    return [f"side{i}" for i in range(1 if takes_first(k) else len(k.sides))]


def merge_in_shared_memory(p: Product, width: int) -> list[str]:
    """Lines that store the results of the 16 rows of a turn. width: columns of the block."""
    if not p.k.sides:
        return []
    if of_rows(p.k):
        return _of_lines(p, width)
    total = "float part{0}[1] = {{side{1}[0][column]}};"
    loop = ["#pragma unroll", f"for (int line = 1; line < {ROWS}; line++)"]
    if takes_first(p.k):
        added = [total.format(0, 0), *loop, "  part0[0] += side0[line][column];", "float part1[1] = {};",
                 "#pragma unroll", f"for (int line = 0; line < {ROWS}; line++) {{",
                 f"  const float d = side0[line][column] - part0[0] * {1 / ROWS}f;", "  part1[0] += d * d;", "}"]
    else:
        added = [s for i, (n, _) in enumerate(p.k.sides) for s in (
            total.format(i, i), *loop,
            f"  part{i}[0] = {operation(n.attrs['op'], n.dtype)}(part{i}[0], side{i}[line][column]);")]
    return ["__syncthreads();", f"if (threadIdx.x < {width}) {{", "  const int column = threadIdx.x;",
            *indented([*added, *_stored(p, f"r0 / {ROWS} + turn", "c0 + column")]), "}"]


def _of_lines(p: Product, width: int) -> list[str]:
    """A warp reduces the groups of every eighth line."""
    joined, lane = _operations(p.k), "threadIdx.x % 32"
    inside = f"c0 + y * {COLUMNS} + {lane} < {p.columns}"
    reduced = [f"float part{i} = hy_warp_reduce({inside} ? {name}[line][y * {COLUMNS} + {lane}] : {joined[i][1]}, "
               f"{joined[i][0]});" for i, name in enumerate(shared_names(p.k))]
    if takes_first(p.k):
        value = f"side0[line][y * {COLUMNS} + {lane}]"
        reduced += [_greatest(p.k), f"float part1 = hy_warp_reduce({inside} ? {_exponential(value)} : 0.f, "
                                    f"{joined[1][0]});"]
    return ["__syncthreads();", "#pragma unroll 1",
            f"for (int line = threadIdx.x / 32; line < {ROWS}; line += {THREADS // 32})", "  #pragma unroll 1",
            f"  for (int y = 0; y < {width // COLUMNS}; y++) {{", *indented(indented(
                [*reduced, *_stored_of_row(p, f"r0 + turn * {ROWS} + line", f"c0 / {COLUMNS} + y",
                                           f"{lane} == 0")])), "  }"]
