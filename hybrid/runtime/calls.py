"""The calls that do without compiled programs, and the processes that compile meanwhile."""
from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Callable, Iterator

from ..base import forking
from . import blas

if TYPE_CHECKING:
    from .job import Job

LONGEST_CALL = 5.0                     # seconds after a repeated call for which programs are thought to follow it
_lock = forking.lock()


class Calls:
    """The calls that do without compiled programs."""

    def __init__(self) -> None:
        self.running = 0               # now, in all threads
        self.ended, self.again = 0.0, -LONGEST_CALL    # when the last one did; when one began that repeats another
        self.compilers = 0             # processes that compile now
        self._cores_left_free = 0      # that the calls which run now leave to these
        self.listeners: list[Callable[[int], None]] = []         # functions called with ``compilers`` when it changes
        self.forks = 0                 # processes between the first one and this one

    @contextlib.contextmanager
    def running_call(self) -> Iterator[None]:
        """While it lasts, a call runs that may get a program, so compilers do not count this time as idle."""
        try:
            with self._counted(running=1):
                yield
        finally:
            self.ended = time.monotonic()

    @contextlib.contextmanager
    def without_program(self, job: "Job") -> Iterator[None]:
        """Scope of a call that does without a program."""
        job.count()
        begin = time.monotonic()
        with _lock:
            job.running += 1
        self.again = begin if job.calls > 1 else self.again
        try:
            with self.running_call():
                yield
        finally:
            with _lock:
                job.running -= 1
                job.seconds += time.monotonic() - begin

    def compiling(self) -> contextlib.AbstractContextManager[None]:
        """Scope in which a process compiles."""
        return self._counted(compilers=1)

    @contextlib.contextmanager
    def _counted(self, running: int = 0, compilers: int = 0) -> Iterator[None]:
        """Scope in which so many more calls and processes are counted. A process that is forked within it counts from
        0, so the end of the scope there takes nothing away."""
        self._changed(running, compilers)
        forks = self.forks
        try:
            yield
        finally:
            if forks == self.forks:
                self._changed(-running, -compilers)

    def follow(self, tell: Callable[[int], None]) -> None:
        """Have a function called with the number of processes that compile, now and when it changes."""
        with _lock:
            self.listeners.append(tell)
            tell(self.compilers)

    def _changed(self, running: int = 0, compilers: int = 0) -> None:
        """Count calls and processes, and have calls, also those that run already, leave a core to each process. A call
        keeps it free until it ends: when the process is done, the C compiler for the launcher (kernels/c) starts."""
        with _lock:
            self.running += running
            self.compilers += compilers
            self._cores_left_free = max(self._cores_left_free, self.compilers) if self.running else 0
            blas.leave(self._cores_left_free)
            for tell in self.listeners if compilers else ():
                tell(self.compilers)

    def in_child(self) -> None:
        """In a forked process: no other thread calls anything, and no process compiles for it."""
        with _lock:
            self.running = self.compilers = self._cores_left_free = 0
            self.forks += 1
            blas.leave(0)
            for tell in self.listeners:
                tell(0)


CALLS = Calls()
forking.in_child(CALLS.in_child)
