"""Which memory compiled programs have prepared values from (packed weights), so that a write to it makes them prepare again.

Every write through an array, also through one that shares its memory, comes by ``written``. Memory that others can write
unseen (DLPack, arrays that were taken over without a copy) is noted by ``shared``: nothing is prepared from it.
"""
from __future__ import annotations

import bisect
import weakref
from typing import Any, Iterable, Sequence

import numpy as np

from . import forking

_lock = forking.lock()
TOKENS: "list[weakref.ref[Token]]" = []
_outside: dict[int, tuple[Any, int, int]] = {}          # owner's id -> (weak reference, first address, last)


def extent(raw: Any) -> tuple[int, int]:
    """First and last address (exclusive) of an array's memory, on any device."""
    interface = raw.__array_interface__ if isinstance(raw, np.ndarray) else raw.__cuda_array_interface__
    start = interface["data"][0]
    if not raw.size:
        return start, start
    reach = [(n - 1) * step for n, step in zip(raw.shape, raw.strides)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + raw.dtype.itemsize


class Token:
    """Memory that something was computed from. ``stale`` as soon as one of the arrays is written."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.stale = False
        self.starts: list[int] = []
        self.stops: list[int] = []
        for start, stop in sorted(extent(a) for a in arrays):
            if self.stops and start < self.stops[-1]:
                self.stops[-1] = max(stop, self.stops[-1])
            elif stop > start:
                self.starts.append(start)
                self.stops.append(stop)

    def meets(self, start: int, stop: int) -> bool:
        """Whether a stretch of memory is among it."""
        at = bisect.bisect_left(self.starts, stop)
        return at > 0 and self.stops[at - 1] > start


def watch(arrays: Sequence[np.ndarray]) -> Token:
    """A token for arrays that something is about to be computed from. It ends with its last reference."""
    token = Token(arrays)
    with _lock:
        TOKENS[:] = [t for t in TOKENS if (live := t()) is not None and not live.stale]
        TOKENS.append(weakref.ref(token))
    return token


def written(raw: Any) -> bool:
    """Note that an array was written; whether something was computed from it, which is stale now."""
    if not isinstance(raw, np.ndarray):
        return False
    start, stop = extent(raw)
    hit = False
    for ref in list(TOKENS):
        token = ref()
        if token is not None and not token.stale and token.meets(start, stop):
            token.stale = hit = True
    if hit:
        with _lock:
            TOKENS[:] = [t for t in TOKENS if (live := t()) is not None and not live.stale]
    return hit


def shared(raw: Any) -> bool:
    """Note that others may write an array's memory unseen; as ``written``."""
    if not isinstance(raw, np.ndarray):
        return False
    owner = raw
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    key = id(owner)
    with _lock:
        _outside[key] = (weakref.ref(owner, lambda _: _outside.pop(key, None)), *extent(owner))
    return written(raw)


def is_shared(arrays: Iterable[np.ndarray]) -> bool:
    """Whether others may write one of the arrays unseen."""
    if not _outside:
        return False
    places = [(start, stop) for _, start, stop in list(_outside.values())]
    return any(a < stop and start < b for a, b in map(extent, arrays) for start, stop in places)
