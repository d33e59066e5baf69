"""``np``: NumPy's interface on arrays of this library (zero-dim shapes, NumPy's promotion).

What stands in the modules of this package has NumPy's signature; other operators come from the registry, other
functions are NumPy's own (``fallback``).
"""
from __future__ import annotations

import sys as _sys
from types import ModuleType as _ModuleType
from typing import Any

import numpy as _np

from ..base.other_names import import_error_with_hint as _with_hint
from ..buffers.array import NDArray as _NDArray
from ..nd import functions as _functions
from ..ops.elementwise import NP_BINARY as _NP_BINARY
from ..ops.shape import normal_axis as _normal_axis
from . import array_methods as _array_methods  # noqa: F401  it gives Symbols NumPy's methods
from .complex_parts import ComplexParts as _ComplexParts
from . import (composed as _composed, elementwise as _elementwise,
               fallback as _fallback, fft, linalg, multiarray,
               operators as _operators, protocol as _protocol, random, remembered as _remembered)
from .creation import (arange, blackman, empty, empty_like, eye, full, full_like, hamming, hanning, identity, indices,
                       linspace, logspace, meshgrid, ones, ones_like,
                       tri, tril_indices, triu_indices, zeros, zeros_like)
from .elementwise import clip, lcm, ldexp, nan_to_num, positive, reciprocal, where
from .multiarray import array, ndarray
from .rearrange import (append, array_split, broadcast_arrays, broadcast_to, column_stack, concatenate, delete,
                        diag_indices_from, dsplit, dstack, flip, fliplr, flipud,
                        hsplit, hstack, insert, may_share_memory, pad, ravel, repeat, resize, rot90, row_stack,
                        shares_memory, split, stack, take, tile, unravel_index,
                        vsplit, vstack)
from .statistics import (argsort, atleast_1d, atleast_2d, atleast_3d, average, bincount, diff, ediff1d, einsum,
                         expand_dims, histogram, median, moveaxis, nonzero, outer,
                         percentile, polyval, quantile, reshape, roll, sort, squeeze, swapaxes, tensordot, transpose,
                         unique)

_protocol.SPACE.append(_sys.modules[__name__])

pi, e, inf, nan, newaxis = _np.pi, _np.e, _np.inf, _np.nan, None
NAN = NaN = nan
PINF, NINF, PZERO, NZERO = inf, -inf, 0.0, -0.0
euler_gamma = _np.euler_gamma
float16, float32, float64 = _np.float16, _np.float32, _np.float64
int8, int16, int32, int64, uint8, bool_ = _np.int8, _np.int16, _np.int32, _np.int64, _np.uint8, _np.bool_
bool = _np.bool_  # noqa: A001  MXNet's name
_int = int
finfo, iinfo, dtype = _np.finfo, _np.iinfo, _np.dtype
_RENAMED = {"round_": "around", "trapz": "trapezoid",
            "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
            "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "bitwise_not",
            "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "concat": "concatenate",
            "pow": "power", "permute_dims": "transpose"}


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, ctx: Any = None, device: Any = None,
            **kwargs: Any) -> Any:
    """The array itself where it is one of that dtype, else an array as ``array`` makes it."""
    return array(a, dtype, ctx, device, copy=copy, **({} if order is None else {"order": order}), **kwargs)


def shape(a: Any) -> tuple[_int, ...]:
    """Lengths of the axes."""
    return tuple(a.shape) if hasattr(a, "shape") else _np.shape(a)


def ndim(a: Any) -> _int:
    """Number of axes."""
    return len(shape(a))


def size(a: Any, axis: Any = None) -> _int:
    """Number of elements, in all or along an axis."""
    return _int(_np.prod(shape(a))) if axis is None else shape(a)[_normal_axis(axis, ndim(a), "np.size")]


def alen(a: Any) -> _int:
    """Length of the first axis, 1 for a number."""
    return (shape(a) or (1,))[0]


def msort(a: Any) -> Any:
    """A copy sorted along the first axis."""
    return sort(a, axis=0)


def in1d(ar1: Any, ar2: Any, assume_unique: Any = False, invert: Any = False) -> Any:
    """For each element of ar1, in one row, whether ar2 holds it."""
    found = _made("isin")(reshape(_elementwise.as_value(ar1), (-1,)), ar2)
    return _made("logical_not")(found) if invert else found


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """The array itself, of one axis at least: memory is always in order."""
    found = a if _elementwise.is_value(a) and dtype is None else array(a, dtype)
    return atleast_1d(found)


def copy(a: Any, out: Any = None, order: str = "K") -> Any:
    """A copy, in the order of rows as every array."""
    if order == "F":
        raise NotImplementedError("np.copy: arrays lie in the order of rows, order='F' is not supported")
    return _elementwise.finish(_functions.resolve("np", "copy")(_elementwise.as_value(a)), out)


def conj(a: Any, out: Any = None, order: str = "K") -> Any:
    """The complex conjugate; of a real array a copy."""
    return a.conj() if isinstance(a, _ComplexParts) and out is None else copy(a, out, order)


conjugate = conj


def count_nonzero(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """How many elements are not 0, in all (an int) or over an axis."""
    if isinstance(a, _NDArray) and a.context.device_type != "gpu" and not _composed.needs_operators(a):
        found = _fallback.numpy_function("count_nonzero", ndarray)(a, axis=axis, keepdims=keepdims)
    else:
        found = (_elementwise.as_value(a) != 0).astype("int64").sum(axis=axis, keepdims=keepdims)
    return found.item() if axis is None and not keepdims and hasattr(found, "item") else found


def set_printoptions(precision: Any = None, threshold: Any = None, **kwargs: Any) -> None:
    """How arrays are printed: NumPy's options."""
    given = {"precision": precision, "threshold": threshold, **kwargs}
    _np.set_printoptions(**{k: v for k, v in given.items() if v is not None})


def genfromtxt(*args: Any, **kwargs: Any) -> Any:
    """An array from a text file, with numpy.genfromtxt's parameters; float32 unless ``dtype`` says otherwise."""
    found = _np.genfromtxt(*args, **kwargs)
    return array(found, dtype=None if "dtype" in kwargs or len(args) > 1 else "float32")


def _made(name: str) -> Any:
    if name in _RENAMED:                                         # one function under both names
        return getattr(_sys.modules[__name__], _RENAMED[name])
    if name in globals():
        return globals()[name]
    if name in _NP_BINARY:
        return _elementwise.binary(name, name)
    if name in _elementwise.REDUCTIONS and _functions.has("np", name):
        return _elementwise.reduction(name)
    if _functions.has("np", name):
        return _elementwise.unary(name)
    if name in _composed.COMPOSED:
        return _composed.COMPOSED[name]
    return _fallback.numpy_function(name, ndarray)


_MADE: dict[str, Any] = {}
_SEEN = [-1]


@_with_hint
def __getattr__(name: str) -> Any:
    """NumPy's functions: from the registry, else NumPy's own."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("_internal", "_op"):
        return _operators
    if _SEEN[0] != _functions.registry.VERSION[0]:
        _MADE.clear()
        _SEEN[0] = _functions.registry.VERSION[0]
    if name not in _MADE:
        _MADE[name] = _remembered.remembered(_made(name), name) if name not in globals() else _made(name)
    return _kept(name, _MADE[name])


_kept = _functions.Kept(globals(), _functions.registry.namespace("np"), _NP_BINARY, _composed.COMPOSED,
                        _fallback.FUNCTIONS)


def __dir__() -> list[str]:
    found = {*(globals().keys() - _kept.made.keys()), *_functions.listing("np"), *_NP_BINARY, *_RENAMED,
             *_composed.COMPOSED}
    found -= {"Any", "annotations"}
    return sorted(n for n in found if not n.startswith("_") and not _written_in(n))


def _written_in(name: str) -> Any:
    """Whether a name is a module that functions of this package are written in, not one for users."""
    return name not in __all__ and isinstance(globals().get(name), _ModuleType)


__all__ = ["append", "arange", "argsort", "array", "array_split", "asarray", "ascontiguousarray", "atleast_1d",
           "atleast_2d", "atleast_3d", "average", "bincount",
           "blackman", "bool_", "broadcast_arrays", "broadcast_to", "clip", "column_stack", "concatenate", "conj",
           "conjugate", "copy",
           "count_nonzero", "delete", "diag_indices_from",
           "diff", "dsplit", "dstack", "ediff1d", "einsum", "empty", "empty_like", "expand_dims", "eye", "flip",
           "fliplr", "flipud", "full", "full_like", "genfromtxt",
           "hamming", "hanning", "histogram", "hsplit", "hstack", "identity", "indices", "insert", "lcm", "ldexp",
           "fft", "linalg", "linspace", "logspace", "may_share_memory",
           "median", "meshgrid", "moveaxis", "multiarray", "nan_to_num", "ndarray", "ndim", "nonzero", "ones",
           "ones_like", "outer", "pad", "percentile", "polyval", "positive", "quantile",
           "random", "ravel", "reciprocal", "repeat", "reshape", "resize", "roll", "rot90", "row_stack",
           "set_printoptions", "shape",
           "shares_memory", "size", "sort", "split", "squeeze",
           "stack", "swapaxes", "take", "tensordot", "tile", "transpose", "tri", "tril_indices", "triu_indices",
           "unique", "unravel_index", "vsplit", "vstack", "where", "zeros",
           "zeros_like"]


_remembered.remember(globals())
