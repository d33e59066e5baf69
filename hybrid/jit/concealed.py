"""Traced values where the library cannot put a call's results in their place: variables of functions, generators,
formatted text."""
from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from types import AsyncGeneratorType, CellType, CoroutineType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..base.names import module_of
from ..buffers.array import NDArray
from ..base import pytree
from ..base.errors import TraceError
from .free_variables import GONE, Place, attributes
from ..graph.symbol import Symbol

_PLAIN = (int, float, complex, bytes, type(None), np.generic, np.dtype, NDArray, type, ModuleType)
_RUNNING = (GeneratorType, CoroutineType, AsyncGeneratorType)


def parts_of(value: Any) -> list[Any]:
    """What a container or object holds."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return list(value)
    if isinstance(value, np.ndarray):
        return list(value.flat) if value.dtype == object else []
    if isinstance(value, (type, ModuleType)) or module_of(type(value)).split(".")[0] == "hybrid":
        return []
    # a function's module is not its own
    slots = [Place(value, v).get() for b in type(value).__mro__ for k, v in vars(b).items()
             if type(v).__name__ == "member_descriptor" and k not in ("__globals__", "__builtins__")]
    return [*attributes(value).values(), *(v for v in slots if v is not GONE)]


def _hidden_in(value: Any) -> list[Any]:
    """What a function, generator or iterator will use when it runs."""
    if isinstance(value, CellType):
        return [Place(value, "").get()]
    if isinstance(value, FunctionType):
        return [*(value.__closure__ or ()), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, BaseException):
        return [*value.args, *attributes(value).values()]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, _RUNNING):
        frame = getattr(value, "gi_frame", None) or getattr(value, "cr_frame", None) or getattr(value, "ag_frame", None)
        return list(frame.f_locals.values()) if frame is not None else []
    if isinstance(value, Iterator) and not attributes(value):
        try:
            parts = value.__reduce__()                       # what map, zip and the iterators of containers are made of
        except Exception:  # noqa: BLE001  what another class's methods raise
            return []
        return list(parts[1]) if isinstance(parts, tuple) and len(parts) > 1 and isinstance(parts[1], tuple) else []
    return []


def concealed(value: Any, texts: Any = (), bare: bool = True) -> str | None:
    """What holds a traced value where no result can be put, in words, or None. texts: formatted traced values; bare:
    whether objects count too."""
    todo: list[tuple[Any, str | None]] = [(value, None)]
    seen: dict[int, Any] = {}
    while todo:
        v, inside = todo.pop()
        if isinstance(v, Symbol) and inside is not None:
            return inside
        if isinstance(v, str):
            if any(t in v for t in texts):
                return "a text that was made of a traced value"
            continue
        if isinstance(v, (*_PLAIN, Symbol)) or id(v) in seen:
            continue
        seen[id(v)] = v
        hidden = _hidden_in(v)
        if hidden:
            todo += [(h, inside or f"a {type(v).__name__}") for h in hidden]
        else:
            plain = isinstance(v, (dict, list, tuple)) or pytree.opens(v)
            todo += [(h, inside if plain or not bare else inside or f"an object of class {type(v).__name__}")
                     for h in parts_of(v)]
    return None


def refuse_concealed(value: Any, what: str, line: str, texts: Any = (), bare: bool = False) -> None:
    """TraceError where a value holds traced values that the library cannot find again."""
    found = concealed(value, texts, bare)
    if found is not None:
        raise TraceError(f"{line}: {what} {found}, with values in it that are known only when the compiled program "
                         f"runs, and the next calls could not renew it. "
                         "Use arrays, or lists, tuples and dicts of them, or call this block or function without "
                         "hybridize.")


def holds_traced(value: Any, kind: Any = Symbol, hidden: bool = False) -> bool:
    """Whether a container or object holds a traced value (or one of other classes), however deep. hidden: also in what
    functions, iterators, partials and errors will use."""
    todo, seen = [value], {}
    while todo:
        v = todo.pop()
        if isinstance(v, kind):
            return True
        if not isinstance(v, (*_PLAIN, str)) and id(v) not in seen:
            seen[id(v)] = v
            todo += [*parts_of(v), *(_hidden_in(v) if hidden else ())]
    return False
