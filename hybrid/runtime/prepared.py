"""Values that a compiled CPU program takes beside its inputs, computed from parameters by a program of their own: once, and
again only when a parameter was written or replaced. Buffers of parameters that nobody else reads are given up then, where the
values hold the same numbers (hybrid/stand_in.py).
"""
from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Sequence

import numpy as np

from .. import stand_in, watch
from ..passes.way_back import Way
from . import buffers


class Prepared:
    """``values`` were computed from ``sources``; ``fits`` as long as these are the arrays, unchanged."""

    def __init__(self, sources: Sequence[Any], program: Callable[[Sequence[np.ndarray]], list[np.ndarray]], ways: Sequence[Way | None]):
        self.sources = list(sources)
        once = Counter(map(id, sources))
        taken = [i for i, (s, way) in enumerate(zip(sources, ways)) if way is not None and once[id(s)] == 1 and stand_in.may_go(s) and stand_in.take(s)]
        try:
            raws = [s._away.raw if i in set(taken) else buffer_of(s) for i, s in enumerate(sources)]
            self.token = watch.watch(raws)                   # before they are read: a write in the meantime is seen
            self.values = program(raws)
            del raws
        except BaseException:
            for i in taken:
                stand_in.back(sources[i])
            raise
        for i in taken:
            place, steps = ways[i] or (0, ())
            stand_in.settle(sources[i], self.values[place], steps)
        if taken:
            buffers.trim()

    def fits(self, sources: Sequence[Any]) -> bool:
        """Whether the values are those of these arrays now."""
        return not self.token.stale and len(sources) == len(self.sources) and all(a is b for a, b in zip(sources, self.sources))

    def given_up(self) -> int:
        """Bytes of buffers that these values stand for now."""
        mine = set(map(id, self.values))
        records = [r for s in self.sources if not isinstance(s, np.ndarray) and (r := stand_in.of(s)) is not None]
        return sum(r.nbytes for r in records if id(r.packed) in mine)


def buffer_of(x: Any) -> np.ndarray:
    """A raw array: itself, or that of an array object."""
    return x if isinstance(x, np.ndarray) else x._data


def _here(sources: Sequence[Any]) -> list[np.ndarray]:
    return [s if isinstance(s, np.ndarray) else s._data for s in sources if isinstance(s, np.ndarray) or stand_in.of(s) is None]


def _usable(sources: Sequence[Any], specs: Sequence[Any]) -> bool:
    raws = [buffer_of(s) for s in sources]
    return not watch.is_shared(raws) and all(fits(a, *spec) for a, spec in zip(raws, specs))


def fits(a: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether a program can use an array in place."""
    return a.shape == shape and a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned


def prepared(old: Prepared | None, sources: Sequence[Any], program: Any, ways: Sequence[Way | None]) -> Prepared | None:
    """Values for these arrays (raw ones, or objects that hold one), the old ones if they still are; None where others may write the
    arrays unseen, or the program cannot read them in place.
    """
    with stand_in.LOCK:
        if old is not None and old.fits(sources):
            return old if not watch.is_shared(_here(sources)) else None
        return Prepared(sources, program, ways) if _usable(sources, program._inputs) else None
