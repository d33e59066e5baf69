"""A program to be compiled beside the calls that do without it: what its compilation depends on, and how much it is
wanted."""
from __future__ import annotations

import math
import os
import threading
import time
from typing import Any, Callable

from ..ir import Program
from . import cache
from .calls import CALLS, LONGEST_CALL

# compilers run after so many seconds without calls that wait for a program, or ``LONGEST_CALL`` since one was asked for
SILENCE = 0.1
# what makes a kernel of its own, and how many of these a light program has at most
_HEAVY = frozenset({"reduce", "argreduce", "argsort", "cumulate", "unwindow", "gather", "scatter_add", "dot", "scan",
                    "conv"})
FEW = 4
UNITS = "units "                         # how a line of a compiling process begins that tells of units: no answer


class Units:
    """What a process told of the units of C text that it compiles for one job."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None             # units that were there at first, and when
        self._done, self._count, self._told = 0, 0, 0.0

    def tell(self, done: int, count: int) -> None:
        """Note that so many of some units are compiled now."""
        self._done, self._count, self._told = done, count, time.monotonic()
        self._first = self._first or (done, self._told)

    def seconds_left(self, now: float) -> float:
        """The seconds that the units which are not there will take, as long as those before them took; 0 where nothing
        is known of them."""
        if self._first is None:
            return 0.0
        done, begin = self._done - self._first[0], self._first[1]
        each = (self._told - begin) / done if done else now - begin
        return (self._count - self._done) * each - (now - self._told)


def is_light(program: Program) -> bool:
    """Whether compiling a program takes a moment, beside a network's: it does hardly more than calculate elements one
    by one, as a step of an optimizer, whose kernels for many parameters are few functions."""
    return sum(n.prim in _HEAVY for n in program.order()) <= FEW


class Job:
    """A program to be compiled, and what its compilation depends on.

    name: the same for jobs of the same program. key_and_text: the key under which the disk cache will hold the program,
    and its text, "" where it is there already; None for the key where it can hold none. It may take a while.
    """

    def __init__(self, name: str, key_and_text: Callable[[], tuple[str | None, str]], frozen: frozenset[int]):
        self.name, self.key_and_text = name, key_and_text
        self.around: dict[str, Any] = {
            "frozen": sorted(frozen), "folder": os.getcwd(),
            "settings": {**{k: v for k, v in os.environ.items() if k.startswith("HYBRID_")},
                         "HYBRID_CACHE": str(cache.folder())}}
        # calls that did without the compiled program, what they took, and whether somebody waits for it
        self.calls, self.seconds, self.hurry = 0, 0.0, False
        self.running = 0                                         # such calls that go on now, in all threads
        self.called_until = -math.inf                            # the time until which it counts as called, see submit
        self.light = False                                     # compiled in a moment (``is_light``), called on its own
        self.last = False                                        # nobody waits for it: it comes after all others
        # not queued, since another program does its calls: a function that queues it again
        self.aside: Callable[[Job], Any] | None = None
        self.made = time.monotonic()
        self.follows = self.made - CALLS.again < LONGEST_CALL    # the first step was over when it was made
        self.ended, self.failed = threading.Event(), False       # failed: this process has to compile it itself

    def is_ripe(self) -> bool:
        """Whether a process may begin to compile it. Compilers would slow down the first call or training step. So they
        begin when that is over: some program is called for the second time, or none for a while."""
        return self.hurry or self.follows or self.calls > 1 or self.light and CALLS.again > self.made or (
            self.is_silent() or time.monotonic() - self.made > LONGEST_CALL)

    def count(self, calls: int = 1, seconds: float = 0.0) -> None:
        """Note that the program was asked for, by so many calls that did without it. One that was set aside is queued
        again, also for none: a training loop asks for its program without calling it. seconds: that its work took
        meanwhile, done by others' calls; as they go on, it counts as called for as long again."""
        self.calls += calls
        self.seconds += seconds
        if seconds:
            self.called_until = time.monotonic() + seconds
        if (again := self.aside) is not None:
            again(self)

    def wanted(self) -> tuple[bool, bool, bool, bool, bool, float]:
        """Its priority, compared with other jobs' from left to right: whether somebody waits for it; whether it may
        begin; whether it is not ``last``; whether it was called and is compiled in a moment; whether it is being
        called; the seconds that its calls took, and the number of calls."""
        called = self.running > 0 or time.monotonic() < self.called_until
        return (self.hurry, self.is_ripe(), not self.last, self.light and self.seconds > 0, called,
                self.seconds + 1e-4 * self.calls)

    def is_silent(self) -> bool:
        """Whether no call does without a compiled program, and none has for a moment."""
        return not CALLS.running and time.monotonic() - max(CALLS.ended, self.made) > SILENCE

    def end(self, failed: bool) -> None:
        """Note that no process works on it any more."""
        self.failed, self.aside = failed, None
        self.ended.set()
