"""Contractions in CUDA. Few rows: matrix-vector products whose depth is split over a warp or a block. Otherwise tiles
in shared memory with sums in registers, or tensor cores, for half types and, where they are faster, for float32
(mma.py)."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hybrid.ir.index import Ix, Var, coefficient, linear, substitute, unlinear, var
from hybrid.ir.kernel import Kernel
from hybrid.passes.result_groups import OF_COLUMNS, Groups

from .flat import print_flat
from .grouped import of_groups, print_filters, print_pixels
from .grid import Grid
from .mma import pick, print_mma, why_not_mma
from .pieces import THREADS, CudaEmitter, PrintedCuda, emitter, unrolled
from .plain_tiles import grid_of, print_tiles
from .product import Product, columns_first, share_depth
from .rows import Team, team_loop
from .stages import LINE
from .warpgroup import pick_warpgroup, print_warpgroup, why_no_warpgroups
from hybrid.codegen.emit import Block
from hybrid.codegen.printers.products.operand import root_index
from hybrid.codegen.schedule.choose import first_that_fits

FEW = 4                         # rows up to which a product is done as dot products
SHORT = 32                      # depth up to which a thread adds up a few rows by itself
WARPS = THREADS // 32


def print_contraction(k: Kernel, name: str) -> PrintedCuda:
    """CUDA of a contraction kernel."""
    assert k.dot is not None
    if not of_groups(k.dot):
        return _print_product(k, name)
    return first_that_fits(k, [("convolution of small groups", print_pixels),
                               ("filters of small groups", print_filters),
                               ("product for each group", _print_product)], name)


def _print_product(k: Kernel, name: str) -> PrintedCuda:
    """One that is not of small groups."""
    for swap in (False, True):
        p = Product(k, name, swap)
        if p.rows <= FEW:
            return _few_rows(p)
    p = Product(k, name, columns_first(k))
    refused = why_not_mma(p)
    if refused:
        return _noted(p, "tiles", (("products of tensor cores", refused),), print_tiles)
    division = pick_warpgroup(p)
    if division is None:
        return _noted(p, "products of warps", (("products of warpgroups", why_no_warpgroups(p)),), print_mma)
    return _noted(p, "products of warpgroups", (), lambda p: print_warpgroup(p, division))


def _few_rows(p: Product) -> PrintedCuda:
    """A product of so few rows that no tile of it would be full."""
    tiles = (("tiles", f"{p.rows} rows or columns fill none"),)
    if p.depth <= SHORT:
        return _noted(p, "sums of single threads", tiles, lambda p: print_flat(p.k, p.name))
    if p.depth_major("b") or p.columns == 1:
        return _noted(p, "dot products", tiles, _dots)
    return _noted(p, "columns side by side", tiles, _across)


def _noted(p: Product, form: str, others: Sequence[tuple[str, str]],
           make: Callable[[Product], PrintedCuda]) -> PrintedCuda:
    """The kernel in a form, which the report names beside those that do not fit, unless the kernel has a name for it
    already, or ``make`` finds a more special one."""
    p.k.form = p.k.form or form
    p.k.not_taken += others
    return make(p)


SPREAD = "the sums of a group are spread over several blocks, or are not in float32"


def why_not_carried(k: Kernel, groups: Groups) -> str:
    """Why the kernel of a contraction cannot carry reductions of groups of its result; empty if it can. A warp (or,
    without tensor cores, one pass through shared memory) must have all of a group, and a block the sums over the whole
    depth."""
    if k.dot is None or of_groups(k.dot):
        return "products of groups have kernels of their own"
    p = Product(k, "", columns_first(k))
    if p.batch != 1:
        return "the kernel computes several products"
    if min(p.rows, p.columns) <= FEW:
        return f"the product has no more than {FEW} rows or columns"
    if k.root.size != p.rows * p.columns:
        return "not all results of the product are stored"
    if p.rows % OF_COLUMNS.size if groups is OF_COLUMNS else k.root.shape[-1] != p.columns:
        return "the elements of a group do not lie side by side in a tile"
    axes = (*p.m.rows, *p.m.columns)
    steps = [coefficient(linear(k.root.shape, root_index(k, p.m.dot_index)), v) for v in axes]
    if any(v.extent > 1 and step != after for v, step, after in zip(axes, steps, _row_major(axes))):
        return "the result is not stored row by row"
    if why_not_mma(p):
        plain = grid_of(p)
        whole = plain.in_registers and (groups is OF_COLUMNS or plain.tile.columns % groups.size == 0)
        return "" if whole and p.sum_dtype == np.float32 else SPREAD
    division = pick_warpgroup(p) or pick(p)
    whole = division.tile.ni % 4 == 0 and Grid(p, division, LINE // p.dot.dtype.itemsize).in_registers
    return "" if whole else SPREAD


def _row_major(vs: Sequence[Var]) -> list[int]:
    """The strides of axes in the order of rows."""
    return [math.prod(v.extent for v in vs[i + 1:]) for i in range(len(vs))]


# ---- a few rows
def _row(p: Product, r: int) -> dict[Var, Ix]:
    """The row variables of row r."""
    return dict(zip(p.m.rows, unlinear(Ix(r), [v.extent for v in p.m.rows])))


def _add(p: Product, to: CudaEmitter, inner: Block, at: dict[Var, Ix]) -> None:
    """Statements that add one product to each row's sum."""
    value = to.value(p.m.b.node, tuple(substitute(i, at) for i in p.m.b.index), inner)
    for r in range(p.rows):
        index = tuple(substitute(substitute(i, at), _row(p, r)) for i in p.m.a.index)
        inner.body.append(f"acc[{r}] += {to.value(p.m.a.node, index, inner)} * {value};")


def _of_row(p: Product, number: str) -> list[str]:
    """The sum of one row, where the row's number is not a constant."""
    return [f"{p.T} mine = acc[0];", *(f"if ({number} == {r}) mine = acc[{r}];" for r in range(1, p.rows))]


def _dots(p: Product) -> PrintedCuda:
    """One warp computes one column for all rows; lanes walk the depth."""
    e = emitter(p.k, p.names)
    block = Block(None, frozenset([*p.m.batch, *p.m.columns]))
    items = [p.dot.args[0].dtype.itemsize, p.dot.args[1].dtype.itemsize]
    team, count = Team(32, THREADS), p.batch * p.columns
    loop = team_loop(e, block, p.m.depth or [Var("k0", 1)], team, items, lambda to, inner, at: _add(p, to, inner, at))
    body = [*team.head(count, p.kind), f"{p.kind} u = row / {p.columns}, cc = row % {p.columns};",
            *p.decode("u", p.m.batch), *p.decode("cc", p.m.columns),
            f"{p.T} acc[{p.rows}] = {{}};", *block.lines, *loop,
            *unrolled([("r", p.rows)], ["acc[r] = hy_warp_reduce(acc[r], hy_sum_op());"]),
            f"{p.kind} rr = lane;", f"if (rr >= {p.rows}) return;", *_of_row(p, "rr"),
            *p.last("rr", "cc", "mine", None)]
    return p.printed(body, team.blocks(count), THREADS)


def _across(p: Product) -> PrintedCuda:
    """32 neighbouring columns a block; its warps share the depth."""
    groups = -(-p.columns // 32)
    blocks = groups * p.batch
    parts = share_depth(blocks, p.depth, 256)
    step = -(-p.depth // parts)
    parts = -(-p.depth // step)
    e = emitter(p.k, p.names)
    block = Block(None, frozenset([*p.m.batch, *p.m.columns]))
    q = Var("q", p.depth)
    inner = block.child([q])
    _add(p, e, inner, dict(zip(p.m.depth, unlinear(var(q), [v.extent for v in p.m.depth]))))
    kind, part = p.kind, None if parts == 1 else f"({p.kind})part"
    arrays, shared = p.arrays(shared=(p.rows, WARPS, 32))
    body = [f"{kind} lane = ({kind})(threadIdx.x % 32), warp = ({kind})(threadIdx.x / 32);",
            f"unsigned part = blockIdx.x % {parts}u, group = blockIdx.x / {parts}u;",
            f"{kind} u = ({kind})(group / {groups}u), cc = ({kind})(group % {groups}u) * 32 + lane, low = "
            f"({kind})part * {step};",
            f"{kind} high = low + {step} < {p.depth} ? low + {step} : {p.depth};", f"bool inside = cc < {p.columns};",
            f"if (!inside) cc = {p.columns - 1};",
            "HY_ASSUME(u >= 0 && cc >= 0 && low >= 0 && warp >= 0);", *p.decode("u", p.m.batch),
            *p.decode("cc", p.m.columns),
            f"{p.T} acc[{p.rows}] = {{}};", *block.lines,
            "#pragma unroll 4", f"for ({kind} q = low + warp; q < high; q += {WARPS}) {{",
            *("  " + s for s in inner.lines), "}",
            *arrays,
            *unrolled([("r", p.rows)], ["shared[r][warp][lane] = acc[r];"]), "__syncthreads();",
            f"{kind} rr = warp;", f"if (rr >= {p.rows} || !inside) return;", f"{p.T} mine = shared[rr][0][lane];",
            "#pragma unroll", f"for (int w = 1; w < {WARPS}; w++) mine += shared[rr][w][lane];",
            *p.last("rr", "cc", "mine", part)]
    return p.printed(body, blocks * parts, THREADS, parts, shared)
