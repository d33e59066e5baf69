"""NumPy's functions made of other functions, for traced values and recorded arrays.

Other arrays get NumPy's own answer (``fallback``): so do these, eagerly, wherever no gradient is expected.
"""
from __future__ import annotations

from typing import Any

import numpy as _np

from ..base.errors import ShapeError, TraceError, user_location
from ..base.names import named
from ..ir.size import fixed, hint
from . import fallback
from .multiarray import as_value, is_value, ndarray
from .composed_base import (COMPOSED, _dtype, _f, _filtered, _floating, _resolved, _vectors, _whole, composed,
                            needs_operators)

MORE_STEPS = 4                 # rounds of a search in an array of symbolic size beyond those that the traced size takes


# ---- element by element
@composed
def exp2(x: Any) -> Any:
    """2 to the power x."""
    return _f("exp")(_resolved("exp2", x)[0] * float(_np.log(2.0)))


@composed
def logaddexp(x1: Any, x2: Any) -> Any:
    """log(exp(x1) + exp(x2)) without overflow."""
    a, b = _resolved("logaddexp", x1, x2)
    larger, gap = _f("maximum")(a, b), _f("abs")(a - b)
    same = _f("equal")(a, b)                              # also of infinities, whose difference is nan
    return larger + _f("log1p")(_f("exp")(-_f("where")(same, _f("zeros_like")(gap), gap)))


@composed
def logaddexp2(x1: Any, x2: Any) -> Any:
    """log2(2 ** x1 + 2 ** x2) without overflow."""
    a, b = _resolved("logaddexp2", x1, x2)
    log2 = float(_np.log(2.0))
    return logaddexp(a * log2, b * log2) * (1 / log2)


@composed
def heaviside(x1: Any, x2: Any) -> Any:
    """0 below 0, x2 at 0, 1 above."""
    a, b = _resolved("heaviside", x1, x2)
    a, b = (v if hasattr(v, "dtype") else _f("full_like")(o, v) for v, o in ((a, b), (b, a)))
    step = _f("greater")(a, 0).astype(_dtype(a))
    return _f("where")(_f("isnan")(a), a, _f("where")(_f("equal")(a, 0), b, step))


def _ignoring_nan(name: str, other: str) -> None:
    def function(x1: Any, x2: Any) -> Any:
        a, b = (_whole(x1), _whole(x2))
        dtype = _np.result_type(*(x if isinstance(x, (int, float)) else _dtype(v)
                                  for x, v in ((x1, a), (x2, b))))
        a, b = a.astype(dtype), b.astype(dtype)
        if dtype.kind != "f":
            return _f(other)(a, b)
        wide = _f("where")(_f("isnan")(a), b, a), _f("where")(_f("isnan")(b), a, b)
        return _f(other)(*wide)
    composed(named(function, name, "hybrid.numpy", f"The {other} of two values, of which a nan counts for nothing."))


_ignoring_nan("fmax", "maximum")
_ignoring_nan("fmin", "minimum")


@composed
def float_power(x1: Any, x2: Any) -> Any:
    """x1 to the power x2 in float64."""
    return _f("power")(*(_whole(v).astype("float64") if is_value(v) or _np.ndim(v) else float(v) for v in (x1, x2)))


@composed
def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 at 0."""
    x = _floating(x)[0] * float(_np.pi)
    zero = _f("equal")(x, 0)
    safe = _f("where")(zero, x * 0 + 1, x)
    return _f("where")(zero, x * 0 + 1, _f("sin")(safe) / safe)


@composed
def real(val: Any) -> Any:
    """The value itself: arrays are real."""
    return val


@composed
def imag(val: Any) -> Any:
    """Zeros: arrays are real."""
    return _f("zeros_like")(val)


@composed
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether values differ by no more than atol + rtol * abs(b)."""
    a, b = _whole(a), _whole(b)
    gap = _f("less_equal")(_f("abs")(a - b), _f("abs")(b) * rtol + atol)
    finite = _f("logical_and")(_f("isfinite")(b), gap)
    found = _f("logical_or")(finite, _f("equal")(a, b))
    return _f("logical_or")(found, _f("logical_and")(_f("isnan")(a), _f("isnan")(b))) if equal_nan else found


def _in_common_dtype(x1: Any, x2: Any) -> tuple[Any, Any] | None:
    """Both operands in the dtype of the arrays among them, where that is one dtype and Python's numbers convert to it
    exactly; None otherwise."""
    dtypes = {_dtype(v) for v in (x1, x2) if is_value(v)}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype is None or dtype.kind not in "fiu" or dtype == _np.float16:
        return None
    for v in (x1, x2):
        exact = type(v) is int and (dtype.kind == "f" or _np.iinfo(dtype).min <= v <= _np.iinfo(dtype).max)
        if not (is_value(v) or exact or type(v) is float and dtype.kind == "f"):
            return None
    return x1 if is_value(x1) else dtype.type(x1), x2 if is_value(x2) else dtype.type(x2)


def divmod(x1: Any, x2: Any) -> Any:  # noqa: A001  NumPy's name
    """Quotient and remainder: floor_divide and mod."""
    if not needs_operators(x1, x2) and (both := _in_common_dtype(x1, x2)) is not None:
        with _np.errstate(all="ignore"):                     # in one pass
            return fallback.numpy_function("divmod", ndarray)(*both)
    if all(getattr(v, "dtype", None) == _np.bool_ or isinstance(v, bool) for v in (x1, x2)):
        x1, x2 = (v.astype("int8") if is_value(v) else v for v in (x1, x2))
        if not needs_operators(x1, x2) and (both := _in_common_dtype(x1, x2)) is not None:
            return divmod(*both)
        return tuple(v.astype("int8") for v in (_f("floor_divide")(x1, x2), _f("mod")(x1, x2)))
    return _f("floor_divide")(x1, x2), _f("mod")(x1, x2)


COMPOSED["divmod"] = divmod                                   # also eagerly: its dtype is that of both operators


@composed
def modf(x: Any) -> Any:
    """The fractional and the whole part, both with the sign of x."""
    x = _resolved("modf", x)[0]
    whole = _f("trunc")(x)
    return _f("where")(_f("isinf")(x), x * 0 if _dtype(x).kind != "f" else _f("zeros_like")(x), x - whole), whole


# ---- reductions
@composed
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Products of the elements up to each, along an axis or of the flattened array."""
    a = _whole(a)
    if axis is None:
        a, axis = a.reshape(-1), 0
    kind = _dtype(a)
    wanted = _np.dtype(dtype) if dtype is not None else kind if kind.kind == "f" else _np.dtype("int64")
    a = a.astype(wanted) if kind != wanted else a
    n, axis, step = a.shape[axis], axis % len(a.shape), 1
    lead = (slice(None),) * axis
    while step < n:                                       # each round doubles how many elements a product covers
        first, rest = a[(*lead, slice(0, step))], a[(*lead, slice(step, n))] * a[(*lead, slice(0, n - step))]
        a, step = _f("concatenate")([first, rest], axis=axis), 2 * step
    return a


@composed
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The largest value less the smallest."""
    return _f("max")(a, axis=axis, keepdims=keepdims) - _f("min")(a, axis=axis, keepdims=keepdims)


def _counted(a: Any, axis: Any, keepdims: bool) -> tuple[Any, Any, Any]:
    a = _floating(a)[0]
    there = _f("logical_not")(_f("isnan")(a))
    values = _f("where")(there, a, _f("zeros_like")(a))
    return values, there.astype(_dtype(a)), _f("sum")(there.astype(_dtype(a)), axis=axis, keepdims=keepdims)


@composed
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The mean of the elements that are not nan."""
    values, _, count = _counted(a, axis, keepdims)
    return _f("sum")(values, axis=axis, keepdims=keepdims) / count


@composed
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """The variance of the elements that are not nan."""
    values, there, _ = _counted(a, axis, True)
    mean = nanmean(a, axis, keepdims=True) if needs_operators(a) else as_value(nanmean(a, axis, keepdims=True))
    gap = (values - mean) * there
    count = _f("sum")(there, axis=axis, keepdims=keepdims)
    return _f("sum")(gap * gap, axis=axis, keepdims=keepdims) / (count - ddof)


@composed
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """The standard deviation of the elements that are not nan."""
    return _f("sqrt")(nanvar(a, axis, ddof=ddof, keepdims=keepdims))


def _nan_extreme(name: str, other: str, worst: float) -> None:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        a = _whole(a)
        if _dtype(a).kind != "f":
            return _f(other)(a, axis=axis, keepdims=keepdims)
        lost = _f("isnan")(a)
        found = _f(other)(_f("where")(lost, _f("full_like")(a, worst), a), axis=axis, keepdims=keepdims)
        none = _f("all")(lost, axis=axis, keepdims=keepdims)
        return _f("where")(none, _f("full_like")(found, _np.nan), found)
    composed(named(function, name, "hybrid.numpy", f"The {other}imum of the elements that are not nan."))


_nan_extreme("nanmax", "max", -_np.inf)
_nan_extreme("nanmin", "min", _np.inf)


@composed
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule, of points x or a distance dx apart."""
    y = _floating(y)[0]
    axis, n = axis % len(y.shape), y.shape[axis]
    lead = (slice(None),) * axis
    middle = (y[(*lead, slice(1, n))] + y[(*lead, slice(0, n - 1))]) * 0.5
    if x is None:
        return _f("sum")(middle * dx, axis=axis)
    gaps = _f("diff")(_whole(x), axis=-1 if len(_whole(x).shape) == 1 else axis)
    if len(gaps.shape) == 1:
        gaps = gaps.reshape(tuple(-1 if i == axis else 1 for i in range(len(y.shape))))
    return _f("sum")(middle * gaps, axis=axis)


@composed
def vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    """Sums of products along an axis."""
    return _f("sum")(_whole(x1) * _whole(x2), axis=axis)


@composed
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """For each element the choice of the first condition that holds, else the default."""
    if len(condlist) != len(choicelist):
        raise ShapeError(f"{user_location()}: np.select: {len(condlist)} conditions for {len(choicelist)} choices")
    choices = [_whole(c) for c in choicelist]
    dtype = _np.result_type(*(_dtype(c) for c in choices), default if _np.ndim(default) == 0 and not is_value(default)
                            else _dtype(default))
    found = default if is_value(default) else as_value(_np.asarray(default, dtype))
    for condition, choice in zip(reversed(condlist), reversed(choices)):
        found = _f("where")(condition, choice.astype(dtype), found)
    return found


# ---- products of vectors
@composed
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    """Cross products of vectors of three (or two) elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = _f("moveaxis")(_whole(a), axisa, -1), _f("moveaxis")(_whole(b), axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ShapeError(f"{user_location()}: np.cross takes vectors of 2 or 3 elements, got {tuple(a.shape)} and "
                         f"{tuple(b.shape)}")
    (x, y, z), (u, v, w) = (([p[..., i] for i in range(p.shape[-1])] + [0])[:3] for p in (a, b))
    last = x * v - y * u
    if a.shape[-1] == b.shape[-1] == 2:
        return last
    return _f("moveaxis")(_f("stack")([y * w - z * v, z * u - x * w, last], axis=-1), -1, axisc)


@composed
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The convolution of two vectors: 'full', 'same' or 'valid'."""
    a, v = _vectors("convolve", a, v, mode)
    if v.shape[0] > a.shape[0]:
        a, v = v, a
    return _filtered(a, _f("flip")(v, axis=0), mode)


@composed
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """The cross-correlation of two vectors: 'full', 'same' or 'valid'."""
    a, v = _vectors("correlate", a, v, mode)
    if v.shape[0] > a.shape[0]:
        return _f("flip")(_filtered(v, a, mode), axis=0)
    return _filtered(a, v, mode)


# ---- places
@composed
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """arr's elements at indices along an axis, one index for each element of the result."""
    arr, indices = _whole(arr), indices if is_value(indices) else _np.asarray(indices)
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    if len(arr.shape) != len(indices.shape):
        raise ShapeError(f"{user_location()}: np.take_along_axis: indices need as many axes as the array, got "
                         f"{tuple(indices.shape)} for {tuple(arr.shape)}")
    if _dtype(indices).kind not in "iu":
        raise IndexError(f"{user_location()}: np.take_along_axis: indices must be integers, got {_dtype(indices)}")
    axis, ndim = axis % len(arr.shape), len(arr.shape)
    every = [_np.arange(n) if fixed(n) else _f("arange")(n, dtype="int64") for n in arr.shape]
    key: list[Any] = [each.reshape([-1 if i == k else 1 for k in range(ndim)]) for i, each in enumerate(every)]
    key[axis] = indices
    return arr[tuple(key)]


@composed
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where values would be put into a sorted vector: before equal elements, or (side='right') behind them; int64."""
    a = _whole(a)
    a = a if sorter is None else _f("take")(a, sorter)
    if len(a.shape) != 1 or side not in ("left", "right"):
        raise ShapeError(f"{user_location()}: np.searchsorted takes a vector and side 'left' or 'right', got shape "
                         f"{tuple(a.shape)} and {side!r}")
    v = _whole(v)
    n, wide = a.shape[0], _np.result_type(_dtype(a), _dtype(v))
    a, v = a.astype(wide), v.astype(wide)
    at = _f("zeros_like")(v, dtype="int64")
    step = _greatest_power(n)
    while step and n:                                     # as many elements, by powers of two, as lie before v
        after = at + step
        element = _f("take")(a, _f("minimum")(after, n) - 1, mode="clip")
        before = _precedes(element, v) if side == "left" else _f("logical_not")(_precedes(v, element))
        at = _f("where")(_f("logical_and")(before, _f("less_equal")(after, n)), after, at)
        step //= 2
    return at


def _greatest_power(n: int) -> int:
    """The greatest power of two <= n (1 for 0). For a symbolic n: 2**MORE_STEPS times that of its hint; larger sizes
    are traced again."""
    found = 1 << max(hint(n).bit_length() - 1, 0)
    return found if fixed(n) or n >= found << MORE_STEPS + 1 else found << MORE_STEPS


def _precedes(a: Any, b: Any) -> Any:
    """a < b in the order of sorting, in which nan comes last."""
    less = _f("less")(a, b)
    if _dtype(a).kind != "f":
        return less
    return _f("logical_or")(less, _f("logical_and")(_f("isnan")(b), _f("logical_not")(_f("isnan")(a))))


@composed
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """In which bin between ascending or descending edges each element lies."""
    if hasattr(bins, "entries"):
        raise TraceError(f"{user_location()}: np.digitize: whether bins ascend or descend must be known while tracing; "
                         f"give them as numbers or a NumPy array, or use np.searchsorted, which takes ascending ones")
    edges = bins.asnumpy() if hasattr(bins, "asnumpy") else _np.asarray(bins)
    if edges.size and edges[0] > edges[-1]:
        return len(edges) - searchsorted(edges[::-1].copy(), x, side="left" if right else "right")
    return searchsorted(edges, x, side="left" if right else "right")


@composed
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """The values at x of the straight lines between the points (xp, fp); xp ascends; float64, as NumPy's."""
    x, xp, fp = (_whole(v).astype("float64") for v in (x, xp, fp))
    if len(xp.shape) != 1 or tuple(xp.shape) != tuple(fp.shape) or not xp.shape[0]:
        raise ShapeError(f"{user_location()}: np.interp takes as many values as points, got {tuple(xp.shape)} and "
                         f"{tuple(fp.shape)}")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period, left, right = abs(period), None, None
        x, xp = _f("mod")(x, period), _f("mod")(xp, period)
        order = _f("argsort")(xp)
        xp, fp = _f("take")(xp, order), _f("take")(fp, order)
        xp = _f("concatenate")([xp[-1:] - period, xp, xp[:1] + period])
        fp = _f("concatenate")([fp[-1:], fp, fp[:1]])
    n = xp.shape[0]
    if n == 1:
        inside = x * 0 + fp[0]
    else:
        at = _f("clip")(searchsorted(xp, x, side="right") if needs_operators(xp, x) else
                        as_value(searchsorted(xp, x, side="right")), 1, n - 1)
        x0, x1, f0, f1 = (_f("take")(v, i, mode="clip") for v, i in ((xp, at - 1), (xp, at), (fp, at - 1), (fp, at)))
        gap = x1 - x0
        gap = _f("where")(_f("equal")(gap, 0), gap + 1, gap)
        inside = f0 + (f1 - f0) / gap * (x - x0)
    low = fp[0] if left is None else left
    high = fp[n - 1] if right is None else right
    return _f("where")(_f("less")(x, xp[0]), x * 0 + low, _f("where")(_f("greater")(x, xp[n - 1]), x * 0 + high,
                                                                     inside))


__all__ = list(COMPOSED)
