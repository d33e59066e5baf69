"""Sorting kernels: the order of each row's keys. C, all stable: a network over rows side by side, one in each lane of a
vector; few or long rows by digits; rows of more than 2^32 keys by a merge sort of indices; where only the first of each
row are read, they alone are found. CUDA: a block sorts a row by a bitonic network (Batcher 1968) over (key, index)
pairs, which are all different, so that the order is the same; long rows have a form of many blocks (cuda/radix.py).
"""
from __future__ import annotations

from hybrid.base import dtype as dt
from hybrid.ir import Node
from hybrid.ir.index import Var, unlinear, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, greater, hint

from hybrid.codegen.printers.cuda.pieces import PrintedCuda, emitter, launched, names_of
from hybrid.codegen.dialect import C, CUDA, PARALLEL
from hybrid.codegen.emit import Block, Emitter
from hybrid.codegen.loops import PARALLEL_WORK, KernelPrinter, Printed, signature
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.targets import NO_VECTORS

MAX_THREADS = 1024
FEW = 128                      # of a row's first elements that are found without sorting the rest
SHORT = 96                     # keys of a row that a network sorts sooner than one finds its first
BESIDE, ROWS = 4096, 4         # the longest rows, and the fewest, that are sorted side by side


def geometry(root: Node) -> tuple[int, int]:
    """Rows, and keys in each."""
    n = root.shape[-1]
    return root.size // greater(n, 1), n


def sort_key(e: Emitter, root: Node, block: Block, row: Var, at: str) -> str:
    """The key at an index (a C name) of the row, its statements in the block."""
    v = Var(at, root.shape[-1])
    inside = Block(block, block.vars | {v})
    value = e.value(root.args[0], (*unlinear(var(row), root.shape[:-1]), var(v)), inside)
    block.body += inside.lines
    return value


def _first(root: Node, x: str, y: str) -> str:
    """C text: may a key x stand before a key y that comes after it? nan is the largest."""
    down = root.attrs["descending"]
    nan = f" || {x if down else y} != {x if down else y}" if dt.is_float(root.args[0].dtype) else ""
    return f"({x} {'>=' if down else '<='} {y}{nan})"


def _ordered(root: Node, x: str) -> str:
    """C text of a key as an unsigned integer: the first in order is the least."""
    d = root.args[0].dtype
    if dt.is_float(d):
        key = f"hy_key_{'double' if d.itemsize == 8 else 'float'}({x})"
    elif d.kind == "u" or d.kind == "b":
        key = f"(unsigned long){x}"
    else:
        key = (f"((unsigned long){x} ^ (unsigned long)1 << 63)" if d.itemsize == 8
               else f"(unsigned long)((unsigned)(int){x} ^ 0x80000000u)")
    most = "0xffffffffu" if d.itemsize < 8 else "(unsigned long)-1"
    return f"{most} - {key}" if root.attrs["descending"] else key


def print_c(k: Kernel, name: str, target: Target) -> Printed:
    """C of the kernel."""
    p = KernelPrinter(k, name)
    body, scratch = _in_c(k, p, target.vector > NO_VECTORS)
    head = signature(name, p.args, 1, "char *scratch")
    return Printed(name, "\n".join([head, *body, "}"]), p.args, "sort", scratch, True)


def _in_c(k: Kernel, p: KernelPrinter, vectors: bool) -> tuple[list[str], int]:
    """The lines of the function, and the bytes of working memory it wants. vectors: whether the target has some."""
    root = k.root
    rows, n = geometry(root)
    few = _is_few(k, n)
    most = SHORT if few else BESIDE                          # keys of a row, where rows are sorted side by side
    together = vectors and hint(rows) >= (4 * ROWS if few else ROWS) and not (fixed(n) and not 1 < n <= most)
    memory = 0 if few or together and fixed(n) else root.size * 8
    if not together:
        return _one_by_one(k, p, few), memory
    lines = [*_threads(root, 8), *_beside(*_begin(p, rows), k, most, p.names[root])]
    return (lines if fixed(n) else [f"if ({n} <= {most}) {{", *lines, "} else {", *_one_by_one(k, p, few), "}"]), memory


def _threads(root: Node, least: int) -> list[str]:
    """The pragma of a loop over rows, more than ``least``, where threads pay."""
    pragma = where_it_pays(PARALLEL, root.size, hint(root.size) * 20, PARALLEL_WORK)
    return [pragma] if pragma and hint(geometry(root)[0]) > least else []


def _one_by_one(k: Kernel, p: KernelPrinter, few: bool) -> list[str]:
    root, (rows, n) = k.root, geometry(k.root)
    e, row, block = _begin(p, rows)
    body = (_few(e, root, block, row, k.first or 0) if few else _digits(e, root, block, row) if n < 1 << 32
            else _merge(e, root, block, row))
    memory = "" if few else f", *work = (long *)scratch + r * {n}"
    return [*_threads(root, 1), f"for (long r = 0; r < {rows}; r++) {{",
            f"long *out = {p.names[root]} + r * {n}{memory};", *body, "}"]


def _begin(p: KernelPrinter, rows: int) -> tuple[Emitter, Var, Block]:
    row = Var("r", greater(rows, 1))
    return Emitter(C, p.reads), row, Block(None, frozenset([row]))


def _is_few(k: Kernel, n: int) -> bool:
    """Whether the first of a row are found without sorting the rest."""
    return k.first is not None and fixed(k.first) and 0 < k.first <= FEW and (not fixed(n) or k.first * 8 <= n)


def _beside(e: Emitter, row: Var, block: Block, k: Kernel, most: int, to: str) -> list[str]:
    """Rows side by side. Keys of up to 32 bits have their places below them, others beside them. What comes after the
    first of a row is not written. most: keys of a row where their number is known at the call."""
    root, (rows, n) = k.root, geometry(k.root)
    first = n if k.first is None else k.first
    x, wide = sort_key(e, root, block, row, "u"), root.args[0].dtype.itemsize == 8
    key = _ordered(root, x) if wide else f"({_ordered(root, x)}) << 32 | (unsigned long)u"
    at = f"[u * HY_ROWS + r - b] = HY_SIGNED({key});" + (" where[u * HY_ROWS + r - b] = u;" if wide else "")
    place = "where[i * HY_ROWS + r - b]" if wide else "keys[i * HY_ROWS + r - b] & 0xffffffff"
    room = (n if fixed(n) else most) * (2 if wide else 1)
    return [f"for (long b = 0; b < {rows}; b += HY_ROWS) {{",
            f"  const long end = b + HY_ROWS < {rows} ? b + HY_ROWS : {rows};",
            f"  hy_keys columns[{room}];",
            "  hy_long_long *keys = (hy_long_long *)columns" + (f", *where = keys + {n} * HY_ROWS;" if wide else ";"),
            f"  if (end - b < HY_ROWS) __builtin_memset(columns, 0, {n * (2 if wide else 1)} * sizeof *columns);",
            f"  for (long r = b; r < end; r++) for (long u = 0; u < {n}; u++) {{",
            *block.lines, f"    keys{at}", "  }",
            f"  hy_sort_pairs(columns, columns + {n}, {n});" if wide else f"  hy_sort_rows(columns, {n});",
            f"  for (long r = b; r < end; r++) for (long i = 0; i < {first}; i++) {to}[r * {n} + i] = {place};", "}"]


def _few(e: Emitter, root: Node, block: Block, row: Var, first: int) -> list[str]:
    """The first of a row alone, each put in its place among those so far; what comes after them is not written."""
    x = sort_key(e, root, block, row, "u")
    return [f"unsigned long best[{first}];", "long have = 0;", f"for (long u = 0; u < {root.shape[-1]}; u++) {{",
            *block.lines,
            f"  const unsigned long key = {_ordered(root, x)};",
            f"  if (have == {first} && key >= best[{first - 1}]) continue;",
            f"  long j = have < {first} ? have++ : {first - 1};",
            "  for (; j > 0 && best[j - 1] > key; j--) best[j] = best[j - 1], out[j] = out[j - 1];",
            "  best[j] = key, out[j] = u;", "}"]


def _digits(e: Emitter, root: Node, block: Block, row: Var) -> list[str]:
    """Keys of up to 32 bits, each computed once; of 64 bits by their lower halves, and then by their upper ones."""
    n, key = root.shape[-1], _ordered(root, sort_key(e, root, block, row, "u"))
    sort = f"hy_sort(pairs, (unsigned long *)work, {n});"
    upper = [sort, f"for (long i = 0; i < {n}; i++) {{", "  const long u = (long)(pairs[i] & 0xffffffffu);",
             *block.lines, f"  pairs[i] = ({key}) >> 32 << 32 | (unsigned long)u;", "}"]
    return ["unsigned long *pairs = (unsigned long *)out;", f"for (long u = 0; u < {n}; u++) {{",
            *block.lines,
            f"  pairs[u] = ({key}) << 32 | (unsigned long)u;", "}",
            *(upper if root.args[0].dtype.itemsize == 8 else []), sort,
            f"for (long i = 0; i < {n}; i++) out[i] = (long)(pairs[i] & 0xffffffffu);"]


def _merge(e: Emitter, root: Node, block: Block, row: Var) -> list[str]:
    """A merge sort of indices."""
    n = root.shape[-1]
    x, y = (sort_key(e, root, block, row, at) for at in ("u", "v"))
    return [
        "long *from = out, *to = work;",
        f"for (long i = 0; i < {n}; i++) from[i] = i;",
        f"for (long w = 1; w < {n}; w *= 2) {{",
        f"  for (long lo = 0; lo < {n}; lo += 2 * w) {{",
        f"    long mid = lo + w < {n} ? lo + w : {n}, end = lo + 2 * w < {n} ? lo + 2 * w : {n}, a = lo, b = mid;",
        "    for (long j = lo; j < end; j++) {",
        "      int left = b >= end;",
        "      if (!left && a < mid) {",
        "        long u = from[a], v = from[b];",
        *block.lines,
        f"        left = {_first(root, x, y)};",
        "      }",
        "      to[j] = left ? from[a++] : from[b++];",
        "    }",
        "  }",
        "  long *swap = from; from = to; to = swap;",
        "}",
        f"if (from != out) for (long i = 0; i < {n}; i++) out[i] = from[i];"]


def print_cuda(k: Kernel, name: str) -> PrintedCuda:
    """One block a row. Every exchange puts the smaller first, so indices past the end never move and need no
    padding."""
    args, names = names_of(k)
    root = k.root
    rows, n = geometry(root)
    threads = 32
    while threads < MAX_THREADS and threads * 2 < n:
        threads *= 2
    e = emitter(k, names)
    row = Var("r", max(rows, 1))
    block = Block(None, frozenset([row]))
    x, y = (sort_key(e, root, block, row, at) for at in ("u", "v"))
    long = CUDA.types["int64"]
    body = [
        f"{long} r = blockIdx.x, *out = {names[root]} + r * {n};",
        f"for ({long} i = threadIdx.x; i < {n}; i += {threads}) out[i] = i;",
        "__syncthreads();",
        f"for ({long} w = 2; w < {2 * n}; w *= 2)",
        f"  for ({long} d = w / 2; d > 0; d /= 2) {{",
        f"    for ({long} t = threadIdx.x; t < {n}; t += {threads}) {{",
        f"      {long} s = d == w / 2 ? t ^ (w - 1) : t ^ d;            // the first step of a merge mirrors, the "
        f"others shift",
        f"      if (s > t && s < {n}) {{",
        f"        {long} u = out[t], v = out[s];",
        *("        " + line for line in block.lines),
        f"        bool before = {_first(root, x, y)}, after = {_first(root, y, x)};",
        "        if (before && after ? u > v : after) { out[t] = v; out[s] = u; }",
        "      }",
        "    }",
        "    __syncthreads();",
        "  }"]
    return launched(name, args, 1, body, rows, threads)
