"""How long threads keep Python's global lock while others wait for it."""
from __future__ import annotations

import _thread
import contextlib
import sys
from typing import Callable, Iterator

from ..base import forking


class _SwitchInterval:
    """Python's switch interval: how long a thread keeps the GIL that another one waits for. It is shortened while a
    background thread does short work that others wait for: each system call gives the GIL up, and it must get it back.
    """

    SHORT = 5e-5                       # seconds

    def __init__(self) -> None:
        self._users, self._before, self._lock = 0, 0.0, forking.lock()

    def begin(self) -> None:
        """Have it short, until as many calls of ``end``."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, self.SHORT))

    def end(self) -> None:
        """Take one call of ``begin`` back, which another thread may have made."""
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._before)

    def start_thread(self, function: Callable[[], object]) -> None:
        """Start a thread; the interval is short until it runs. ``threading.Thread.start`` would wait until then:
        0.1 ms. RuntimeError where the system has no thread for it."""
        def run() -> None:
            self.end()
            function()
        self.begin()
        try:
            _thread.start_new_thread(run, ())
        except RuntimeError:
            self.end()
            raise

    @contextlib.contextmanager
    def shortened(self) -> Iterator[None]:
        """Scope in which it is short."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def in_child(self) -> None:
        """In a forked process: the threads for which it was short are not there."""
        if self._users:
            sys.setswitchinterval(self._before)
        self._users = 0


SWITCH_INTERVAL = _SwitchInterval()
forking.in_child(SWITCH_INTERVAL.in_child)
