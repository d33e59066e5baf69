"""Cutting something that fails to something smaller that fails in the same way: what ``debug.minimize`` and fuzzers
do."""
from __future__ import annotations

from typing import Callable, Iterable, TypeVar

T = TypeVar("T")


def smaller(start: T, candidates: Callable[[T], Iterable[T]], fails: Callable[[T], bool], tries: int = 150) -> T:
    """The last of a chain of candidates, each a smaller form of the one before, that all fail.

    candidates: smaller forms of one, in the order in which they are tried; after one that fails its own are. tries:
    how many are tried at most.

    >>> smaller("a needle in hay", lambda s: (s[:i] + s[i + 1:] for i in range(len(s))), lambda s: "need" in s)
    'need'
    """
    changed = True
    while changed and tries > 0:
        changed = False
        for candidate in candidates(start):
            tries -= 1
            if tries < 0:
                break
            if fails(candidate):
                start, changed = candidate, True
                break
    return start
