"""How the array API's functions run: on the array library's own arrays, or as operators of a graph.

Eagerly NumPy (or CuPy) computes, whose namespace follows the standard, in every dtype of the standard. A traced value,
or an array that a gradient is expected of, goes to the function of ``hybrid.np``; its result is given the shape and
dtype that NumPy's own would have.
"""
from __future__ import annotations

from functools import wraps
from typing import Any, Callable, Iterator

import numpy as np

from ...base import dtype as dt
from ...base.device import array_module, current_context
from ...base.errors import DTypeError, ShapeError, TraceError, user_location
from ...buffers.array import NDArray, wrap
from ...graph.symbol import Symbol
from .. import protocol
from ..complex_parts import ComplexParts
from ..composed import needs_operators
from .arrays import Array, as_device, mapped, numpys


def leaves(value: Any) -> Iterator[Any]:
    """Arrays and traced values among arguments."""
    if isinstance(value, NDArray) or type(value) is Symbol:
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from leaves(v)


def eager(source: Callable[..., Any], path: str, args: Any, kwargs: Any) -> Any:
    """A function of the array library on arrays that have numbers."""
    device = kwargs.pop("device", None)
    first = next(leaves([args, list(kwargs.values())]), None)
    ctx = as_device(device) if device is not None else current_context() if first is None else first._ctx
    fn = source
    if ctx.device_type == "gpu":
        space: Any = array_module(ctx)
        for part in path.split("."):
            space = getattr(space, part, None)
        fn = space or source
    return numpys(fn, args, kwargs, ctx)


# ---- graphs
def _sample(x: Any) -> np.ndarray:
    shape, dtype = tuple(x.shape), np.dtype(x.dtype)
    if len(shape) > 1 and shape[-1] == shape[-2]:           # a matrix that every factorization takes
        return np.broadcast_to(np.eye(shape[-1]), shape).astype(dtype)
    return np.ones(shape, dtype)


def _as_numpys(found: Any, want: Any, name: str) -> Any:
    """A result of operators with NumPy's dtype; an error where its shape is another."""
    if isinstance(want, (list, tuple)):
        made = [_as_numpys(f, w, name) for f, w in zip(found, want)]
        return type(want)(*made) if hasattr(want, "_fields") else type(want)(made)
    if not hasattr(want, "dtype") or isinstance(found, ComplexParts):
        return found
    if want.dtype not in dt.SUPPORTED:
        raise DTypeError(f"{user_location()}: {name} gives {want.dtype} here, which neither gradients nor compiled "
                         f"code "
                         f"know; call it outside of the hybridized code and of autograd.record()")
    if tuple(found.shape) != want.shape:
        raise ShapeError(f"{user_location()}: {name} has the shape {want.shape} by the array API standard, and "
                         f"{tuple(found.shape)} as an operator; call it outside of the hybridized code")
    return found if np.dtype(found.dtype) == want.dtype else found.astype(want.dtype)


def graph(source: Callable[..., Any], operator: Callable[..., Any] | None, name: str, args: Any, kwargs: Any) -> Any:
    """A function of the standard as operators, with the dtypes of the standard."""
    if operator is None:
        raise TraceError(f"{user_location()}: {name} has no operator, so it cannot be compiled and no gradient flows "
                         f"through it; call it outside of the hybridized code and of autograd.record()")
    kwargs.pop("device", None)
    with np.errstate(all="ignore"):
        want = source(*mapped(args, _sample), **{k: mapped(v, _sample) for k, v in kwargs.items()})
    found = operator(*args, **kwargs)
    found = _as_numpys(found, want, name)
    return mapped(found, _as_array)


def _as_array(x: Any) -> Any:
    if isinstance(x, ComplexParts):
        return ComplexParts(*map(_as_array, x))
    return wrap(x._data, x._ctx, Array, x) if isinstance(x, NDArray) else x


def function(source: Callable[..., Any], path: str, operator: Callable[..., Any] | None) -> Callable[..., Any]:
    """A function of the standard. source: NumPy's; operator: what takes its place in graphs."""
    @wraps(source)
    def call(*args: Any, **kwargs: Any) -> Any:
        if needs_operators(args, *kwargs.values()):
            return graph(source, operator or _operator(path), path, args, kwargs)
        return eager(source, path, args, kwargs)
    call.__doc__ = f"``{path}`` of the array API standard."
    return call


def _operator(path: str) -> Callable[..., Any] | None:
    """The function of ``hybrid.np`` with a path such as ``linalg.inv``."""
    space: Any = protocol.namespace()
    for part in path.split("."):
        try:
            space = getattr(space, part)
        except AttributeError:
            return None
    return space
