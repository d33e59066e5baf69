"""MXNet's ``util``: switches of NumPy semantics, as functions, scopes and decorators."""
from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Callable, Iterator

from ..base import device
from ..base.names import named
from ..numpy.elementwise import options
from ..numpy.extension import is_np_array, is_np_shape, reset_np, set_np
from ..base.scope import SCOPE


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


def _under(func: Callable[..., Any], shape: bool, array: bool) -> Callable[..., Any]:
    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        old = SCOPE.np_shape, SCOPE.np_array
        SCOPE.np_shape, SCOPE.np_array = shape or old[0], array or old[1]
        try:
            return func(*args, **kwargs)
        finally:
            SCOPE.np_shape, SCOPE.np_array = old
    return call


def _member(value: Any, shape: bool, array: bool) -> Any:
    """A method, property, static or class method under NumPy's rules; anything else as it is."""
    if isinstance(value, FunctionType):
        return _under(value, shape, array)
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(_under(value.__func__, shape, array))
    if isinstance(value, property):
        get, put, drop = (f and _under(f, shape, array) for f in (value.fget, value.fset, value.fdel))
        return property(get, put, drop, value.__doc__)
    return value


def _decorator(name: str, shape: bool, array: bool) -> Callable[[Any], Any]:
    def decorate(func: Any) -> Any:
        if isinstance(func, type):
            for key, value in list(vars(func).items()):
                changed = _member(value, shape, array)
                if changed is not value:
                    setattr(func, key, changed)
            return func
        if not callable(func):
            raise TypeError(f"{name} can only decorate classes and callable objects, got {type(func).__name__}")
        return _under(func, shape, array)
    return named(decorate, name, __name__,
                 "Decorator: a function, or every method of a class, runs under NumPy's rules.")


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


def get_cuda_compute_capability(ctx: Any) -> int | None:
    """The compute capability of a GPU as one number: 80 for 8.0. ValueError for another device, DeviceError where there
    is none."""
    if not isinstance(ctx, device.Context):
        raise ValueError(f"ctx must be a device, mx.gpu(0), got {type(ctx).__name__}")
    if ctx.device_type != "gpu":
        raise ValueError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    return int(device.array_module(ctx).cuda.Device(ctx.device_id).compute_capability)


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory."""
    return device.gpu_memory_info(gpu_dev_id)


# what NumPy's ufuncs know of each option
_OPTIONS: dict[str, tuple[Any, ...]] = {"where": (True, False),
                                        "casting": ("no", "equiv", "safe", "same_kind", "unsafe"),
                                        "subok": (True, False),
                                        "dtype": ("int8", "uint8", "int32", "int64", "float16", "float32", "float64",
                                                  "bool_")}


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """Whether a value is one that NumPy's ufuncs take for an option. Most functions here work at the defaults alone and
    say so.

    >>> np_ufunc_legal_option("casting", "safe"), np_ufunc_legal_option("casting", "wild")
    (True, False)
    """
    if key == "order":
        return isinstance(value, str)
    if key == "dtype" and isinstance(value, type):
        value = value.__name__
    return key in _OPTIONS and value in _OPTIONS[key]


def wrap_np_unary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function of one array: NumPy's options are taken at their defaults alone."""
    @functools.wraps(func)
    def call(x: Any, out: Any = None, **kwargs: Any) -> Any:
        options(func.__name__, kwargs)
        return func(x, out=out)
    return call


def wrap_np_binary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function of two arrays: NumPy's options are taken at their defaults alone."""
    @functools.wraps(func)
    def call(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        options(func.__name__, kwargs)
        return func(x1, x2, out=out)
    return call


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


__all__ = ["get_cuda_compute_capability", "get_gpu_count", "get_gpu_memory", "getenv", "is_np_array", "is_np_shape",
           "np_array", "np_shape", "np_ufunc_legal_option", "reset_np",
           "set_module", "set_np", "set_np_shape", "setenv", "use_np", "use_np_array", "use_np_shape",
           "wrap_np_binary_func", "wrap_np_unary_func"]
