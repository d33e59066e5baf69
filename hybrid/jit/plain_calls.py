"""Calls that run as plain Python though they are hybridized, and why: what traced code did, no program can do again."""
from __future__ import annotations

from typing import Any

from ..base.errors import TraceError, warn_user
from .compile_policy import REMEMBERED

# calls after which a function that assigns other than arrays at each of them runs as plain Python
TRIES = 3


class PlainOnly(TraceError):
    """Traced code did what is not the same with traced values: it runs again, as plain Python."""


class PlainAlways(PlainOnly):
    """The same, for every call: nothing is kept of this one."""


class PlainOnce(PlainOnly):
    """The same, for one call: the code raised an error when it had changed arrays."""


class PlainCalls:
    """Which calls of one function run as plain Python. always: all of them."""

    def __init__(self) -> None:
        self.always = False
        self._changing: dict[Any, int] = {}              # how often a kind of call has assigned what no program can

    def holds(self, kind: Any) -> bool:
        """Whether calls of a kind do."""
        return self.always or bool(self._changing) and self._changing.get(kind, 0) >= TRIES

    def from_now(self, kind: Any) -> None:
        """Have calls of a kind run as plain Python."""
        self._changing[kind] = TRIES

    def once_more(self, kind: Any, what: str) -> None:
        """Note that a program was made that is right for one call. what: the code did, in words."""
        if len(self._changing) >= REMEMBERED:
            self._changing.clear()
        self._changing[kind] = self._changing.get(kind, 0) + 1
        if self._changing[kind] == TRIES:
            warn_user(f"{what} at every call, and no program can do that. Such calls run as plain Python from "
                      f"here on. Keep what changes in an array of one size "
                      "(self.count = nd.zeros(1); self.count += 1), or change it outside of the compiled code.")

    def forget(self) -> None:
        """Forget kinds of calls."""
        self._changing = {}
