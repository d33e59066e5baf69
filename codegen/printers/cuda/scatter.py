"""CUDA of scatter_add: always the same sum, because each element of the result has one owner that adds in order."""
from __future__ import annotations

import math

from hybrid.ir.access import Index
from hybrid.ir.index import Var, unlinear, var, text
from hybrid.ir.kernel import Kernel

from .flat import thread_number
from .pieces import PROCESSORS, THREADS, PrintedCuda, emitter, index_type, launched, names_of
from hybrid.codegen.emit import Block
from hybrid.codegen.printers.rows.scatter import accumulate

WARPS = THREADS // 32
AHEAD = 8                       # looks at 32 indices each whose loads are under way together


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
    groups = -(-lines // 32)
    share = max(1, min(extent, -(-PROCESSORS * 16 // groups)))
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
        f"  {kind} places[{looks}];", "  #pragma unroll", f"  for (int look = 0; look < {looks}; look++) {{",
        f"    {kind} s = first + 32 * look + lane;", "    places[look] = -1;",
        f"    if (s < {count}) {{", *("      " + line for line in where_block.lines),
        f"      places[look] = ({kind})hy_clamp({where}, {extent - 1});", "    }", "  }",
        "  #pragma unroll", f"  for (int look = 0; look < {looks}; look++) {{",
        f"    const {kind} place = places[look];",
        f"    unsigned hits = __ballot_sync(0xffffffffu, place >= 0 && place % {share} == own);",
        "    while (hits) {", "      int bit = __ffs((int)hits) - 1;", "      hits &= hits - 1;",
        f"      {kind} u = first + 32 * look + bit, g = __shfl_sync(0xffffffffu, place, bit);",
        "      if (inside) {", *("        " + line for line in block.lines), f"        {add}",
        "      }", "    }", "  }", "}"]
    return launched(name, args, 1, body, -(-groups * share // WARPS))
