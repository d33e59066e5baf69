"""Named dimensions, what a symbolic size is made of (size.py), and who answers what their ranges do not decide."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Any, Callable, Iterator, TypeVar

from ..base.records import dataclass

if TYPE_CHECKING:
    from .size import Int, Size

F = TypeVar("F", bound=Callable[..., Any])


class Specialised(Exception):
    """A number is needed where a size is known only when the program is called. While the user's code is traced it is
    noted, as an ``except`` of that code may swallow it."""

    def __init__(self, text: str):
        super().__init__(text)
        if ASKED.traced and ASKED.answer is not None:        # else this library asks, and goes on without the answer
            ASKED.raised.append(text)


@dataclass(frozen=True)
class Dim:
    """A named dimension: the least and the greatest value that a program is made for, and the value at trace."""
    name: str
    low: int = 2
    high: int = 1 << 30
    hint: int = 64
    serial: int = 0                  # number of the trace that made it: dimensions of two traces are never equal

    @property
    def key(self) -> str:
        """A text to sort atoms by."""
        return self.name


@dataclass(frozen=True, eq=False)
class Part:
    """An atom that is no plain dimension: ``/`` is a // b, ``%`` is a % b, ``<`` is min(a, b), ``>`` is max(a, b). Two
    are equal where they are the same expression; nothing is asked of sizes."""
    kind: str
    a: "Int"
    b: "Int"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self.kind == other.kind and (
            _written(self.a) == _written(other.a) and _written(self.b) == _written(other.b))

    def __hash__(self) -> int:
        return hash((self.kind, self.a, self.b))

    @cached_property
    def key(self) -> str:
        """A text to sort atoms by."""
        return f"({_key(self.a)} {self.kind} {_key(self.b)})"


def _key(x: "Int") -> str:
    return str(x) if isinstance(x, int) else " + ".join(" * ".join([*(a.key for a in m), str(c)]) for m, c in x.terms)


def _written(x: "Int") -> object:
    """A number, or the terms of a size."""
    return x if isinstance(x, int) else x.terms


class _Asked(threading.local):
    answer: "Callable[[str, Size, bool], bool] | None" = None
    traced = False                                           # whether the user's code runs
    raised: "list[str]" = []                                 # texts of Specialised, while it runs
    prefix = ""                                              # of names of dimensions
    least: "dict[Dim | Part, int]" = {}                      # what guards say of atoms: their least values
    kept: "dict[Any, Any] | None" = None                     # results that may rest on these guards; None: no guards


ASKED = _Asked()


def refuse_swallowed() -> None:
    """Raises Specialised where it was raised while the user's code ran, which went on without the number."""
    if ASKED.traced and ASKED.raised:
        raise Specialised(ASKED.raised[0])


@contextmanager
def answering(answer: "Callable[[str, Size, bool], bool] | None", traced: bool = False,
              least: "dict[Dim | Part, int] | None" = None) -> Iterator[None]:
    """Scope in which comparisons that ranges do not decide go to ``answer(kind, expression, answer at the hint)``,
    where kind is ``==`` or ``<`` of a comparison with 0. None: they raise ``Specialised``. traced: the user's code
    runs; ``str(size)`` then raises, as the code could branch on the text. least: least values of atoms that answers
    imply; None: those of the scope around."""
    before = ASKED.answer, ASKED.traced, ASKED.raised, ASKED.least, ASKED.kept
    if traced and not ASKED.traced:
        ASKED.raised = []
    if least is not None and least is not ASKED.least:
        ASKED.least, ASKED.kept = least, {}
    ASKED.answer, ASKED.traced = answer, traced
    try:
        yield
    finally:
        ASKED.answer, ASKED.traced, ASKED.raised, ASKED.least, ASKED.kept = before


def kept_with_guards(function: F) -> F:
    """Decorate a function of sizes whose results are kept: within a scope of guards for this scope alone, since a
    result may rest on what they prove, or have recorded one of them; elsewhere for the process."""
    everywhere = lru_cache(maxsize=65536)(function)

    @wraps(function)
    def found(*args: Any) -> Any:
        kept = ASKED.kept
        if kept is None:
            return everywhere(*args)
        key = function, args
        if key not in kept:
            kept[key] = function(*args)
        return kept[key]
    return found                                             # type: ignore[return-value]


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Scope in which names of dimensions are written with a prefix, so that none is that of a variable in a printed
    program."""
    before, ASKED.prefix = ASKED.prefix, prefix
    try:
        yield
    finally:
        ASKED.prefix = before
