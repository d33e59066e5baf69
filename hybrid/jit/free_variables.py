"""Variables outside of a function that it reads: globals and variables of enclosing functions. They may get other
values.

Python code in a trace reads them once. A number, a list, an object, another array there later would not be seen, so
their values are compared at every call (those of functions that name none cost nothing). An array is an input of the
program, looked up when the program is called; what is not an array is part of the signature. Functions that are called
from there are looked through too.
"""
from __future__ import annotations

import builtins
import dis
import functools
import sys
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, Iterator

from ..buffers.array import REBINDS, NDArray
from .fingerprint import can_change_inside, codes_of, fingerprint

_SILENT = (ModuleType, type, BuiltinFunctionType)
_OWN = ("hybrid",)


class Place:
    """A global variable of a module, or a variable of an enclosing function."""
    __slots__ = ("where", "name", "names")

    def __init__(self, where: Any, name: str, names: frozenset[str]):
        self.where, self.name = where, name
        # what the code that reads it mentions: attributes of it that count
        self.names = names

    def get(self) -> Any:
        """The value now; None when the variable is gone."""
        if isinstance(self.where, CellType):
            try:
                return self.where.cell_contents
            except ValueError:                            # not assigned yet
                return None
        return self.where.get(self.name)

    def data(self, ctx: Any) -> Any:
        """The array now (a compiled program asks for it, as it asks a Parameter)."""
        return self.get()

    def stamp(self) -> Any:
        """A value that differs when the variable has another value."""
        value = self.get()
        return id(value) if isinstance(value, (NDArray, *_SILENT,
                                               FunctionType)) or hasattr(value,
                "_signature_version") else fingerprint(value, self.names)


def _interactive() -> bool:
    return hasattr(sys, "ps1") or "IPython" in sys.modules


def places_of(functions: Any) -> list[Place]:
    """The variables that functions read from outside, also by way of functions of the user's that they call."""
    found: dict[Any, Place] = {}
    seen: set[int] = set()
    todo = list(functions)
    while todo:
        fn = _plain(todo.pop())
        if fn is None or id(fn) in seen or (fn.__module__ or "").split(".")[0] in _OWN:
            continue
        seen.add(id(fn))
        for place in _named(fn):
            value = place.get()
            if isinstance(value, FunctionType) or callable(value) and hasattr(value, "__wrapped__"):
                todo.append(value)
                if not isinstance(value, FunctionType):
                    continue                               # another hybridized function: inlined, and looked through
            if isinstance(value, _SILENT) or isinstance(value, FunctionType) and not _interactive():
                # modules, classes, and outside of notebooks functions, are not defined twice
                continue
            key = id(place.where), place.name
            if key in found:
                place.names |= found[key].names
            found[key] = place
    return list(found.values())


def _plain(fn: Any) -> FunctionType | None:
    while not isinstance(fn, FunctionType):
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif hasattr(fn, "__func__"):
            fn = fn.__func__
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        else:
            return None
    return fn


@functools.lru_cache(4096)
def _read_globals(code: CodeType) -> frozenset[str]:
    """Names that some code reads as globals; attributes may have the same ones."""
    return frozenset(i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


def _named(fn: FunctionType) -> Iterator[Place]:
    codes = codes_of(fn)
    mentioned = frozenset(name for code in codes for name in code.co_names)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        if name != "__class__":
            yield Place(cell, name, mentioned)
    space = fn.__globals__
    for name in frozenset().union(*map(_read_globals, codes)):
        if name in space and not (name in vars(builtins) and space[name] is vars(builtins)[name]):
            yield Place(space, name, mentioned)


class Surroundings:
    """The outside variables of one hybridized function (or, fn None, those that a Block says)."""

    def __init__(self, fn: Any):
        self._fn = fn
        self.places: list[Place] = []
        self._ids: Any = None
        self._values: list[tuple[Any, Any]] = []
        self._stamp: Any = None                          # as long as ``same``, where identities tell all

    def refresh(self) -> None:
        """Look for the variables again: called before a trace, when all that it reads is there."""
        if self._fn is not None:
            self.places = places_of([self._fn])

    def watch(self) -> bool:
        """Note the values for ``same``. Whether comparing identities is enough: none of them can change inside, none is
        an array."""
        self._stamp = None
        self._values = [(p.get, p.get()) for p in self.places]
        return not any(isinstance(v, NDArray) or can_change_inside(v) for _, v in self._values)

    def same(self) -> bool:
        """Whether every variable has the value it had at ``watch``."""
        for get, value in self._values:
            if get() is not value:
                return False
        return True

    def pinned(self) -> tuple[tuple[Any, str, Any], ...]:
        """The variables and their values at ``watch``, for the launcher: (cell or dict, name, value)."""
        return tuple((p.where, p.name, value) for p, (_, value) in zip(self.places, self._values))

    def arrays(self) -> dict[int, Place]:
        """Variables that hold arrays, by the id of the array. One that collects a gradient stands for itself."""
        found: dict[int, Place] = {}
        for p in self.places:
            value = p.get()
            if isinstance(value, NDArray) and value._ag is None:
                found.setdefault(id(value), p)
        return found

    def stamp(self) -> Any:
        """A value that differs when a trace would: for arrays shape, dtype, device and which are one and the same."""
        if self._stamp is not None and self.same():
            return self._stamp
        steady = self.watch()
        stamp = self._stamped()
        self._stamp = stamp if steady else None
        return stamp

    def _stamped(self) -> Any:
        ids: dict[int, int] = {}
        out = []
        for i, p in enumerate(self.places):
            value = p.get()
            if isinstance(value, NDArray) and value._ag is None:
                out.append((ids.setdefault(id(value), i), value.shape, value._spec.dtype, type(value), value._ctx))
            else:
                out.append(p.stamp())
        now = tuple(ids)
        if now != self._ids:
            self._ids = now
            REBINDS[0] += 1                                # programs keep addresses of arrays: these are others
        return tuple(out)
