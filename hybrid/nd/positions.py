"""Positions in brackets that are other numbers at each call of a program (graph/traced_number.py): ``cache[:, t] = k``,
``x[t + 1]``, ``x[:, t:t + 4]``.

Such a number becomes an input of the program; one program then serves every index of that axis. A slice must have the
same length for all numbers and end within the axis. Elsewhere in a key the number is a constant.
"""
from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from ..autograd.dispatch import invoke
from ..base import indexing
from ..graph.traced_number import TracedNumber, of_this_call
from ..ops.registry import OPS


class Place(NamedTuple):
    """Elements along an axis. first: the index of the first one, a value of shape (1,); length: how many."""
    axis: int
    first: Any
    length: int


def plain(key: Any) -> Any:
    """A key with the numbers of this call."""
    parts = [slice(*map(of_this_call, (p.start, p.stop, p.step))) if type(p) is slice else of_this_call(p)
             for p in (key if isinstance(key, tuple) else (key,))]
    return tuple(parts) if isinstance(key, tuple) else parts[0]


def split_key(key: Any, shape: Sequence[Any]) -> tuple[Any, list[Place]]:
    """Split a basic key into its constant part, with 0 and ``:n`` instead of positions that are inputs of the program,
    and these positions."""
    if not any(type(q) is TracedNumber for p in (key if isinstance(key, tuple) else (key,))
               for q in ((p.start, p.stop) if type(p) is slice else (p,))):
        return key, []
    parts, places, axis = indexing.expand_key(key, len(shape)), [], 0
    for i, p in enumerate(parts):
        if p is None:
            continue
        found = _place(p, axis, shape[axis])
        if found is not None:
            places.append(found)
            parts[i] = slice(0, found.length) if type(p) is slice else 0
        axis += 1
    return tuple(parts), places


def _place(part: Any, axis: int, n: Any) -> Place | None:
    """The place that one part of a key names along an axis of n elements; None where it is to be a constant."""
    if type(n) is not int:
        return None
    if type(part) is slice:
        return _range(part, axis, n)
    at = part.between(-n, n - 1) if type(part) is TracedNumber else None
    if at is None:
        return None
    at = invoke(OPS["Reshape"], [at], {"shape": (1,)}, hint="reshape")
    return Place(axis, invoke(OPS["_mod_scalar"], [at], {"scalar": n}, hint="modscalar"), 1)


def _range(part: slice, axis: int, n: int) -> Place | None:
    """The place that a slice names."""
    first, stop = part.start, part.stop
    length = stop.distance(first) if type(stop) is TracedNumber and type(first) is TracedNumber else None
    if part.step not in (None, 1) or length is None or length < 1:
        return None
    at = first.between(0, n - length)
    return None if at is None else Place(axis, invoke(OPS["Reshape"], [at], {"shape": (1,)}, hint="reshape"), length)


def take_at(x: Any, places: Sequence[Place]) -> Any:
    """The elements of a value at some places; they start at index 0 of their axes in the result."""
    for place in places:
        at = place.first
        if place.length > 1:
            at = invoke(OPS["broadcast_add"], [at, np.arange(place.length, dtype=np.int64)], {}, hint="broadcast_add")
        x = invoke(OPS["take"], [x, at], {"axis": place.axis, "mode": "clip"}, hint="take")
    return x


def replace_at(x: Any, places: Sequence[Place], new: Any) -> Any:
    """A value with new elements at some places. new: along the axes of ``places`` as long as these, along others
    broadcast."""
    inside: Any = None
    for place in places:
        n, ndim = x.shape[place.axis], len(x.shape)
        at = invoke(OPS["Reshape"], [place.first], {"shape": (1,) * ndim}, hint="reshape")
        every = np.arange(n, dtype=np.int64).reshape([-1 if a == place.axis else 1 for a in range(ndim)])
        if place.length == 1:
            here = _of("broadcast_equal", every, at)
        else:
            behind = _of("broadcast_sub", every, at)
            here = _of("broadcast_logical_and", _of("broadcast_greater_equal", behind, np.int64(0)),
                       _of("broadcast_lesser", behind, np.int64(place.length)))
            along = invoke(OPS["Reshape"], [behind], {"shape": (-1,)}, hint="reshape")
            new = invoke(OPS["take"], [new, along], {"axis": place.axis, "mode": "clip"}, hint="take")
        inside = here if inside is None else _of("broadcast_logical_and", inside, here)
    return invoke(OPS["_npi_where"], [inside, new, x], {})


def _of(name: str, a: Any, b: Any) -> Any:
    return invoke(OPS[name], [np.asarray(x) if isinstance(x, np.generic) else x for x in (a, b)], {}, hint=name)
