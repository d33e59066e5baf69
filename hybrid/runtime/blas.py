"""The threads of NumPy's own products: one, while compilers work beside a program that waits for them.

OpenBLAS divides each product among all cores and waits for the slowest: with a compiler on one of them that is the
compiler's, and small products take ten times as long.
"""
from __future__ import annotations

import contextlib
import ctypes
from functools import lru_cache
from typing import Any, Iterator

import numpy as np

from ..base import forking

# prefixes and endings of the names that builds of OpenBLAS give their functions
_NAMES = [(before, after) for before in ("scipy_openblas", "openblas") for after in ("64_", "_64", "")]
_lock = forking.lock()
_users, _before = [0], [0]


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


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Scope in which products of NumPy take one thread, also those of other threads."""
    found = _functions()
    if found is None:
        yield
        return
    put, tell = found
    with _lock:
        _users[0] += 1
        if _users[0] == 1:
            _before[0] = tell()
            put(1)
    try:
        yield
    finally:
        with _lock:
            _users[0] -= 1
            if not _users[0]:
                put(_before[0])
