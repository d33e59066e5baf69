"""Arrays from shapes and numbers: zeros, arange, linspace, windows, …"""
from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as _np

from ..nd import functions
from ..base.device import Context, current_context
from ..base.dtype import as_dtype
from ..buffers.array import NDArray, array as _array, wrap
from ..ir.build import ints
from ..ir.size import Size
from ..nd import made_here
from ..nd.random_functions import make as _make
from ..base.errors import AttributeValueError
from ..base.names import named
from ..base.scope import SCOPE, tracing
from .multiarray import array, as_np, as_value, finish, is_value, ndarray


def shape_tuple(shape: Any) -> tuple[int, ...]:
    """A shape from one number or several."""
    if isinstance(shape, (int, _np.integer, Size)):
        return ints((shape,))
    if isinstance(shape, NDArray):
        return tuple(int(s) for s in shape.tolist())             # np.array([2, 3]) is of float32
    try:
        return tuple([s if type(s) is Size else operator.index(s) for s in shape])      # type: ignore[misc]
    except TypeError:
        raise AttributeValueError("a shape is an integer or a tuple of integers, such as (2, 3), got "
                                  f"{shape!r}") from None


def _order(name: str, order: str) -> None:
    if order != "C":
        raise NotImplementedError(f"np.{name}: order must be 'C', got {order!r}")


def zeros(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> Any:
    """Zeros of a shape; float32 unless dtype is given."""
    _order("zeros", order)
    return as_np(_make("_zeros", shape=shape_tuple(shape), dtype=dtype or "float32", ctx=ctx or device))


def ones(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> Any:
    """Ones of a shape; float32 unless dtype is given."""
    _order("ones", order)
    return as_np(_make("_ones", shape=shape_tuple(shape), dtype=dtype or "float32", ctx=ctx or device))


def empty(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> Any:
    """An array of a shape whose contents are to be written; until then they are undefined (zeros in compiled code)."""
    _order("empty", order)
    found = _unwritten(shape_tuple(shape), as_dtype(dtype or "float32"), ctx or device)
    return zeros(shape, dtype, order, ctx, device) if found is None else found


def _unwritten(shape: tuple[int, ...], dtype: Any, ctx: Any) -> Any:
    """An array that nothing was written to; None where ``zeros`` is to make it, or to raise an error."""
    ctx = current_context() if ctx is None else ctx
    plain = isinstance(ctx, Context) and ctx.device_type != "gpu" and min(shape, default=0) >= 0 and not is_traced()
    return wrap(_np.empty(shape, dtype), ctx, ndarray) if plain else None


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None,
         device: Any = None) -> Any:
    """A number in a shape; bool for True and False, else float32 unless dtype is given. An array is broadcast to the
    shape."""
    _order("full", order)
    if isinstance(fill_value, (list, tuple, _np.ndarray)):
        fill_value = _array(fill_value, ctx or device, dtype or "float32", ndarray)
    if is_value(fill_value):
        found = functions.resolve("np", "broadcast_to")(as_np(fill_value), shape=shape_tuple(shape))
        return finish(found if dtype is None else found.astype(dtype, copy=False), out)
    dtype = dtype or ("bool" if isinstance(fill_value, (bool, _np.bool_)) else "float32")
    return finish(as_np(_make("_full", shape=shape_tuple(shape), value=fill_value, dtype=dtype, ctx=ctx or device)),
                  out)


def _like(name: str, value: Any) -> Any:
    def function(a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None,
                 shape: Any = None) -> Any:
        return full_like(a, value, dtype, order, out=out, shape=shape)
    return named(function, name, "hybrid.numpy",
                 f"{value}s in an array's shape, and its dtype unless another is given.")


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None,
              shape: Any = None) -> Any:
    """A number, or an array's values broadcast, in an array's shape (or ``shape``), and its dtype unless another is
    given."""
    _order("full_like", "C" if order == "K" else order)
    value = as_value(a)
    if shape is not None or is_value(fill_value) or isinstance(fill_value, (list, tuple, _np.ndarray)):
        return full(value.shape if shape is None else shape, fill_value, dtype or value.dtype, ctx=ctx, out=out)
    if isinstance(fill_value, (bool, _np.bool_)):
        fill_value = int(fill_value)
    return finish(functions.resolve("np", "full_like")(value, fill_value=fill_value,
                                                       **({"dtype": dtype} if dtype is not None else {})), out)


zeros_like, ones_like = _like("zeros_like", 0), _like("ones_like", 1)


def empty_like(prototype: Any, dtype: Any = None, order: str = "C", subok: bool = False, shape: Any = None) -> Any:
    """An array in another's shape and dtype whose contents are to be written (see empty)."""
    _order("empty_like", order)
    if isinstance(prototype, NDArray) and shape is None:
        found = _unwritten(prototype.shape, as_dtype(dtype or prototype.dtype), prototype._ctx)
        if found is not None:
            return found
    return full_like(prototype, 0, dtype, order, shape=shape)


def arange(start: Any = None, stop: Any = None, step: Any = 1, dtype: Any = None, ctx: Any = None,
           device: Any = None) -> Any:
    """start, start + step, … below stop."""
    if stop is None:
        start, stop = None, start
    if stop is None:
        raise TypeError("np.arange takes a number to stop at: np.arange(stop), np.arange(start, stop)")
    start = 0 if start is None else start
    if step is None:
        step = 1
    if step == 0:
        raise ZeroDivisionError("np.arange: step must not be 0")
    if (stop <= start if step > 0 else stop >= start):
        return zeros((0,), dtype, ctx=ctx or device)
    return as_np(_make("_arange", start=start, stop=stop, step=step, dtype=dtype or "float32", ctx=ctx or device))


def _number(x: Any) -> bool:
    return bool(_np.isscalar(x)) and not is_value(x)


def linspace(start: Any, stop: Any, num: int = 50, endpoint: Any = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0, ctx: Any = None) -> Any:
    """num numbers from start to stop (without it where endpoint is False); with retstep also their distance."""
    if num < 0:
        raise ValueError(f"np.linspace: num must not be negative, got {num}")
    if not (_number(start) and _number(stop)):
        return _between_arrays(start, stop, num, endpoint, retstep, dtype, axis)
    found = as_np(_make("_linspace", start=start, stop=stop, num=num, endpoint=endpoint, dtype=dtype or "float32",
                        ctx=ctx))
    parts = num - 1 if endpoint else num
    return (found, (stop - start) / parts if parts > 0 else float("nan")) if retstep else found


def _between_arrays(start: Any, stop: Any, num: int, endpoint: Any, retstep: bool, dtype: Any, axis: int) -> Any:
    """linspace between arrays: num arrays along a new axis."""
    resolve = functools.partial(functions.resolve, "np")
    ends = [as_value(v) for v in (start, stop)]
    if dtype is None:                                        # of floats theirs, of integers the default
        dtype = _np.result_type(*({_np.dtype(v.dtype) for v in ends if _np.dtype(v.dtype).kind == "f"} or {"float32"}))
    low, high = (v.astype(_np.result_type(dtype, "float32")) for v in ends)
    parts = num - 1 if endpoint else num
    gap = high - low
    share = array(_np.linspace(0, 1, num, endpoint=bool(endpoint)), dtype=low.dtype)
    axes = len(gap.shape)
    found = low + gap * share.reshape((num,) + (1,) * axes)
    found = resolve("moveaxis")(found, source=0, destination=axis) if axis else found
    if _np.dtype(dtype).kind in "iu":
        found = resolve("floor")(found)
    found = found.astype(dtype)
    return (found, gap / parts if parts > 0 else gap * float("nan")) if retstep else found


def logspace(start: Any, stop: Any, num: int = 50, endpoint: Any = True, base: float = 10.0, dtype: Any = None,
             axis: int = 0, ctx: Any = None) -> Any:
    """num numbers from base^start to base^stop."""
    if not (_number(start) and _number(stop)):
        wide = linspace(start, stop, num, endpoint, axis=axis)
        found = functions.resolve("np", "exp")(wide * math.log(base))
        return found if dtype is None else found.astype(dtype)
    return as_np(_make("_npi_logspace", start=start, stop=stop, num=num, endpoint=endpoint, base=base,
                       dtype=dtype or "float32", ctx=ctx))


def eye(N: int, M: Any = None, k: int = 0, dtype: Any = None, ctx: Any = None, **kwargs: Any) -> Any:  # noqa: N803
    """Ones on the k-th diagonal of an (N, M) matrix, zeros elsewhere."""
    if N < 0 or (M or 0) < 0:
        raise ValueError(f"np.eye: N and M must not be negative, got {N} and {M}")
    if N == 0 or M == 0:
        return zeros((N, N if M is None else M), dtype, ctx=ctx)
    return as_np(_make("_eye", N=N, M=M or 0, k=k, dtype=dtype or "float32", ctx=ctx))


def identity(n: int, dtype: Any = None, ctx: Any = None) -> Any:
    """The identity matrix."""
    return eye(n, dtype=dtype, ctx=ctx)


def tri(N: int, M: Any = None, k: int = 0, dtype: Any = None, ctx: Any = None) -> Any:  # noqa: N803
    """Ones at and below the k-th diagonal."""
    return _fresh(_np.tri(N, M, k, as_dtype(dtype or "float32")), ctx)


def _fresh(made: _np.ndarray, ctx: Any) -> Any:
    """An array that NumPy has just made, on a device; nobody else has it."""
    ctx = current_context() if ctx is None else ctx
    return made_here(_array(made, ctx, made.dtype, ndarray) if ctx.device_type == "gpu" else wrap(made, ctx, ndarray))


def tril_indices(n: int, k: int = 0, m: Any = None, ctx: Any = None) -> Any:
    """Rows and columns of the lower triangle of an (n, m) matrix: two int64 arrays."""
    return tuple(made_here(_array(x, ctx, "int64", ndarray)) for x in _np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: Any = None, ctx: Any = None) -> Any:
    """Rows and columns of the upper triangle of an (n, m) matrix: two int64 arrays."""
    return tuple(made_here(_array(x, ctx, "int64", ndarray)) for x in _np.triu_indices(n, k, m))


def indices(dimensions: Any, dtype: Any = None, ctx: Any = None, *, sparse: bool = False) -> Any:
    """Indices of a grid: shape (axes, *dimensions), int32 unless dtype is given. sparse: a tuple of arrays that
    broadcast to it."""
    if sparse:
        lengths = shape_tuple(dimensions)
        return tuple(arange(n, dtype=dtype or "int32", ctx=ctx).reshape(tuple(-1 if i == k else 1 for i in
                                                                              range(len(lengths))))
                     for k, n in enumerate(lengths))
    return as_np(_make("_npi_indices", dimensions=shape_tuple(dimensions), dtype=dtype or "int32", ctx=ctx))


def _window(name: str) -> Any:
    def function(M: int, dtype: Any = None, ctx: Any = None) -> Any:  # noqa: N803
        return as_np(_make(f"_npi_{name}", M=int(M), dtype=_np.dtype(dtype or "float32").name, ctx=ctx))
    return named(function, name, "hybrid.numpy", f"The {name} window of M points; float32 unless dtype is given.")


hanning, hamming, blackman = (_window(_n) for _n in ("hanning", "hamming", "blackman"))


def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> Any:
    """Coordinates of a grid: one array for each vector."""
    if not xi:
        return []
    found = functions.resolve("np", "meshgrid")(*map(as_value, xi), indexing=indexing, sparse=sparse)
    return parts(found)


def parts(found: Any) -> list[Any]:
    """The outputs of an operator as a list: arrays, or those of a traced value."""
    if hasattr(found, "entries"):
        return [found[k] for k in range(len(found.entries))] if len(found.entries) > 1 else [found]
    return [as_np(x) for x in (found if isinstance(found, (list, tuple)) else [found])]


def is_traced() -> bool:
    """Whether a program is being made: numbers are not there yet."""
    return tracing() is not None or bool(SCOPE.symbolic)
