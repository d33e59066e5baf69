"""What a trace depends on besides assignments: the contents of lists, dicts and plain objects.

An assignment ``net.alpha = 2`` is seen by ``Block.__setattr__``. A change inside (``net.scales[0] = 2``,
``net.config.alpha = 2``) is not, so attributes that can change inside are compared by content at every call of a
hybridized block. Only those count that a method of the class names; blocks without such attributes pay nothing.
"""
from __future__ import annotations

import functools
import re
import sys
import weakref
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..base.names import module_of
from ..buffers.array import NDArray
from ..base.device import Context
from ..graph.symbol import Symbol
from ..buffers.writes import CLOCK, since

# elements; what comes after them counts by identity and length, or a call would cost milliseconds
LIMIT = 10_000
_WORDS = re.compile(r"\w+")
_SIMPLE = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype)
_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None)})
_FIXED = (*_SIMPLE, type, Context, NDArray, Symbol, FunctionType, BuiltinFunctionType, MethodType, ModuleType,
          frozenset)


def can_change_inside(value: Any) -> bool:
    """Whether a value may get other contents without a new assignment (blocks and parameters note their changes
    themselves)."""
    if isinstance(value, tuple):
        return any(can_change_inside(v) for v in value)
    return not isinstance(value, _FIXED) and not hasattr(type(value),
                                                         "_signature_version") and not _notes_changes(value)


def _notes_changes(value: Any) -> bool:
    """Trainers, metrics, …: objects of this library's classes note changes in ways of their own."""
    return module_of(type(value)).split(".")[0] == "hybrid" and not isinstance(value,
            (dict, list, tuple, set, np.ndarray)) and not hasattr(value, "stamp")


@functools.cache
def named_in_methods(cls: type) -> frozenset[str] | None:
    """Names that the methods of a class (but ``__init__``) mention; None when they can read any attribute, as by
    ``getattr``."""
    names: set[str] = set()
    for base in cls.__mro__:
        if module_of(base).split(".")[0] in ("hybrid", "builtins"):
            continue
        for key, member in vars(base).items():
            if key != "__init__":
                for code in codes_of(member):
                    names.update(code.co_names)
    return None if names & {"getattr", "vars", "__dict__"} else frozenset(names)


def codes_of(member: Any) -> list[CodeType]:
    """The code objects of a method or property, nested functions included."""
    if isinstance(member, property):
        return [c for f in (member.fget, member.fset) for c in codes_of(f)]
    todo = [getattr(getattr(member, "__func__", member), "__code__", None)]
    found: list[CodeType] = []
    while todo:
        code = todo.pop()
        if isinstance(code, CodeType):
            found.append(code)
            todo += code.co_consts
    return found


@functools.lru_cache(4096)
def words_of(code: CodeType) -> frozenset[str]:
    """The names in some code, and the words in its string constants, as code may build names from them."""
    found, todo = set(code.co_names), list(code.co_consts)
    while todo:
        const = todo.pop()
        if isinstance(const, str):
            found.update(_WORDS.findall(const))
        elif isinstance(const, (tuple, frozenset)):
            todo += const
    return frozenset(found)


def fingerprint(value: Any, names: frozenset[str] | None = None) -> Any:
    """A hashable value that differs when the contents do. names: attributes of objects that count (None: all)."""
    return _Walk(names).walk(value)


class Watched:
    """A value with the names of attributes that count in the objects in it."""
    __slots__ = ("value", "names")

    def __init__(self, value: Any, names: frozenset[str] | None):
        self.value, self.names = value, names

    def stamp(self) -> Any:
        """See fingerprint."""
        return fingerprint(self.value, self.names)


@functools.cache
def _is_users(cls: type) -> bool:
    """Whether a class is neither Python's nor a package's, so that its methods tell which attributes are read."""
    module = module_of(cls).split(".")[0]
    file = getattr(sys.modules.get(module_of(cls)), "__file__", None) or ""
    return (module not in sys.stdlib_module_names and module != "hybrid" and "site-packages" not in file
            or module == "__main__")


@functools.cache
def _kind(cls: type) -> str:
    """How the contents of a class's values are told."""
    if issubclass(cls, _SIMPLE):
        return "simple"
    if issubclass(cls, _FIXED):
        return "fixed"
    if hasattr(cls, "stamp"):                                # a variable outside of the function, see free_variables.py
        return "stamp"
    for kind, some in (("dict", dict), ("row", (list, tuple)), ("set", set), ("array", np.ndarray)):
        if issubclass(cls, some):                            # type: ignore[arg-type]
            return kind
    return "block" if hasattr(cls, "_signature_version") else "object"


class _Walk:
    def __init__(self, names: frozenset[str] | None):
        self.names, self.seen, self.left = names, {}, LIMIT
    seen: dict[int, int]

    def _attributes(self, value: Any) -> Any:
        """The attributes of an object that count."""
        cls = type(value)
        if _notes_changes(value):
            return None
        own: Any = named_in_methods(cls) if _is_users(cls) else frozenset()          # type: ignore[arg-type]
        if self.names is None or own is None:
            return vars(value)
        return {k: v for k, v in vars(value).items() if k in self.names or k in own}

    def walk(self, value: Any) -> Any:
        """The fingerprint of one value."""
        cls = type(value)
        kind = _kind(cls)                                     # type: ignore[arg-type]
        self.left -= 1
        if kind == "simple":
            return cls, value
        if kind == "fixed":
            return id(value)
        if kind == "stamp":
            return value.stamp()
        if id(value) in self.seen:
            return "again", self.seen[id(value)]
        self.seen[id(value)] = len(self.seen)
        if self.left < 0:
            return id(value), len(value) if hasattr(value, "__len__") else 0
        if kind in ("row", "dict"):
            parts = tuple(value) if kind == "row" else (*value, *value.values())
            types = tuple(map(type, parts))
            if _PLAIN.issuperset(types):                      # most are: sizes, names
                self.left -= len(parts)
                return cls, types, parts
            return cls, tuple(map(self.walk, parts))
        if kind == "set":
            return "set", frozenset(map(self.walk, value))
        if kind == "array":
            return value.shape, value.dtype.str, value.tobytes()
        if kind == "block":
            return id(value), value._signature_version(), self.walk(getattr(value, "_watched", lambda: ())())
        return id(value), self.walk(self._attributes(value)) if hasattr(value, "__dict__") else None


class SeenArray:
    """An array whose numbers traced code has read, so that they are part of the program; it stands among the Blocks
    that a trace depends on."""

    def __init__(self, x: NDArray):
        self._x, self._changes = x, 0
        self._look()

    def _look(self) -> None:
        self._raw, self._when = self._x._data, CLOCK[0]

    def _trace_version(self) -> int:
        """How often the numbers have been found changed."""
        if self._x._data is not self._raw or since(self._raw, self._when):
            self._changes += 1
            self._look()
        return self._changes

    def _counters(self) -> None:
        """No number grows whenever they change."""

    def _tree_ids(self, into: set[int]) -> None:
        into.add(id(self))


_SEEN: "weakref.WeakValueDictionary[int, SeenArray]" = weakref.WeakValueDictionary()


def seen_array(x: NDArray) -> SeenArray:
    """The one that stands for an array."""
    found = _SEEN.get(id(x))
    if found is None:
        found = _SEEN[id(x)] = SeenArray(x)
    return found
