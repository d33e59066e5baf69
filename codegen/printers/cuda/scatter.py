"""CUDA of scatter_add: always the same sum, because each element of the result has one owner that adds in order. Owners
look at all indices, or, where these are many, find their own side by side after a sort."""
from __future__ import annotations

import math

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Var, text, unlinear, var
from hybrid.ir.kernel import Kernel

from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.lanes import Refused
from hybrid.codegen.printers.rows.scatter import accumulate

from .flat import thread_number
from .pieces import (
    PROCESSORS, THREADS, PrintedCuda, alone, emitter, in_turn, indented, index_type, launched, names_of, unrolled,
    when,
)
from .radix import WORK, sort_launches

WARPS = THREADS // 32
AHEAD = 8                       # looks at 32 indices each whose loads are under way together
# clocks of an H100, by instructions counted
LOOK = 0.00134                  # clocks for each index and warp
WAIT = 2.35                     # least clocks for each index (latency of loads)
SORT = 25_000                   # clocks of a sort
BEGIN = 0.0055                  # clocks for each result element to find where its updates begin


def print_scatter(k: Kernel, name: str) -> PrintedCuda:
    """A warp owns 32 neighbouring lines and every ``share``-th place along the scattered axis. It looks at 32 indices
    at once and adds those that are its own, in order. ``AHEAD`` such looks load their indices together.
    """
    args, names = names_of(k)
    root, kind = k.root, index_type(k)
    places, updates = root.args
    if not places.size:
        return launched(name, args, 1, [*thread_number(kind, root.size), f"{names[root]}[t] = 0;"],
                        -(-root.size // THREADS))
    axis, count = root.attrs["axis"], places.size
    lines_shape = updates.shape[:axis] + updates.shape[axis + places.ndim:]
    lines, extent = math.prod(lines_shape), root.shape[axis]
    groups, share = _owners(root)
    looks = min(AHEAD, -(-count // 32))
    t, s, u = Var("t", lines), Var("s", count), Var("u", count)
    at = unlinear(var(t), lines_shape)
    where_block = Block(None, frozenset([s]))
    where = emitter(k, names).value(places, tuple(unlinear(var(s), places.shape)), where_block)
    e = emitter(k, names)
    e.count = 1000
    block = Block(None, frozenset([t, u]))
    value = e.value(updates, (*at[:axis], *unlinear(var(u), places.shape), *at[axis:]), block)
    slot, z = Var("g", max(extent, 2)), Var("z", max(extent, 1))

    def target(v: Var) -> Index:
        return (*at[:axis], var(v), *at[axis:])
    zero = f"{names[root]}[{text(e.offset(root.shape, target(z)))}] = 0;"
    add = accumulate(e, names[root], root, target(slot), value)
    body = [
        f"{kind} w = ({kind})blockIdx.x * {WARPS} + ({kind})(threadIdx.x / 32), lane = ({kind})(threadIdx.x % 32);",
        f"if (w >= ({kind}){groups} * {share}) return;",
        f"{kind} t = w % {groups} * 32 + lane, own = w / {groups};", f"bool inside = t < {lines};",
        f"if (!inside) t = {lines - 1};",
        f"for ({kind} z = own; inside && z < {extent}; z += {share}) {zero}",
        f"for ({kind} first = 0; first < {count}; first += {32 * looks}) {{",
        f"  {kind} places[{looks}];", *indented([*unrolled([("look", looks)], [
            f"{kind} s = first + 32 * look + lane;", "places[look] = -1;", *when(f"s < {count}", [
                *where_block.lines, f"places[look] = ({kind})hy_clamp({where}, {extent - 1});"])]),
            *unrolled([("look", looks)], [
                f"const {kind} place = places[look];",
                f"unsigned hits = __ballot_sync(0xffffffffu, place >= 0 && place % {share} == own);",
                "while (hits) {", "  int bit = __ffs((int)hits) - 1;", "  hits &= hits - 1;",
                f"  {kind} u = first + 32 * look + bit, g = __shfl_sync(0xffffffffu, place, bit);",
                *indented(when("inside", [*block.lines, str(add)])), "}"])]), "}"]
    return launched(name, args, 1, body, -(-groups * share // WARPS))


def _owners(root: Node) -> tuple[int, int]:
    """Groups of 32 lines, and the warps that share one's places."""
    extent = root.shape[root.attrs["axis"]]
    groups = max(1, -(-root.size // max(extent, 1) // 32))
    return groups, max(1, min(extent, -(-PROCESSORS * 16 // groups)))


def print_segments(k: Kernel, name: str) -> PrintedCuda:
    """Indices are sorted with the numbers of their updates, stably; a table says where the updates of each place begin,
    and each element of the result adds up its own, in order."""
    args, names = names_of(k)
    root, kind = k.root, index_type(k)
    places = root.args[0]
    count, extent = places.size, root.shape[root.attrs["axis"]]
    scan_clocks, sort_clocks = count * max(WAIT, LOOK * math.prod(_owners(root))), SORT + BEGIN * root.size
    if scan_clocks <= sort_clocks:
        raise Refused(f"estimated {scan_clocks:.0f} clocks if each warp reads all {count} indices, {sort_clocks:.0f} "
                      f"if they are sorted first")
    if not 1 < extent < 1 << 31 or count >= 1 << 31:
        raise Refused(f"{count} indices of {extent} places do not fit the sort's keys")
    s = Var("u", count)
    block = Block(None, frozenset([s]))
    where = emitter(k, names).value(places, tuple(unlinear(var(s), places.shape)), block)
    digits = -(-(extent - 1).bit_length() // 8)
    parts, nbytes = sort_launches(name, args, 1, count, block.lines, f"(unsigned)hy_clamp({where}, {extent - 1})",
                                  digits)
    own = [f"const {WORK} *pairs = scratch + {digits % 2 * count};",
           f"unsigned *begins = (unsigned *)((char *)scratch + {nbytes});"]
    begins = [*thread_number(kind, extent + 1), *own, f"int low = 0, high = {count};", "while (low < high) {",
              "  const int middle = (int)((unsigned)(low + high) / 2);",
              "  if ((long long)(pairs[middle] >> 32) < (long long)t) low = middle + 1; else high = middle;", "}",
              "begins[t] = (unsigned)low;"]
    sums = [*thread_number(kind, root.size), *own, *_segment(k, names, kind)]
    parts += [launched(f"{name}_begins", [], 0, begins, -(-(extent + 1) // THREADS), THREADS, WORK),
              launched(f"{name}_sums", args, 1, sums, -(-root.size // THREADS), THREADS, WORK)]
    return alone(in_turn(parts, nbytes + 4 * (extent + 1)))


def _segment(k: Kernel, names: dict[Node, str], kind: str) -> list[str]:
    """Statements that add up the updates of element ``t`` of the result."""
    root, (places, updates), axis = k.root, k.root.args, k.root.attrs["axis"]
    t, u = Var("t", max(root.size, 2)), Var("u", places.size)
    at = unlinear(var(t), root.shape)
    e, block = emitter(k, names), Block(None, frozenset([t, u]))
    e.count = 1000
    value = e.value(updates, (*at[:axis], *unlinear(var(u), places.shape), *at[axis + 1:]), block)
    add = f"sum + {value}"
    if is_half(root.dtype):
        half = root.dtype.name
        add = e.d.half_store[half].format(f"{e.d.half_load[half].format('sum')} + {value}")
    return [f"const int place = (int)({text(at[axis])});", f"{CUDA.storage(root.dtype)} sum = 0;",
            "for (unsigned i = begins[place], end = begins[place + 1]; i < end; i++) {",
            f"  const {kind} u = ({kind})(unsigned)pairs[i];", *("  " + line for line in block.lines),
            f"  sum = {add};", "}", f"{names[root]}[t] = sum;"]
