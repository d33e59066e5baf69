"""Matrix products on tensor cores (mma.sync): slices of both operands in shared memory (stages.py), warps that own a
part of the result each in registers, and an epilogue from there.

Halves are multiplied as they are, with sums in float. A float32 is multiplied as a sum of two numbers that tensor cores
take whole (three products of them, added outside: their own sums are cut off, not rounded), or as one where less is
asked for.
"""
from __future__ import annotations

import numpy as np

from hybrid.base import config
from hybrid.base.dtype import is_half
from .grid import Grid
from .pieces import PrintedCuda, unrolled
from .product import Product
from .shares import Division, best_division
from .stages import LINE, STAGES, Slices, Tile, copies_whole
from .target import current

TILES = (Tile(128, 128, 2, 4), Tile(128, 64, 4, 2), Tile(64, 128, 2, 4), Tile(64, 64, 2, 2), Tile(64, 32, 4, 1),
         Tile(32, 64, 2, 2), Tile(32, 32, 2, 2))
FUNCTION = {"float16": "hy_mma_half", "bfloat16": "hy_mma_bf16", "float32": "hy_mma_tf32"}


def why_not_mma(p: Product) -> str:
    """Why a product is none for tensor cores; empty if it is one."""
    d = p.dot.dtype
    if any(a.dtype != d for a in p.dot.args):
        return "operands have other types than the result"
    if not multiplies(d):
        return f"this GPU's do not multiply {d.name}, or not faster than other units"
    least = (5, 5, 8) if is_half(d) else (16, 16, 16)
    if any(n < m for n, m in zip(p.m.sizes, least)):
        return "fewer than {} rows, {} columns or {} steps of the depth".format(*least)
    return ""


def multiplies(d: np.dtype) -> bool:
    """Whether tensor cores multiply a type, and faster than other units do."""
    gpu = current()
    return gpu.halves(d) or d.name == "float32" and (gpu.tf32 or gpu.number >= 80 and config.tf32())


def terms(p: Product) -> int:
    """Products of tensor cores for one of the program's."""
    return 1 if is_half(p.dot.dtype) or config.tf32() else 3


def work(p: Product, t: Tile, faster: float = 1) -> float:
    """Of a tile, as of ``launch_cost``. faster: the rate of the tensor cores, of theirs by mma.sync."""
    halves = is_half(p.dot.dtype)
    speed = faster * (2048 if halves else 1024 / terms(p))     # products of a block in the time of a thread's
    return t.rows * t.columns / speed + (1 if halves else 2) * (t.rows + t.columns) / 32


def pick(p: Product) -> Division[Tile]:
    """The division that finishes first. Elements that are computed on the way take registers: then tiles have fewer."""
    most = [128 if p.operand(x).address is not None or copies_whole(p, x, 16 // p.dot.dtype.itemsize)[1] else 64
            for x in "ab"]
    return best_division(p, (t for t in TILES if t.rows <= most[0] and t.columns <= most[1]),
                         lambda t: LINE // p.dot.dtype.itemsize, lambda t: work(p, t))


def best_cost(p: Product) -> float:
    """Time of the division that finishes first."""
    return pick(p).cost


def print_mma(p: Product) -> PrintedCuda:
    """A block's part of the depth goes through its stages; each k-iteration waits for one slice and begins another."""
    division = pick(p)
    tile = division.tile
    a, b = Slices(p, "a", tile), Slices(p, "b", tile)
    b.offset = a.bytes
    stage, deep, kind = a.bytes + b.bytes, a.deep, p.kind
    grid = Grid(p, division, deep)
    # a loop that is unrolled whole lets ptxas load for the epilogue before it, until registers do not suffice
    unrolled = STAGES if a.copied and b.copied and grid.iterations > STAGES else 1
    body = ["const hy_shared base = hy_shared_of(tile_memory);",
            *a.declare("base"), *b.declare(f"base + {a.bytes}"), *origins(a), *_columns_origins(b),
            "#pragma unroll", f"for (int ahead = 0; ahead < {STAGES - 1}; ahead++) {{",
            *bring(a, b, f"ahead * {stage}", f"low + ahead * {deep}", True), "}",
            f"#pragma unroll {unrolled}", f"for (int round = 0; round < {grid.trip}; round++) {{",
            f"  hy_wait<{STAGES - 2}>();", "  __syncthreads();",
            f"  const int now = round % {STAGES} * {stage}, later = (round + {STAGES - 1}) % {STAGES} * {stage};",
            f"  const {kind} next = low + (round + {STAGES - 1}) * {deep};",
            *bring(a, b, "later", "next", False), "  #pragma unroll", "  for (int d = 0; d < 2; d++) {",
            *("    " + s for s in (_halves if a.item == 2 else _floats)(p, tile, a, b)), "  }",
            *("  " + s for x in (a, b) for s in x.end("later")), "}"]
    return grid.printed(body, b.mixed, STAGES * stage)


def bring(a: Slices, b: Slices, to: str, k: str, whole: bool) -> list[str]:
    """Begins a slice of both operands; whole: and waits for what passes through registers."""
    out = [*(s for x in (a, b) for s in [*x.begin(to, k), *(x.end(to) if whole else [])]), "hy_commit();"]
    return ["  " + s for s in out]


# ---- fragments
def origins(a: Slices) -> list[str]:
    """Where in a slice a lane's pieces of its rows lie: what does not change from slice to slice."""
    if a.by_depth:
        return ["const int a_row = top + lane % 16, a_piece = lane / 16;"]
    if a.item == 2:
        return ["const int a_row = top + (lane / 8 & 1) * 8, a_piece = lane % 8 + lane / 16 * 8;"]
    return ["const int a_row = top + lane / 4, a_piece = lane % 4;"]


def _columns_origins(b: Slices) -> list[str]:
    """The same of its columns."""
    if b.by_depth:
        return [f"const int b_row = left + lane % 8 / 2 * {2 * b.tile.ni} + lane / 16 * 2 + lane % 2, "
                "b_piece = lane / 8 & 1;"]
    if b.item == 2:
        return ["const int b_row = left + lane / 16 * 8, b_piece = lane % 16;"]
    return ["const int b_row = left + lane / 4, b_piece = lane % 4;"]


def _piece(x: Slices, row: str, whole: int) -> str:
    """Bytes to what a lane gives ldmatrix for step d: ``row`` along the side; whole: elements of a step."""
    if x.by_depth:
        return x.place(row, f"d * {whole} + {x.side}_piece * {x.each}")
    return x.place(row, f"d * {whole} + {x.side}_piece")


def load_fragments(x: Slices, count: int, deep: int) -> list[str]:
    """Statements that load an operand's fragments of step d."""
    name = f"now + {x.offset} + "
    if x.side == "a":
        head = [f"unsigned a[{count}][4];", "#pragma unroll", f"for (int i = 0; i < {count}; i++)"]
        row = "a_row + i * 16"
        if x.by_depth or x.item == 2:
            return [*head, f"  hy_ldmatrix{'' if x.by_depth else '_trans'}<4>(a[i], base + ({name}"
                    f"{_piece(x, row, deep)}));"]
        cell = x.place("a_row + i * 16 + w % 2 * 8", f"d * {deep} + a_piece + w / 2 * 4")
        return [head[0], *unrolled([("i", count), ("w", 4)], [f"a[i][w] = hy_word_at(base + ({name}{cell}));"])]
    head = [f"unsigned b[{count}][2];", "#pragma unroll"]
    if x.by_depth or x.item == 2:
        row = f"b_row + j * {4 if x.by_depth else 16}"
        return [*head, f"for (int j = 0; j < {count // 2}; j++)",
                f"  hy_ldmatrix{'' if x.by_depth else '_trans'}<4>(b[2 * j], base + ({name}{_piece(x, row, deep)}));"]
    cell = x.place("b_row + j * 8", f"d * {deep} + b_piece + w * 4")
    return [head[0], *unrolled([("j", count), ("w", 2)], [f"b[j][w] = hy_word_at(base + ({name}{cell}));"])]


def _halves(p: Product, tile: Tile, a: Slices, b: Slices) -> list[str]:
    """A step of 16: both operands' fragments, and their products."""
    product = f"{FUNCTION[p.dot.dtype.name]}(acc[i][j], a[i], b[j]);"
    return [*load_fragments(a, tile.mi, 16), *load_fragments(b, tile.ni, 16),
            *unrolled([("i", tile.mi), ("j", tile.ni)], [product])]


def _floats(p: Product, tile: Tile, a: Slices, b: Slices) -> list[str]:
    """A step of 8: small parts first."""
    mi, ni = tile.mi, tile.ni
    out = [*load_fragments(a, mi, 8), *load_fragments(b, ni, 8)]
    if terms(p) == 1:
        return [*out, *unrolled([("n", 4 * mi)], ["a[n / 4][n % 4] = hy_one_tf32(a[n / 4][n % 4]);"]),
                *unrolled([("n", 2 * ni)], ["b[n / 2][n % 2] = hy_one_tf32(b[n / 2][n % 2]);"]),
                *unrolled([("i", mi), ("j", ni)], ["hy_mma_tf32(acc[i][j], a[i], b[j]);"])]
    pairs = ("a_small", "b[j]"), ("a[i]", "b_small[j]"), ("a[i]", "b[j]")
    products = [s for x, y in pairs for s in unrolled([("j", ni)], [f"hy_mma_tf32(sum[j], {x}, {y});"])]
    return [*out, f"unsigned b_small[{ni}][2];",
            *unrolled([("n", 2 * ni)], ["hy_two_tf32(b[n / 2][n % 2], b_small[n / 2][n % 2]);"]),
            *unrolled([("i", mi)], [
                "unsigned a_small[4];", *unrolled([("n", 4)], ["hy_two_tf32(a[i][n], a_small[n]);"]),
                f"float sum[{ni}][4] = {{}};", *products,
                *unrolled([("n", 4 * ni)], ["acc[i][n / 4][n % 4] += sum[n / 4][n % 4];"])])]
