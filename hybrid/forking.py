"""What a forked process may rely on: locks of this library are free in it."""
from __future__ import annotations

import os
import threading
from typing import Any, Callable

FORKED = [False]                       # whether this process was forked from one whose programs use OpenMP


def lock(again: bool = False) -> Any:
    """A lock, for short moments, that a fork waits for: a child never inherits it taken by a thread that is not there.

    again: whether the thread that holds it may take it once more.
    """
    made: Any = threading.RLock() if again else threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=made.acquire, after_in_parent=made.release, after_in_child=made.release)
    return made


def in_child(function: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
