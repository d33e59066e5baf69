"""Python's profile hook, lent to this library while it traces."""
from __future__ import annotations

import sys
from typing import Any, Callable


class Hooked:
    """While it is installed, ``hook(frame, event, arg)`` is called with everything that starts and ends. A hook that
    was there before is called as well; a profiler written in C (cProfile), which cannot be called, pauses.
    """

    def __init__(self, hook: Callable[..., None]):
        self._own = hook
        self._before: Any = None
        self._installed = False

    def install(self) -> None:
        """Begin to listen."""
        before: Any = sys.getprofile()
        self._before, self._installed = before, True
        if before is not None and not callable(before):
            before.disable()
        sys.setprofile(_both(before, self._own) if callable(before) else self._own)

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


def _both(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    def hook(frame: Any, event: str, arg: Any) -> None:
        first(frame, event, arg)
        second(frame, event, arg)
    return hook
