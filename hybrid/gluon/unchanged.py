"""Whether lists and dicts in the attributes of a network still hold the very objects that they held. Where none of
those can change inside, that says in one pass that nothing has changed; networks whose layers keep their options in
dicts are called many times between changes.
"""
from __future__ import annotations

from itertools import chain
from operator import is_
from typing import Any, Iterator, Sequence

import numpy as np

from ..jit.fingerprint import LIMIT, Watched, can_change_inside, fingerprint


def _told_by_identity(value: Any) -> bool:
    """Whether the same object has the same contents. Blocks and parameters are told by their versions; ``np.void`` can
    change."""
    return not isinstance(value,
                          (tuple, np.void)) and not can_change_inside(value) and not hasattr(value, "_signature_version")  # noqa: E501


class _Seen:
    """What some values held at one time."""

    def __init__(self, watched: Sequence[Watched]):
        self._dicts: list[dict[Any, Any]] = []
        self._lists: list[list[Any]] = []
        plain: list[Watched] = []
        self.others: list[Watched] = []                  # values of which identities do not tell all
        for w in watched:
            (plain if self._collect(w.value, set()) else self.others).append(w)
        self._sizes, self._keys, self._values, self._items = self._lengths(), *map(list, self._held())
        self.stamp = fingerprint(plain)                  # after them: what changes meanwhile is seen

    def _collect(self, value: Any, seen: set[int]) -> bool:
        """Note the containers in a value; whether what they hold tells all."""
        if _told_by_identity(value) or id(value) in seen:
            return True
        if type(value) is dict and len(value) < LIMIT:
            self._dicts.append(value)
        elif type(value) is list and len(value) < LIMIT:
            self._lists.append(value)
        elif not isinstance(value, tuple):
            return False
        seen.add(id(value))
        return all(self._collect(v, seen) for v in (chain(value, value.values()) if isinstance(value, dict) else value))

    def _held(self) -> tuple[Iterator[Any], ...]:
        return (chain.from_iterable(self._dicts), chain.from_iterable(map(dict.values, self._dicts)),
                chain.from_iterable(self._lists))

    def _lengths(self) -> list[int]:
        return [*map(len, self._dicts), *map(len, self._lists)]

    def same(self) -> bool:
        """Whether the containers hold the same objects now."""
        keys, values, items = self._held()
        return (all(map(is_, self._keys, keys)) and all(map(is_, self._values, values))
                and all(map(is_, self._items, items))
                and self._lengths() == self._sizes)


class Contents:
    """The contents of some values. ``stamp()``: a value that differs when they do."""

    def __init__(self, watched: Sequence[Watched]):
        self._watched = watched
        self._seen = _Seen(watched)

    def stamp(self) -> Any:
        """See the class."""
        seen = self._seen                                # whole, whatever other threads do
        if not seen.same():
            seen = self._seen = _Seen(self._watched)
        return (seen.stamp, fingerprint(seen.others)) if seen.others else seen.stamp
