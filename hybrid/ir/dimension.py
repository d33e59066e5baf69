"""Named dimensions, what a symbolic size is made of (size.py), and who answers what their ranges do not decide."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, Iterator

from ..base.records import dataclass

if TYPE_CHECKING:
    from .size import Int, Size


class Specialised(Exception):
    """A number is needed where a size is known only when the program is called."""


@dataclass(frozen=True)
class Dim:
    """A named dimension: the least and the greatest value that a program is made for, and the value at trace."""
    name: str
    low: int = 2
    high: int = 1 << 30
    hint: int = 64
    serial: int = 0                  # number of the trace that made it: dimensions of two traces are never equal


@dataclass(frozen=True)
class Part:
    """An atom that is no plain dimension: ``/`` is a // b, ``%`` is a % b, ``<`` is min(a, b), ``>`` is max(a, b)."""
    kind: str
    a: "Int"
    b: "Int"


class _Asked(threading.local):
    answer: "Callable[[str, Size, bool], bool] | None" = None
    traced = False                                           # whether the user's code runs
    prefix = ""                                              # of names of dimensions


ASKED = _Asked()


@contextmanager
def answering(answer: "Callable[[str, Size, bool], bool] | None", traced: bool = False) -> Iterator[None]:
    """Scope in which comparisons that ranges do not decide go to ``answer(kind, expression, answer at the hint)``,
    where kind is ``==`` or ``<`` of a comparison with 0. None: they raise ``Specialised``. traced: the user's code
    runs; ``str(size)`` then raises, as the code could branch on the text."""
    before = ASKED.answer, ASKED.traced
    ASKED.answer, ASKED.traced = answer, traced
    try:
        yield
    finally:
        ASKED.answer, ASKED.traced = before


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Scope in which names of dimensions are written with a prefix, so that none is that of a variable in a printed
    program."""
    before, ASKED.prefix = ASKED.prefix, prefix
    try:
        yield
    finally:
        ASKED.prefix = before
