"""The steps of a program as one Python function: for small arrays, going through a plan takes as long as NumPy's work.

The function's text says which result goes into which step; the steps themselves, and numbers, are bound to it. Programs
of the same form share the text.
"""
from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Sequence

import numpy as np

from .direct import own

if TYPE_CHECKING:
    from .evaluate import Step

SHOWN = "shown"                      # of steps whose result is a view of an input
MOST_STEPS = 32                      # of longer programs a loop takes little of the time


@lru_cache(1024)
def _maker(text: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"own": own, "np": np}
    exec(text, space)  # noqa: S102  names of its own alone
    return space["make"]                                  # type: ignore[no-any-return]


def written(steps: Sequence[Step], start: Sequence[Any], leaves: Sequence[tuple[int, int]], count: int,
            result: int) -> Callable[..., Any] | None:
    """A function of ``count`` arrays that does the steps and gives the value of a register, as a new array. None for
    long programs."""
    if len(steps) > MOST_STEPS:
        return None
    names, bound = {register: f"a{slot}" for slot, register in leaves}, dict[str, Any]()
    inputs = ", ".join(f"a{i}" for i in range(count))
    lines = []

    def name(register: int) -> str:
        if register not in names:                          # a number: what steps give has its name from them
            names[register] = f"k{len(bound)}"
            bound[names[register]] = start[register]
        return names[register]

    for i, step in enumerate(steps):
        given = [name(r) for r in step.args] + ([f"out={name(step.into)}"] if step.into >= 0 else [])
        names[step.out], bound[f"f{i}"] = f"v{i}", step.call
        lines.append(f"v{i} = f{i}({', '.join(given)})")
        lines += [f"{names[r]} = None" for r in step.dead if names[r][0] == "v"]
    value, fresh = name(result), steps[-1].fresh if steps and steps[-1].out == result else False
    lines.append(f"return {value}" if fresh is True else f"return {value}.copy()" if fresh is SHOWN else
                 f"return own({value}, ({inputs},), np)")
    body = "\n  ".join(lines)
    return _maker(f"def make({', '.join(bound)}):\n def straight({inputs}):\n  {body}\n return straight")(  # type: ignore[no-any-return]
        *bound.values())
