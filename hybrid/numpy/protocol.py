"""NumPy's protocols: ``numpy.mean(x)`` and ``numpy.add(x, y)`` of our arrays and of traced values.

An ``np.ndarray``, a traced value and an array that a gradient is expected of get our function of the same name. An
``nd.NDArray`` otherwise gets what NumPy itself makes of it: a NumPy array, or the method that NumPy asks for.
"""
from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Callable, Iterator

import numpy as np

from ..base.errors import HybridError, TraceError, user_location
from ..base.scope import SCOPE, NumbersNeeded, tracing, without_numbers
from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from ..nd.traced_indexing import is_np
from . import ufunc_methods

UFUNCS = {"conjugate": "copy", "positive": "copy"}              # the identity of real numbers
SPACE: list[ModuleType] = []                                    # hybrid.numpy, put here when it is made
PARTS = ("linalg", "random", "fft")
# which Python operator a ufunc may have come from, where the first value is none of ours: what ours then does
REFLECTED = {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
             "true_divide": "__rtruediv__", "floor_divide": "__rfloordiv__", "remainder": "__rmod__",
             "power": "__rpow__", "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
             "equal": "__eq__", "not_equal": "__ne__", "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__",
             "greater_equal": "__le__"}


def namespace() -> Any:
    """hybrid.numpy, which comes after the classes that ask for it."""
    return SPACE[0]


def is_ours(x: Any) -> bool:
    """Whether a value is an array of this library or a traced one."""
    return isinstance(x, NDArray) or type(x) is Symbol


def _arrays(value: Any) -> Iterator[Any]:
    """Our arrays among arguments, also in lists and tuples."""
    if is_ours(value):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _arrays(v)
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))


def expects_gradient(x: Any) -> bool:
    """Whether a gradient is expected of an array, which numbers copied out of it would lose."""
    return SCOPE.recording and isinstance(x, NDArray) and x._ag is not None


def _takes_over(arrays: list[Any]) -> bool:
    """Whether our function runs in place of NumPy's own."""
    return any(not isinstance(x, NDArray) or is_np(x) or expects_gradient(x) for x in arrays)


def _refuse_numpy_result(name: str, arrays: list[Any]) -> None:
    """Refuse to trace (the call runs as plain Python) where eager code would get a numpy.ndarray from this function,
    which a compiled program cannot produce."""
    trace = tracing()
    if trace is not None and not trace.transformed and not SCOPE.recording and not any(is_np(x) for x in arrays):
        trace.plain_only(f"gives an nd array to numpy.{name}, which makes a NumPy array of it (hybrid.nd and hybrid.np "
                         "have functions that are compiled)")


def _as_given(found: Any, arrays: list[Any]) -> Any:
    """The results as ``nd.NDArray`` where no ``np.ndarray`` was given."""
    if any(is_np(x) for x in arrays):
        return found
    if isinstance(found, (list, tuple)):
        made = [_as_given(v, arrays) for v in found]
        return type(found)(*made) if hasattr(found, "_fields") else type(found)(made)
    return found.as_nd_ndarray() if isinstance(found, NDArray) else found


# ---- functions
def array_function(func: Any, args: Any, kwargs: Any) -> Any:
    """numpy.mean(x, …) and the like: our function of the same name; NumPy's own where we have none."""
    if func.__name__ in DTYPES:
        return _implementation(func)(*map(_empty, args), **kwargs)
    arrays = list(_arrays([args, kwargs]))
    if not any(is_np(x) for x in arrays):                       # MXNet's rules: NumPy asks for methods or for numbers
        try:
            with without_numbers(_takes_over(arrays)):
                return _implementation(func)(*args, **kwargs)
        except NumbersNeeded:
            if SCOPE.numbers_refused:                           # within another function of NumPy's, which ends too
                raise
            _refuse_numpy_result(func.__name__, arrays)
    mine = _function(func)
    if mine is None:
        return NotImplemented
    kwargs = {k: v for k, v in kwargs.items() if not (v is np._NoValue or k in ("like", "device") and v is None)}
    with without_numbers(False):
        return _as_given(mine(*args, **kwargs), arrays)


# what asks for the dtype of an array alone: NumPy's own
DTYPES = frozenset("iscomplexobj isrealobj result_type can_cast min_scalar_type common_type".split())


def _empty(x: Any) -> Any:
    """An array of NumPy's with the dtype of one of ours."""
    return np.empty((1,) * x.ndim, x.dtype) if is_ours(x) else x


def _function(func: Any) -> Any:
    space, module = namespace(), getattr(func, "__module__", "") or ""
    for part in PARTS:
        if module.startswith(f"numpy.{part}"):
            space = getattr(space, part)
    return getattr(space, func.__name__, None)


def _implementation(func: Any) -> Callable[..., Any]:
    """NumPy's function without the protocol."""
    return getattr(func, "_implementation", None) or func.__wrapped__


# ---- universal functions
def array_ufunc(ufunc: Any, method: str, inputs: Any, kwargs: Any) -> Any:
    """numpy.add(x, y), ``numpy_array + x`` and numpy.add.reduce(x): our function of the same name."""
    out = kwargs.pop("out", None)
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    arrays = list(_arrays([inputs, target, kwargs.get("where")]))
    if any(isinstance(x, tuple) and hasattr(x, "__array_ufunc__") for x in inputs):          # a complex array, which
        return NotImplemented                                                                # NumPy asks next
    if target is not None and not is_ours(target):
        return _into_numpy(ufunc, method, inputs, kwargs, out, arrays)
    if method == "__call__" and len(inputs) == 2 and not is_ours(inputs[0]) and target is None and not kwargs:
        reflected = None if isinstance(inputs[1], NDArray) and is_np(inputs[1]) else getattr(
            inputs[1], REFLECTED.get(ufunc.__name__, ""), None)
        if reflected is not None:
            return reflected(inputs[0])
    if method != "at" and not _takes_over(arrays):
        return _into_numpy(ufunc, method, inputs, kwargs, out, arrays)
    _refuse_numpy_result(ufunc.__name__, arrays)
    if method == "__call__":
        mine = getattr(namespace(), UFUNCS.get(ufunc.__name__, ufunc.__name__), None)
    else:
        mine = ufunc_methods.method(namespace(), ufunc, method)
    if mine is None:
        return NotImplemented
    here = next((x._ctx for x in arrays if isinstance(x, NDArray)), None)
    values = [namespace().array(x, ctx=here) if isinstance(x, np.ndarray) and here is not None and not SCOPE.traces
              else x.item() if isinstance(x, np.generic) else x for x in inputs]
    with without_numbers(False):
        return _as_given(mine(*values, **kwargs, **({} if target is None else {"out": target})), arrays)


def _into_numpy(ufunc: Any, method: str, inputs: Any, kwargs: Any, out: Any, arrays: list[Any]) -> Any:
    """NumPy's own answer, from copies of the numbers; into arrays of ours where ``out`` is one."""
    given = out if isinstance(out, tuple) else (out,)
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    if any(is_np(x) for x in arrays):
        raise TypeError(f"numpy.{name}: out must be an array of this library too, got {type(given[0]).__name__}")
    if any(type(x) is Symbol for x in arrays):
        raise TraceError(f"{user_location()}: numpy.{name} would write a traced value into a NumPy array, which has "
                         f"none before the compiled program runs; leave out= (or +=) away and use the result")
    if any(expects_gradient(x) for x in arrays):
        raise HybridError(f"{user_location()}: numpy.{name} would write a recorded array into a NumPy array, "
                                f"through which no gradient flows; leave out= (or +=) away, or give x.detach()")
    if out is not None:
        kwargs["out"] = tuple(x._exposed() if isinstance(x, NDArray) else x for x in given)
    if isinstance(kwargs.get("where"), NDArray):
        kwargs["where"] = kwargs["where"].asnumpy()
    found = getattr(ufunc, method)(*(x.asnumpy() if isinstance(x, NDArray) else x for x in inputs), **kwargs)
    for x in given:
        if isinstance(x, NDArray):
            x._bump()
            return x
    return found


def array_namespace(api_version: str | None = None) -> Any:
    """The array API's functions on our arrays (``hybrid.np.array_api``)."""
    if api_version not in (None, "2021.12", "2022.12"):
        raise ValueError(f"{user_location()}: the array API is there in version 2022.12, got {api_version!r}")
    return importlib.import_module(f"{namespace().__name__}.array_api")


def _attach(cls: Any) -> None:
    cls.__array_namespace__ = lambda self, api_version=None: array_namespace(api_version)
    cls.__array_function__ = lambda self, func, types, args, kwargs: array_function(func, args, kwargs)
    cls.__array_ufunc__ = lambda self, ufunc, method, *inputs, **kwargs: array_ufunc(ufunc, method, inputs, kwargs)


for _cls in (NDArray, Symbol):
    _attach(_cls)
