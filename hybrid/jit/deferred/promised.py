"""What stands for the arrays of an event that is put off: its results, and what it reads or writes beside its
arguments."""
from __future__ import annotations

import weakref
from typing import Any

from ...base.pytree import LEAF, unflatten
from ...buffers.array import REBINDS
from ...buffers.promise import Promise
from .events import Backward, Node
from .held import arrays_of, hold_gradient, variables
from .round import Round


def promises(r: Round, node: Node) -> Any:
    """The results of an event that was put off."""
    structure, infos = node.made
    out: list[Any] = []
    for shape, dtype, ctx, cls in infos:
        x = object.__new__(cls)
        x._ctx, x._version, x._away = ctx, 0, Promise(shape, dtype, r)
        r.numbers[id(x)] = len(r.results)
        r.results.append(weakref.ref(x))
        out.append(x)
    return out[0] if structure == LEAF else unflatten(structure, iter(out))


def see(r: Round, node: Node) -> None:
    """Note what an event reads or writes beside its arguments, if no event before it did: parameters and running
    statistics; for ``backward``, gradients."""
    now = REBINDS[0]
    if isinstance(node.event.what, Backward):
        node.note_slots([(x, slot, slot.grad) for x in variables(r.trail) if (slot := x._ag) is not None])
        found = [grad for _, _, grad in node.slots]
    else:
        found = [*(node.entry.fixed() if node.entry is not None else ()), *arrays_of([node])]
    before = {id(x) for place in r.trail if place is not node for x, _ in place.away}
    new = {id(x): x for x in found if id(x) not in before}
    node.away = [(x, Promise(x.shape, x._spec.dtype, r)) for x in new.values()]
    node.seen = now


def hold_gradients(r: Round) -> None:
    """Hold the gradients of a round's variables, for later events may compute with them."""
    for x in variables(r.trail):
        hold_gradient(x)
