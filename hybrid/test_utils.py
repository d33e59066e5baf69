"""MXNet's ``mx.test_utils``, as far as users' code calls it: GPUs, comparison of arrays, random arrays."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from . import ndarray
from .array import NDArray
from .device import Context, current_context, num_gpus


def list_gpus() -> range:
    """Numbers of the GPUs that can be used."""
    return range(num_gpus())


def default_context() -> Context:
    """The current device."""
    return current_context()


def _host(x: Any) -> np.ndarray:
    return x.asnumpy() if isinstance(x, NDArray) else np.asarray(x)


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal in every element."""
    return bool(np.array_equal(_host(a), _host(b)))


def _limits(a: np.ndarray, b: np.ndarray, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """What MXNet allows the coarser of two dtypes when nothing is said."""
    names = {a.dtype.name, b.dtype.name}
    loose = (1e-2, 1e-1) if "float16" in names else (1e-4, 1e-3) if "float32" in names else (1e-5, 1e-20)
    return loose[0] if rtol is None else rtol, loose[1] if atol is None else atol


def almost_equal(a: Any, b: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False, **_: Any) -> bool:
    """Whether two arrays agree within rtol and atol (by default what their dtypes allow)."""
    x, y = _host(a), _host(b)
    limits = _limits(x, y, rtol, atol)
    return x.shape == y.shape and bool(np.allclose(x, y, *limits, equal_nan=equal_nan))


def assert_almost_equal(a: Any, b: Any, rtol: float | None = None, atol: float | None = None, names: Sequence[str] = ("a", "b"), equal_nan: bool = False, **_: Any) -> None:
    """AssertionError that shows where two arrays differ by more than rtol and atol.

    >>> assert_almost_equal(nd.ones((2,)), nd.ones((2,)) + 1e-6)
    """
    x, y = _host(a), _host(b)
    limits = _limits(x, y, rtol, atol)
    np.testing.assert_allclose(x, y, *limits, equal_nan=equal_nan, err_msg=f"{names[0]} and {names[1]}")


def rand_ndarray(shape: Any, stype: str = "default", density: Any = None, dtype: Any = "float32", distribution: str | None = None, ctx: Context | None = None, **_: Any) -> NDArray:
    """Uniform numbers in [-1, 1) in a shape."""
    return ndarray.random.uniform(-1, 1, shape=shape, dtype=dtype or "float32", ctx=ctx).tostype(stype)


def rand_shape_nd(num_dim: int, dim: int = 10) -> tuple[int, ...]:
    """A random shape of num_dim axes of length 1 to dim."""
    return tuple(int(n) for n in ndarray.random.randint(1, dim + 1, shape=(num_dim,)).asnumpy())


__all__ = ["almost_equal", "assert_almost_equal", "default_context", "list_gpus", "rand_ndarray", "rand_shape_nd", "same"]
