"""Compiling many random programs in less time: without optimisation, what GCC makes of a text is as right; and of a
function that is called with many sizes, the program for any size alone is compiled."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from hybrid import runtime
from hybrid.runtime import shared_objects

WHOLE = 16                                    # one program of so many is compiled as users' are


@contextlib.contextmanager
def compiler(k: int, sized: bool = False) -> Iterator[None]:
    """Scope in which program number k is compiled: with the product's flags, or with -O0 behind them. sized: and
    programs for one size run by the reference backend instead."""
    given = shared_objects._flags_of

    def plain(*args: Any) -> tuple[str, ...]:
        return (*given(*args), "-O0")
    with contextlib.ExitStack() as scope:
        if k % WHOLE:
            scope.enter_context(mock.patch.object(shared_objects, "_flags_of", plain))
            if sized:
                scope.enter_context(mock.patch.object(runtime, "_compile_here", runtime.ReferenceProgram))
        yield
