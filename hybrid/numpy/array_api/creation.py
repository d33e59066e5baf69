"""Arrays from shapes, numbers and other arrays, by the array API standard. The default floating dtype is float32."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...base.device import array_module, current_context, on
from ...base.errors import TraceError, user_location
from ...buffers.array import NDArray, wrap
from ...graph.symbol import Symbol
from .arrays import Array, as_device, computed, given_back, raw_of
from ..composed import needs_operators

FLOAT, COMPLEX = np.dtype("float32"), np.dtype("complex64")


def _default(dtype: Any, *values: Any) -> Any:
    """The dtype given, or the default one of Python's numbers."""
    if dtype is not None:
        return dtype
    kinds = {type(v) for v in values}
    if complex in kinds:
        return COMPLEX
    return FLOAT if float in kinds else np.dtype("int64") if int in kinds else np.dtype("bool")


def _create(name: str, device: Any, *args: Any, **kwargs: Any) -> Any:
    ctx = current_context() if device is None else as_device(device)
    return computed(ctx, getattr(array_module(ctx), name), *args, **kwargs)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """An array from numbers, nested lists or another array; of Python's floats float32."""
    if needs_operators(obj):
        if not hasattr(obj, "astype"):
            raise TraceError(f"{user_location()}: asarray of a list of traced values: use stack")
        found = obj if dtype is None else obj.astype(dtype)
        return found.copy() if copy and found is obj else found
    ctx = as_device(device) if device is not None else getattr(obj, "_ctx", None) or current_context()
    if isinstance(obj, NDArray):
        if copy is not True and (dtype is None or obj._data.dtype == dtype) and obj._ctx == ctx:
            return obj if type(obj) is Array else wrap(obj._data, obj._ctx, Array)
        obj = obj.as_in_context(ctx)._data if obj._ctx != ctx else raw_of(obj)
    elif dtype is None and not hasattr(obj, "dtype") and not hasattr(obj, "__array__"):
        found = np.asarray(_plain(obj))
        dtype = {"f": FLOAT, "c": COMPLEX}.get(found.dtype.kind) if not _holds_arrays(obj) else None
        obj = found
    xp: Any = array_module(ctx)
    with on(ctx):
        made = xp.array(_plain(obj), dtype=dtype) if copy or copy is None and not isinstance(obj, xp.ndarray) else \
            xp.asarray(_plain(obj), dtype=dtype)
    if copy is False and not (isinstance(obj, xp.ndarray) and xp.shares_memory(made, obj)):
        raise ValueError(f"{user_location()}: asarray(copy=False) cannot share the memory of {type(obj).__name__} in "
                         f"this dtype or on this device")
    return given_back(made, ctx)


def _plain(obj: Any) -> Any:
    if isinstance(obj, (list, tuple)):
        return [_plain(v) for v in obj]
    return raw_of(obj) if isinstance(obj, NDArray) else obj


def _holds_arrays(obj: Any) -> bool:
    return any(_holds_arrays(v) for v in obj) if isinstance(obj, (list, tuple)) else hasattr(obj, "dtype")


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The array in another dtype."""
    if type(x) is Symbol or needs_operators(x):
        return x.astype(dtype, copy=copy)
    if device is not None:
        x = x.as_in_context(as_device(device))
    kind = np.dtype(x._data.dtype).kind
    if kind == "c" and np.dtype(dtype).kind not in "cb":
        raise TypeError(f"{user_location()}: a complex array is not cast to {np.dtype(dtype)}: take xp.real(x) first")
    return x if not copy and x._data.dtype == dtype else computed(x._ctx, raw_of(x).astype, dtype, copy=True)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros of a shape."""
    return _create("zeros", device, shape, dtype=dtype or FLOAT)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones of a shape."""
    return _create("ones", device, shape, dtype=dtype or FLOAT)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of a shape whose contents are to be written."""
    return _create("empty", device, shape, dtype=dtype or FLOAT)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A number in a shape."""
    value = raw_of(fill_value) if isinstance(fill_value, NDArray) else fill_value
    return _create("full", device, shape, value, dtype=dtype if hasattr(value, "dtype") else _default(dtype, value))


def eye(n_rows: int, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """Ones on the k-th diagonal."""
    return _create("eye", device, n_rows, n_cols, k=k, dtype=dtype or FLOAT)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """start, start + step, … below stop."""
    if stop is None:
        start, stop = 0, start
    return _create("arange", device, start, stop, step, dtype=_default(dtype, start, stop, step))


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
             endpoint: bool = True) -> Any:
    """num numbers from start to stop."""
    kind = COMPLEX if isinstance(start, complex) or isinstance(stop, complex) else FLOAT
    return _create("linspace", device, start, stop, num, endpoint=endpoint, dtype=dtype or kind)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A number in an array's shape and dtype."""
    return full(tuple(x.shape), fill_value, dtype=dtype or x.dtype, device=device or x.ctx)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros in an array's shape and dtype."""
    return zeros(tuple(x.shape), dtype=dtype or x.dtype, device=device or x.ctx)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones in an array's shape and dtype."""
    return ones(tuple(x.shape), dtype=dtype or x.dtype, device=device or x.ctx)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of another's shape and dtype whose contents are to be written."""
    return empty(tuple(x.shape), dtype=dtype or x.dtype, device=device or x.ctx)


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array that shares the memory of another one, of any library."""
    ctx = x._ctx if isinstance(x, NDArray) else current_context()
    ctx = ctx if device is None else as_device(device)
    xp: Any = array_module(ctx)
    with on(ctx):
        found = xp.from_dlpack(x)
        return given_back(found.copy() if copy else found, ctx)
