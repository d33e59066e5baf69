"""How soon threads get Python from one that works in the background."""
from __future__ import annotations

import contextlib
import sys
from typing import Iterator

from ..base import forking


class _Turns:
    """How soon threads that want Python get it from another one: soon, while a thread of the background has little to
    do that others wait for. Each time that it waits for the system it has to get Python back."""

    SOON = 2e-4                        # seconds

    def __init__(self) -> None:
        self._users, self._before, self._lock = 0, 0.0, forking.lock()

    @contextlib.contextmanager
    def soon(self) -> Iterator[None]:
        """Scope in which they do."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, self.SOON))
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setswitchinterval(self._before)


TURNS = _Turns()
