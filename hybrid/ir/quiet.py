"""No warnings of numbers: what an ``np.errstate`` does takes as long as several small functions."""
from __future__ import annotations

from functools import wraps
from typing import Any, Callable

import numpy as np


def _by_context() -> "tuple[Any, Any] | None":
    """NumPy 2 keeps what it warns of in a context variable: that, and its value for no warnings; None where that is
    not so."""
    try:
        from numpy._core.umath import _extobj_contextvar as variable, _make_extobj as make  # noqa: PLC0415
        nothing = make(all="ignore")
        variable.reset(variable.set(nothing))
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
    return variable, nothing


def _by_state() -> Any:
    return np.seterr(all="ignore")


WARNINGS = _by_context()


def _ways() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    if WARNINGS is None:
        return _by_state, lambda old: np.seterr(**old) and None
    variable, nothing = WARNINGS
    return lambda: variable.set(nothing), variable.reset


quiet, quietly = _ways()
quiet.__doc__ = "Let NumPy warn of nothing; what it gives is for ``quietly``, which lets it warn as before."


def silently(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function during which NumPy warns of nothing."""
    @wraps(fn)
    def function(*args: Any) -> Any:
        token = quiet()
        try:
            return fn(*args)
        finally:
            quietly(token)
    return function
