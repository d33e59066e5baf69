"""MXNet's ``util``: switches of NumPy semantics, as functions, scopes and decorators."""
from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from . import device
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

# ---- environment and devices
def getenv(name: str) -> str | None:
    """An environment variable, None where it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None takes it away."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def get_gpu_count() -> int:
    """How many GPUs can be used."""
    return device.num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory."""
    return device.gpu_memory_info(gpu_dev_id)


def set_module(module: str | None) -> Callable[[Any], Any]:
    """Decorator that says in which module a function or class is.

    >>> @set_module("mxnet.numpy")
    ... def example(): pass
    >>> example.__module__
    'mxnet.numpy'
    """
    def decorate(func: Any) -> Any:
        if module is not None:
            func.__module__ = module
        return func
    return decorate


__all__ = ["get_gpu_count", "get_gpu_memory", "getenv", "is_np_array", "is_np_shape", "np_array", "np_shape", "reset_np", "set_module", "set_np", "set_np_shape",
           "setenv", "use_np", "use_np_array", "use_np_shape"]
