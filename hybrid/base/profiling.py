"""Python's profile hook, lent to this library while it traces."""
from __future__ import annotations

import functools
import sys
from types import CodeType, FrameType
from typing import Any, Callable, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
Hook = Callable[[FrameType, str, Any], None]

# modules of this library that read files for the code that calls them
LOADERS = ("hybrid.serialize", "hybrid.image", "hybrid.io", "hybrid.recordio")
_OWN = __name__.split(".", maxsplit=1)[0] + "."
_silent: dict[int, CodeType] = {}      # code of this library, of which hooks hear nothing


class Hooked:
    """While it is installed, ``hook(frame, event, arg)`` is called with what starts and ends, but for what happens
    within this library (LOADERS aside). A hook that was there before is called as well; a profiler written in C
    (cProfile), which cannot be called, pauses.
    """

    def __init__(self, hook: Hook):
        self._own = hook
        self._before: Any = None
        self._installed = False

    def install(self) -> None:
        """Begin to listen."""
        before: Any = sys.getprofile()
        self._before, self._installed = before, True
        if before is not None and not callable(before):
            before.disable()
            before = None
        inner = getattr(before, "inner", None)
        if inner is not None:                              # another of this library: its code is left out once
            sys.setprofile(_without_this_library(_both(inner, self._own)))
        elif before is not None:
            sys.setprofile(_both(before, _without_this_library(self._own)))
        else:
            sys.setprofile(_without_this_library(self._own))

    def remove(self) -> None:
        """Put back what was there; once."""
        if not self._installed:
            return
        before, self._before, self._installed = self._before, None, False
        if before is not None and not callable(before):
            sys.setprofile(None)
            before.enable()
        else:
            sys.setprofile(before)


def _both(first: Hook, second: Hook) -> Hook:
    def hook(frame: FrameType, event: str, arg: Any) -> None:
        first(frame, event, arg)
        second(frame, event, arg)
    return hook


def _without_this_library(inner: Hook) -> Hook:
    """A hook that hears of other code alone. Nearly all that happens while a model is traced happens in this library:
    what is asked first is asked a hundred thousand times."""
    silent = _silent

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        if id(frame.f_code) in silent:
            return
        module = frame.f_globals.get("__name__") or ""
        if module.startswith(_OWN) and not module.startswith(LOADERS):
            silent[id(frame.f_code)] = frame.f_code
        else:
            inner(frame, event, arg)
    hook.inner = inner                                     # type: ignore[attr-defined]
    return hook


def unheard(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorator for functions of this library that never call user code: this library's profile hook is removed while
    they run, since Python would call it at every function entry and exit."""
    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        hook = sys.getprofile()
        if getattr(hook, "inner", None) is None:
            return function(*args, **kwargs)
        sys.setprofile(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setprofile(hook)
    return call
