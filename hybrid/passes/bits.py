"""Values whose very bits matter: those that are compared with their own greatest or least element.

The gradient of a maximum goes to the elements that equal it. Were such an element computed again in another kernel, as
other vectors or with a product and a sum rounded together, it might differ from the maximum by one rounding and get no
gradient.
"""
from __future__ import annotations

from typing import Iterable

from ..ir import Node, reached
from ..ir.access import MOVEMENT, beneath
from ..ir.scalar import SCALARS

THROUGH = MOVEMENT | {"cast", "bitcast", "detach", "with_grad"}


def compared(order: Iterable[Node]) -> set[Node]:
    """The nodes that must be computed in one place: what rounds in a way that another kernel might not repeat."""
    equal = [x for n in order if n.fn == "eq" for x, other in (n.args, n.args[::-1]) if _greatest_of(other, x)]
    below = reached(equal, lambda n: n.prim in THROUGH or n.prim == "concat" or n.prim == "map" and _repeats(n))
    return {n for n in below if n.prim == "map" and not _repeats(n)}


def _below(n: Node) -> Node:
    return beneath(n, THROUGH)


def _greatest_of(m: Node, x: Node) -> bool:
    """Whether m is a maximum or minimum over axes of x."""
    m = _below(m)
    return m.prim == "reduce" and m.attrs["op"] in ("max", "min") and _below(m.args[0]) is _below(x)


def _repeats(n: Node) -> bool:
    """Whether an elementwise function gives the same bits wherever it is computed."""
    fn = n.fn
    if fn in ("add", "sub"):                                 # but with a product they may be rounded together
        return not any(a.fn in ("mul", "square") for a in map(_below, n.args))
    return fn == "mul" or SCALARS[fn].exact
