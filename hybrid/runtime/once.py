"""Work whose result goes into the disk cache is done once: other threads, and other processes with the same cache,
that want the same wait until it is there.

They lock one file of the cache folder, each piece of work a byte of its own. A process keeps that file open as long as
it holds any byte of it: closing it lets go of all.
"""
from __future__ import annotations

import contextlib
import os
import time
from typing import Iterator

from ..base import forking, system
from . import cache

LONGEST_WAIT = 120.0                   # seconds for another process, which may have been stopped
RETRY = 0.02                           # seconds
_lock = forking.lock()
_files: dict[str, "_File"] = {}        # of folders: those in which something is done


class _File:
    """The file of a folder, and what threads of this process do there or wait for."""

    def __init__(self, path: str):
        self.users = 0
        self.threads: dict[int, forking.LongLock] = {}       # by bytes
        self.file: int | None = None                         # where it cannot be opened no other process waits
        with contextlib.suppress(OSError):
            self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def take(self, byte: int, patience: float) -> bool:
        """Lock a byte against other processes; this one's children do not inherit the lock. False if another process
        has it still after ``patience`` seconds."""
        end = time.monotonic() + patience
        with contextlib.suppress(OSError):
            while self.file is not None and not system.take_lock(self.file, byte):
                if time.monotonic() >= end:
                    return False
                time.sleep(RETRY)
        return True

    def give(self, byte: int) -> None:
        """Let go of a byte."""
        if self.file is not None:
            with contextlib.suppress(OSError):
                system.give_lock(self.file, byte)

    def close(self) -> None:
        """Let go of all. A forked process may still be within a scope: the number is another file's then."""
        file, self.file = self.file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)


@contextlib.contextmanager
def once(what: str | None, patience: float | None = None) -> Iterator[bool]:
    """Scope in which no other thread or process does the same work: one looks first for what another has made
    meanwhile. Where files have no locks, other processes do not wait. what: the name of the work; None where nobody
    shares its result. Yields False if another process still does the work after ``patience`` seconds (by default
    ``LONGEST_WAIT``); other threads of this process are waited for without limit."""
    if what is None:
        yield True
        return
    where, byte = str(cache.folder() / ".lock"), int(cache.digest(what)[:15], 16)
    with _lock:
        found = _files.get(where) or _files.setdefault(where, _File(where))
        thread = found.threads.setdefault(byte, forking.LongLock())
        found.users += 1
    try:
        with thread:
            taken = found.take(byte, LONGEST_WAIT if patience is None else patience)
            try:
                yield taken
            finally:
                if taken:
                    found.give(byte)
    finally:
        with _lock:
            found.users -= 1
            if not found.users:                              # only now: it lets go of every byte
                found.close()
                if _files.get(where) is found:               # a forked process has begun anew
                    del _files[where]


def _in_child() -> None:
    """The locks are the parent's."""
    for found in _files.values():
        found.close()
    _files.clear()


forking.in_child(_in_child)
