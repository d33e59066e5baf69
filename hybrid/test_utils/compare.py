"""Comparing arrays, with the tolerances that their dtypes allow."""
from __future__ import annotations

import numbers
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..buffers.array import NDArray
from ..base.errors import ShapeError

_INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def default_dtype() -> Any:
    """float32."""
    return np.float32


def default_rtols() -> dict[np.dtype, float]:
    """Relative tolerance of each dtype."""
    return {np.dtype("float16"): 1e-2, np.dtype("float32"): 1e-4, np.dtype("float64"): 1e-5,
            **{np.dtype(n): 0 for n in _INTEGERS}}


def default_atols() -> dict[np.dtype, float]:
    """Absolute tolerance of each dtype."""
    return {np.dtype("float16"): 1e-1, np.dtype("float32"): 1e-3, np.dtype("float64"): 1e-20,
            **{np.dtype(n): 0 for n in _INTEGERS}}


def default_numeric_eps() -> dict[np.dtype, float]:
    """Step of finite differences for each dtype: a power of two, which loses no bits."""
    return {np.dtype("float16"): 2.0**-6, np.dtype("float32"): 2.0**-9, np.dtype("float64"): 2.0**-14}


def effective_dtype(dat: Any) -> np.dtype:
    """The dtype that decides about tolerances."""
    return np.dtype(dat.dtype)


def get_tolerance(dat: Any, tol: Any, default_tol: Mapping[Any, float]) -> float:
    """A number, or what a dict by dtype (else ``default_tol``) says about an array."""
    if isinstance(tol, numbers.Number):
        return tol                                        # type: ignore[return-value]
    dtype = effective_dtype(dat)
    return {np.dtype(k): v for k, v in (tol or {}).items()}.get(dtype, default_tol.get(dtype, 1e-1))


def get_tols(x: Any, y: Any, rtol: Any, atol: Any) -> tuple[float, float]:
    """The coarser tolerances of two arrays."""
    x, y = (np.asarray(v) if isinstance(v, (numbers.Number, list, tuple)) else v for v in (x, y))
    return (max(get_tolerance(x, rtol, default_rtols()), get_tolerance(y, rtol, default_rtols())),
            max(get_tolerance(x, atol, default_atols()), get_tolerance(y, atol, default_atols())))


def get_atol(atol: float | None = None, dtype: Any = np.float64) -> float:
    """An absolute tolerance, or a dtype's own."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: Any = np.float64) -> float:
    """A relative tolerance, or a dtype's own."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """The share of elements that may differ: 0 unless given."""
    return 0 if etol is None else etol


def host(x: Any) -> Any:
    """An array as NumPy's."""
    return x.asnumpy() if isinstance(x, NDArray) else np.asarray(x)


def _wide(x: np.ndarray) -> np.ndarray:
    """Half types in a type that NumPy computes with."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def same(a: Any, b: Any) -> bool:
    """Whether two arrays have the same shape and elements."""
    return bool(np.array_equal(host(a), host(b)))


def almost_equal(a: Any, b: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
                 use_broadcast: bool = True) -> bool:
    """Whether two arrays agree within rtol (1e-5) and atol (1e-20)."""
    x, y = _wide(host(a)), _wide(host(b))
    if not use_broadcast:
        _check_shapes(x, y)
    try:
        return bool(np.allclose(x, y, rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan))
    except ValueError:                                    # shapes that do not broadcast
        return False


def _check_shapes(a: np.ndarray, b: np.ndarray) -> None:
    if a.shape != b.shape:
        raise ShapeError(f"a.shape = {a.shape} and b.shape = {b.shape} are not equal")


def assert_almost_equal(a: Any, b: Any, rtol: Any = None, atol: Any = None, names: Sequence[str] = ("a", "b"),
                        equal_nan: bool = False,
                        use_broadcast: bool = True, mismatches: tuple[int, int] = (10, 10)) -> None:
    """AssertionError that says where two arrays differ most, if they differ by more than atol + rtol |b| somewhere.

    rtol, atol: numbers, dicts by dtype, or None for what the coarser dtype allows. names: for the message.
    use_broadcast: whether shapes may differ as long as they broadcast. mismatches: how many places the message shows.

    >>> assert_almost_equal(nd.ones((2,)), nd.ones((2,)) + 1e-6)
    """
    rtol, atol = get_tols(a, b, rtol, atol)
    x, y = _wide(host(a)), _wide(host(b))
    if not use_broadcast:
        _check_shapes(x, y)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        _check_shapes(x, y)
    if x.dtype == np.bool_ and y.dtype == np.bool_:
        np.testing.assert_equal(x, y)
    elif not np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan):
        raise AssertionError(_difference(x, y, rtol, atol, names, equal_nan, mismatches[0]))


def _difference(x: np.ndarray, y: np.ndarray, rtol: float, atol: float, names: Sequence[str], equal_nan: bool,
                shown: int) -> str:
    """The places of the largest differences, in words."""
    x, y = np.broadcast_arrays(x.astype(np.float64), y.astype(np.float64))
    with np.errstate(all="ignore"):
        wrong = ~np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
        error = np.where(wrong, np.nan_to_num(np.abs(x - y) / (atol + rtol * np.abs(y) + 1e-20), nan=np.inf), 0)
    order = np.argsort(-error, axis=None)[:min(max(shown, 1), int(wrong.sum()))]
    lines = [f"Error {error.max():f} exceeds tolerance rtol={rtol:e}, atol={atol:e} (mismatch {100 * wrong.mean():f}%)."]  # noqa: E501
    for i, at in enumerate(order):
        index = tuple(int(v) for v in np.unravel_index(at, x.shape))
        lines.append(f"{'Location of maximum error' if not i else 'and'}: {index}, {names[0]}={x[index]:.8f}, "
                     f"{names[1]}={y[index]:.8f}")
    return "\n".join(lines)


def assert_allclose(a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True) -> None:
    """assert_almost_equal with NumPy's tolerances."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(a: Any, b: Any, rtol: Any = None, atol: Any = None, etol: float | None = None,
                                 names: Sequence[str] = ("a", "b"),
                                 equal_nan: bool = False, mismatches: tuple[int, int] = (10, 10)) -> None:
    """assert_almost_equal that lets a share ``etol`` of the elements differ."""
    share = get_etol(etol)
    if not share:
        assert_almost_equal(a, b, rtol, atol, names, equal_nan, mismatches=mismatches)
        return
    rtol, atol = get_tols(a, b, rtol, atol)
    x, y = _wide(host(a)), _wide(host(b))
    if 1 - np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan).mean() > share:
        raise AssertionError(_difference(x, y, rtol, atol, names, equal_nan, mismatches[0]))


def assert_almost_equal_ignore_nan(a: Any, b: Any, rtol: Any = None, atol: Any = None,
                                   names: Sequence[str] = ("a", "b")) -> None:
    """assert_almost_equal where neither is NaN."""
    x, y = np.copy(host(a)), np.copy(host(b))
    unknown = np.isnan(x) | np.isnan(y)
    x[unknown] = y[unknown] = 0
    assert_almost_equal(x, y, rtol, atol, names)


def assert_exception(f: Callable[..., Any], exception_type: type[BaseException], *args: Any, **kwargs: Any) -> None:
    """AssertionError unless ``f(*args, **kwargs)`` raises an exception of a type."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} raised no {exception_type.__name__}")
