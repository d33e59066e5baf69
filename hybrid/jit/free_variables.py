"""Places that compiled code reads Python values from: variables of modules and of enclosing functions, attributes,
contents of containers.

Python code in a trace reads them once. A number, a list, an object, another array there later would not be seen, so
what a trace read (hybrid/jit/reads.py finds it out) is compared at every call, by identity first. An array is an input
of the program, looked up when the program is called; what is not an array is part of the signature.
"""
from __future__ import annotations

import os
from array import array as Buffer
from collections import deque
from contextvars import ContextVar
from functools import partial
from math import copysign
from types import CellType, MappingProxyType
from typing import Any, Sequence

import numpy as np

from ..buffers.array import REBINDS, NDArray
from ..buffers.foreign import as_numpy
from ..base.pytree import ById

GONE: Any = NotImplemented                       # what a place holds that is not there; launcher.c knows it
# attributes that this library gives to blocks
OF_BLOCKS = frozenset({"_active", "_backward_hooks", "_children", "_contents", "_empty_prefix", "_engine", "_exported",
                       "_flags", "_form", "_forward_hooks", "_forward_pre_hooks", "_inputs",
                       "_loose", "_name", "_op_hooks", "_params", "_prefix", "_fast_path_on", "_reg_params", "_scope",
                       "_seen_key", "_seen_version", "_states", "_fast_path", "_version"})
_SAME = frozenset({int, str, bytes, bool, type(None)})


def guard_value(value: Any) -> Any:
    """A hashable value that is equal for values that a trace cannot tell apart: numbers and text by value, others by
    identity."""
    kind = type(value)
    if kind in _SAME:
        return kind, value
    if kind is float:
        return kind, value if value == value else None, copysign(1, value)
    if kind is complex:
        return kind, repr(value)
    if isinstance(value, np.generic):
        return kind, value.dtype, value.tobytes()
    if isinstance(value, np.dtype):
        return np.dtype, value
    return (kind, *map(guard_value, value)) if isinstance(value, tuple) else ById(value)


class Place:
    """A variable or attribute. where: a cell, a dict, a class, or an object; name: a key, or a descriptor of a slot."""
    __slots__ = ("where", "name")

    def __init__(self, where: Any, name: Any):
        self.where, self.name = where, name

    @property
    def key(self) -> Any:
        """What tells one place from others."""
        return id(self.where), self.name if isinstance(self.name, str) else id(self.name)

    def get(self) -> Any:
        """The value now; GONE when there is none."""
        where, name = self.where, self.name
        if type(where) is dict:
            return where.get(name, GONE)
        try:
            if isinstance(where, CellType):
                return where.cell_contents
            if isinstance(where, type):
                return on_class(where, name)
            return attributes(where).get(name, GONE) if isinstance(name, str) else name.__get__(where, type(where))
        except (ValueError, AttributeError):               # a variable or a slot without a value
            return GONE

    def put(self, value: Any) -> None:
        """Hold a value, GONE for none; no code of the object's class runs."""
        where, name = self.where, self.name
        if isinstance(where, CellType):
            where.cell_contents = value
        elif isinstance(where, type):
            type.__delattr__(where, name) if value is GONE else type.__setattr__(where, name, value)
        elif not isinstance(name, str):
            name.__delete__(where) if value is GONE else name.__set__(where, value)
        else:
            own = where if type(where) is dict else attributes(where)
            own.pop(name, None) if value is GONE else own.__setitem__(name, value)

    def data(self, ctx: Any) -> Any:
        """The array now (a compiled program asks for it, as it asks a Parameter)."""
        return self.get()

    def pinned(self, value: Any) -> tuple[Any, Any, Any]:
        """What the launcher compares (launcher_checks.h)."""
        return self.where, self.name, value


class Contents:
    """What a container, a NumPy array or another object that is not told by identity holds. keys: those of an
    environment."""
    __slots__ = ("where", "keys", "name")

    def __init__(self, where: Any, keys: frozenset[str] = frozenset()):
        self.where, self.keys, self.name = where, keys, None

    @property
    def key(self) -> Any:
        """What tells one place from others."""
        return id(self.where), None

    def get(self) -> Any:
        """What it holds now."""
        where = self.where
        if isinstance(where, (dict, MappingProxyType)):
            return (type(where), *map(guard_value, where), *map(guard_value, where.values()))
        if isinstance(where, (list, tuple, deque)):
            return (type(where), *map(guard_value, where))
        if isinstance(where, (set, frozenset)):
            return frozenset(map(guard_value, where))
        if isinstance(where, (bytearray, memoryview, Buffer)):
            try:
                return bytes(where)
            except ValueError:                             # a view that was released
                return GONE
        if isinstance(where, ContextVar):
            return guard_value(where.get(GONE))
        if isinstance(where, os._Environ):
            return tuple((k, where.get(k)) for k in sorted(self.keys)) if self.keys else tuple(where.items())
        for way in ("get", "detach"):                            # CuPy's arrays; PyTorch's that require gradients
            if hasattr(where, way) and (way == "detach" or hasattr(where, "__cuda_array_interface__")):
                where = getattr(where, way)()
        raw = as_numpy(where)
        held = raw.tobytes() if raw.dtype != object else tuple(map(guard_value, raw.ravel()))
        return raw.shape, raw.dtype, raw.flags.writeable, held

    def pinned(self, value: Any) -> tuple[Any, Any, Any]:
        """What the launcher compares (launcher_checks.h): the very objects in a list or dict, else it asks."""
        where = self.where
        if type(where) is list:
            return where, None, tuple(where)
        if type(where) is dict:
            return where, None, tuple(x for pair in where.items() for x in pair)
        return partial(self._holds, value), None, None

    def _holds(self, value: Any) -> bool:
        return bool(self.get() == value)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object itself; no code of its class runs."""
    try:
        return object.__getattribute__(value, "__dict__")       # type: ignore[no-any-return]
    except AttributeError:
        return {}


def on_class(cls: type, name: str) -> Any:
    """What a class or a base of it has under a name, as it stands there."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return GONE


def _alike(place: Any, old: Any, new: Any) -> bool:
    """Whether a trace cannot tell apart an old and a new object at a place. Two arrays are never alike here."""
    return bool(old == new if isinstance(place, Contents) else guard_value(old) == guard_value(new))


class OfThread(Place):
    """An attribute of a ``threading.local``: each thread has its own."""

    def get(self) -> Any:
        """The value now, in this thread."""
        return vars(self.where).get(self.name, GONE)

    def pinned(self, value: Any) -> tuple[Any, Any, Any]:
        """The launcher asks."""
        return partial(self._holds, value), None, None

    def _holds(self, value: Any) -> bool:
        return self.get() is value


class Guard:
    """The places that some traces read. fixed: numbers of those that hold arrays which are no inputs of the program, or
    whose numbers the code has read."""

    def __init__(self, places: Sequence[Any], fixed: frozenset[int] = frozenset()):
        self.places, self.fixed = tuple(places), fixed
        self.key = tuple(p.key for p in self.places), fixed
        self._ids: Any = None
        self._now: tuple[list[Any], Any] | None = None    # values, and the stamp that they have

    def stamp(self) -> Any:
        """A value that differs when a trace would."""
        now, values = self._now, [p.get() for p in self.places]
        known = now is not None and all(old is new or _alike(p, old, new)
                                        for p, old, new in zip(self.places, now[0], values))
        stamp = now[1] if now is not None and known else self.stamp_of(values)
        self._now = values, stamp
        return stamp

    def stamp_of(self, values: Sequence[Any]) -> Any:
        """The stamp for some values: for arrays shape, dtype, device and which are one and the same."""
        ids: dict[int, int] = {}
        out: list[Any] = [self]
        for i, (place, value) in enumerate(zip(self.places, values)):
            if isinstance(place, Contents):
                out.append(value)
            elif isinstance(value, NDArray) and value._ag is None and i not in self.fixed:
                out.append((ids.setdefault(id(value), i), value.shape, value._spec.dtype, type(value), value._ctx))
            else:
                out.append(guard_value(value))
        if tuple(ids) != self._ids:
            if self._ids is not None:
                REBINDS[0] += 1                            # programs keep addresses of arrays: these are others
            self._ids = tuple(ids)
        return tuple(out)

    def same(self) -> bool:
        """Whether every value is what it was when the stamp was asked for last."""
        now = self._now
        return now is not None and all(p.get() is v if isinstance(p, Place) else p.get() == v
                                       for p, v in zip(self.places, now[0]))

    def pinned(self) -> tuple[tuple[Any, Any, Any], ...]:
        """The places and their values when the stamp was asked for last, for the launcher: (where, name, value)."""
        values = self._now[0] if self._now else [p.get() for p in self.places]
        return tuple(p.pinned(v) for p, v in zip(self.places, values))


NOTHING = Guard(())
