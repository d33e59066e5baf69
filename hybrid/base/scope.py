"""Thread-local state: recording, training, the active traces, NumPy semantics."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Iterator


class Scope(threading.local):
    """What holds for the running thread. ``traces`` is a stack; a non-empty one makes operators symbolic."""

    def __init__(self) -> None:
        self.recording = False
        self.symbolic = False                # sym.zeros and the like: operators without inputs make Symbols
        self.exporting = False               # a block's graph is made for a file: its parameters' arrays are variables
        self.shadows = False                 # only shapes are found out: arrays may meet Symbols
        self.training = False
        self.np_array = False
        self.np_shape = False
        # while a hook, or the like, is called with values of a compiled program: the names in its code
        self.watching: set[str] | None = None
        self.effects = 0                # calls that printed, ran hooks or assigned to objects, beside their results
        self.plain = False                   # hybridized functions run as plain Python
        self.answered = False                # the first call of the function that is called is over
        self.traces: list[Any] = []
        self.numbers = False                 # whether numbers among the arguments of a trace may become its inputs
        self.numbers_refused = False         # NumPy's code that asks an array for its numbers gets NumbersNeeded


class Records(threading.local):
    """The running thread's outermost scopes of ``record``; not in ``Scope``, whose values calls in C compare."""
    number = 1                               # of the one that was entered last


SCOPE, RECORDS = Scope(), Records()


class NumbersNeeded(BaseException):
    """NumPy's own code asked for the numbers of an array; no ``except Exception`` of NumPy's catches it."""


@contextmanager
def without_numbers(refused: bool) -> Iterator[None]:
    """Scope in which an array that NumPy wants to convert raises ``NumbersNeeded``, or (refused=False) is converted."""
    before, SCOPE.numbers_refused = SCOPE.numbers_refused, refused
    try:
        yield
    finally:
        SCOPE.numbers_refused = before


# what casts the inputs of operators: at most one, set by mixed precision for the whole process
CASTS: list[Any] = []
CASTS_VERSION = [0]                          # grows when it changes


def tracing() -> Any:
    """The innermost active trace, or None."""
    return SCOPE.traces[-1] if SCOPE.traces else None


@contextmanager
def untraced() -> Iterator[None]:
    """Scope in which operators are eager although a trace is active."""
    old, SCOPE.traces = SCOPE.traces, []
    try:
        yield
    finally:
        SCOPE.traces = old
