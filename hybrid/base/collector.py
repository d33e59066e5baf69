"""Python's collector of cyclic garbage, kept waiting while many objects are made that all stay: a trace, a plan,
printed text."""
from __future__ import annotations

import functools
import gc
from typing import Callable, ParamSpec, TypeVar

from . import forking

_P = ParamSpec("_P")
_R = TypeVar("_R")
_lock = forking.lock()
_waiting = [0, False]                    # how many functions it waits for, and whether it ran before the first


def waits(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, during which no cyclic garbage is looked for: as many objects are made as by a few thousand
    operators, hardly any become garbage, and looking at all of them again and again took a sixth of the time. What
    garbage there is (in other threads too) goes right afterwards.
    """
    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        _begin()
        try:
            return function(*args, **kwargs)
        finally:
            _end()
    return call


def _begin() -> None:
    with _lock:
        if not _waiting[0]:
            _waiting[1] = gc.isenabled()
            gc.disable()
        _waiting[0] += 1


def _end() -> None:
    with _lock:
        if _waiting[0] == 1 and _waiting[1]:
            gc.enable()
        _waiting[0] = max(_waiting[0] - 1, 0)


def goes_on() -> None:
    """Have it run again, if it waits and ran before, for the code that is being traced can ask whether it does."""
    with _lock:
        if _waiting[0] and _waiting[1]:
            gc.enable()
            _waiting[1] = False                                  # whatever that code does to it stays


def _forget() -> None:
    """In a forked process the others' functions do not go on."""
    if _waiting[0] and _waiting[1]:
        gc.enable()
    _waiting[0] = 0


forking.in_child(_forget)
