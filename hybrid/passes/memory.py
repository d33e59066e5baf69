"""Memory planning: lifetimes of stored values become offsets in one arena, in place where that is safe."""
from __future__ import annotations

import heapq
import math
from bisect import bisect, insort
from collections import Counter
from dataclasses import field
from itertools import accumulate
from typing import Iterator, Sequence

from ..base.records import dataclass
from ..ir import Node
from ..ir.index import linear
from ..ir.size import fixed, greater, same
from .fuse import Fused, Kernel, strip_reshape
from .horizontal_fusion import Group

ALIGN = 64
MANY = 1000                      # spans from which on one order is enough


@dataclass
class MemoryPlan:
    """``offsets``: bytes into the arena; ``bound``: the most bytes alive at once; ``in_place``: value -> value whose
    place it took; ``whole``: bytes of the arena with the kernels' working memory.
    """
    offsets: dict[Node, int] = field(default_factory=dict)
    arena: int = 0
    bound: int = 0
    in_place: dict[Node, Node] = field(default_factory=dict)
    spans: "list[Span]" = field(default_factory=list)
    whole: int = 0
    sized: bool = False                  # whether sizes are known only at the call
    work: int = 0                        # the most working memory that was asked for then, behind all values
    # the last group that ``room`` was asked for, what is alive then and what comes later
    now: int = -1
    alive: "list[Span]" = field(default_factory=list)
    coming: "list[Span]" = field(default_factory=list)

    def _alive(self, group: int) -> "list[Span]":
        """Spans that are alive in a group. Groups are asked for one after another."""
        if group < self.now:
            self.now, self.alive, self.coming = -1, [], []
        if self.now < 0:
            self.coming = sorted(self.spans, key=lambda s: -s.first)
        while self.coming and self.coming[-1].first <= group:
            insort(self.alive, self.coming.pop(), key=lambda s: s.at)
        if group > self.now:
            self.now, self.alive = group, [s for s in self.alive if s.last >= group]
        return self.alive

    def room(self, group: int, nbytes: int) -> int:
        """The place of working memory while a group runs: between the values that are alive then. ``whole`` grows to
        hold it."""
        if self.sized or not fixed(nbytes):
            self.work = greater(self.work, nbytes)
            whole = self.arena + self.work
            self.whole = whole if self.sized else greater(self.whole, whole)
            return self.arena
        at = 0
        for s in self._alive(group):                         # by place
            if at + nbytes <= s.at:
                break
            at = max(at, s.at + s.size)
        self.whole = max(self.whole, at + nbytes)
        return at


def rounded(n: int) -> int:
    """Bytes rounded up to the alignment."""
    return -(-greater(n, 1) // ALIGN) * ALIGN  # type: ignore[no-any-return]


def same_place(k: Kernel, n: Node) -> bool:
    """Whether kernel k reads n, each element exactly where it writes its root."""
    if (n not in k.reads or k.kind != "elementwise" or n.nbytes != k.root.nbytes
        or n.dtype.itemsize != k.root.dtype.itemsize or k.extra):
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
    times = Counter(stored)
    first = {n: i for i, k in reversed([*enumerate(fused.kernels)]) for n in k.stores}
    last = {n: i for i, k in enumerate(fused.kernels) for n in k.reads}
    out: dict[Node, int] = {}
    for (slot, _), n in zip(fused.program.updates, stored[count:]):
        leaf, at = inputs[slot], first.get(n)
        if (at is not None and times[n] == 1 and n.prim != "input" and n.dtype == leaf.dtype
            and same(n.size, leaf.size) and leaf not in times
                and last.get(leaf, at) <= at and fused.kernels[at].kind in kinds
                and _written_where_read(fused.kernels[at], n, leaf)):
            out[n] = slot
    return out


def _written_where_read(k: Kernel, value: Node, leaf: Node) -> bool:
    uses = k.reads.get(leaf, [])
    if not uses:
        return True
    written = {u.idx for u in k.members.get(value, ())}
    if len(written) != 1 or len({u.idx for u in uses}) != 1 or any(u.inside
                                                                   for u in uses) or any(value is n
                                                                                         for n, _ in k.sides):
        return False
    # stored as soon as it is known, perhaps before the leaf is read
    if value is not k.root and not k.computed_from(value, leaf):
        return False
    here = linear(value.shape, *written)
    return all(u.bijective and not u.guarded and linear(leaf.shape, u.idx) == here for u in uses)


@dataclass(eq=False)
class Span:
    """Bytes that values take one after another in one place, and the first and last group that need them."""
    size: int
    first: int
    last: int
    at: int = 0


def _spans(fused: Fused, groups: Sequence[Group], plan: MemoryPlan) -> dict[Node, Span]:
    """The span of each stored value that is no result; a value in another one's place shares its span."""
    results = {strip_reshape(r) for r in fused.program.roots}
    last = {n: i for i, g in enumerate(groups) for k in g.kernels for n in k.reads}
    spans: dict[Node, Span] = {}
    for i, g in enumerate(groups):
        readers = Counter(n for k in g.kernels for n in k.reads)
        dying = [n for n in readers if last[n] == i and n in spans]
        for k, n in [(one, n) for one in g.kernels for n in one.stores]:
            if n in results:
                continue
            donor = next((d for d in dying if n is k.root and readers[d] == 1 and same_place(k, d)), None)
            if donor is not None:
                dying.remove(donor)
                plan.in_place[n] = donor
                spans[n] = spans[donor]
                spans[n].last = last.get(n, i)
            else:
                spans[n] = Span(rounded(n.nbytes), i, last.get(n, i))
    return spans


def _place(spans: Sequence[Span]) -> int:
    """The lowest place for each span, in this order, that no span alive at the same time has; the bytes of all."""
    done: list[Span] = []
    end = 0
    for s in spans:
        at = 0
        for other in done:                                   # by place
            if other.first <= s.last and s.first <= other.last:
                if at + s.size <= other.at:
                    break
                at = max(at, other.at + other.size)
        s.at = at
        insort(done, s, key=lambda o: o.at)
        end = max(end, at + s.size)
    return end


def _place_by_time(spans: Sequence[Span]) -> int:
    """The same for spans in the order in which they begin: what has ended leaves gaps, of which the lowest that is
    large enough is taken."""
    gaps: list[tuple[float, float]] = [(0, math.inf)]        # by place
    alive: list[tuple[int, int, Span]] = []                  # a heap, what ends first on top
    end = 0
    for k, s in enumerate(spans):
        while alive and alive[0][0] < s.first:
            gone = heapq.heappop(alive)[2]
            _give_back(gaps, gone.at, gone.at + gone.size)
        i = next(i for i, (first, last) in enumerate(gaps) if last - first >= s.size)
        first, last = gaps[i]
        s.at = int(first)
        gaps[i:i + 1] = [(first + s.size, last)] if last - first > s.size else []
        heapq.heappush(alive, (s.last, k, s))
        end = max(end, s.at + s.size)
    return end


def _give_back(gaps: list[tuple[float, float]], first: float, last: float) -> None:
    """A stretch becomes a gap, one with the gaps beside it."""
    i = bisect(gaps, (first, last))
    if i < len(gaps) and gaps[i][0] == last:
        last = gaps.pop(i)[1]
    if i and gaps[i - 1][1] == first:
        i -= 1
        first = gaps.pop(i)[0]
    gaps.insert(i, (first, last))


def _orders(spans: list[Span], most: list[int]) -> Iterator[list[Span]]:
    """Orders in which spans are placed: by time; large ones first (Pisarchyk and Lee, Efficient Memory Management for
    Deep Neural Net Inference, 2020); those first that are alive when most is.
    """
    yield sorted(spans, key=lambda s: s.first)
    if len(spans) <= MANY:
        yield sorted(spans, key=lambda s: (-s.size, s.first))
        yield sorted(spans, key=lambda s: (-max(most[s.first:s.last + 1]), -s.size))
        yield sorted(spans, key=lambda s: (-s.size * (s.last - s.first + 1), s.first))
        yield sorted(spans, key=lambda s: (s.first - s.last, -s.size))


def _by_class(plan: MemoryPlan, by_value: dict[Node, Span], spans: list[Span]) -> MemoryPlan:
    """Places where sizes are known only at the call: spans of one size take the places of such that have ended."""
    ended: dict[int, list[Span]] = {}
    for s in sorted(spans, key=lambda s: s.first):
        old = next((o for o in ended.get(s.size, ()) if o.last < s.first), None)
        if old is None:
            s.at, plan.arena = plan.arena, plan.arena + s.size
        else:
            s.at = old.at
            ended[s.size].remove(old)
        ended.setdefault(s.size, []).append(s)
    plan.bound = plan.whole = plan.arena
    plan.sized, plan.offsets = True, {n: s.at for n, s in by_value.items()}
    return plan


def plan_memory(fused: Fused, groups: Sequence[Group]) -> MemoryPlan:
    """Offsets for every stored value that is no result. What a group reads and writes is alive as long as the whole
    group runs."""
    plan = MemoryPlan()
    by_value = _spans(fused, groups, plan)
    spans = list(dict.fromkeys(by_value.values()))
    if not all(fixed(s.size) for s in spans):
        return _by_class(plan, by_value, spans)
    change = [0] * (len(groups) + 1)
    for s in spans:
        change[s.first] += s.size
        change[s.last + 1] -= s.size
    most = list(accumulate(change))[:len(groups)]
    plan.bound = max(most, default=0)
    best: list[int] = []
    for i, order in enumerate(_orders(spans, most)):
        end = _place(order) if i else _place_by_time(order)
        if not best or end < plan.arena:
            plan.arena, best = end, [s.at for s in spans]
        if plan.arena <= plan.bound:
            break
    for s, at in zip(spans, best):
        s.at = at
    plan.spans, plan.whole = sorted(spans, key=lambda s: s.at), plan.arena
    plan.offsets = {n: s.at for n, s in by_value.items()}
    return plan
