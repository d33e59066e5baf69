"""Independent kernels that run together: the update of all parameters of a network is one multi-tensor kernel, not one a
parameter.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable

from ..ir import Node
from ..ir.kernel import Fused, Kernel

MOST_ARENA = 1 << 18        # bytes of intermediate values that a group may keep alive at once: where kernels are short their number costs, else memory


@dataclass
class Group:
    """Kernels that run together, in an order in which they could also run one by one."""
    kernels: list[Kernel]
    open: bool = False                                   # whether others may join
    reads: set[Node] = field(default_factory=set)
    writes: set[Node] = field(default_factory=set)
    arena: int = 0                                       # bytes of written values that are no results

    def meets(self, reads: set[Node], writes: set[Node]) -> bool:
        """Whether one of them writes what the other reads or writes."""
        return not (self.writes.isdisjoint(reads) and self.writes.isdisjoint(writes) and self.reads.isdisjoint(writes))


@dataclass(frozen=True)
class Joining:
    """What a backend can run together: which kernels (each beside the others, without waiting), how many values in all."""
    joins: Callable[[Kernel], bool]
    most: float = math.inf


ALONE = Joining(lambda k: False)


def together(fused: Fused, joining: Joining = ALONE) -> list[Group]:
    """Kernels in launch order, independent ones together. A new value counts as written over the input it replaces."""
    results = {n for n, _ in fused.results}
    count, inputs = len(fused.program.outputs), fused.program.inputs
    replaced = {n: inputs[slot] for (slot, _), (n, _) in zip(fused.program.updates, fused.results[count:])}
    out: list[Group] = []
    for k in fused.kernels:
        reads = set(k.reads)
        writes = {*k.stores, *(replaced[n] for n in k.stores if n in replaced)}
        arena = sum(n.nbytes for n in k.stores if n not in results)
        fits = bool(k.root.size) and joining.joins(k)
        home = None
        for g in reversed(out) if fits else ():
            if g.meets(reads, writes):
                break
            if g.open and len(g.reads | g.writes | reads | writes) <= joining.most and (not arena or g.arena + arena <= MOST_ARENA):
                home = g
        if home is None:
            home = Group([], fits)
            out.append(home)
        home.kernels.append(k)
        home.reads |= reads
        home.writes |= writes
        home.arena += arena
    return out
