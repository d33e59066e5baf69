"""Calls of compiled code that Ctrl-C ends at once.

Python handles a signal when a foreign call returns. So a call that may take long runs in a thread of its own, for which
the main thread waits: an interrupt ends the waiting. The call itself goes on to its end and its results are dropped, so
that nothing is left half done; a program that writes over arrays is waited for.
"""
from __future__ import annotations

import threading
import time
from typing import Any, Callable

LONG = 20_000_000_000                    # additions or so, from which on a call may take half a second or more
SHORT = 0.05                             # seconds; a program whose calls take less
LOOK = 0.1                               # seconds after which the waiting thread looks for signals
TRIES = 3                                # so many times in turn takes no thread any more


class Patience:
    """Whether calls of a program are to be interruptible: by the work that was counted, then by the clock."""

    def __init__(self, work: int, writes: bool):
        self.left = TRIES if work >= LONG and not writes else 0

    def run(self, call: Callable[[], Any], *alive: Any) -> None:
        """Call a function; in the main thread so that an interrupt ends it. alive: what must stay until it has
        ended."""
        if not self.left or threading.current_thread() is not threading.main_thread():
            call()
            return
        begin, ended = time.perf_counter(), threading.Event()

        def work(kept: Any = alive) -> None:
            try:
                call()
            finally:
                ended.set()
        threading.Thread(target=work, name="hybrid-call", daemon=True).start()
        # the system may give a signal to another thread, which does not wake this one
        while not ended.wait(LOOK):
            pass
        self.left = TRIES if time.perf_counter() - begin > SHORT else self.left - 1
