"""What it costs to compute a value where it is needed, in additions, and how often a kernel would."""
from __future__ import annotations

import math
from typing import Mapping

from ..ir import Node
from ..ir.access import ELEMENTWISE, MOVEMENT, of_index
from ..ir.index import Var
from ..ir.kernel import Kernel, Use
from ..ir.scalar import SCALARS
from ..ir.size import hint

CHEAP = 8                       # cost up to which a value may be computed twice


def cost(n: Node) -> int:
    """Rough cost of one element of a node, its arguments not counted."""
    if n.prim == "map":
        return SCALARS[n.fn].cost
    # a search is worth storing where it is needed at a second place
    if n.prim == "argreduce":
        return 4 * CHEAP + 1
    return 40 if n.prim == "random_bits" else 1 if n.prim in ("cast", "gather") else 0


def cost_with_arguments(n: Node, costs: Mapping[Node, int], epilogues: Mapping[Node, Node | None]) -> int:
    """The cost of an element with all that it is computed from where it is needed. A contraction's result costs nothing
    to values outside of its epilogue: it is in memory. costs: of the arguments; epilogues: the contraction whose
    epilogue a value could be."""
    if n.prim not in ELEMENTWISE | MOVEMENT:
        return cost(n)
    return min(cost(n) + sum(costs[a] for a in n.args if epilogues[a] in (None, epilogues[n])), 10**6)


def visits(u: Use, k: Kernel) -> int:
    """How often a kernel computes the value at this use; places in padding do not count."""
    used = {v for v in of_index(u.idx) if isinstance(v, Var)}
    deepest = max((i for i, v in enumerate(k.loops) if v in used), default=-1)
    outside = {v for v in k.loops[:deepest + 1]}
    if k.rows is not None and used & outside <= k.rows:
        outside = set(k.rows)                           # type: ignore[arg-type]
    count = hint(math.prod(v.extent for v in outside | (set(u.inside) if used & set(u.inside) else set())))
    return math.ceil(count * u.share)
