"""Products with sparse arrays in time proportional to what is stored: csr times dense, its transpose times dense, dense
times csr."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..buffers.array import NDArray
from ..base.device import Context
from ..base.errors import DTypeError, ShapeError
from .storage import CSRNDArray, RowSparseNDArray, cast, make


_AT_ONCE = 1 << 18                    # products that are held at a time: they stay in the second cache


def _sums(groups: np.ndarray, values: np.ndarray, picks: np.ndarray, b: np.ndarray, count: int) -> np.ndarray:
    """Σ values[i] b[picks[i]] over the i of each group: (count, k). Groups ascend."""
    out = np.zeros((count, b.shape[1]), np.result_type(values, b))
    step = max(1, _AT_ONCE // max(1, b.shape[1]))
    for begin in range(0, len(groups), step):
        part = slice(begin, begin + step)
        g, terms = groups[part], b.take(picks[part], 0) * values[part, None]
        first = np.flatnonzero(np.r_[True, g[1:] != g[:-1]])
        out[g[first]] += np.add.reduceat(terms, first, axis=0)
    return out


def rows_times(a: CSRNDArray, b: np.ndarray) -> np.ndarray:
    """A B of a csr array (m, n) and a dense one (n, k)."""
    return _sums(a._rows(), a._values, a._aux[1], b, a.shape[0])


def columns_times(a: CSRNDArray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Aᵀ B of a csr array (m, n) and a dense one (m, k): the rows of the result that A has a value for, and their
    numbers."""
    order = np.argsort(a._aux[1], kind="stable")
    rows, at = np.unique(a._aux[1][order], return_inverse=True)
    return _sums(at, a._values[order], a._rows()[order], b, len(rows)), rows.astype(np.int64)


def check(lhs: Any, rhs: Any, transpose_a: bool, transpose_b: bool) -> None:
    """Raise ShapeError or DTypeError where a product with a sparse array cannot be."""
    if lhs.ndim != 2 or rhs.ndim != 2:
        raise ShapeError(f"dot of sparse arrays takes matrices, got {lhs.shape} and {rhs.shape}; give a vector an "
                         f"axis of length 1 (x.reshape((-1, 1)))")
    if lhs.shape[0 if transpose_a else 1] != rhs.shape[1 if transpose_b else 0]:
        raise ShapeError(f"dot: {lhs.shape}{'ᵀ' if transpose_a else ''} and {rhs.shape}{'ᵀ' if transpose_b else ''} "
                         f"do not fit")
    if lhs.dtype != rhs.dtype:
        raise DTypeError(f"dot: the dtypes differ, {np.dtype(lhs.dtype).name} and {np.dtype(rhs.dtype).name}; use "
                         f"x.astype(...)")


def left(a: CSRNDArray, b: NDArray, transpose_a: bool, stype: str | None) -> Any:
    """Product of a csr array (its transpose) with a dense or row_sparse one.

    stype: of the result; None is MXNet's choice, dense for A B and row_sparse for Aᵀ B.
    """
    dense = b.asnumpy()
    if not transpose_a:
        return cast(rows_times(a, dense), stype or "default", b._ctx)
    values, rows = columns_times(a, dense)
    return _stored_rows(values, rows, (a.shape[1], dense.shape[1]), stype or "row_sparse", b._ctx)


def _stored_rows(values: np.ndarray, rows: np.ndarray, shape: tuple[int, ...], stype: str, ctx: Context) -> Any:
    out = make(RowSparseNDArray, shape, values, (rows,), ctx)
    return out if stype == "row_sparse" else cast(out._dense(), stype, ctx)


def right(a: NDArray, b: CSRNDArray, transpose_b: bool) -> np.ndarray:
    """Product of a dense matrix with a csr array (its transpose)."""
    rows = np.ascontiguousarray(a.asnumpy().T)
    if transpose_b:
        return rows_times(b, rows).T
    values, columns = columns_times(b, rows)
    out = np.zeros((a.shape[0], b.shape[1]), values.dtype)
    out[:, columns] = values.T
    return out
