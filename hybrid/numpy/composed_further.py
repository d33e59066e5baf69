"""Further functions of NumPy's made of other functions: tests and comparisons, running sums, differences, statistics,
and the products of matrices and their aliases in ``np.linalg``."""
from __future__ import annotations

import functools
from typing import Any, Callable

import numpy as _np

from ..base.errors import ShapeError, TraceError, user_location
from ..base.names import named
from . import fallback
from .composed_base import _dtype, _f, _floating, _resolved, _whole, composed, needs_operators
from .multiarray import is_value, ndarray


# ---- tests and comparisons
@composed
def signbit(x: Any) -> Any:
    """Whether an element is negative: bool; also of -0.0."""
    x = _whole(x)
    return _f("less")(_f("copysign")(_f("ones_like")(x), x) if _dtype(x).kind == "f" else x, 0)


@composed
def isreal(x: Any) -> Any:
    """Whether an element has no imaginary part: True, since arrays of operators are real."""
    return _f("ones_like")(_whole(x)).astype("bool")


@composed
def iscomplex(x: Any) -> Any:
    """Whether an element has an imaginary part: False, since arrays of operators are real."""
    return _f("zeros_like")(_whole(x)).astype("bool")


@composed
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         kind: Any = None) -> Any:
    """For each element whether it is among the test elements: bool, in the shape of ``element``."""
    element, tests = _whole(element), _whole(test_elements).reshape(-1)
    found = _f("any")(_f("equal")(element.reshape((*element.shape, 1)), tests), axis=-1)
    return _f("logical_not")(found) if invert else found


@composed
def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements of a and b are close: True or False; in hybridized code an array without axes."""
    return _f("all")(_f("isclose")(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


@composed
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and the same elements: True or False; in hybridized code an array."""
    a, b = _whole(a1), _whole(a2)
    if tuple(a.shape) != tuple(b.shape):
        return False
    same = _f("equal")(a, b)
    if equal_nan and "f" == _dtype(a).kind == _dtype(b).kind:
        same = _f("logical_or")(same, _f("logical_and")(_f("isnan")(a), _f("isnan")(b)))
    return _f("all")(same)


@composed
def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays are equal after broadcasting: True or False; in hybridized code an array."""
    a, b = _whole(a1), _whole(a2)
    try:
        _np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        return False
    return _f("all")(_f("equal")(a, b))


# ---- running sums and products
def _summed(a: Any) -> Any:
    """The dtype of NumPy's running sums: of integers int64."""
    return _dtype(a) if _dtype(a).kind == "f" else _np.dtype("int64")


def _ignoring_nan(name: str, other: str, neutral: int) -> None:
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        a = _whole(a)
        if _dtype(a).kind == "f":
            a = _f("where")(_f("isnan")(a), _f("full_like")(a, neutral), a)
        return _f(other)(a, axis=axis, dtype=dtype or _summed(a))
    composed(named(function, name, "hybrid.numpy", f"{other} with {neutral} in the place of nan."))


_ignoring_nan("nancumsum", "cumsum", 0)
_ignoring_nan("nancumprod", "cumprod", 1)


def _cumulative(name: str, other: str, neutral: int) -> None:
    def function(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
                 include_initial: bool = False) -> Any:
        x = _whole(x)
        if axis is None and len(x.shape) > 1:
            raise ValueError(f"{user_location()}: np.{name}: axis must be given for an array of {len(x.shape)} axes")
        found = _f(other)(x, axis=axis or 0, dtype=dtype or _summed(x))
        if not include_initial:
            return found
        first = _f("full_like")(_f("take")(found, _np.array([0]), axis=axis or 0), neutral)
        return _f("concatenate")([first, found], axis=axis or 0)
    composed(named(function, name, "hybrid.numpy",
                   f"{other} along an axis; include_initial puts {neutral} before it."))


_cumulative("cumulative_sum", "cumsum", 0)
_cumulative("cumulative_prod", "cumprod", 1)


# ---- differences, angles, statistics
def _within(x: Any, axis: int, part: slice) -> Any:
    """A part of an array along an axis."""
    return x[(slice(None),) * axis + (part,)]


@composed
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 6.283185307179586) -> Any:
    """Angles with multiples of the period added, so that neighbours differ by half of it at most."""
    p, = _floating(p)
    axis %= len(p.shape)
    step = _f("diff")(p, axis=axis)
    half = period / 2
    near = _f("mod")(step + half, period) - half
    near = _f("where")(_f("logical_and")(_f("equal")(near, -half), _f("greater")(step, 0)), near * 0 + half, near)
    change = _f("where")(_f("less")(_f("abs")(step), half if discont is None else max(discont, half)), step * 0,
                         near - step)
    first = _within(p, axis, slice(0, 1))
    return _f("concatenate")([first, _within(p, axis, slice(1, None)) + _f("cumsum")(change, axis=axis)], axis=axis)


def _slope(f: Any, axis: int, gap: Any, edge_order: int) -> Any:
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ShapeError(f"{user_location()}: np.gradient: axis {axis} of {tuple(f.shape)} needs {edge_order + 1} "
                         f"elements at least for edge_order={edge_order}")
    at = [_within(f, axis, slice(i, i + 1)) for i in (0, 1, 2, n - 3, n - 2, n - 1) if 0 <= i < n]
    parts = [(_within(f, axis, slice(2, None)) - _within(f, axis, slice(0, n - 2))) / 2] if n > 2 else []
    if edge_order == 1:
        first, last = at[1] - at[0], at[-1] - at[-2]
    else:
        first, last = at[1] * 2 - at[0] * 1.5 - at[2] * 0.5, at[-1] * 1.5 - at[-2] * 2 + at[-3] * 0.5
    return _f("concatenate")([first, *parts, last], axis=axis) / gap


@composed
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences along each axis, one-sided at its ends; varargs: the distance of neighbours, one or one an
    axis (in hybridized code and under record numbers, no coordinates)."""
    f, = _floating(f)
    every = range(len(f.shape)) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [i % len(f.shape) for i in every]
    gaps = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1.0] * len(axes)
    if len(gaps) != len(axes):
        raise TypeError(f"{user_location()}: np.gradient takes one distance or one for each of {len(axes)} axes, got "
                        f"{len(varargs)}")
    if edge_order not in (1, 2):
        raise ValueError(f"{user_location()}: np.gradient: edge_order must be 1 or 2, got {edge_order}")
    if any(_np.ndim(g) if not is_value(g) else len(g.shape) for g in gaps):
        raise TraceError(f"{user_location()}: np.gradient takes distances of neighbours here, no coordinates; call it "
                         f"outside of hybridized code and of record")
    found = [_slope(f, i, gap, edge_order) for i, gap in zip(axes, gaps)]
    return found[0] if len(found) == 1 else tuple(found)


@composed
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of a number in the complex plane: 0, or pi where it is negative; of nan nan."""
    z, = _floating(z)
    found = _f("where")(signbit(z), z * 0 + (180.0 if deg else _np.pi), z * 0)
    return _f("where")(_f("isinf")(z), _f("where")(_f("less")(z, 0), _f("full_like")(z, 180.0 if deg else _np.pi),
                                                   _f("zeros_like")(z)), found)


@composed
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
        aweights: Any = None, *, dtype: Any = None) -> Any:
    """Covariances of variables, which are the rows (rowvar=False: the columns) of m and y."""
    if fweights is not None or aweights is not None:
        raise TraceError(f"{user_location()}: np.cov takes no weights in hybridized code or under record")
    rows = []
    for v in (m, y):
        if v is not None:
            v, = _floating(v)
            v = v.reshape((1, -1)) if len(v.shape) < 2 else v if rowvar else _f("swapaxes")(v, 0, 1)
            rows.append(v)
    x = (rows[0] if len(rows) == 1 else _f("concatenate")(rows, axis=0)).astype(dtype or "float64")
    x = x - _f("mean")(x, axis=1, keepdims=True)
    found = _f("matmul")(x, _f("swapaxes")(x, 0, 1)) / (x.shape[1] - (ddof if ddof is not None else int(not bias)))
    return found.reshape(()) if found.shape == (1, 1) else found


@composed
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """Correlations (Pearson) of variables, which are the rows (rowvar=False: the columns) of x and y."""
    c = _f("cov")(x, y, rowvar, dtype=dtype)
    if len(c.shape) == 0:
        return c / c
    root = _f("sqrt")(_f("diagonal")(c))
    return _f("clip")(c / root.reshape((-1, 1)) / root, -1, 1)


@composed
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:  # noqa: N803  NumPy's name
    """Powers of a vector's elements in columns: N - 1 to 0, or with increasing=True 0 to N - 1."""
    x = _whole(x)
    if len(x.shape) != 1:
        raise ValueError(f"{user_location()}: np.vander takes a vector, got shape {tuple(x.shape)}")
    wanted = _np.promote_types(_dtype(x), int)
    columns = [_f("ones_like")(x).astype(wanted)]
    for _ in range((x.shape[0] if N is None else N) - 1):
        columns.append(columns[-1] * x.astype(wanted))
    return _f("stack")(columns if increasing else columns[::-1], axis=1)


# ---- products of matrices
@composed
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    x = _whole(x)
    if len(x.shape) < 2:
        raise ValueError(f"{user_location()}: np.matrix_transpose takes two axes or more, got shape {tuple(x.shape)}")
    return _f("swapaxes")(x, -1, -2)


@composed
def matvec(x1: Any, x2: Any) -> Any:
    """Products of matrices (…, m, n) and vectors (…, n)."""
    a, b = _resolved("matmul", *(_whole(v) for v in (x1, x2)))
    return _f("sum")(a * b.reshape((*b.shape[:-1], 1, b.shape[-1])), axis=-1)


@composed
def vecmat(x1: Any, x2: Any) -> Any:
    """Products of vectors (…, n) and matrices (…, n, m)."""
    return matvec(_f("swapaxes")(_whole(x2), -1, -2), x1)


@composed
def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """The parts of an array along an axis, which goes, as a tuple."""
    x = _whole(x)
    return tuple(_f("take")(x, i, axis=axis) for i in range(x.shape[axis]))


LINALG: dict[str, Callable[..., Any]] = {}


def _of_linalg(fn: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function of the same name in ``np.linalg``, and ``fn`` where a graph is wanted."""
    name = fn.__name__.lstrip("_")

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        if needs_operators(*args, *kwargs.values()) or not hasattr(_np.linalg, name):
            return fn(*args, **kwargs)
        return fallback.wrapped(f"np.linalg.{name}", getattr(_np.linalg, name), ndarray)(*args, **kwargs)
    LINALG[name] = named(function, name, "hybrid.numpy.linalg")
    return function


@_of_linalg
def _matmul(x1: Any, x2: Any, /) -> Any:
    """Products of matrices (…, m, k) and (…, k, n)."""
    return _f("matmul")(_whole(x1), _whole(x2))


@_of_linalg
def _matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    return matrix_transpose(x)


@_of_linalg
def _outer(x1: Any, x2: Any, /) -> Any:
    """x1[i] * x2[j] of two vectors."""
    return _f("outer")(_whole(x1), _whole(x2))


@_of_linalg
def _tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Sums of products over axes of both arrays."""
    return _f("tensordot")(_whole(x1), _whole(x2), axes=axes)


@_of_linalg
def _cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Cross products of vectors of three elements along an axis."""
    return _f("cross")(x1, x2, axis=axis)


@_of_linalg
def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Sums of products along an axis."""
    return _f("sum")(_whole(x1) * _whole(x2), axis=axis)


@_of_linalg
def _diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices (…, m, n)."""
    return _f("diagonal")(_whole(x), offset=offset, axis1=-2, axis2=-1)


@_of_linalg
def _trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices (…, m, n)."""
    found = _f("sum")(_f("diagonal")(_whole(x), offset=offset, axis1=-2, axis2=-1), axis=-1)
    return found if dtype is None else found.astype(dtype)


@_of_linalg
def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:  # noqa: A002
    """Norms of matrices (…, m, n): 'fro', 'nuc', 1, -1, 2, -2, inf or -inf."""
    return _f("linalg").norm(_whole(x), ord=ord, axis=(-2, -1), keepdims=keepdims)


@_of_linalg
def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:  # noqa: A002
    """Norms of vectors, which lie along axes."""
    x, = _floating(x)
    n = len(x.shape)
    axes = tuple(range(n)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    size = _f("abs")(x)
    if ord in (_np.inf, -_np.inf):
        return _f("max" if ord > 0 else "min")(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return _f("sum")((size != 0).astype(_dtype(x)), axis=axes, keepdims=keepdims)
    return _f("power")(_f("sum")(_f("power")(size, ord), axis=axes, keepdims=keepdims), 1.0 / ord)


@_of_linalg
def _matrix_power(a: Any, n: int) -> Any:
    """A square matrix (…, m, m) times itself, n factors; a negative n takes the inverse."""
    a = _whole(a)
    if n < 0:
        a, n = _f("linalg").inv(a), -n
    found = None
    while n:                                                 # the products of its binary digits
        found = a if n & 1 and found is None else _f("matmul")(found, a) if n & 1 else found
        a, n = _f("matmul")(a, a) if n > 1 else a, n // 2
    return found if found is not None else _f("zeros_like")(a) + _f("eye")(a.shape[-1], dtype=_dtype(a))


@_of_linalg
def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of two matrices or more, in their order; the first and the last may be vectors."""
    return functools.reduce(_f("dot"), [_whole(x) for x in arrays])


__all__ = ["LINALG"]
