"""How sparse arrays are made: from their parts, dense arrays, each other, SciPy's matrices."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from ..buffers.array import NDArray, array as dense_array
from ..base.device import Context, current_context
from ..base.errors import AttributeValueError, DTypeError, ShapeError, TraceError, user_location
from ..base.scope import SCOPE, tracing
from ..graph.symbol import Symbol
from .storage import KINDS, BaseSparseNDArray, CSRNDArray, RowSparseNDArray, cast, make, storage_type


def refuse_trace(what: str) -> None:
    """Sparse storage lives outside of compiled programs: an error inside of one."""
    if SCOPE.symbolic or tracing() is not None:
        raise TraceError(f"{user_location()}: {what}: hybridized code and Symbols compute with dense arrays; run "
                         f"this code without hybridize, or pass "
                         "x.tostype('default')")


def _numbers(source: Any, dtype: Any = None) -> np.ndarray:
    """A NumPy array; Python numbers are float32 unless dtype says otherwise."""
    if isinstance(source, NDArray):
        raw = source.asnumpy()
    elif isinstance(source, (np.ndarray, np.generic)):
        raw = np.asarray(source)
    else:
        return dense_array(source, Context("cpu"), dtype).asnumpy()
    wanted = dt.as_dtype(dtype, raw.dtype)
    return raw.astype(wanted)


def _places(source: Any, what: str) -> np.ndarray:
    raw = source.asnumpy() if isinstance(source, NDArray) else np.asarray(source)
    if raw.ndim != 1:
        raise ShapeError(f"{what} must be a list of integers, got shape {raw.shape}")
    out = raw.astype(np.int64)
    if raw.dtype.kind not in "iuf" or (out != raw).any():
        raise DTypeError(f"{what} must be integers, got {raw.ravel()[:5]!r}")
    return out


def _is_shape(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and len(x) > 1 and all(isinstance(n, (int, np.integer))
                                                               and not isinstance(n, bool) for n in x)


def _device(ctx: Context | None, *sources: Any) -> Context:
    return ctx or next((s._ctx for s in sources if isinstance(s, NDArray)), None) or current_context()


def _scipy(x: Any) -> bool:
    return type(x).__module__.startswith("scipy.sparse")


def csr_matrix(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> CSRNDArray:
    """A matrix of compressed rows.

    arg1: a dense matrix (array, NumPy, nested lists); a CSRNDArray; a SciPy matrix, or ``(data, (rows, columns))`` in
    any order, where values of one place are added; a shape (M, N) for zeros; or ``(data, indices, indptr)``. dtype:
    that of the source; float32 for Python numbers. Raises ShapeError where the source has another shape. Parts that do
    not fit each other are an error where they are used, and in ``check_format()``.

    >>> csr_matrix(([1., 2., 3.], [1, 0, 2], [0, 1, 1, 3]), shape=(3, 4)).asnumpy()[2].tolist()
    [2.0, 0.0, 3.0, 0.0]
    """
    refuse_trace("nd.sparse.csr_matrix")
    if isinstance(arg1, tuple) and len(arg1) == 2 and _is_shape(arg1):
        out = zeros("csr", arg1, ctx, dtype)
    elif isinstance(arg1, tuple) and len(arg1) == 2:
        out = _from_pairs(arg1[0], arg1[1], shape, ctx, dtype)
    elif isinstance(arg1, tuple) and len(arg1) == 3:
        out = _from_rows(*arg1, shape, ctx, dtype)
    elif isinstance(arg1, tuple):
        raise AttributeValueError(f"csr_matrix takes (data, indices, indptr), (data, (rows, columns)) or a shape (M, "
                                  f"N), got a tuple of {len(arg1)}")
    elif _scipy(arg1):
        found = arg1.tocsr().sorted_indices()
        found.sum_duplicates()
        out = _from_rows(found.data, found.indices, found.indptr, found.shape, ctx, dtype)
    elif isinstance(arg1, BaseSparseNDArray):
        out = _same_kind(arg1, "csr", ctx, dtype)
    else:
        out = _from_dense(arg1, "csr", ctx, dtype)
    return _checked(out, shape)


def _from_rows(data: Any, indices: Any, indptr: Any, shape: Any, ctx: Any, dtype: Any) -> Any:
    values, columns, ends = _numbers(data, dtype), _places(indices, "indices"), _places(indptr, "indptr")
    if shape is None:
        if not len(columns):
            raise ShapeError("csr_matrix without a value needs a shape")
        shape = (len(ends) - 1, int(columns.max()) + 1)
    return make(CSRNDArray, _matrix(shape), values, (ends, columns), _device(ctx, data), sound=False)


def _matrix(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)) or len(shape) != 2 or any(int(n) < 0 for n in shape):
        raise ShapeError(f"a csr array has a shape (M, N), got {shape!r}")
    return int(shape[0]), int(shape[1])


def _from_pairs(data: Any, places: Any, shape: Any, ctx: Any, dtype: Any) -> Any:
    """From values at (row, column); values of one place are added."""
    if not isinstance(places, (tuple, list)) or len(places) != 2:
        raise AttributeValueError("csr_matrix takes (data, (rows, columns)), (data, indices, indptr) or a shape (M, N)")
    values, rows, columns = _numbers(data, dtype), _places(places[0], "rows"), _places(places[1], "columns")
    if not len(values) == len(rows) == len(columns):
        raise ShapeError(f"csr_matrix: {len(values)} values, {len(rows)} rows and {len(columns)} columns must be "
                         f"equally many")
    if shape is None and not len(values):
        raise ShapeError("csr_matrix without a value needs a shape")
    shape = _matrix((rows.max() + 1, columns.max() + 1) if shape is None else shape)
    if len(rows) and not (0 <= rows.min() <= rows.max() < shape[0] and 0 <= columns.min() <= columns.max() < shape[1]):
        raise ShapeError(f"csr_matrix: rows or columns are not inside of the shape {shape}")
    return from_places(values, rows * shape[1] + columns, shape, _device(ctx, data))


def from_places(values: np.ndarray, flat: np.ndarray, shape: tuple[int, ...], ctx: Context) -> Any:
    """A csr array from values at places counted row by row; values of one place are added."""
    kept, at = np.unique(flat, return_inverse=True)
    summed = np.zeros(len(kept), values.dtype)
    np.add.at(summed, at, values)
    ends = np.searchsorted(kept, np.arange(shape[0] + 1) * shape[1]).astype(np.int64)
    return make(CSRNDArray, shape, summed, (ends, (kept % shape[1] if shape[1] else kept).astype(np.int64)), ctx)


def row_sparse_array(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> RowSparseNDArray:
    """An array of which some rows are stored.

    arg1: a dense array (array, NumPy, nested lists); a RowSparseNDArray; a shape for zeros; or ``(data, indices)``:
    rows and where they stand. dtype: that of the source; float32 for Python numbers. Parts that do not fit each other
    are an error where they are used, and in ``check_format()``.

    >>> row_sparse_array(([[1., 2.]], [1]), shape=(3, 2)).asnumpy().tolist()
    [[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]
    """
    refuse_trace("nd.sparse.row_sparse_array")
    if isinstance(arg1, tuple) and _is_shape(arg1):
        out = zeros("row_sparse", arg1, ctx, dtype)
    elif isinstance(arg1, tuple) and len(arg1) == 2:
        values, rows = _numbers(arg1[0], dtype), _places(arg1[1], "indices")
        if shape is None and not len(rows):
            raise ShapeError("row_sparse_array without a row needs a shape")
        full = tuple(int(n) for n in shape) if shape is not None else (int(rows.max()) + 1, *values.shape[1:])
        if not len(rows) and not values.size:
            values = values.reshape(0, *full[1:])
        out = make(RowSparseNDArray, full, values, (rows,), _device(ctx, arg1[0]), sound=False)
    elif isinstance(arg1, tuple):
        raise AttributeValueError(f"row_sparse_array takes (data, indices) or a shape of two axes or more, got a "
                                  f"tuple of {len(arg1)}")
    elif isinstance(arg1, BaseSparseNDArray):
        out = _same_kind(arg1, "row_sparse", ctx, dtype)
    else:
        out = _from_dense(arg1, "row_sparse", ctx, dtype)
    return _checked(out, shape)


def _from_dense(source: Any, stype: str, ctx: Any, dtype: Any) -> Any:
    raw = _numbers(source, dtype)
    return cast(raw, stype, _device(ctx, source))


def _same_kind(source: BaseSparseNDArray, stype: str, ctx: Any, dtype: Any) -> Any:
    if source.stype != stype:
        raise AttributeValueError(f"an array of storage type {source.stype!r} cannot be made one of {stype!r} "
                                  f"directly: use x.tostype('default').tostype({stype!r})")
    out = source.astype(dtype or source.dtype)
    return out if ctx is None or ctx == out._ctx else out.copyto(ctx)


def _checked(out: Any, shape: Any) -> Any:
    if shape is not None and tuple(shape) != out.shape:
        raise ShapeError(f"the source has shape {out.shape}, asked for was {tuple(shape)}")
    return out


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None, **_: Any) -> Any:
    """An array of zeros of a storage type; nothing is stored.

    >>> zeros("csr", (2, 3)).data.shape
    (0,)
    """
    refuse_trace(f"zeros of storage type {stype!r}")
    shape = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
    kind, where = dt.as_dtype(dtype or "float32"), ctx or current_context()
    if storage_type(stype) == "default":
        return dense_array(np.zeros(shape, kind), where)
    if stype == "csr":
        return make(CSRNDArray, _matrix(shape), np.zeros(0, kind),
                    (np.zeros(shape[0] + 1, np.int64), np.zeros(0, np.int64)), where)
    return make(RowSparseNDArray, shape, np.zeros((0, *shape[1:]), kind), (np.zeros(0, np.int64),), where)


def empty(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """An array of a storage type in which nothing is stored."""
    return zeros(stype, shape, ctx, dtype)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """A copy of a sparse array, or one from a SciPy matrix.

    Raises AttributeValueError for dense sources: ``nd.array`` and ``x.tostype`` take those.
    """
    if _scipy(source_array):
        return csr_matrix(source_array, ctx=ctx, dtype=dtype)
    if not isinstance(source_array, BaseSparseNDArray):
        raise AttributeValueError(f"nd.sparse.array takes a sparse array or a SciPy matrix, got "
                                  f"{type(source_array).__name__}: use nd.array, or x.tostype('csr')")
    return _same_kind(source_array, source_array.stype, ctx, dtype)


def cast_storage(data: Any, stype: str, out: Any = None, **_: Any) -> Any:
    """An array as one of another storage type: from dense to csr (of two axes) or row_sparse, and back. out: an array
    to write to.

    Raises AttributeValueError between csr and row_sparse, as MXNet does. A gradient flows through.
    """
    made = data.tostype(storage_type(stype))
    return made if out is None else made.copyto(out)


def of_storage(x: Any, stype: str) -> Any:
    """``x.tostype(stype)`` of any array, without a note on the tape."""
    if isinstance(x, Symbol):
        refuse_trace(f"tostype({stype!r})")
        raise TraceError(f"a Symbol has no storage type {stype!r}: everything in a graph is dense")
    if stype == x.stype:
        return x
    if isinstance(x, BaseSparseNDArray) and stype != "default":
        raise AttributeValueError(f"from {x.stype} to {stype} there is no way but over dense: "
                                  f"x.tostype('default').tostype({stype!r})")
    if stype == "csr" and x.ndim != 2:
        raise ShapeError(f"to convert to a CSR, the array must have 2 axes, its shape is {x.shape}")
    assert stype == "default" or stype in KINDS
    return cast(x.asnumpy(), stype, x._ctx)
