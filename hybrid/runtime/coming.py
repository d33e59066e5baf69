"""Programs with symbolic sizes that are built in the background: by a process (background.py), or by a thread where
all processes are busy. Until then the first calls of each size run as plain Python, later ones primitive by primitive.
"""
from __future__ import annotations

import atexit
import threading
import time
from functools import lru_cache
from typing import Any, Callable, Mapping

from ..base import forking
from ..ir import Program
from ..ir.asked import Asked
from ..ir.at_sizes import AtSizes
from ..ir.text import to_text
from .background import queue
from .calls import CALLS
from .job import SILENCE, Job
from .pending import PendingProgram
from .switch_interval import SWITCH_INTERVAL

CALLS_BEFORE = 2                         # calls of a program after which it is built, or earlier in a pause of calls
_lock = forking.lock()
_waiting: list["ComingSized"] = []
_builder: list[threading.Thread] = []    # at most one: Python runs one thread at a time


class ComingSized:
    """Stands for a SizedProgram that is being built. ``at(sizes)`` returns None until it is built, and for sizes that
    fail the guards of its planning."""

    def __init__(self, program: Program, build: Callable[[Program], Any],
                 ready: Callable[[Program], Any] = lambda program: None):
        self.asked = Asked()
        self.job = Job("", lambda: (None, ""), frozenset())      # counts the calls; the thread does it itself
        self.why = ""                                    # why it could not be built
        self.made: Any = None
        self._program, self._build = program, build
        self._ready = ready
        _end_with_the_process()
        with _lock:
            _waiting.append(self)
            if not _builder:
                _builder.append(threading.Thread(target=_work, name="hybrid-sized", daemon=True))
                _builder[0].start()

    def is_ripe(self) -> bool:
        """Whether it has been called often enough, or nothing is called now, to spend time on building it."""
        return self.job.hurry or self.job.calls >= CALLS_BEFORE or self.job.is_silent()

    def build(self) -> None:
        """Build it."""
        try:
            with CALLS.compiling(), self.asked.answering(False):
                self.made = self._by_process() or self._here()
        except Exception as err:                         # noqa: BLE001  each size has a program of its own then
            self.why = str(err)
        finally:
            self.job.end(failed=self.made is None)

    def _by_process(self) -> Any:
        """The program as a process has built it; None where none could, or had time to."""
        from . import plans                              # noqa: PLC0415  loaded where something is compiled
        program, frozen = self._program, self._program.memo.get("frozen", frozenset())
        key = plans.key(program, frozen)
        if key is None or not queue().run_first(Job(key, lambda: (key, to_text(program)), frozen)):
            return None
        made = self._ready(program)
        if made is not None:
            made.compiled_here = made.libraries()
        return made

    def _here(self) -> Any:
        """The program, built by this thread. The switch interval is short meanwhile: calls of NumPy's functions give up
        the GIL each time, and would wait long to get it back."""
        with SWITCH_INTERVAL.shortened():
            return self._build(self._program)

    def at(self, values: Mapping[str, int]) -> Any:
        """The program for concrete sizes, by the names of their dimensions."""
        return self.made.at(values) if self.made is not None and self.asked.hold(values) else None

    def of_size(self, program: AtSizes, alone: Callable[[Program], Any]) -> Any:
        """The executable of one size; None where it needs one of its own, which ``alone`` gives later calls."""
        if self.job.ended.is_set():
            return self.at(program.values)
        return PendingProgram(program.alone(), self.job, lambda own: self.at(program.values) or alone(own))

    def runs(self) -> tuple[str, int, int]:
        """Its state and runs of the compiler, as ``compiler_runs`` gives them."""
        if not self.job.ended.is_set():
            return "waiting", 0, 1
        return ("compiled", 0, self.made.compiled_here) if self.made is not None else ("not compiled", 0, 0)


def _work() -> None:
    """Build what is ripe, what took most time first, until nothing waits."""
    while True:
        with _lock:
            if not _waiting:
                _builder.clear()
                return
            one = max((c for c in _waiting if c.is_ripe()), key=lambda c: c.job.wanted(), default=None)
            if one is not None:
                _waiting.remove(one)
                _built[:] = [one]
        if one is None:
            time.sleep(SILENCE / 4)
        else:
            one.build()


_built: list[ComingSized] = []           # the one that is being built, or was last


def _in_child() -> None:
    """The thread is not in a forked process: each size has a program of its own there."""
    for one in [*_waiting, *_built]:
        if not one.job.ended.is_set():
            one.job.ended = threading.Event()
            one.job.end(failed=True)
    _waiting.clear()
    _builder.clear()


forking.in_child(_in_child)


@lru_cache(1)
def _end_with_the_process() -> None:
    from .compiler_process import end_compilers             # noqa: PLC0415  loaded where something is compiled
    atexit.register(end_compilers)
