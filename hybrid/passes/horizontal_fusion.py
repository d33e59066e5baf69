"""Independent kernels that run together: the update of all parameters of a network is one multi-tensor kernel, not one
a parameter.
"""
from __future__ import annotations

import bisect
import math
from dataclasses import field
from typing import Callable

import numpy as np

from ..base.records import dataclass
from ..ir import Node
from ..ir.size import hint
from ..ir.kernel import Fused, Kernel
from .attention import Attends
from .recomputed_scores import ReadsScores
from .loop_layout import Turns
from .tile_statistics import WhyNot

MOST_TRIED = 16             # groups that a kernel tries to join
# bytes of intermediate values that a group may keep alive at once: where kernels are short their number costs, else
# memory
MOST_ARENA = 1 << 18
# A kernel whose result has at most so many bytes, and which no other kernel needs (a parameter update), gets its place
# after all others have theirs, so that updates share launches: reading its gradient from memory again costs less than a
# launch.
MOST_DEFERRED = 1 << 20
DEFERRED_ARENA = 1 << 25    # takes the place of MOST_ARENA when such a kernel joins a group


@dataclass
class Group:
    """Kernels that run together, in an order in which they could also run one by one."""
    kernels: list[Kernel]
    reads: set[Node] = field(default_factory=set)
    writes: set[Node] = field(default_factory=set)
    arena: int = 0                                       # bytes of written values that are no results

    def takes(self, reads: set[Node], writes: set[Node], arena: int, most: float, most_arena: int) -> bool:
        """Whether a kernel with these values may still join."""
        if arena and self.arena + arena > most_arena:
            return False
        return most == math.inf or len(self.reads | self.writes | reads | writes) <= most


@dataclass(frozen=True)
class Joining:
    """What a backend can run together: which kernels (each beside the others, without waiting), how many values in all;
    which matrices it reads faster transposed; of which attentions it has kernels; of which types it convolves channels
    last; of what reads scores it has kernels that compute them again; why a product's kernel cannot carry reductions
    of groups of its result (empty where it can).
    """
    joins: Callable[[Kernel], bool]
    most: float = math.inf
    turns: Turns | None = None
    attention: Attends = None
    channels_last: Callable[[np.dtype], bool] | None = None
    over_scores: ReadsScores = None
    statistics: WhyNot | None = None


ALONE = Joining(lambda k: False)


def deferred_updates(fused: Fused, joining: Joining) -> set[int]:
    """Returns the numbers of small kernels that may run together and whose results only such kernels read: mostly
    parameter updates. If they were not deferred, each would be launched between two gradients."""
    read: set[Node] = set()                                # by kernels that are not deferred
    out: set[int] = set()
    for k in reversed(fused.kernels):
        small = hint(k.root.nbytes) <= MOST_DEFERRED and bool(k.root.size) and joining.joins(k)
        if small and not read.intersection(k.stores):
            out.add(k.number)
        else:
            read.update(k.reads)
    return out


def together(fused: Fused, joining: Joining = ALONE) -> list[Group]:
    """Kernels in launch order, independent ones together. A new value counts as written over the input it replaces."""
    results = {n for n, _ in fused.results}
    count, inputs = len(fused.program.outputs), fused.program.inputs
    replaced = {n: inputs[slot] for (slot, _), (n, _) in zip(fused.program.updates, fused.results[count:])}
    out: list[Group] = []
    free: list[int] = []                                         # numbers of the groups that others may join
    written: dict[Node, int] = {}                                # the last group that writes a value, and that reads it
    read: dict[Node, int] = {}
    late = deferred_updates(fused, joining)
    for k in sorted(fused.kernels, key=lambda k: k.number in late):
        reads = set(k.reads)
        writes = {*k.stores, *(replaced[n] for n in k.stores if n in replaced)}
        arena = sum(hint(n.nbytes) for n in k.stores if n not in results)
        if (joining.channels_last is not None and all(m.prim == "permute" for m in k.members)
            and all(n.prim == "input" for n in k.reads)):
            arena = 0                                        # weights in order: they outlive few kernels in any case
        fits = bool(k.root.size) and joining.joins(k)
        # not before a group that writes what it reads or writes, or reads what it writes
        last = max(max((written.get(n, -1) for n in (*reads, *writes)), default=-1),
                   max((read.get(n, -1) for n in writes), default=-1))
        start = bisect.bisect_right(free, last) if fits else len(free)
        near = free[start:start + MOST_TRIED]
        most_arena = DEFERRED_ARENA if k.number in late else MOST_ARENA
        at = next((i for i in near if out[i].takes(reads, writes, arena, joining.most, most_arena)), None)
        if at is None:
            at = len(out)
            out.append(Group([]))
            if fits:
                free.append(at)
        home = out[at]
        home.kernels.append(k)
        home.reads |= reads
        home.writes |= writes
        home.arena += arena
        for n in reads:
            read[n] = max(at, read.get(n, -1))
        for n in writes:
            written[n] = max(at, written.get(n, -1))
    return out
