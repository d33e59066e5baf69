"""Which memory compiled programs have prepared values from (packed weights), so that a write to it makes them prepare
again.

Every write through an array, also through one that shares its memory, comes by ``written``. Memory that others can
write unseen (DLPack, arrays that were taken over without a copy) is noted by ``shared``: nothing is prepared from it.
"""
from __future__ import annotations

import weakref
from typing import Any, Callable, Iterable, Sequence

from ..base import forking
from .extents import Extents, extent, is_array

_lock = forking.lock()
TOKENS: "list[weakref.ref[Token]]" = []
# grows whenever tokens look after more memory: what met none of them before may then
WATCHED = [0]
OUTSIDE: dict[int, tuple[Any, int, int]] = {}          # owner's id -> (weak reference, first address, last)


class Token(Extents):
    """Memory that something was computed from. ``stale`` as soon as one of the arrays is written."""

    def __init__(self, arrays: Sequence[Any]):
        super().__init__(arrays)
        self.stale = False

    def add(self, start: int, stop: int) -> None:
        """One more stretch."""
        super().add(start, stop)
        WATCHED[0] += 1


def watch(arrays: Sequence[Any]) -> Token:
    """A token for arrays that something is about to be computed from. It ends with its last reference."""
    token = Token(arrays)
    with _lock:
        TOKENS[:] = [t for t in TOKENS if (live := t()) is not None and not live.stale]
        TOKENS.append(weakref.ref(token))
        WATCHED[0] += 1
    return token


def written(raw: Any) -> bool:
    """Note that an array was written; whether something was computed from it, which is stale now."""
    if not is_array(raw):
        return False
    start, stop = extent(raw)
    return _stale(lambda token: token.meets(start, stop))


def written_among(memory: Extents) -> bool:
    """Note that all of some memory was written; as ``written``."""
    return _stale(memory.meets_any)


def _stale(meets: Callable[[Token], bool]) -> bool:
    hit = False
    for ref in list(TOKENS):
        token = ref()
        if token is not None and not token.stale and meets(token):
            token.stale = hit = True
    if hit:
        with _lock:
            TOKENS[:] = [t for t in TOKENS if (live := t()) is not None and not live.stale]
    return hit


def leave(raw: Any) -> "list[Token]":
    """The memory of an array is evicted though its numbers live on: tokens look there no longer. Those that did."""
    start, stop = extent(raw)
    with _lock:
        every = [t for ref in TOKENS if (t := ref()) is not None and not t.stale]
        return [t for t in every if t.remove(start, stop)]


def cover(tokens: "Sequence[Token]", raw: Any) -> None:
    """Tokens look after the memory of one more array."""
    start, stop = extent(raw)
    for token in tokens:
        token.add(start, stop)


def shared(raw: Any) -> bool:
    """Note that others may write an array's memory unseen; as ``written``."""
    if not is_array(raw):
        return False
    owner = raw
    while is_array(owner.base):
        owner = owner.base
    key = id(owner)
    with _lock:
        OUTSIDE[key] = (weakref.ref(owner, lambda _: OUTSIDE.pop(key, None)), *extent(owner))
    return written(raw)


def is_shared(arrays: Iterable[Any]) -> bool:
    """Whether others may write one of the arrays unseen."""
    if not OUTSIDE:
        return False
    places = [(start, stop) for _, start, stop in list(OUTSIDE.values())]
    return any(a < stop and start < b for a, b in map(extent, arrays) for start, stop in places)
