"""Symbolic sizes (hybrid/ir/size.py) as parameters of the printed C functions: each takes all sizes of the program, as
``const long``, after its pointers and working memory."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Iterable, Iterator

from hybrid.ir.dimension import prefixed
from hybrid.ir.size import Int, fixed, hint

PREFIX = "dim_"                  # of their names: no variable of a printed function begins so


class _Now(threading.local):
    names: tuple[str, ...] = ()
    alone: bool = False              # whether there is no program for each size, which would be faster


_now = _Now()


@contextmanager
def parameters(names: Iterable[str], alone: bool = False) -> Iterator[None]:
    """Scope in which functions are printed with these size parameters. alone: there will be no program for each size,
    so what is slower for any size is printed, too."""
    before = _now.names, _now.alone
    _now.names, _now.alone = tuple(f"{PREFIX}{n}" for n in names), alone
    try:
        with prefixed(PREFIX):
            yield
    finally:
        _now.names, _now.alone = before


def names() -> tuple[str, ...]:
    """Their names in C."""
    return _now.names


def alone() -> bool:
    """Whether there will be no program for each size."""
    return _now.alone


def declared() -> list[str]:
    """The parameters of a function."""
    return [f"const long {n}" for n in _now.names]


def more_declared() -> str:
    """The parameters, with a leading comma each, to append to a parameter list."""
    return "".join(f", {p}" for p in declared())


def more_passed() -> str:
    """The sizes, to append to the arguments of a call."""
    return "".join(f", {n}" for n in _now.names)


def literal(n: Int | str | None) -> str:
    """A number of type long in C."""
    return f"{n}l" if fixed(n) else str(n)


def where_it_pays(pragma: str, count: int, work: int, least: int) -> str:
    """An OpenMP pragma, or nothing where ``work`` is less than threads are worth. work grows in proportion to
    ``count``; for a symbolic count the pragma has an ``if`` clause, which tests it at run time."""
    if fixed(count):
        return pragma if work >= least else ""
    which = "parallel: " if " simd" in pragma else ""       # a plain ``if`` would switch off simd as well
    return f"{pragma} if ({which}{count} >= {max(least * hint(count) // max(work, 1), 1)})"
