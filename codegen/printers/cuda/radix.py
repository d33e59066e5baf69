"""Long rows sorted by many blocks: a radix sort (kernels/cuda/hybrid_sort.cuh) of keys of up to 32 bits with their
places. One launch counts all digits of 8 bits, one adds the counts up, then one a digit moves all pairs: where its
digits begin a block finds from the blocks before it (A. Adinets and D. Merrill, "Onesweep", 2022)."""
from __future__ import annotations

from collections.abc import Sequence

from hybrid.base import dtype as dt
from hybrid.ir import Node
from hybrid.ir.index import Var
from hybrid.ir.kernel import Kernel

from .pieces import PrintedCuda, emitter, in_turn, launched, names_of
from hybrid.codegen.emit import Block
from hybrid.codegen.printers.rows.sort import geometry, sort_key

LONG = 1024                     # keys of a row from which on one block takes longer
THREADS, TILE = 256, 4096       # of a block, as in the header
WORK = "unsigned long long"


def takes_radix(k: Kernel) -> bool:
    """Whether a sort is one for many blocks."""
    rows, n = geometry(k.root)
    return LONG < n < 1 << 31 and k.root.args[0].dtype.itemsize <= 4 and rows > 0


def radix_key(k: Kernel, names: dict[Node, str]) -> tuple[list[str], str, int]:
    """Of key number ``u`` of row ``r``: statements that compute it, C text that makes it an unsigned number whose order
    is the wanted one, and how many bits that has."""
    d, row = k.root.args[0].dtype, Var("r", max(geometry(k.root)[0], 2))
    block = Block(None, frozenset([row]))
    x = sort_key(emitter(k, names), k.root, block, row, "u")
    bits = 32 if dt.is_float(d) else 8 * d.itemsize
    if dt.is_float(d):
        key = f"hy_radix_key({x})"
    else:
        key = f"(unsigned){x}" if d.kind in "ub" else f"(unsigned)(int){x} ^ {1 << bits - 1}u"
    mask = f"{(1 << bits) - 1}u"
    return block.lines, f"{'~' if k.root.attrs['descending'] else ''}({key}) & {mask}", bits


def print_radix(k: Kernel, name: str) -> PrintedCuda:
    """Argsort: the indices of the keys, in order of the keys."""
    args, names = names_of(k)
    rows, n = geometry(k.root)
    before, key, bits = radix_key(k, names)
    last = f"hy_radix_places{{{names[k.root]} + r * {n}}}"
    return in_turn(*sort_launches(name, args, rows, n, before, key, bits // 8, last))


def sort_launches(name: str, args: Sequence[Node], rows: int, n: int, before: Sequence[str], key: str, digits: int,
                  last: str = "") -> tuple[list[PrintedCuda], int]:
    """Returns the launches of a radix sort (count digits, total them, move by each digit) and their bytes of scratch.
    before, key: statements, and C text of key ``u`` of row ``r``. last: C text of what the last move writes to, in the
    kernel's first array; if empty, the sorted pairs stay in scratch, in the second of its two buffers of pairs if the
    number of digits is odd."""
    tiles = -(-n // TILE)
    counts = 256 * digits * tiles                          # of a row, and its totals behind them
    of_row = [f"{WORK} *pairs{i} = scratch + {i * rows * n}ll + r * {n};" for i in (0, 1)]
    of_row += [f"unsigned *states = (unsigned *)(scratch + {2 * rows * n}ll) + r * {counts + 256 * digits}ll;",
               f"unsigned *totals = states + {counts};"]
    tickets = f"(unsigned *)(scratch + {2 * rows * n}ll) + {rows * (counts + 256 * digits)}ll"
    fill = [f"const int tile = blockIdx.x % {tiles}u;", f"const long long r = blockIdx.x / {tiles}u;", *of_row,
            f"__shared__ __align__(16) hy_radix_bins<{digits}> bins;", "hy_radix_clear(bins);",
            f"for (int i = 0; i < {TILE // THREADS}; i++) {{",
            f"  const long long u = tile * {TILE} + i * {THREADS} + (int)threadIdx.x;", f"  if (u >= {n}) break;",
            *("  " + s for s in before), f"  const unsigned key = {key};",
            f"  pairs0[u] = ({WORK})key << 32 | ({WORK})u;", "  hy_radix_count(bins, key);", "}",
            f"hy_radix_counted(bins, states, tile, {tiles});"]
    total = [f"const long long r = blockIdx.x / {8 * digits}u;", *of_row[2:],
             f"if (blockIdx.x == 0 && threadIdx.x < {digits}) ({tickets})[threadIdx.x] = 0;",
             f"hy_radix_totals(states, totals, blockIdx.x % {8 * digits}u, {tiles});"]
    parts = [launched(f"{name}_keys", args, 0, fill, rows * tiles, THREADS, WORK),
             launched(f"{name}_totals", [], 0, total, rows * 8 * digits, THREADS, WORK)]
    for digit in range(digits):
        to, own = f"hy_radix_pairs{{pairs{1 - digit % 2}}}", list[Node]()
        if last and digit == digits - 1:
            to, own = last, [args[0]]
        move = [f"const int ticket = hy_radix_ticket({tickets} + {digit}), tile = ticket % {tiles};",
                f"const long long r = ticket / {tiles};", *of_row, "__shared__ hy_radix_tables tables;",
                f"hy_radix_scatter(pairs{digit % 2}, totals + {256 * digit}, states + {256 * tiles * digit}, {n}, "
                f"tile, {32 + 8 * digit}, tables, {to});"]
        parts.append(launched(f"{name}_move{digit}", own, len(own), move, rows * tiles, THREADS, WORK))
    return parts, 16 * rows * n + 4 * (rows * (counts + 256 * digits) + digits)
