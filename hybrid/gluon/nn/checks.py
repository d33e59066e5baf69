"""What layers are given: one clear error where a size is no number, too small, or too many."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import AttributeValueError


def whole(layer: str, name: str, value: Any, least: int = 1) -> int:
    """An integer of at least ``least``; AttributeValueError says what was given.

    >>> whole("Dense", "units", 3)
    3
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise AttributeValueError(f"{layer}: {name} must be an integer, got {value!r}")
    if value < least:
        raise AttributeValueError(f"{layer}: {name} must be at least {least}, got {value}")
    return int(value)


def several(layer: str, name: str, value: Any, n: int, least: int = 0) -> tuple[int, ...]:
    """n integers of at least ``least``, from one or from a sequence of n."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        value = (value,) * n
    if not isinstance(value, (list, tuple)) or len(value) != n:
        raise AttributeValueError(f"{layer}: {name} must be an integer or {n} of them, got {value!r}")
    return tuple(whole(layer, name, v, least) for v in value)


def number(layer: str, name: str, value: Any, least: float | None = None, most: float | None = None) -> Any:
    """A number, within limits."""
    if isinstance(value, str) or not isinstance(value, (int, float, np.number)):
        raise AttributeValueError(f"{layer}: {name} must be a number, got {value!r}")
    if least is not None and value < least or most is not None and value > most:
        limits = (f"at most {most}" if least is None else f"at least {least}" if most is None
                  else f"in [{least}, {most}]")
        raise AttributeValueError(f"{layer}: {name} must be {limits}, got {value}")
    return value
