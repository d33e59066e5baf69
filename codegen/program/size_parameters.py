"""Sizes that a program gets at each call (hybrid/ir/size.py), as arguments of its kernels' functions: each has all of
them, after its pointers and working memory."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Iterable, Iterator

from hybrid.ir import Node
from hybrid.ir.size import Dim, dims, fixed, hint


class _Now(threading.local):
    names: tuple[str, ...] = ()


_now = _Now()


def dims_of(nodes: Iterable[Node]) -> list[Dim]:
    """The dimensions in the shapes of some values, by name."""
    return sorted({d for n in nodes for s in n.shape for d in dims(s)}, key=lambda d: d.name)


@contextmanager
def parameters(names: Iterable[str]) -> Iterator[None]:
    """Scope in which kernels of a program with such sizes are printed."""
    before, _now.names = _now.names, tuple(names)
    try:
        yield
    finally:
        _now.names = before


def names() -> tuple[str, ...]:
    """Their names in C."""
    return _now.names


def declared() -> list[str]:
    """The parameters of a function."""
    return [f"const long {n}" for n in _now.names]


def more_declared() -> str:
    """The same behind other parameters."""
    return "".join(f", {p}" for p in declared())


def more_passed() -> str:
    """The arguments of a call, behind others."""
    return "".join(f", {n}" for n in _now.names)


def literal(n: int | None) -> str:
    """A number of type long in C."""
    return f"{n}l" if fixed(n) else str(n)


def where_it_pays(pragma: str, count: int, work: int, least: int) -> str:
    """A pragma for threads, nothing where the work is less than they are worth. count: what the work is in proportion
    to; where that is known at the call only, so is whether threads pay."""
    if fixed(count):
        return pragma if work >= least else ""
    return f"{pragma} if ({count} >= {max(least * hint(count) // max(work, 1), 1)})"
