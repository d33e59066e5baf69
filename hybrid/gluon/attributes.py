"""What a trace depends on besides assignments: the contents of lists, dicts and plain objects in a block's attributes.

An assignment ``net.alpha = 2`` is seen by ``Block.__setattr__``. A change inside (``net.scales[0] = 2``, ``net.config.alpha = 2``)
is not, so attributes that can change inside are compared by content at every call of a hybridized block. Only those count
that a method of the class names; blocks without such attributes pay nothing.
"""
from __future__ import annotations

import functools
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..array import NDArray
from ..device import Context
from ..symbol import Symbol

LIMIT = 10_000                       # elements; what comes after them counts by identity and length, or a call would cost milliseconds
_SIMPLE = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype)
_FIXED = (*_SIMPLE, type, Context, NDArray, Symbol, FunctionType, BuiltinFunctionType, MethodType, ModuleType, frozenset)


def can_change_inside(value: Any) -> bool:
    """Whether a value may get other contents without a new assignment (blocks and parameters note their changes themselves)."""
    if isinstance(value, tuple):
        return any(can_change_inside(v) for v in value)
    return not isinstance(value, _FIXED) and not hasattr(value, "_signature_version")


@functools.cache
def named_in_methods(cls: type) -> frozenset[str] | None:
    """Names that the methods of a class (but ``__init__``) mention; None when they can read any attribute, as by ``getattr``."""
    names: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.split(".")[0] in ("hybrid", "builtins"):
            continue
        for key, member in vars(base).items():
            if key != "__init__":
                for code in _codes(member):
                    names.update(code.co_names)
    return None if names & {"getattr", "vars", "__dict__"} else frozenset(names)


def _codes(member: Any) -> list[CodeType]:
    """The code objects of a method or property, nested functions included."""
    if isinstance(member, property):
        return [c for f in (member.fget, member.fset) for c in _codes(f)]
    todo = [getattr(getattr(member, "__func__", member), "__code__", None)]
    found: list[CodeType] = []
    while todo:
        code = todo.pop()
        if isinstance(code, CodeType):
            found.append(code)
            todo += code.co_consts
    return found


def fingerprint(value: Any) -> Any:
    """A hashable value that differs when the contents do."""
    return _walk(value, {}, [LIMIT])


def _walk(value: Any, seen: dict[int, int], left: list[int]) -> Any:
    left[0] -= 1
    if isinstance(value, _SIMPLE):
        return type(value), value
    if isinstance(value, _FIXED):
        return id(value)
    if id(value) in seen:
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    if left[0] < 0:
        return id(value), len(value) if hasattr(value, "__len__") else 0
    if isinstance(value, dict):
        return "dict", tuple((_walk(k, seen, left), _walk(v, seen, left)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_walk(v, seen, left) for v in value)
    if isinstance(value, set):
        return "set", frozenset(_walk(v, seen, left) for v in value)
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if hasattr(value, "_signature_version"):
        return id(value), value._signature_version(), _walk(getattr(value, "_watched", lambda: ())(), seen, left)
    return id(value), _walk(vars(value), seen, left) if hasattr(value, "__dict__") else None
