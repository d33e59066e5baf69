"""State of objects whose classes are written in C: only their methods change it (``functools.partial.__setstate__``,
``Element.append``, ``decimal.Context.prec``). The descriptors of the class tell it, or what the object gives to be
pickled; none of them runs code of a program's.
"""
from __future__ import annotations

import functools
from collections import deque
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Iterator, NamedTuple

import numpy as np

from ..base.names import module_of
from .answers import OPAQUE, Answer
from .free_variables import GONE, Place, guard_value

_NO_STATE = frozenset({"__dict__", "__weakref__", "__class__", "__isabstractmethod__"})
_CONTAINERS = (list, tuple, set, frozenset, bytearray, memoryview, np.ndarray, np.generic)      # told by contents
# classes of modules that are told in other ways, or whose objects are services
_TOLD = OPAQUE | {"_io", "io", "ctypes", "_ctypes", "mmap", "weakref", "_weakref", "typing", "numpy", "_thread",
                  "_contextvars", "array", "torch"}


class Shown(NamedTuple):
    """How a class shows the state of its objects: descriptors of members, getters, or the method that pickling
    calls."""

    members: tuple[MemberDescriptorType, ...]
    getters: tuple[GetSetDescriptorType, ...]
    pickled: Any


_NOTHING = Shown((), (), None)


def _in_c(cls: type) -> bool:
    """Whether a class was not made by a ``class`` statement."""
    return "__slots__" not in vars(cls) and not any(isinstance(v, (FunctionType, property)) for v in vars(
        cls).values()) and module_of(cls).split(".")[0] not in (*_TOLD, "hybrid")


@functools.lru_cache(1024)
def shown_by(cls: type) -> Shown:
    """How the state of a class's objects is told."""
    bases = [b for b in cls.__mro__[:-1] if _in_c(b)]
    if issubclass(cls, (type, BaseException, *_CONTAINERS)):       # of errors code reads what it names
        return _NOTHING
    found = [(n, d) for b in bases for n, d in vars(b).items() if n not in _NO_STATE]
    members = tuple(d for _, d in found if isinstance(d, MemberDescriptorType))
    if issubclass(cls, (dict, deque)):
        return Shown(members, tuple(d for n, d in found if n == "maxlen"), None)
    if members or any("__hash__" in vars(b) and vars(b)["__hash__"] is not None for b in bases):
        return Shown(members, (), None)                            # equal by value: by Python's rules it never changes
    pickled = next((d for n in ("__getstate__", "__reduce__") for m, d in found if m == n), None)
    getters = () if pickled else tuple(d for _, d in found if isinstance(d, GetSetDescriptorType))
    return Shown((), getters, pickled)


def _asked(value: Any, descriptor: Any) -> Any:
    try:
        return descriptor.__get__(value, type(value))
    except Exception:  # noqa: BLE001  what another class's getters raise
        return GONE


def _parts(value: Any, shown: Shown) -> Any:
    """What getters and pickling give."""
    if shown.pickled is not None:
        try:
            return shown.pickled.__get__(value, type(value))()
        except Exception:  # noqa: BLE001  it cannot be pickled now
            return GONE
    return [_asked(value, d) for d in shown.getters]


def told(value: Any) -> Any:
    """Nested lists, tuples and dicts as something that can be compared and hashed."""
    if type(value) in (list, tuple):
        return type(value), *map(told, value)
    if type(value) is dict:
        return dict, *((told(k), told(v)) for k, v in value.items())
    return guard_value(value)


def leaves(value: Any) -> Iterator[Any]:
    """What nested lists, tuples and dicts hold."""
    if type(value) in (list, tuple, dict):
        for v in value.values() if type(value) is dict else value:
            yield from leaves(v)
    else:
        yield value


def places_of(value: Any) -> tuple[list[Any], Iterator[Any], bool]:
    """The places of an object's state, what it leads to, and whether that is all: False where an object gives other
    values each time, or none at all, so that nobody knows what its methods do."""
    shown = shown_by(type(value))                                  # type: ignore[arg-type]
    places: list[Any] = [Place(value, d) for d in shown.members]
    if not shown.getters and shown.pickled is None:
        return places, iter([p.get() for p in places]), True
    now = _parts(value, shown)
    if told(now) != told(_parts(value, shown)):
        return places, leaves(now), False
    return [*places, Answer(value, "in C", lambda: told(_parts(value, shown)))], leaves(now), True
