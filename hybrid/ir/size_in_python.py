"""Comparisons of symbolic sizes with numbers that are no integers, as Python's integers compare with them."""
from __future__ import annotations

import math
import numbers
import operator
from typing import Any, Callable

import numpy as np

# comparisons with x that are those with the next greater integer: n < 2.5 is n < 3 (and n > 2.5 is n > 2)
_ROUND_UP = (operator.lt, operator.ge)


def compared(function: Callable[[Any, Any], Any], x: Any, other: Any) -> Any:
    """What one of Python's comparisons gives for a size and what is neither a size nor an integer."""
    if not isinstance(other, (numbers.Number, np.bool_)):
        return NotImplemented
    whole = _integer(function, other)
    return function(0, other) if whole is None else function(x, whole)


def _integer(function: Callable[[Any, Any], Any], other: Any) -> int | None:
    """The integer with which integers compare as with another number. None where every integer gives the same answer
    (then 0 stands for all): infinity, NaN, equality with 2.5."""
    equality = function in (operator.eq, operator.ne)
    if isinstance(other, numbers.Complex) and not isinstance(other, numbers.Real):
        if other.imag or not equality:
            return None
        other = other.real
    try:
        whole = math.ceil(other) if function in _ROUND_UP else math.floor(other)
    except (OverflowError, ValueError):                      # it is infinite, or no number
        return None
    return None if equality and whole != other else whole
