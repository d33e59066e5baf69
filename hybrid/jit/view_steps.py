"""Results of traced code that are views: of which value and how, and the same of the arrays of a call."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..buffers.array import NDArray, wrap
from ..graph.symbol import ALIAS, Symbol
from ..ir.at_sizes import at_values


def view_steps(s: Symbol, originals: dict[int, int]) -> tuple[int, list[Any]] | None:
    """The number of the input that a value is a view of, and how: keys, or shapes for all elements. None for others."""
    steps: list[Any] = []
    while id(s) not in originals:
        if s._base is None:
            return None
        shape = s.shape
        s, key = s._base
        steps.append((None, shape) if key is ALIAS else (key, shape))
    return originals[id(s)], steps[::-1]


def steps_at(steps: Sequence[Any], values: Mapping[str, int]) -> list[Any]:
    """The same with numbers in the place of symbolic sizes."""
    return [(_key_at(key, values), at_values(shape, values)) for key, shape in steps]


def _key_at(key: Any, values: Mapping[str, int]) -> Any:
    if isinstance(key, slice):
        return slice(*(at_values(x, values) for x in (key.start, key.stop, key.step)))
    return tuple(_key_at(k, values) for k in key) if isinstance(key, tuple) else at_values(key, values)


def view_of(x: NDArray, steps: Sequence[Any]) -> NDArray:
    """A view of an array: by a key, or with all its elements in a shape."""
    for key, shape in steps:
        if key is None and 0 in shape:                       # to reshape() a 0 means an axis that is kept
            x = wrap(x._data.reshape(shape), x._ctx, type(x))
        else:
            x = x.reshape(shape) if key is None else x[key]    # type: ignore[attr-defined,index]
    return x
