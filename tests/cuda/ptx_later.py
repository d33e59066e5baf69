"""What a block of tests/cuda/ptx.py has under way: copies that come later, and the barriers that tell of them.

Bytes of a copy are NaN until somebody waits for it. An mbarrier's phase ends when no arrival and no byte of it is
missing; threads that wait for that stand still until then.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .ptx_text import PtxError

if TYPE_CHECKING:
    from .ptx import Block

MBARRIER = 1 << 20                                         # plus an mbarrier's address: at what a thread waits


@dataclass
class Copy:
    """A copy of some threads: its number among all, a row of bytes of shared and of global memory for each thread, how
    many of them are read, the group it is of; the mbarrier of a bulk copy."""
    number: int
    who: np.ndarray
    to: np.ndarray
    source: np.ndarray
    filled: np.ndarray
    groups: np.ndarray
    barrier: int = -1

    def of(self, some: np.ndarray) -> Copy:
        """That of some of its threads."""
        return replace(self, who=self.who[some], to=self.to[some], source=self.source[some],
                       filled=self.filled[some], groups=self.groups[some])


@dataclass
class Barrier:
    """An mbarrier: arrivals that a phase takes, those and the bytes that are missing, how many phases ended."""
    expected: int
    missing: int
    bytes: int = 0
    phase: int = 0


class Later:
    """Copies under way of a block, its mbarriers, and the threads that arrive at one when their copies have come."""

    def __init__(self, block: Block):
        self.block, self.begun = block, 0
        self.groups = np.zeros(block.threads, np.int64)
        self.copies: list[Copy] = []
        self.arrivals: list[tuple[int, int, int]] = []     # mbarrier, thread, copies that had begun
        self.barriers: dict[int, Barrier] = {}

    def begin(self, to: np.ndarray, source: np.ndarray, filled: np.ndarray, barrier: int = -1) -> None:
        """Threads that execute copy rows of bytes."""
        who = self.block.who
        self.copies.append(Copy(self.begun, who, to, source, filled, self.groups[who], barrier))
        self.block.shared[to] = 0xFF
        self.begun += 1

    def deliver(self, chosen: Callable[[Copy], np.ndarray]) -> int:
        """Has copies come, of those of their threads that are chosen; gives how many bytes came."""
        kept, count, (shared, memory) = [], 0, (self.block.shared, self.block.memory)
        for copy in self.copies:
            now = chosen(copy)
            c = copy.of(now)
            given = memory[np.minimum(c.source, len(memory) - 1)]
            shared[c.to] = np.where(np.arange(c.to.shape[1])[None] < c.filled[:, None], given, 0)
            count += c.to.size
            if not now.all():
                kept.append(copy.of(~now))
        self.copies = kept
        return count

    def wait(self, left: int) -> None:
        """Threads that execute wait for all but so many of their groups."""
        here = np.zeros(self.block.threads, bool)
        here[self.block.who] = True
        self.deliver(lambda c: here[c.who] & (c.groups < self.groups[c.who] - left) & (c.barrier < 0))

    def arrive(self, at: int, count: int, added: int = 0) -> None:
        """Arrivals at an mbarrier, with bytes that are to come or (less than 0) came."""
        barrier = self.barriers[at]
        if count > barrier.missing:
            raise PtxError("an mbarrier got more arrivals than its phase takes")
        barrier.missing, barrier.bytes = barrier.missing - count, barrier.bytes + added
        if not barrier.missing and not barrier.bytes:
            barrier.missing, barrier.phase = barrier.expected, barrier.phase + 1
            self.block.waiting[self.block.waiting == MBARRIER + at] = -1

    def deliver_to(self, at: int) -> None:
        """Has those copies come whose bytes or arrivals an mbarrier counts, and counts them."""
        begun, here = np.full(self.block.threads, -1), [a for a in self.arrivals if a[0] == at]
        for _, thread, number in here:
            begun[thread] = number
        self.arrivals = [a for a in self.arrivals if a[0] != at]
        self.deliver(lambda c: (c.number < begun[c.who]) & (c.barrier < 0))
        for _ in here:
            self.arrive(at, 1)
        if count := self.deliver(lambda c: np.full(len(c.who), c.barrier == at)):
            self.arrive(at, 0, -count)

    def come(self) -> bool:
        """Has all copies come for which threads wait at mbarriers; whether a thread can go on now."""
        waiting = self.block.waiting
        before = waiting.copy()
        for key in np.unique(waiting[waiting >= MBARRIER]).tolist():
            self.deliver_to(key - MBARRIER)
        return bool((waiting != before).any())


class Products:
    """Products of warpgroups under way: what they read of shared memory must be there until they are waited for."""

    def __init__(self, threads: int):
        self.groups, self.fenced = np.zeros(threads, np.int64), np.zeros(threads, bool)
        self.under_way: list[tuple[int, int, np.ndarray, np.ndarray]] = []     # first thread, group, places, bytes

    def begin(self, shared: np.ndarray, first: int, places: np.ndarray) -> np.ndarray:
        """A warpgroup's product reads bytes: what they are."""
        found = shared[places]
        self.under_way.append((first, int(self.groups[first]), places, found))
        return found

    def wait(self, shared: np.ndarray, first: int, left: int) -> bool:
        """A warpgroup waits for all but so many of its groups; whether what they read was there all the time."""
        over = [p for p in self.under_way if p[0] == first and p[1] < self.groups[first] - left]
        self.under_way = [p for p in self.under_way if all(p is not o for o in over)]
        return all(np.array_equal(shared[places], found) for _, _, places, found in over)
