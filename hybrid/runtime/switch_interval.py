"""How long threads keep Python's global lock while others wait for it."""
from __future__ import annotations

import contextlib
import sys
from typing import Iterator

from ..base import forking


class _SwitchInterval:
    """Python's switch interval: how long a thread keeps the GIL that another one waits for. It is shortened while a
    background thread does short work that others wait for: each system call gives the GIL up, and it must get it back.
    """

    SHORT = 2e-4                       # seconds

    def __init__(self) -> None:
        self._users, self._before, self._lock = 0, 0.0, forking.lock()

    @contextlib.contextmanager
    def shortened(self) -> Iterator[None]:
        """Scope in which it is short."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, self.SHORT))
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setswitchinterval(self._before)


SWITCH_INTERVAL = _SwitchInterval()
