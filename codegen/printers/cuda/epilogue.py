"""The epilogue of products on tensor cores: a thread finishes the sums that it has in registers, and stores neighbours
as one; then come reductions of its results, where the kernel carries some."""
from __future__ import annotations

from hybrid.base.dtype import is_half
from hybrid.ir.index import Ix, Var, substitute, text, var
from .carried import Place, declare_parts, keep_values, merge_in_registers
from .pieces import CudaEmitter, emitter, neighbours, unrolled, when
from .product import Product
from .stages import Tile
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
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
    loops = ("y", rounds), ("x", 2 * tile.mi), ("z", together // width)
    return [*declare_parts(p.k, tile), *unrolled(loops, [
        f"const {p.kind} rr = r0 + top + x * 8 + lane / 4, cc = c0 + left + {at} + z * {width};",
        "HY_ASSUME(rr >= 0 && cc >= 0);", *when(" && ".join(inside) or "true", lines)]),
        *merge_in_registers(p, tile, mixed)]


def _place(width: int) -> Place:
    """Where a lane has a sum among the accumulators."""
    at = f"(z * {width} + j)" if width > 1 else "z"
    return Place(f"y + {at} / 2", f"{at} % 2")


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
        block.body.append(f"float raw = {_place(width).sum};")
        if part is None:
            result(p, e, index, block)
            if p.k.sides:
                keep_values(p.k, e, root_index(p.k, index), block, _place(width))
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
