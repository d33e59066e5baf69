"""Compiling many random programs in less time: without optimisation, what GCC makes of a text is as right."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from hybrid.runtime import shared_objects

WHOLE = 8                                     # one program of so many is compiled as users' are


@contextlib.contextmanager
def compiler(k: int) -> Iterator[None]:
    """Scope in which program number k is compiled: with the product's flags, or with -O0 behind them."""
    given = shared_objects._flags_of

    def plain(*args: Any) -> tuple[str, ...]:
        return (*given(*args), "-O0")
    with mock.patch.object(shared_objects, "_flags_of", plain) if k % WHOLE else contextlib.nullcontext():
        yield
