"""How state that attributes and items do not hold is put back, where traced code that changed it runs again: streams,
buffers, context variables, the environment, settings of Python and NumPy."""
from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from contextvars import ContextVar
from typing import Any, Callable

import numpy as np

Undo = Callable[[], Any]


def undoing(where: Any) -> Undo | None:
    """What puts an object's present state back later; None where nothing can."""
    for kind, keep in _KEEPERS:
        if isinstance(where, kind):
            return keep(where)
    if where is warnings:
        return _filters(list(warnings.filters))
    if callable(where):
        return _setting(where)
    try:
        return _memory(where)
    except (TypeError, ValueError, BufferError):
        return None


def _variable(where: ContextVar[Any]) -> Undo | None:
    missing = object()
    old = where.get(missing)
    return None if old is missing else lambda: where.set(old)


def _environment(where: Any) -> Undo:
    old = dict(where)

    def undo() -> None:
        for name in [*where]:
            if name not in old:
                del where[name]
        where.update({k: v for k, v in old.items() if where.get(k) != v})
    return undo


def _stream(where: Any) -> Undo | None:
    if where.closed:
        return None
    text, at = where.getvalue(), where.tell()

    def undo() -> None:
        where.seek(0)
        where.truncate()
        where.write(text)
        where.seek(at)
    return undo


def _logger(where: logging.Logger) -> Undo:
    level, disabled = where.level, where.disabled

    def undo() -> None:
        where.setLevel(level)
        where.disabled = disabled
    return undo


def _filters(old: list[Any]) -> Undo:
    def undo() -> None:
        warnings.filters[:] = old                                # type: ignore[index]
        with warnings.catch_warnings():                          # which has Python look at them again
            pass
    return undo


def _setting(where: Any) -> Undo | None:
    """For a getter such as sys.getrecursionlimit: what sets its present value again."""
    module, name = getattr(where, "__module__", None), getattr(where, "__name__", "")
    if module == "sys" and name in ("getrecursionlimit", "getswitchinterval"):
        old, put = where(), getattr(sys, f"s{name[1:]}")
        return lambda: put(old)
    if name == "get_printoptions":
        options = where()
        return lambda: np.set_printoptions(**options)
    if name == "geterr":
        errors = where()
        return lambda: np.seterr(**errors)
    if module == "decimal" and name == "getcontext":
        context = where().copy()
        return lambda: sys.modules["decimal"].setcontext(context)
    return None


def _memory(where: Any) -> Undo | None:
    """A buffer that can be written to."""
    with memoryview(where) as view:
        if view.readonly or not view.c_contiguous:
            return None
        old = view.tobytes()

    def undo() -> None:
        np.frombuffer(where, np.uint8)[:] = np.frombuffer(old, np.uint8)
    return undo


_KEEPERS: tuple[tuple[Any, Callable[[Any], Undo | None]], ...] = (
    (ContextVar, _variable), (os._Environ, _environment), ((io.StringIO, io.BytesIO), _stream),
    (logging.Logger, _logger))
