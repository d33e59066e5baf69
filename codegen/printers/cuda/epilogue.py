"""The epilogue of products on tensor cores: a thread finishes the sums that it has in registers, and stores neighbours
as one; then come reductions of its results, where the kernel carries some."""
from __future__ import annotations

from hybrid.base.dtype import is_half
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, regroup, substitute, text, var
from hybrid.passes.tile_statistics import sum_of_squares
from .pieces import CudaEmitter, emitter, indented, neighbours
from .product import Product
from .rows import operation
from .stages import Tile
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block, combine
from hybrid.codegen.printers.products.operand import root_index


def epilogue(p: Product, tile: Tile, mixed: bool, part: str | None) -> list[str]:
    """A thread's sums stand in rows of neighbours (as many as fragments give, or as the result takes together)."""
    together = 2 * tile.ni if mixed else 2
    inner = next((v for v in reversed(p.m.columns) if v.extent > 1), None)
    for width in (w for w in (8, 4, 2, 1) if together % w == 0):
        if width == 1 or inner is not None and inner.extent % width == 0:
            lines = _finish(p, width, inner, part)
            if lines is not None:
                break
    assert lines is not None
    at = f"lane % 4 * {together}" if mixed else "y * 8 + lane % 4 * 2"
    rounds = 1 if mixed else tile.ni
    whole = p.rows % tile.rows == 0, p.columns % tile.columns == 0
    inside = [t for t, w in zip((f"rr < {p.rows}", f"cc < {p.columns}"), whole) if not w]
    return [*_declare(p, tile), "#pragma unroll", f"for (int y = 0; y < {rounds}; y++)", "  #pragma unroll",
            f"  for (int x = 0; x < {2 * tile.mi}; x++)", "    #pragma unroll",
            f"    for (int z = 0; z < {together // width}; z++) {{",
            f"      const {p.kind} rr = r0 + top + x * 8 + lane / 4, cc = c0 + left + {at} + z * {width};",
            "      HY_ASSUME(rr >= 0 && cc >= 0);", f"      if ({' && '.join(inside) or 'true'}) {{",
            *("        " + s for s in lines), "      }", "    }", *_carried(p, tile, mixed)]


# ---- reductions of the results of 16 rows
def _of_squares(p: Product) -> bool:
    """Whether a kernel carries sums, and squared differences from their mean, of its results: these stay where the
    sums of products were. Of other reductions a thread keeps what its two rows give."""
    return any(sum_of_squares(n) is not None for n, _ in p.k.sides)


def _declare(p: Product, tile: Tile) -> list[str]:
    """A thread's parts of the reductions that are carried."""
    return [] if _of_squares(p) else [f"float side{i}[{tile.mi}][{tile.ni}][2] = {{}};" for i in range(len(p.k.sides))]


def _keep_results(p: Product, e: CudaEmitter, at: Index, block: Block, width: int) -> None:
    """Keeps what reductions are of, of one element of the root."""
    cell = _cell(width)
    if _of_squares(p):
        block.body.append(f"{cell} = {e.value(p.k.root, at, block)};")
        return
    for i, (n, _) in enumerate(p.k.sides):
        x = n.args[0].args[0]
        value = e.value(x, regroup(x.shape, p.k.root.shape, at), block)
        to = cell.replace("acc", f"side{i}", 1).replace("x % 2 * 2 + ", "")
        block.body.append(f"{to} = x % 2 ? {combine(e, n.attrs['op'], n.dtype, to, value)} : {value};")


def _carried(p: Product, tile: Tile, mixed: bool) -> list[str]:
    """Lines that store the reductions of each 16 rows of a warp's results: lanes merge theirs by halves, until each has
    one of 8 columns."""
    if not p.k.sides:
        return []
    at = (f"lane % 4 * {2 * tile.ni} + y * 8 + lane / 4" if mixed else
          "y * 32 + lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2")
    cell = f"row * {p.columns} + cc"
    return ["#pragma unroll", f"for (int i = 0; i < {tile.mi}; i++)", "  #pragma unroll",
            f"  for (int y = 0; y < {tile.ni // 4}; y++) {{",
            *indented(indented(_merge_squares() if _of_squares(p) else _merge(p))),
            f"    const {p.kind} row = (r0 + top) / 16 + i, cc = c0 + left + {at};",
            f"    if (row < {p.rows // 16} && cc < {p.columns}) {{",
            *(f"      {p.names[n]}[{cell}] = part{i}[0];" for i, (n, _) in enumerate(p.k.sides)), "    }", "  }"]


def _merge_squares() -> list[str]:
    """Sums, and squared differences from their mean."""
    return ["float part0[8], part1[8];", "#pragma unroll", "for (int n = 0; n < 8; n++) {",
            "  const float a = acc[i][y * 4 + n / 2][n % 2], b = acc[i][y * 4 + n / 2][n % 2 + 2];",
            "  part0[n] = a + b, part1[n] = (a - b) * (a - b) * 0.5f;", "}", "hy_merge_columns(part0, part1, lane);"]


def _merge(p: Product) -> list[str]:
    """Other reductions."""
    out = []
    for i, (n, _) in enumerate(p.k.sides):
        out += [f"float part{i}[8];", "#pragma unroll",
                f"for (int n = 0; n < 8; n++) part{i}[n] = side{i}[i][y * 4 + n / 2][n % 2];",
                f"hy_merge_columns(part{i}, {operation(n.attrs['op'], n.dtype)}, lane);"]
    return out


def _cell(width: int) -> str:
    """A lane's sum among the accumulators."""
    at = f"z * {width} + j"
    at = f"({at})" if width > 1 else "z"
    return f"acc[x / 2][y + {at} / 2][x % 2 * 2 + {at} % 2]"


def _finish(p: Product, width: int, inner: Var | None, part: str | None) -> list[str] | None:
    """Statements that finish ``width`` neighbouring sums of row rr from column cc on; None where they are not stored as
    one."""
    lane, first = Var("j", width), Var("step", inner.extent // width if inner is not None else 1)
    names: dict[Var, Ix] = {} if inner is None or width == 1 else {inner: var(first) * width + var(lane)}
    e = emitter(p.k, p.names, None, lane)
    e.count = 3000
    columns = [v for v in p.m.columns if v not in names]

    def one(block: Block) -> None:
        index = tuple(substitute(i, names) for i in p.m.dot_index)
        block.body.append(f"float raw = {_cell(width)};")
        if part is None:
            result(p, e, index, block)
            if p.k.sides:
                _keep_results(p, e, root_index(p.k, index), block, width)
        else:
            _keep(p, e, index, block, part)
    lines = neighbours(e, lane, [*p.m.batch, *p.m.rows, *columns, first], one)
    if lines is None:
        return None
    decoded = [*p.decode("rr", p.m.rows), *(p.decode(f"cc / {inner.extent}", columns) if names and inner and columns
                                             else p.decode("cc", p.m.columns) if not names else [])]
    if names and inner is not None:
        decoded.append(f"const {p.kind} step = cc % {inner.extent} / {width};")
    return [*decoded, *lines]


def _keep(p: Product, e: CudaEmitter, index: tuple[Ix, ...], block: Block, part: str) -> None:
    """A part of a sum goes to working memory."""
    at = e.offset(p.dot.shape, index)
    if e.lane is None:
        block.body.append(f"scratch[{part} * ({p.kind}){p.dot.size} + {text(at)}] = raw;")
        return
    block.body.append(e.pack(f"scratch + {part} * ({p.kind}){p.dot.size}", "float", at, "raw"))


def result(p: Product, e: CudaEmitter, index: tuple[Ix, ...], block: Block) -> None:
    """Compute the root from the sum ``raw`` and store it."""
    if is_half(p.dot.dtype):
        block.body.append(f"float sum = {CUDA.rounded(p.dot.dtype, 'raw')};")
        e.halves["sum"] = CUDA.half_stored(p.dot.dtype, "raw")
    e.given[p.dot] = lambda idx: "sum" if is_half(p.dot.dtype) else "raw"
    e.put(p.names[p.k.root], p.k.root, root_index(p.k, index), block)
