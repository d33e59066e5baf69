"""Values that a compiled program takes beside its inputs, computed from parameters by a program of their own: once, and
again only when a parameter was written or replaced. Programs share values of the same parameters in the same form.
Buffers of parameters that nobody else reads are evicted where the values hold the same numbers
(hybrid/buffers/evict.py).
"""
from __future__ import annotations

import weakref
from collections import Counter
from typing import Any, Iterator, Mapping, Protocol, Sequence

import numpy as np

from ..buffers import evict, derived
from ..base.device import trim
from ..passes.unpack import Way
from . import buffers
from .recipe import Part, Spec

AT_ONCE = 1 << 22                  # bytes that are prepared before buffers are evicted
_every: "weakref.WeakSet[Prepared]" = weakref.WeakSet()


class Described(Protocol):
    """What is known of a program that prepares values: that part of a ``Recipe`` (recipe.py)."""
    inputs: list[Spec]
    results: list[tuple[int, tuple[int, ...]]]
    parts: list[Part]

    def own_results(self) -> list[Spec] | None:
        """Shape and dtype of each result, if each is an array of its own."""


class Preparing(Protocol):
    """A program that computes such values."""
    keeps_memory: bool                  # whether new values of the same arrays are written where the old ones were

    @property
    def recipe(self) -> Described:
        """What it takes and gives."""

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """All of them."""

    def run_part(self, given: Mapping[int, Any], results: Mapping[int, Any]) -> None:
        """Some of them, written into arrays that are there."""

    def reads(self, a: Any, spec: Spec) -> bool:
        """Whether it can read an array in place."""

    def memory(self, specs: Sequence[Spec]) -> list[Any]:
        """New arrays for results."""


class Prepared:
    """``values`` were computed from ``sources``; ``fits`` as long as these are the arrays, unchanged. Made under
    ``stand_in.LOCK``."""

    def __init__(self, sources: Sequence[Any], program: Preparing, ways: Sequence[Way | None],
                 old: "Prepared | None" = None):
        self.sources, self.program, self.ways = list(sources), program, ways
        recipe = program.recipe
        parts = recipe.parts or [("", tuple(range(len(sources))), tuple(range(len(recipe.results))))]
        self.token = derived.watch([])
        self._watch()                                        # before anything is read: a write in the meantime is seen
        found = {part: other for part in parts if part[0] and (other := self._shared(part)) is not None}
        self.table = {self._key(part): part for part in parts if part[0]}
        missing = [part for part in parts if part not in found]
        self.values: list[Any] = [None] * len(recipe.results)
        for part, other in found.items():
            for k, value in zip(part[2], other):
                self.values[k] = value
        places = [k for part in missing for k in part[2]]
        specs = recipe.own_results() or []
        again = old is not None and program.keeps_memory and old.program is program and old.is_of(sources)
        for k, value in zip(places, () if not recipe.parts else [old.values[k] for k in places] if old and again else
                            program.memory([specs[k] for k in places])):
            self.values[k] = value
        portions = list(_portions(missing, specs if recipe.parts else []))
        if len(portions) > 1:
            trim()                                               # what was freed before makes room
        for some in portions:
            self._compute(some)
        _every.add(self)

    # ---- values that another program has
    def _key(self, part: Part) -> tuple[Any, ...]:
        return (part[0], *(id(self.sources[s]) for s in part[1]))

    def _shared(self, part: Part) -> list[Any] | None:
        key = self._key(part)
        for other in list(_every):
            if not other.token.stale and key in other.table:         # it holds its sources: equal ids are equal arrays
                return [other.values[k] for k in other.table[key][2]]
        return None

    def _watch(self) -> None:
        """Note when a source is written from now on."""
        for s in self.sources:
            record = None
            if isinstance(s, evict.Held):
                evict.fulfil(s)                              # what a training loop put off
                record = evict.of(s)
            if record is not None:
                record.tokens.append(self.token)
            else:
                derived.cover([self.token], buffer_of(s))

    # ---- values of its own
    def _compute(self, parts: Sequence[Part]) -> None:
        """Values of some parts; buffers that they stand for are evicted afterwards."""
        slots = dict.fromkeys(s for part in parts for s in part[1])
        once = Counter(map(id, self.sources))
        for s in slots:
            if isinstance(self.sources[s], evict.Held):
                evict.back(self.sources[s])
        taken = [s for s in slots if self.ways[s] is not None and once[id(self.sources[s])] == 1
                 and evict.may_go(self.sources[s])
                 and evict.take(self.sources[s])]
        try:
            self._run(parts, {s: self.sources[s]._away.raw if s in taken else buffer_of(self.sources[s])
                              for s in slots})
        except BaseException:
            for s in taken:
                evict.back(self.sources[s])
            raise
        size = 0
        for s in taken:
            place, steps = self.ways[s] or (0, ())
            size += self.sources[s]._away.nbytes if evict.settle(self.sources[s], self.values[place], steps) else 0
        if size >= buffers.SMALLEST:
            trim()

    def _run(self, parts: Sequence[Part], raws: dict[int, Any]) -> None:
        if not self.program.recipe.parts:
            self.values = self.program([raws[s] for s in range(len(self.sources))])
        else:
            self.program.run_part(raws, {k: self.values[k] for part in parts for k in part[2]})

    def fits(self, sources: Sequence[Any]) -> bool:
        """Whether the values are those of these arrays now."""
        return not self.token.stale and self.is_of(sources)

    def is_of(self, sources: Sequence[Any]) -> bool:
        """Whether the values were computed from these arrays."""
        return len(sources) == len(self.sources) and all(a is b for a, b in zip(sources, self.sources))

    def evicted(self) -> int:
        """Bytes of buffers that these values stand for now."""
        mine = set(map(id, self.values))
        records = [r for s in self.sources if isinstance(s, evict.Held) and (r := evict.of(s)) is not None]
        return sum(r.nbytes for r in records if id(r.packed) in mine)


def _portions(parts: Sequence[Part], specs: Sequence[Spec]) -> Iterator[list[Part]]:
    """Parts that are computed together: so many bytes, or one. specs: of the results."""
    some: list[Part] = []
    size = 0
    for part in parts:
        some.append(part)
        size += sum(buffers.size_of(*specs[k]) for k in part[2]) if specs else 0
        if size >= AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def buffer_of(x: Any) -> Any:
    """A raw array: itself, or that of an array object."""
    return x._data if isinstance(x, evict.Held) else x


def _usable(sources: Sequence[Any], program: Preparing) -> bool:
    """Whether a program can read the buffers, as far as they are there, in place, and nobody writes them unseen."""
    here = [(buffer_of(s), spec) for s, spec in zip(sources, program.recipe.inputs)
            if not isinstance(s, evict.Held) or evict.of(s) is None]
    return not derived.is_shared(a for a, _ in here) and all(program.reads(a, spec) for a, spec in here)


def fits(a: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether a program can use an array in place."""
    return a.shape == shape and a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned


def prepared(old: Prepared | None, sources: Sequence[Any], program: Preparing,
             ways: Sequence[Way | None]) -> Prepared | None:
    """Values for these arrays (raw ones, or objects that hold one), the old ones if they still are; None where others
    may write the arrays unseen, or the program cannot read them in place.
    """
    with evict.LOCK:
        if not _usable(sources, program):
            return None
        return old if old is not None and old.fits(sources) else Prepared(sources, program, ways, old)
