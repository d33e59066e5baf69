"""What the standard has and NumPy lacks or spells otherwise, and the operators that stand for its functions in
graphs."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np

from ...buffers.array import NDArray
from ...graph.symbol import Symbol
from .. import protocol
from .calls import function


def _space(name: str) -> Any:
    return getattr(protocol.namespace(), name)


# ---- element by element
def expm1(x: Any, /) -> Any:
    """exp(x) - 1, exact near 0; of complex numbers with the standard's answers at infinities and nan."""
    if x.dtype.kind != "c":
        return np.expm1(x)
    with np.errstate(all="ignore"):
        re, im = np.real(x), np.imag(x)
        half = np.sin(im / 2)
        real, imag = np.expm1(re) * np.cos(im) - 2 * half * half, np.exp(re) * np.sin(im)
    real_line, nowhere = im == 0, ~np.isfinite(im)
    found = np.empty_like(x)
    found.real = np.where(real_line, np.expm1(re) + 0.0, np.where(nowhere & (re == -np.inf), -1,
                                                            np.where(nowhere & (re == np.inf), np.inf, real)))
    found.imag = np.where(real_line, im, np.where(nowhere & (re == -np.inf), 0, imag))
    return found


# ---- dtypes
class FloatLimits(NamedTuple):
    """What a floating dtype can hold, as Python's numbers."""
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


def _dtype(x: Any) -> Any:
    return np.dtype(x.dtype) if isinstance(x, NDArray) or type(x) is Symbol else x


def finfo(type: Any, /) -> Any:  # noqa: A002  the standard's name
    """What a floating dtype can hold."""
    found = np.finfo(_dtype(type))
    return FloatLimits(int(found.bits), float(found.eps), float(found.max), float(found.min),
                       float(found.smallest_normal), np.dtype(found.dtype))


def iinfo(type: Any, /) -> Any:  # noqa: A002  the standard's name
    """What an integer dtype can hold."""
    return np.iinfo(_dtype(type))


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether one dtype becomes another by the rules of promotion."""
    return bool(np.can_cast(_dtype(from_), to))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind."""
    return bool(np.isdtype(np.dtype(dtype), kind))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that values are promoted to."""
    return np.result_type(*(_dtype(x) for x in arrays_and_dtypes))


# ---- order
def _sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    found = np.sort(x, axis=axis, stable=stable)
    return np.flip(found, axis=axis) if descending else found


def _argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    if not descending:
        return np.argsort(x, axis=axis, stable=stable)
    backwards = np.argsort(np.flip(x, axis=axis), axis=axis, stable=stable)      # equal elements stay in order
    return np.flip(x.shape[axis] - 1 - backwards, axis=axis)


def _sort_operator(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    found = _space("sort")(x, axis=axis)
    return _space("flip")(found, axis=axis) if descending else found


def _argsort_operator(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    if not descending:
        return _space("argsort")(x, axis=axis)
    backwards = _space("argsort")(_space("flip")(x, axis=axis), axis=axis)
    return _space("flip")(x.shape[axis] - 1 - backwards, axis=axis)


_sort.__name__, _argsort.__name__ = "sort", "argsort"
sort, argsort = function(_sort, "sort", _sort_operator), function(_argsort, "argsort", _argsort_operator)


# ---- lists of arrays, which NumPy gives as tuples
def _meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    return list(np.meshgrid(*arrays, indexing=indexing))            # type: ignore[call-overload]


def _broadcast_arrays(*arrays: Any) -> Any:
    return list(np.broadcast_arrays(*arrays))


_meshgrid.__name__, _broadcast_arrays.__name__ = "meshgrid", "broadcast_arrays"
meshgrid = function(_meshgrid, "meshgrid", None)
broadcast_arrays = function(_broadcast_arrays, "broadcast_arrays", None)


# ---- operators under the standard's parameters
def _spread(name: str) -> Callable[..., Any]:
    def operator(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
        return _space(name)(x, axis=axis, ddof=correction, keepdims=keepdims)
    return operator


def _matrix_transpose(x: Any, /) -> Any:
    return _space("swapaxes")(x, -1, -2)


def _reshape(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
    return _space("reshape")(x, tuple(shape))


def _product(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False, name: str = "prod") -> Any:
    found = _space(name)(x, axis=axis, keepdims=keepdims)
    return found if dtype is None else found.astype(dtype)


def _sum(x: Any, /, **options: Any) -> Any:
    return _product(x, name="sum", **options)


def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:  # noqa: A002
    if axis is None or isinstance(axis, tuple):                      # a norm of vectors is of one axis
        axes = tuple(range(len(x.shape))) if axis is None else tuple(i % len(x.shape) for i in axis)
        rest = [i for i in range(len(x.shape)) if i not in axes]
        flat = _space("transpose")(x, (*rest, *axes)).reshape((*(x.shape[i] for i in rest), -1))
        found = _space("linalg").norm(flat, ord=ord, axis=len(rest))
        kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        return found.reshape(kept) if keepdims else found
    return _space("linalg").norm(x, ord=ord, axis=axis, keepdims=keepdims)


def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:  # noqa: A002
    return _space("linalg").norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


def _matrix_power(x: Any, n: int, /) -> Any:
    if n < 0:
        return _matrix_power(_space("linalg").inv(x), -n)
    if n == 0:
        return x * 0 + _space("eye")(x.shape[-1], dtype=x.dtype)
    half = x if n < 2 else _matrix_power(x, n // 2)
    square = half if n < 2 else _space("matmul")(half, half)
    return _space("matmul")(square, x) if n > 1 and n % 2 else square


def _cholesky(x: Any, /, *, upper: bool = False) -> Any:
    found = _space("linalg").cholesky(x)
    return _matrix_transpose(found) if upper else found


def _svdvals(x: Any, /) -> Any:
    return _space("linalg").svd(x)[1]


OPERATORS: dict[str, Callable[..., Any]] = {
    "vector_norm": _vector_norm, "matrix_norm": _matrix_norm, "matrix_power": _matrix_power, "cholesky": _cholesky,
    "svdvals": _svdvals,
    "std": _spread("std"), "var": _spread("var"), "matrix_transpose": _matrix_transpose, "reshape": _reshape,
    "prod": _product, "sum": _sum}
