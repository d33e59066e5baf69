"""The first of long rows in order (topk): many blocks find the last key that is taken, digit by digit from the high
end, and only what is taken is put in order (kernels/cuda/hybrid_select.cuh). One launch: blocks that share a row wait
for each other, with rows enough each has a block of its own."""
from __future__ import annotations

from typing import Any

from hybrid.codegen.printers.rows.sort import geometry
from hybrid.ir.kernel import Kernel

from .pieces import BARRIER, PROCESSORS, SCRATCH, Launch, PrintedCuda, function, names_of
from .radix import THREADS, TILE, radix_key, takes_radix
from .target import current

MOST, SHARE = 1024, 8           # elements that are taken of a row, and the part of the row, 1 / SHARE, at most
RESIDENT = 2                    # blocks of a multiprocessor


def takes_select(k: Kernel) -> bool:
    """Whether a sort is one whose rows are long, of which few elements are read, and whose blocks may wait for each
    other where there are too few rows."""
    rows, n = geometry(k.root)
    first = k.first or n
    return takes_radix(k) and first <= MOST and first * SHARE <= n and (current().processors > 0 or rows >= PROCESSORS)


def _blocks(rows: int, tiles: int) -> int:
    """Blocks that share a row."""
    return min(tiles, max(1, RESIDENT * current().processors // rows))


def _stretches(rows: int, n: int, first: int, digits: int, blocks: int) -> tuple[list[str], int]:
    """C text of a row's working memory, and the bytes of all rows."""
    counts = 256 * digits + 1                              # and how many pairs were taken
    pairs, words = "unsigned long long", [("keys", n), ("counts", counts), ("states", 256 * blocks)]
    out, at = [f"row.pairs = ({pairs} *)scratch + r * {first}ll;"], 2 * rows * first
    for name, size in words:
        out.append(f"row.{name} = (unsigned *)scratch + {at}ll + r * {size}ll;")
        at += rows * size
    return out, 4 * at


def print_select(k: Kernel, name: str) -> PrintedCuda:
    """One launch."""
    args, names = names_of(k)
    (rows, n), first = geometry(k.root), k.first or 0
    tiles = -(-n // TILE)
    blocks = _blocks(rows, tiles)
    before, key, bits = radix_key(k, names)
    digits = bits // 8
    stretches, scratch = _stretches(rows, n, first, digits, blocks)
    body = [f"const int share = blockIdx.x % {blocks}u;", f"const long long r = blockIdx.x / {blocks}u;",
            f"__shared__ __align__(16) hy_select_tables<{first}, {1 << (first - 1).bit_length()}> tables;",
            "hy_select_row row;", *stretches,
            f"row.n = {n}, row.block = share;",
            f"row.begin = share * {tiles}ll / {blocks}, row.end = (share + 1) * {tiles}ll / {blocks};",
            f"for (int i = threadIdx.x; share == 0 && i < {256 * digits + 1}; i += {THREADS}) row.counts[i] = 0;",
            "unsigned own = 0;", "for (int tile = row.begin; tile < row.end; tile++) {",
            "  hy_radix_clear(tables.bins);", "  #pragma unroll 4", f"  for (int i = 0; i < {TILE // THREADS}; i++) {{",
            f"    const long long u = tile * {TILE}ll + i * {THREADS} + (int)threadIdx.x;", f"    if (u >= {n}) break;",
            *("    " + s for s in before), f"    const unsigned key = {key};", "    row.keys[u] = key;",
            f"    hy_radix_count(tables.bins, key >> {bits - 8});", "  }", "  __syncthreads();",
            "  own += hy_radix_sum(tables.bins.count[0]);", "  __syncthreads();", "}",
            f"hy_select<{digits}, {'true' if blocks > 1 else 'false'}>(row, own, tables, "
            f"{'barrier' if blocks > 1 else 'nullptr'}, {names[k.root]} + r * {n});"]
    waits: list[Any] = [BARRIER] if blocks > 1 else []
    text = function(name, args, 1, body, THREADS, "char", resident=RESIDENT, word="barrier" if waits else "")
    return PrintedCuda(text, [Launch(name, rows * blocks, THREADS, [*args, SCRATCH, *waits], alone=True,
                                     cooperative=blocks > 1)], scratch)
