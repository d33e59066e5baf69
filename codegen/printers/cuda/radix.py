"""Long rows sorted by many blocks: a radix sort (kernels/cuda/hybrid_sort.cuh) of keys of up to 32 bits with their
places. Three launches a digit of 8 bits: count, find the places where each tile's digits begin, move."""
from __future__ import annotations

from hybrid.base import dtype as dt
from hybrid.ir.index import Var
from hybrid.ir.kernel import Kernel

from .pieces import SCRATCH, Launch, PrintedCuda, emitter, function, names_of
from hybrid.codegen.emit import Block
from hybrid.codegen.printers.rows.sort import geometry, sort_key

LONG = 1024                     # keys of a row from which on one block takes longer
THREADS, TILE = 256, 4096       # of a block, as in the header
WORK = "unsigned long long"


def takes_radix(k: Kernel) -> bool:
    """Whether a sort is one for many blocks."""
    rows, n = geometry(k.root)
    return LONG < n < 1 << 31 and k.root.args[0].dtype.itemsize <= 4 and rows > 0


def _key(k: Kernel, x: str) -> tuple[str, int]:
    """C text of a key as an unsigned number whose order is the wanted one, and its bits."""
    d = k.root.args[0].dtype
    bits = 32 if dt.is_float(d) else 8 * d.itemsize
    if dt.is_float(d):
        key = f"hy_radix_key({x})"
    else:
        key = f"(unsigned){x}" if d.kind in "ub" else f"(unsigned)(int){x} ^ {1 << bits - 1}u"
    mask = f"{(1 << bits) - 1}u"
    return f"({key}) & {mask}" if not k.root.attrs["descending"] else f"~({key}) & {mask}", bits


def print_radix(k: Kernel, name: str) -> PrintedCuda:
    """The launches: keys and their first digits; for each digit where it begins and the move, then the next counts."""
    args, names = names_of(k)
    rows, n = geometry(k.root)
    tiles = -(-n // TILE)
    e = emitter(k, names)
    row = Var("r", max(rows, 2))
    block = Block(None, frozenset([row]))
    key, bits = _key(k, sort_key(e, k.root, block, row, "u"))
    where = [f"const int tile = blockIdx.x % {tiles}u;", f"const long long r = blockIdx.x / {tiles}u;",
             *(f"{WORK} *pairs{i} = scratch + {i * rows * n}ll + r * {n};" for i in (0, 1)),
             f"unsigned *counts = (unsigned *)(scratch + {2 * rows * n}ll) + r * {256 * tiles};"]
    fill = [*where, f"for (int i = 0; i < {TILE // THREADS}; i++) {{",
            f"  const long long u = tile * {TILE} + i * {THREADS} + (int)threadIdx.x;", f"  if (u >= {n}) break;",
            *("  " + s for s in block.lines), f"  pairs0[u] = ({WORK})({key}) << 32 | ({WORK})u;", "}",
            f"hy_radix_count(pairs0, counts, {n}, tile, {tiles}, 32);"]
    texts = [function(f"{name}_keys", args, 0, fill, THREADS, WORK),
             function(f"{name}_starts", [], 0, [f"hy_radix_scan((unsigned *)(scratch + {2 * rows * n}ll) + "
                                                f"(long long)blockIdx.x * {256 * tiles}, {256 * tiles});"], 1024, WORK)]
    launches = [Launch(f"{name}_keys", rows * tiles, THREADS, [*args, SCRATCH])]
    for digit in range(bits // 8):
        a, b = digit % 2, 1 - digit % 2
        last = digit == bits // 8 - 1
        to = f"hy_radix_places{{{names[k.root]} + r * {n}}}" if last else f"hy_radix_pairs{{pairs{b}}}"
        own = args[:1] if last else []
        move = [*where, "__shared__ hy_radix_tables tables;",
                f"hy_radix_scatter(pairs{a}, counts, {n}, tile, {tiles}, {32 + 8 * digit}, tables, {to});"]
        texts.append(function(f"{name}_move{digit}", own, len(own), move, THREADS, WORK))
        launches += [Launch(f"{name}_starts", rows, 1024, [SCRATCH]),
                     Launch(f"{name}_move{digit}", rows * tiles, THREADS, [*own, SCRATCH])]
        if not last:
            count = [*where, f"hy_radix_count(pairs{b}, counts, {n}, tile, {tiles}, {40 + 8 * digit});"]
            texts.append(function(f"{name}_count{digit}", [], 0, count, THREADS, WORK))
            launches.append(Launch(f"{name}_count{digit}", rows * tiles, THREADS, [SCRATCH]))
    return PrintedCuda("\n".join(texts), launches, 16 * rows * n + 1024 * rows * tiles)
