"""Order statistics, counts, polynomials, sums of products: NumPy's functions over operators where a gradient or a trace
is wanted."""
from __future__ import annotations

import functools
from typing import Any

import numpy as _np

from ..nd import functions
from ..nd.views import in_order
from ..buffers.array import NDArray
from ..autograd.dispatch import invoke
from ..base import dtype as dt
from ..base.names import named
from ..base.errors import ShapeError, user_location
from ..ops.registry import OPS
from . import composed, fallback
from .creation import full_like, parts, shape_tuple
from .elementwise import reduction, where
from .multiarray import array, as_np, as_value, finish, is_value, ndarray


def _op(name: str, *inputs: Any, **attrs: Any) -> Any:
    return as_np(invoke(OPS[name], inputs, {k: v for k, v in attrs.items() if v is not None}, hint=name.lstrip("_")))


METHODS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen",
           "weibull", "median_unbiased", "normal_unbiased")


def _percentile(name: str, a: Any, q: Any, scale: float, axis: Any, out: Any, how: str, keepdims: bool,
                weights: Any = None) -> Any:
    if how in METHODS or weights is not None:                # of NumPy alone: eagerly
        found = _counted(name, a, q, axis=axis, method=how, keepdims=keepdims,
                         **({} if weights is None else {"weights": weights}))
        return finish(found, out)
    if how not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(f"np.{name}: method must be linear, lower, higher, midpoint or nearest, or eagerly one of "
                         f"{', '.join(METHODS)}; got {how!r}")
    if axis == ():                                           # over no axes: each element by itself
        a, axis, keepdims = expand_dims(a, -1), -1, False
    attrs = {"axis": axis, "interpolation": how, "keepdims": keepdims}
    if isinstance(q, (int, float, _np.number)):
        values, rest, attrs = _np.asarray(q), (), {**attrs, "q_scalar": float(q) * scale}
    else:
        q = as_value(q)
        values, rest = q.asnumpy() if isinstance(q, NDArray) else _np.zeros(()), (q * scale if scale != 1 else q,)
    if ((values < 0) | (values * scale > 100)).any():
        raise ValueError(f"np.{name}: q must lie between 0 and {100 / scale:g}, got {q}")
    if how != "nearest" and _numpy_has_percentiles(a) and not composed.needs_operators(a, q):   # sorts not all
        found = _counted(name, a.astype(dt.ordered(a.dtype), copy=False), values.astype("float64"), axis=axis,
                         method=how, keepdims=keepdims)
        return finish(found.astype(dt.between(a.dtype), copy=False), out)
    if isinstance(a, NDArray) and a.dtype.kind in "iub":     # the operator takes floats
        a = a.astype("float32")
    return finish(_op("_npi_percentile", as_value(a), *rest, **attrs), out)


def _numpy_has_percentiles(a: Any) -> bool:
    """Whether an array has elements of a dtype that NumPy's percentile takes, or that are exact in one of those."""
    return isinstance(a, NDArray) and a.dtype.kind in "fiub" and a.size > 0


def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None,
               interpolation: str = "linear", keepdims: bool = False,
               method: Any = None, *, weights: Any = None) -> Any:
    """Percentiles (q from 0 to 100) over axes; interpolation (also ``method``): linear, lower, higher, midpoint,
    nearest."""
    return _percentile("percentile", a, q, 1.0, axis, out, method or interpolation, keepdims, weights)


def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None,
             interpolation: str = "linear", keepdims: bool = False,
             method: Any = None, *, weights: Any = None) -> Any:
    """Quantiles (q from 0 to 1) over axes; interpolation (also ``method``): linear, lower, higher, midpoint,
    nearest."""
    return _percentile("quantile", a, q, 100.0, axis, out, method or interpolation, keepdims, weights)


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None, keepdims: bool = False) -> Any:
    """The middle of the sorted elements over axes, or the mean of the two that are."""
    if _numpy_has_percentiles(a) and axis != () and not composed.needs_operators(a):
        found = _counted("median", a.astype(dt.ordered(a.dtype), copy=False), axis, keepdims=keepdims)
        return finish(found.astype(dt.between(a.dtype), copy=False), out)
    return percentile(a, 50, axis, out, keepdims=keepdims)


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, out: Any = None) -> Any:
    """Mean over axes, weighted where weights are given; with ``returned`` also the sum of the weights."""
    a = as_value(a)
    found = reduction("average")(a, axis=axis, weights=weights)
    if a.shape is not None and 0 in a.shape and weights is None:          # 0 / 0, as NumPy and MXNet
        found = full_like(found, _np.nan)
    if not returned:
        return finish(found, out)
    resolve = functions.resolve
    wide = full_like(a, 1) if weights is None else _wide(as_value(weights), a, axis)
    total = resolve("np", "sum")(wide, **({} if axis is None else {"axis": axis}))
    return [finish(found, out), total]


def _wide(weights: Any, a: Any, axis: Any) -> Any:
    if tuple(weights.shape) != tuple(a.shape):
        weights = weights.reshape([d if i == axis % len(a.shape) else 1 for i, d in enumerate(a.shape)])
    return functions.resolve("np", "broadcast_to")(weights, shape=tuple(a.shape))


def _counted(name: str, *args: Any, **kwargs: Any) -> Any:
    return fallback.numpy_function(name, ndarray)(*args, **kwargs)


def histogram(a: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None,
              density: Any = None) -> Any:  # noqa: A002
    """How many elements lie in each bin, int64, and the bins' edges. bins: their number (with ``range``) or their
    edges."""
    if normed:
        raise NotImplementedError("np.histogram: normed left NumPy with version 1.24; use density=True")
    a = as_value(a)
    if weights is not None or density:                       # NumPy's own, eagerly
        return _counted("histogram", a, bins, range, weights=weights, density=density)
    if hasattr(a, "entries") or hasattr(bins, "entries"):
        return _traced_histogram(a, bins, range)
    counts, edges = _counted("histogram", a, bins, range)
    return counts, edges.astype(dt.between(a.dtype))


def _traced_histogram(a: Any, bins: Any, range: Any) -> Any:  # noqa: A002
    """NumPy's counts: how many sorted elements lie before each edge, the last edge within its bin."""
    resolve, flat = functools.partial(functions.resolve, "np"), a.reshape(-1)
    dtype = dt.between(a.dtype)
    if isinstance(bins, (int, _np.integer)):
        low: Any
        high: Any
        low, high = (flat.min(), flat.max()) if range is None else map(float, range)
        if range is not None and low == high:
            low, high = low - 0.5, high + 0.5
        elif range is None:
            same = resolve("equal")(low, high).astype(dtype) * 0.5
            low, high = low.astype(dtype) - same, high.astype(dtype) + same
        steps = array(_np.arange(bins + 1, dtype=dtype))
        edges = low + steps * ((high - low) / bins)
        edges = where(array(_np.arange(bins + 1) == bins), high, edges)
    else:
        if not hasattr(bins, "entries") and (_np.diff(known := _np.asarray(bins)) < 0).any():
            raise ValueError(f"{user_location()}: np.histogram: edges must ascend, got {known.tolist()}")
        edges = (bins if is_value(bins) else array(_np.asarray(bins))).astype(dtype)
    ordered = resolve("sort")(flat.astype(dtype))
    n = edges.shape[0]
    before = [composed.searchsorted(ordered, edges[:n - 1]), composed.searchsorted(ordered, edges[n - 1:], "right")]
    return resolve("diff")(resolve("concatenate")(*before, axis=0)), edges


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number from 0 occurs, or the sum of its weights; at least ``minlength`` numbers."""
    if minlength < 0:
        raise ValueError(f"np.bincount: minlength must not be negative, got {minlength}")
    x = as_value(_np.asarray(x) if not is_value(x) else x)
    if weights is None:
        return _counted("bincount", x, minlength=minlength)
    weights = as_value(weights)
    return _counted("bincount", x, weights, minlength).astype(weights.dtype)


def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: Any = None, *, equal_nan: bool = True) -> Any:
    """The different elements in order (or slices along an axis); also their first places, the inverse, and how often
    they occur."""
    found = _counted("unique", as_value(ar), return_index, return_inverse, return_counts, axis,
                     **({} if equal_nan else {"equal_nan": False}))
    if not return_inverse:
        return found
    at = 1 + bool(return_index)
    return (*found[:at], found[at].reshape(-1), *found[at + 1:])


def polyval(p: Any, x: Any) -> Any:
    """The polynomial with coefficients p, the highest power first, at x."""
    if not is_value(p) and not is_value(x):
        return _counted("polyval", p, x)
    return _op("_npi_polyval", as_value(p), as_value(x))


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, n times; what is to stand before and after it may be given."""
    if n < 0:
        raise ValueError(f"np.diff: n must not be negative, got {n}")
    a = as_value(a)
    pieces = [a]
    for value, at in ((prepend, 0), (append, 2)):
        if value is not None:
            value = as_value(value)
            if value.shape == ():
                value = functions.resolve("np", "broadcast_to")(value,
                                                                shape=tuple(1 if i == axis % len(a.shape) else d
                                                                            for i, d in enumerate(a.shape)))
            pieces.insert(at, value)
    joined = a if len(pieces) == 1 else functions.resolve("np", "concatenate")(*pieces, axis=axis)
    if joined.dtype == _np.bool_ and len(joined.shape):      # of truth values whether neighbours differ
        lead = (slice(None),) * (axis % len(joined.shape))
        for _ in range(n):
            joined = joined[(*lead, slice(1, None))] != joined[(*lead, slice(None, -1))]
        return joined
    return functions.resolve("np", "diff")(joined, n=n, axis=axis)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, with numbers or arrays before and after them."""
    attrs: dict[str, Any] = {}
    rest = []
    for value, name in ((to_end, "to_end"), (to_begin, "to_begin")):
        if isinstance(value, (int, float)):
            attrs[f"{name}_scalar"] = float(value)
        elif value is not None:
            attrs[f"{name}_arr_given"] = True
            rest.append(as_value(value))
    return _op("_npi_ediff1d", as_value(ary), *rest, **attrs)


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """Sums of products by Einstein's convention: ``einsum('ij,jk->ik', a, b)``."""
    if not operands or not isinstance(operands[0], str):
        raise NotImplementedError("np.einsum takes the subscripts as text first: np.einsum('ij,jk->ik', a, b)")
    if kwargs:
        raise TypeError(f"np.einsum has no {', '.join(sorted(kwargs))}")
    subscripts, *arrays = operands
    return finish(functions.resolve("np", "einsum")(*[as_value(x) for x in arrays], subscripts=subscripts,
                                                    optimize=int(bool(optimize))), out)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums of products over the last ``axes`` axes of a and the first of b, or over given pairs of axes."""
    a, b = as_value(a), as_value(b)
    if isinstance(axes, (int, _np.integer)):
        return _op("_npi_tensordot_int_axes", a, b, axes=int(axes))
    if len(axes) != 2:
        raise ValueError(f"np.tensordot: axes must be a number or a pair, got {axes!r}")
    first, second = (tuple(int(i) for i in x) if isinstance(x, (list, tuple)) else (int(x),) for x in axes)
    return _op("_npi_tensordot", a, b, a_axes_summed=first, b_axes_summed=second)


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Every product of an element of a and one of b: shape (a.size, b.size)."""
    return finish(tensordot(as_value(a).reshape(-1), as_value(b).reshape(-1), 0), out)


def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Elements in order along an axis (of the flattened array for None)."""
    a = as_value(a)
    if axis is not None and a.shape is not None and not len(a.shape):
        raise ShapeError(f"{user_location()}: np.sort: an array without axes has no axis {axis}; axis=None sorts it as "
                         f"a vector of one element")
    return functions.resolve("np", "sort")(a, axis=axis)


def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Indices that sort along an axis: int64. Equal elements stay in the order they stand in, whatever is asked for."""
    return functions.resolve("np", "argsort")(as_value(a), axis=axis)


def nonzero(a: Any) -> Any:
    """Places of the numbers that are not 0: an int64 array for each axis."""
    return _counted("nonzero", array(a) if not is_value(a) else a)


def _atleast(n: int) -> Any:
    name = f"atleast_{n}d"

    def function(*arys: Any) -> Any:
        found = parts(functions.resolve("np", name)(*[as_value(x) for x in arys]))
        return found[0] if len(found) == 1 else found
    return named(function, name, "hybrid.numpy", f"Arrays with {n} axes at least.")


atleast_1d, atleast_2d, atleast_3d = (_atleast(_n) for _n in (1, 2, 3))


def _like_numpy(name: str, *names: str) -> Any:
    """An operator whose parameters behind the array come in NumPy's order."""
    inner = functions.resolve("np", name)

    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args)), **kwargs}
        out = given.pop("out", None)
        return finish(inner(as_value(a), **{k: tuple(v) if isinstance(v, list) else v
                                            for k, v in given.items() if v is not None}), out)
    return named(function, name, "hybrid.numpy", inner.__doc__)


moveaxis, squeeze, transpose, roll = (_like_numpy(*_s.split()) for _s in (
    "moveaxis source destination", "squeeze axis out", "transpose axes", "roll shift axis"))


def expand_dims(a: Any, axis: Any) -> Any:
    """With new axes of length 1 at a place, or at several, of the result."""
    a, resolve = as_value(a), functions.resolve("np", "expand_dims")
    if not isinstance(axis, (tuple, list)):
        return resolve(a, axis=axis)
    n = len(a.shape) + len(axis)
    places = [k + n if k < 0 else k for k in axis]
    if len(set(places)) < len(places) or any(not 0 <= k < n for k in places):
        raise ShapeError(f"{user_location()}: np.expand_dims: axis={axis} are not different axes of a result of {n} "
                         f"axes")
    for k in sorted(places):
        a = resolve(a, axis=k)
    return a


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    return functions.resolve("np", "swapaxes")(as_value(a), dim1=axis1, dim2=axis2)


def reshape(a: Any, newshape: Any = None, order: str = "C", out: Any = None, shape: Any = None) -> Any:
    """The elements in the same order in another shape; one length may be -1."""
    given = shape_tuple(newshape if newshape is not None else shape)
    return finish(in_order("reshape", as_value(a), given, order), out)
