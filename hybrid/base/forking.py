"""What a forked process may rely on: locks of this library are free in it."""
from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable

# held while modules load later than hybrid itself: a child would wait for ever for one that no thread loads on
IMPORTS = threading.RLock()
_locks: list[Any] = []
_forks = threading.local()             # taken: by this thread's fork under way
# seconds that a fork waits for modules: what loads them may wait for a lock that another hook of the fork holds
MOST = 5.0


def lock(again: bool = False) -> Any:
    """A lock, for short moments, that a fork waits for: a child never inherits it taken by a thread that is not there.

    again: whether the thread that holds it may take it once more.
    """
    made: Any = threading.RLock() if again else threading.Lock()
    _locks.append(made)
    return made


def _take() -> None:
    taken = _forks.taken = []
    # first: a module that is loading may take any of the others
    if IMPORTS.acquire(timeout=MOST):
        taken.append(IMPORTS)
    for each in reversed(_locks):
        each.acquire()
        taken.append(each)


def _give() -> None:
    while _forks.taken:
        _forks.taken.pop().release()


def _give_in_child() -> None:
    global IMPORTS
    if IMPORTS not in _forks.taken:                          # its thread is not there
        IMPORTS = threading.RLock()
    _give()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give, after_in_child=_give_in_child)


class LongLock:
    """A lock that may be held for long, as while a program is compiled. A fork does not wait for it: in the child it is
    free unless the thread that forked holds it, for no other thread is there. The thread that holds it may take it
    again.
    """

    def __init__(self) -> None:
        self._made: Any = threading.RLock()
        _long.add(self)

    def __enter__(self) -> None:
        self._made.acquire()

    def __exit__(self, *_: Any) -> None:
        self._made.release()

    def locked(self) -> bool:
        """Whether another thread holds it."""
        free = self._made.acquire(blocking=False)
        if free:
            self._made.release()
        return not free


_long: "weakref.WeakSet[LongLock]" = weakref.WeakSet()


def _free() -> None:
    for held in _long:
        if not held._made._is_owned():
            held._made = threading.RLock()


def in_child(function: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


in_child(_free)
