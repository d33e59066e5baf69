"""Which values of a program depend on parameters and constants alone, so that they can be computed once, ahead of the
calls."""
from __future__ import annotations

from ..ir import Node, Program


class Frozen:
    """Called with a value of the program, or with one that a pass made of them. slots: of the frozen inputs, but for
    those that the program changes."""

    def __init__(self, program: Program, slots: frozenset[int]):
        slots = slots - {slot for slot, _ in program.updates}
        self._known: dict[Node, bool] = {}
        for n in program.order():                        # from the inputs on: no deep recursion
            self._known[n] = (n.attrs["slot"] in slots if n.prim == "input" else n.prim != "random_bits"
                              and all(self(a) for a in n.args))

    def __call__(self, n: Node) -> bool:
        if n not in self._known:
            self._known[n] = n.prim != "input" and all(self(a) for a in n.args)
        return self._known[n]
