"""Seed and counter of the random generator. Draw number n of a process is the same eagerly and hybridized."""
from __future__ import annotations

import time
from typing import Any

import numpy as np

from . import forking
from .device import Context
from .errors import AttributeValueError
from .scope import SCOPE

_lock = forking.lock()
_state = [int(time.time_ns()) & 0x7FFFFFFF, 0]


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Start again from a seed; ``ctx`` is accepted for MXNet's sake, one generator serves all devices.

    >>> seed(42)
    """
    if isinstance(seed_state, float) or not hasattr(seed_state, "__int__"):
        raise AttributeValueError(f"seed_state must be an integer, got {seed_state!r}")
    for trace in SCOPE.traces[-1:]:
        trace.plain_only("sets the seed of the random numbers")
    if ctx != "all":
        Context(ctx)                                      # an unknown device is an error
    with _lock:
        _state[0], _state[1] = int(seed_state) & 0xFFFFFFFF, 0


def next_key(n: int = 1) -> np.ndarray:
    """(seed, counter) as uint32, and n counter values used up."""
    with _lock:
        key = np.array([_state[0], _state[1] & 0xFFFFFFFF], np.uint32)
        _state[1] += n
    return key


def get_state() -> tuple[int, int]:
    """Seed and counter, to go on from later with ``set_state``."""
    return _state[0], _state[1]


def set_state(state: tuple[int, int]) -> None:
    """Go on from a state of ``get_state``."""
    with _lock:
        _state[:] = state


NAMESPACE: list[Any] = []             # nd.random, put here when it is made


def __getattr__(name: str) -> Any:
    """mx.random.uniform and the like are those of nd.random."""
    if name == "__all__" and NAMESPACE:
        return [n for n in (*globals(), *dir(NAMESPACE[0])) if not n.startswith("_")]
    if NAMESPACE and not name.startswith("_"):
        return getattr(NAMESPACE[0], name)
    raise AttributeError(f"module 'hybrid.random' has no attribute {name!r}")
