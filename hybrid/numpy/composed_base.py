"""Functions that are made of other functions of NumPy's register here, with the helpers that they share."""
from __future__ import annotations

from functools import wraps
from typing import Any, Callable

import numpy as _np

from ..base.errors import ShapeError, user_location
from ..buffers.array import NDArray
from ..nd import functions
from . import fallback, protocol
from .multiarray import as_value, is_value, ndarray

COMPOSED: dict[str, Callable[..., Any]] = {}


def needs_operators(*values: Any) -> bool:
    """Whether a traced value, or an array that a gradient is expected of, is among values (also in lists)."""
    for v in values:
        if isinstance(v, NDArray):
            if protocol.expects_gradient(v):
                return True
        elif isinstance(v, (list, tuple)):
            if needs_operators(*v):
                return True
        elif type(v) not in fallback.PLAIN and hasattr(v, "entries"):
            return True
    return False


def composed(fn: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function of the same name, and ``fn`` where a graph is wanted or this NumPy does not have it yet."""
    name = fn.__name__
    known = hasattr(_np, name)
    own: list[Any] = []

    @wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        if known:
            if not own:
                own.append(fallback.numpy_function(name, ndarray))
            if (found := own[0].called_in_c(args, kwargs)) is not NotImplemented:   # nothing is recorded or traced
                return found
            if not needs_operators(*args, *kwargs.values()):
                return own[0](*args, **kwargs)
        return fn(*args, **kwargs)
    COMPOSED[name] = function
    return function


def _f(name: str) -> Any:
    return getattr(protocol.namespace(), name)


def _dtype(x: Any) -> Any:
    return _np.dtype(x.dtype)


def _floating(*values: Any) -> list[Any]:
    """Values as arrays of the floating dtype that NumPy computes with: float64 for integers."""
    arrays = [_whole(v) if is_value(v) or _np.ndim(v) else v for v in values]
    wide = [_dtype(v) if _dtype(v).kind == "f" else _np.dtype("float64") for v in arrays if hasattr(v, "dtype")]
    wanted = _np.result_type(*wide)
    return [v.astype(wanted) if hasattr(v, "dtype") and _dtype(v) != wanted else v for v in arrays]


def _resolved(name: str, *values: Any) -> list[Any]:
    """Values as arrays of the dtype that NumPy's function of that name computes with."""
    arrays = [_whole(v) if is_value(v) or _np.ndim(v) else v for v in values]
    found = getattr(_np, name)(*(_np.empty(0, _dtype(v)) if hasattr(v, "dtype") else v for v in arrays))
    wanted = (found[0] if isinstance(found, tuple) else found).dtype
    return [v.astype(wanted) if hasattr(v, "dtype") and _dtype(v) != wanted else v for v in arrays]


def _whole(a: Any) -> Any:
    """An array from a value of any kind, with NumPy's own dtype for lists."""
    return a if is_value(a) else as_value(_np.asarray(a))


def _vectors(name: str, a: Any, v: Any, mode: str) -> tuple[Any, Any]:
    a, v = _whole(a), _whole(v)
    a, v = (x.reshape(1) if x.shape == () else x for x in (a, v))
    if len(a.shape) != 1 or len(v.shape) != 1 or not a.shape[0] or not v.shape[0]:
        raise ShapeError(f"{user_location()}: np.{name} takes two vectors that are not empty, got {tuple(a.shape)} "
                         f"and {tuple(v.shape)}")
    if mode not in ("full", "same", "valid"):
        raise ShapeError(f"{user_location()}: np.{name}: mode must be full, same or valid, got {mode!r}")
    dtype = _np.result_type(_dtype(a), _dtype(v))
    return a.astype(dtype), v.astype(dtype)


def _filtered(a: Any, v: Any, mode: str) -> Any:
    """sum over k of a[i + k] v[k], as far as ``mode`` wants it; v is not longer than a."""
    n, m = a.shape[0], v.shape[0]
    before = {"full": m - 1, "same": m - 1 - (m - 1) // 2, "valid": 0}[mode]
    length = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    behind = length + m - 1 - n - before
    if _dtype(a).kind == "f":
        wide = _f("pad")(a, ((before, behind),))
        return _convolution(wide, v)
    wide = _f("concatenate")([_f("zeros_like")(v)[:1].repeat(before), a, _f("zeros_like")(v)[:1].repeat(behind)]
                             if before and behind else [a] if not before and not behind else
                             [_f("zeros_like")(v)[:1].repeat(before), a] if before else
                             [a, _f("zeros_like")(v)[:1].repeat(behind)])
    windows = wide[_np.arange(length)[:, None] + _np.arange(m)[None]]
    return _f("sum")(windows * v, axis=1).astype(_dtype(a))


def _convolution(wide: Any, v: Any) -> Any:
    found = functions.resolve("nd", "Convolution")(wide.reshape((1, 1, -1)), v.reshape((1, 1, -1)),
                                                   kernel=(v.shape[0],),
                                         num_filter=1, no_bias=True)
    return found.reshape((-1,))
