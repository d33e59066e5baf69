"""Names that NumPy had in MXNet's time and has no longer (``np.int``, ``np.product``): programs written then use them.

They are put on the module ``numpy`` only while ``import mxnet`` means this library, and only where NumPy lacks them;
percentile and quantile take ``interpolation`` again, and fromstring bytes.
"""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

import numpy as np


def _msort(a: Any) -> Any:
    """A copy sorted along the first axis."""
    return np.sort(a, axis=0)


def _in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """For each element of ar1, in one row, whether ar2 holds it."""
    return np.isin(np.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)


def _asscalar(a: Any) -> Any:
    """The only element as a Python number."""
    return a.item()


def _asfarray(a: Any, dtype: Any = np.float64) -> Any:
    """An array of floats."""
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


OLD = {"int": int, "float": float, "bool": bool, "object": object, "complex": complex, "str": str, "long": np.int64,
       "float_": np.float64,
       "complex_": np.complex128, "unicode_": np.str_, "string_": np.bytes_, "Inf": np.inf, "Infinity": np.inf,
       "infty": np.inf, "NaN": np.nan,
       "product": np.prod, "cumproduct": np.cumprod, "sometrue": np.any, "alltrue": np.all, "round_": np.round,
       "row_stack": np.vstack, "in1d": _in1d, "trapz": getattr(np, "trapezoid", None) or getattr(np, "trapz", None),
       "msort": _msort, "asscalar": _asscalar,
       "asfarray": _asfarray, "alen": len, "NINF": -np.inf, "PINF": np.inf, "NZERO": -0.0, "PZERO": 0.0,
       "bool8": np.bool_}
RENAMED = ("percentile", "quantile")              # their ``interpolation`` is ``method`` now
_added: list[str] = []
_replaced: dict[str, Callable[..., Any]] = {}


def _with_old_keyword(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        if "interpolation" in kwargs:
            kwargs["method"] = kwargs.pop("interpolation")
        return fn(*args, **kwargs)
    return function


def _from_bytes(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def function(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "", **kwargs: Any) -> Any:
        if sep == "" and isinstance(string, (bytes, bytearray, memoryview)):
            return np.frombuffer(string, dtype, count).copy()
        return fn(string, dtype, count, sep=sep, **kwargs)
    return function


def add() -> None:
    """Put the names that this NumPy lacks on it."""
    for name, value in OLD.items():
        if name not in vars(np):
            setattr(np, name, value)
            _added.append(name)
    for name in RENAMED:
        fn = getattr(np, name)
        if name not in _replaced and "interpolation" not in inspect.signature(fn).parameters:
            _replaced[name] = fn
            setattr(np, name, _with_old_keyword(fn))
    if "fromstring" not in _replaced and np.lib.NumpyVersion(np.__version__) >= "2.3.0":
        _replaced["fromstring"] = np.fromstring
        setattr(np, "fromstring", _from_bytes(np.fromstring))


def take_away() -> None:
    """Take the added names away."""
    while _added:
        name = _added.pop()
        if vars(np).get(name) is OLD[name]:
            delattr(np, name)
    while _replaced:
        setattr(np, *_replaced.popitem())
