"""MXNet's ``util``: switches of NumPy semantics, as functions, scopes and decorators."""
from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from .numpy_extension import is_np_array, is_np_shape, reset_np, set_np
from .scope import SCOPE


def set_np_shape(active: bool) -> bool:
    """Switch zero-dim and zero-size shapes in Gluon on or off; returns what it was."""
    old, SCOPE.np_shape = SCOPE.np_shape, bool(active)
    return old


@contextmanager
def np_shape(active: bool = True) -> Iterator[None]:
    """Scope of ``set_np_shape``."""
    old = set_np_shape(active)
    try:
        yield
    finally:
        set_np_shape(old)


@contextmanager
def np_array(active: bool = True) -> Iterator[None]:
    """Scope in which Gluon makes ``np.ndarray``."""
    old, SCOPE.np_array = SCOPE.np_array, bool(active)
    try:
        yield
    finally:
        SCOPE.np_array = old


def _decorator(name: str, shape: bool, array: bool) -> Callable[[Any], Any]:
    def decorate(func: Any) -> Any:
        if isinstance(func, type):
            return func                                   # both kinds of array work in every method
        if not callable(func):
            raise TypeError(f"{name} can only decorate classes and callable objects, got {type(func).__name__}")

        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            with np_shape(shape or SCOPE.np_shape), np_array(array or SCOPE.np_array):
                return func(*args, **kwargs)
        return call
    decorate.__name__ = name
    decorate.__doc__ = "Decorator: a function runs under NumPy's rules. A class is returned as it is: both kinds of array work in its methods."
    return decorate


use_np_shape = _decorator("use_np_shape", True, False)
use_np_array = _decorator("use_np_array", False, True)
use_np = _decorator("use_np", True, True)

__all__ = ["is_np_array", "is_np_shape", "np_array", "np_shape", "reset_np", "set_np", "set_np_shape", "use_np", "use_np_array", "use_np_shape"]
