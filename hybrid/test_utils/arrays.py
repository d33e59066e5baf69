"""Random and regular arrays for tests."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from .. import nd
from ..buffers.array import NDArray
from .compare import default_dtype, same


def random_arrays(*shapes: Any) -> Any:
    """Standard normal NumPy arrays of some shapes; one alone for one shape."""
    arrays = [np.asarray(np.random.randn(*s), dtype=default_dtype()) for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: Any, low: float = 0.0, high: float = 1.0, dtype: Any = None) -> list[np.ndarray]:
    """Uniform NumPy arrays of some shapes."""
    return [np.random.uniform(low, high, size=s).astype(dtype or default_dtype()) for s in shapes]


def random_sample(population: Sequence[Any], k: int) -> list[Any]:
    """k different elements in random order."""
    if not 0 <= k <= len(population):
        raise ValueError(f"random_sample: {k} of {len(population)} elements")
    return [population[i] for i in np.random.permutation(len(population))[:k]]


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, int]:
    """A random shape of two axes, of at most these lengths."""
    low = 0 if allow_zero_size else 1
    return int(np.random.randint(low, dim0 + 1)), int(np.random.randint(low, dim1 + 1))


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10,
                  allow_zero_size: bool = False) -> tuple[int, int, int]:
    """A random shape of three axes."""
    low = 0 if allow_zero_size else 1
    return int(np.random.randint(low, dim0 + 1)), int(np.random.randint(low,
                                                                        dim1 + 1)), int(np.random.randint(low,
            dim2 + 1))


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of num_dim axes."""
    return tuple(int(n) for n in np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim))


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[Any, Any]:
    """A random pair of indices."""
    return np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """A matrix whose rows hold their own numbers."""
    return nd.array(np.repeat(np.arange(rows), columns).reshape(rows, columns), dtype=dtype)


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """0 … size - 1."""
    return nd.arange(0, size, dtype=dtype)


def get_identity_mat(size: int) -> NDArray:
    """The identity matrix."""
    return nd.array(np.eye(size))


def get_identity_mat_batch(size: int) -> NDArray:
    """Two identity matrices."""
    return nd.array(np.stack([np.eye(size)] * 2))


def np_reduce(dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]) -> Any:
    """A NumPy reduction over axes, one after another."""
    axes = [axis] if isinstance(axis, int) else list(axis) if axis is not None else list(range(dat.ndim))
    out = dat
    for i in sorted((a % dat.ndim for a in axes), reverse=True):
        out = numpy_reduce_func(out, axis=i)
    return out.reshape([1 if i in {a % dat.ndim for a in axes} else n
                        for i, n in enumerate(dat.shape)]) if keepdims else out


def collapse_sum_like(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The sum over the axes along which ``shape`` was broadcast to the array's."""
    extra = a.ndim - len(shape)
    if 0 in shape or not a.size:
        return np.zeros(shape, dtype=a.dtype)
    axes = [*range(extra), *(i + extra for i, n in enumerate(shape) if n != a.shape[i + extra])]
    return a.sum(axis=tuple(axes)).reshape(shape)


def assign_each(the_input: np.ndarray, function: Callable[[Any], Any] | None) -> np.ndarray:
    """An array with a function of each element."""
    return np.array(the_input) if function is None else np.vectorize(function, otypes=[np.float64])(the_input)


def assign_each2(input1: np.ndarray, input2: np.ndarray, function: Callable[[Any, Any], Any] | None) -> np.ndarray:
    """An array with a function of each pair of elements."""
    return np.array(input1) if function is None else np.vectorize(function, otypes=[np.float64])(input1, input2)


def same_array(array1: Any, array2: Any) -> bool:
    """Whether two arrays share their memory."""
    array1[:] += 1
    shared = same(array1, array2)
    array1[:] -= 1
    return shared and same(array1, array2)


# ---- matrices for linear algebra
def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A well-conditioned matrix with real eigenvalues."""
    q = new_orthonormal_matrix_2d(n) @ np.diag(np.random.uniform(0.5, 1.0, n))
    return np.linalg.inv(q) @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def new_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> np.ndarray:
    """Well-conditioned matrices with real eigenvalues."""
    return _many(new_matrix_with_real_eigvals_2d, shape)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """A random orthonormal matrix."""
    return np.linalg.qr(np.random.randn(n, n))[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A symmetric matrix with eigenvalues in [-10, 10]."""
    q = new_orthonormal_matrix_2d(n)
    return q.T @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def new_sym_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> np.ndarray:
    """Symmetric matrices with eigenvalues in [-10, 10]."""
    return _many(new_sym_matrix_with_real_eigvals_2d, shape)


def _many(make: Callable[[int], np.ndarray], shape: Sequence[int]) -> np.ndarray:
    count = int(np.prod(shape[:-2], dtype=np.int64))
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)
