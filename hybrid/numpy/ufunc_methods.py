"""Methods of NumPy's universal functions: ``numpy.add.reduce(x)``, ``accumulate``, ``outer`` and ``reduceat``.

What is a reduction of ours by name is that one; any other function of two values is applied along the axis one slice
after another, as NumPy does.
"""
from __future__ import annotations

import functools
from typing import Any, Callable

import numpy as np

from ..base.errors import AttributeValueError, HybridError, ShapeError, TraceError, user_location
from ..base.scope import SCOPE
from ..buffers.array import NDArray

REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
           "logical_or": "any"}
ACCUMULATED = {"add": "cumsum"}


def method(space: Any, ufunc: Any, name: str) -> Callable[..., Any] | None:
    """A method of a universal function over the functions of ``space``; None where ``space`` lacks the function."""
    fn = getattr(space, ufunc.__name__, None)
    made: dict[str, Callable[..., Any]] = {"reduce": _reduce, "accumulate": _accumulate, "outer": _outer,
                                           "reduceat": _reduceat, "at": _at}
    return None if fn is None else functools.partial(made[name], space, ufunc, fn)


def _slices(x: Any, axis: int) -> list[Any]:
    lead = (slice(None),) * (axis % len(x.shape))
    return [x[(*lead, i)] for i in range(x.shape[axis])]


def _axis(ufunc: Any, x: Any, axis: Any) -> int:
    if isinstance(axis, tuple) and len(axis) == 1:
        axis = axis[0]
    if not isinstance(axis, (int, np.integer)) or not -len(x.shape) <= axis < len(x.shape):
        raise ShapeError(f"{user_location()}: numpy.{ufunc.__name__}.reduce and accumulate run along one axis of an "
                         f"array of shape {tuple(x.shape)}, got axis={axis!r}")
    return int(axis)


def _options(ufunc: Any, name: str, given: dict[str, Any]) -> None:
    """NumPy's other options are taken at their defaults alone."""
    left = {k: v for k, v in given.items() if v is not None and v is not np._NoValue
            and not (k == "where" and v is True)}
    if left:
        raise AttributeValueError(f"{user_location()}: numpy.{ufunc.__name__}.{name} of arrays of this library takes "
                                  f"no {', '.join(sorted(left))}")


def _reduce(space: Any, ufunc: Any, fn: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
            keepdims: bool = False, initial: Any = None, **rest: Any) -> Any:
    _options(ufunc, "reduce", rest)
    array = array if dtype is None else array.astype(dtype)
    name = REDUCED.get(ufunc.__name__)
    if name is not None and 0 not in array.shape:
        found = getattr(space, name)(array, axis=axis, keepdims=keepdims)
    else:
        if axis is None and len(array.shape) != 1:
            array, axis = array.reshape(-1), 0
        axis = _axis(ufunc, array, 0 if axis is None else axis)
        parts = _slices(array, axis)
        if not parts and initial is None and ufunc.identity is None:
            raise ShapeError(f"{user_location()}: numpy.{ufunc.__name__}.reduce of an axis of length 0 has no value "
                             f"without initial=")
        if not parts:
            shape = array.shape[:axis % len(array.shape)] + array.shape[axis % len(array.shape) + 1:]
            parts = [space.full(shape, ufunc.identity if initial is None else initial, array.dtype)]
        found = functools.reduce(fn, parts)
        found = space.expand_dims(found, axis) if keepdims else found
    found = found if initial is None or initial is np._NoValue else fn(found, initial)
    return found if out is None else _put(found, out)


def _accumulate(space: Any, ufunc: Any, fn: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    array = array if dtype is None else array.astype(dtype)
    axis = _axis(ufunc, array, axis)
    name = ACCUMULATED.get(ufunc.__name__)
    if name is not None:
        found = getattr(space, name)(array, axis=axis)
    elif not array.shape[axis]:
        found = array.copy()
    else:
        parts = _slices(array, axis)
        for i in range(1, len(parts)):
            parts[i] = fn(parts[i - 1], parts[i])
        found = space.stack(parts, axis=axis)
    return found if out is None else _put(found, out)


def _outer(space: Any, ufunc: Any, fn: Any, a: Any, b: Any, out: Any = None, **rest: Any) -> Any:
    _options(ufunc, "outer", rest)
    a, b = (space.asarray(v) if np.ndim(v) or not hasattr(v, "shape") else v for v in (a, b))
    found = fn(a.reshape(tuple(a.shape) + (1,) * len(b.shape)), b)
    return found if out is None else _put(found, out)


def _reduceat(space: Any, ufunc: Any, fn: Any, array: Any, indices: Any, axis: Any = 0, dtype: Any = None,
              out: Any = None) -> Any:
    if hasattr(indices, "entries"):
        raise TraceError(f"{user_location()}: numpy.{ufunc.__name__}.reduceat of traced indices: give them as numbers "
                         f"or a NumPy array")
    places = np.asarray(indices.asnumpy() if isinstance(indices, NDArray) else indices).tolist()
    axis = _axis(ufunc, array, axis) % len(array.shape)
    n, lead = array.shape[axis], (slice(None),) * axis
    if any(not 0 <= i < n for i in places):
        raise IndexError(f"{user_location()}: numpy.{ufunc.__name__}.reduceat: indices must lie in [0, {n}), got "
                         f"{places}")
    parts = [_reduce(space, ufunc, fn, array[(*lead, slice(i, j))], axis, dtype) if i < j else array[(*lead, i)]
             for i, j in zip(places, [*places[1:], n])]
    found = space.stack(parts, axis=axis)
    return found if out is None else _put(found, out)


def _at(space: Any, ufunc: Any, fn: Any, array: Any, indices: Any, *values: Any) -> None:
    """array[indices] = ufunc(array[indices], value), an index that comes twice twice."""
    if not isinstance(array, NDArray) or any(hasattr(v, "entries") for v in (indices, *values)):
        raise TraceError(f"{user_location()}: numpy.{ufunc.__name__}.at changes an array index by index, which is not "
                         f"compiled; write x[indices] = ... where no index comes twice, or call it outside of the "
                         f"hybridized code")
    if SCOPE.recording and any(getattr(v, "_ag", None) is not None for v in (array, *values)):
        raise HybridError(f"{user_location()}: numpy.{ufunc.__name__}.at is NumPy's own function, through which no "
                          f"gradient flows: use it outside autograd.record(), or on x.detach()")
    host = array.asnumpy()
    ufunc.at(host, *(v.asnumpy() if isinstance(v, NDArray) else v for v in (indices, *values)))
    array[...] = host


def _put(found: Any, out: Any) -> Any:
    out[...] = found.astype(out.dtype)
    return out
