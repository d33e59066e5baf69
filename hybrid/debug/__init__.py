"""Seeing inside compiled programs: values at each call, where a NaN was made, what differs from eager execution."""
from __future__ import annotations

from .comparing import Comparison, compare
from .explaining import Explanation, explain
from .finite import check_finite
from .minimizing import minimize
from .show import breakpoint, print  # noqa: A004  Python's names for them

__all__ = ["Comparison", "Explanation", "breakpoint", "check_finite", "compare", "explain", "minimize", "print"]
