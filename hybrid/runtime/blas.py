"""The threads of NumPy's own products: fewer, while compilers work beside a program that waits for them.

OpenBLAS divides each product among all cores and waits for the slowest: with a compiler on one of them that is the
compiler's, and small products take ten times as long.
"""
from __future__ import annotations

import contextlib
import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

# prefixes and endings of the names that builds of OpenBLAS give their functions
_NAMES = [(before, after) for before in ("scipy_openblas", "openblas") for after in ("64_", "_64", "")]
_left, _before = [0], [0]                # cores that are left to others; the number of threads while none are


@lru_cache(1)
def _functions() -> Any:
    """What sets the number of threads and what tells it; None where NumPy multiplies by another library."""
    core: Any = getattr(np, "_core", None) or np.core
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(core._multiarray_umath.__file__)
        for before, after in _NAMES:
            if hasattr(library, f"{before}_set_num_threads{after}"):
                return (getattr(library, f"{before}_set_num_threads{after}"),
                        getattr(library, f"{before}_get_num_threads{after}"))
    return None


def leave(cores: int) -> None:
    """Have products of NumPy take so many threads less than before, one at least; for 0, as many as before. It holds
    for all of Python's threads, and takes effect in calls that run already. The caller holds a lock."""
    if cores == _left[0] or (found := _functions()) is None:
        return
    put, tell = found
    if not _left[0]:
        _before[0] = tell()
    _left[0] = cores
    put(max(1, _before[0] - cores))
