"""Memory planning: lifetimes of stored values become offsets in one arena, in place where that is safe."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Sequence

from ..ir import Node
from ..ir.index import linear
from .fuse import Fused, Kernel, strip_reshape
from .together import Group

ALIGN = 64


@dataclass
class MemoryPlan:
    """``offsets``: bytes into the arena; ``bound``: the most bytes alive at once; ``in_place``: value -> value whose place it took."""
    offsets: dict[Node, int] = field(default_factory=dict)
    arena: int = 0
    bound: int = 0
    in_place: dict[Node, Node] = field(default_factory=dict)


def rounded(n: int) -> int:
    """Bytes rounded up to the alignment."""
    return -(-max(n, 1) // ALIGN) * ALIGN


def same_place(k: Kernel, n: Node) -> bool:
    """Whether kernel k reads n, each element exactly where it writes its root."""
    if n not in k.reads or k.kind != "elementwise" or n.nbytes != k.root.nbytes or n.dtype.itemsize != k.root.dtype.itemsize or k.extra:
        return False
    here = linear(k.root.shape, k.members[k.root][0].idx)
    return all(u.bijective and not u.guarded and linear(n.shape, u.idx) == here for u in k.reads[n])


def in_place_updates(fused: Fused, kinds: tuple[str, ...] = ("elementwise",)) -> dict[Node, int]:
    """New values that a kernel can write straight into the input they replace, with that input's slot.

    Nothing may read the old contents afterwards, and the kernel itself may read each element only where it writes it.
    kinds: of kernels whose printed form writes each element once, after it has read what stands there.
    """
    count, inputs = len(fused.program.outputs), fused.program.inputs
    stored = [n for n, _ in fused.results]
    out: dict[Node, int] = {}
    for (slot, _), n in zip(fused.program.updates, stored[count:]):
        leaf = inputs[slot]
        at = next((i for i, k in enumerate(fused.kernels) if n in k.stores), None)
        if (at is not None and stored.count(n) == 1 and n.prim != "input" and n.dtype == leaf.dtype and n.size == leaf.size and leaf not in stored
                and not any(leaf in k.reads for k in fused.kernels[at + 1:]) and fused.kernels[at].kind in kinds
                and _written_where_read(fused.kernels[at], n, leaf)):
            out[n] = slot
    return out


def _written_where_read(k: Kernel, value: Node, leaf: Node) -> bool:
    uses = k.reads.get(leaf, [])
    if not uses:
        return True
    written = {u.idx for u in k.members.get(value, ())}
    if len(written) != 1 or len({u.idx for u in uses}) != 1 or any(u.inside for u in uses) or any(value is n for n, _ in k.sides):
        return False
    if value is not k.root and not _depends(value, leaf):       # stored as soon as it is known, perhaps before the leaf is read
        return False
    here = linear(value.shape, *written)
    return all(u.bijective and not u.guarded and linear(leaf.shape, u.idx) == here for u in uses)


def _depends(n: Node, leaf: Node) -> bool:
    seen, todo = {n}, [n]
    while todo:
        new = set(todo.pop().args) - seen
        if leaf in new:
            return True
        seen |= new
        todo += new
    return False


class _Free:
    """Free stretches of the arena, joined with their neighbours."""

    def __init__(self) -> None:
        self.holes: list[tuple[int, int]] = []
        self.end = 0

    def take(self, size: int) -> int:
        fits = [(length, at) for at, length in self.holes if length >= size]
        if fits:
            length, at = min(fits)
            self.holes.remove((at, length))
            if length > size:
                self.give(at + size, length - size)
            return at
        if self.holes and sum(max(self.holes)) == self.end:           # grow the last hole
            at, length = max(self.holes)
            self.holes.remove((at, length))
        else:
            at = self.end
        self.end = at + size
        return at

    def give(self, at: int, size: int) -> None:
        self.holes.append((at, size))
        self.holes.sort()
        joined: list[tuple[int, int]] = []
        for a, n in self.holes:
            if joined and sum(joined[-1]) == a:
                joined[-1] = (joined[-1][0], joined[-1][1] + n)
            else:
                joined.append((a, n))
        self.holes = joined


def plan_memory(fused: Fused, groups: Sequence[Group]) -> MemoryPlan:
    """Offsets for every stored value that is no result. What a group reads and writes is alive as long as the whole group runs."""
    results = {strip_reshape(r) for r in fused.program.roots}
    last = {n: i for i, g in enumerate(groups) for k in g.kernels for n in k.reads}
    plan, free, alive = MemoryPlan(), _Free(), 0
    size: dict[Node, int] = {}
    for i, g in enumerate(groups):
        readers = Counter(n for k in g.kernels for n in k.reads)
        dying = [n for n in readers if last[n] == i and n in plan.offsets]
        for k, n in [(one, n) for one in g.kernels for n in one.stores]:
            if n in results:
                continue
            donor = next((d for d in dying if n is k.root and readers[d] == 1 and same_place(k, d)), None)
            if donor is not None:
                dying.remove(donor)
                plan.in_place[n] = donor
                plan.offsets[n], size[n] = plan.offsets[donor], size[donor]
                continue
            size[n] = rounded(n.nbytes)
            plan.offsets[n] = free.take(size[n])
            alive += size[n]
        plan.bound = max(plan.bound, alive)
        unread = [n for k in g.kernels for n in k.stores if n not in last and n in plan.offsets]
        for n in dying + unread:
            free.give(plan.offsets[n], size[n])
            alive -= size[n]
    plan.arena = free.end
    return plan
