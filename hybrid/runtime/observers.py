"""Who looks at the calls of programs: the profiler, and the search for the first NaN.

While there is an observer, calls take the slow path, one program at a time; without one, nothing is looked at.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ..buffers.array import REBINDS
from ..ir import Program

# observer(program, executable, arrays, call): gives what ``call(executable)``, which runs it, gives
Observer = Callable[[Program, Any, Sequence[Any], Callable[[Any], Any]], Any]
OBSERVERS: list[Observer] = []


def observe(observer: Observer, on: bool = True) -> None:
    """Have an observer called from now on, or (on=False) no more."""
    if on and observer not in OBSERVERS:
        OBSERVERS.append(observer)
        REBINDS[0] += 1                                  # ends the fast paths, which call programs by themselves
    elif not on and observer in OBSERVERS:
        OBSERVERS.remove(observer)


def observed(program: Program, exe: Any, raw: Sequence[Any]) -> Any:
    """Run a program with all observers around it."""
    def around(rest: list[Observer], exe: Any) -> Any:
        return rest[0](program, exe, raw, lambda other: around(rest[1:], other)) if rest else exe(raw)
    return around(list(OBSERVERS), exe)
