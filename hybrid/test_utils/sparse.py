"""Random sparse arrays for tests."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .. import nd
from ..buffers.array import NDArray
from ..base.errors import AttributeValueError
from .compare import default_dtype

Modifier = Callable[[Any], Any]


def rand_sparse_ndarray(shape: Any, stype: str, density: float | None = None, dtype: Any = None,
                        distribution: str | None = None, data_init: Any = None,
                        rsp_indices: Any = None, modifier_func: Modifier | None = None,
                        shuffle_csr_indices: bool = False, ctx: Any = None) -> tuple[Any, Any]:
    """A random csr or row_sparse array of numbers in [0, 1), and its parts: (indptr, indices, data) or (data, indices).

    density: the share of elements (rows) that are stored, a random one unless given. distribution: uniform, or for csr
    powerlaw (each row holds twice as many as the one before). data_init: one number for all. rsp_indices: the rows.
    modifier_func: applied to each number.
    """
    density = np.random.rand() if density is None else density
    dtype = default_dtype() if dtype is None else dtype
    if not 0 <= density <= 1 or stype not in ("csr", "row_sparse") or distribution not in (None, "uniform", "powerlaw"):
        raise AttributeValueError(f"rand_sparse_ndarray: a density from 0 to 1, stype csr or row_sparse and "
                                  f"distribution uniform or powerlaw are known, "
                                  f"got {density}, {stype!r}, {distribution!r}")
    if stype == "row_sparse":
        if distribution == "powerlaw":
            raise AttributeValueError("rand_sparse_ndarray: distribution 'powerlaw' is for csr arrays")
        rows = (np.flatnonzero(np.random.rand(shape[0]) < density) if rsp_indices is None
                else np.sort(np.asarray(rsp_indices, np.int64)))
        values = _numbers((len(rows), *shape[1:]), dtype, data_init, modifier_func)
        return nd.sparse.row_sparse_array((values, rows), shape=shape, dtype=dtype,
                                          ctx=ctx), (values, rows)        # type: ignore[attr-defined]
    lengths = _power_law(shape[0], shape[1], density) if distribution == "powerlaw" else None
    stored = np.arange(shape[1]) < lengths[:, None] if lengths is not None else np.random.rand(*shape) < density
    places = np.nonzero(stored)
    values = _numbers((len(places[0]),), dtype, data_init, modifier_func)
    out = nd.sparse.csr_matrix((values, places), shape=shape, dtype=dtype,
                               ctx=ctx)                                # type: ignore[attr-defined]
    out = shuffle_csr_column_indices(out) if shuffle_csr_indices else out
    return out, (out.indptr, out.indices, out.data)


def _numbers(shape: tuple[int, ...], dtype: Any, constant: Any, modifier: Modifier | None) -> np.ndarray:
    values = np.random.rand(*shape) if constant is None else np.full(shape, constant)
    if modifier is not None:
        values = np.array([modifier(v) for v in values.ravel()]).reshape(shape)
    return values.astype(dtype)


def _power_law(rows: int, columns: int, density: float) -> np.ndarray:
    """How many elements each row holds: one, and from the first row on twice the row before while there are any
    left."""
    left = int(rows * columns * density) - rows
    if left < rows:
        raise AttributeValueError(f"rand_sparse_ndarray: a density of {density} gives less than two elements for each "
                                  f"row of {(rows, columns)}, which powerlaw needs")
    lengths = np.ones(rows, np.int64)
    for i in range(rows):
        more = min(2 ** min(i + 1, 40), columns) - 1
        lengths[i] += min(more, left)
        left -= min(more, left)
    return lengths


def shuffle_csr_column_indices(csr: Any) -> Any:
    """The same matrix with the elements of each row stored in random order."""
    ends, columns, values = csr.indptr.asnumpy(), csr.indices.asnumpy(), csr.data.asnumpy()
    order = np.concatenate([np.arange(0), *(a + np.random.permutation(b - a)
                                            for a, b in zip(ends[:-1], ends[1:]))]).astype(np.int64)
    return nd.sparse.csr_matrix((values[order], columns[order], ends), shape=csr.shape, dtype=csr.dtype,
                                ctx=csr.context)      # type: ignore[attr-defined]


def create_sparse_array(shape: Any, stype: str, data_init: Any = None, rsp_indices: Any = None, dtype: Any = None,
                        modifier_func: Modifier | None = None,
                        density: float = 0.5, shuffle_csr_indices: bool = False) -> NDArray:
    """``rand_sparse_ndarray`` without the parts."""
    return rand_sparse_ndarray(shape, stype, density, dtype, None, data_init, rsp_indices, modifier_func,
                               shuffle_csr_indices)[0]


def create_sparse_array_zd(shape: Any, stype: str, density: float, data_init: Any = None, rsp_indices: Any = None,
                           dtype: Any = None,
                           modifier_func: Modifier | None = None, shuffle_csr_indices: bool = False) -> NDArray:
    """``create_sparse_array``; a row_sparse array holds the rows of rsp_indices alone, so density 0 is one without
    elements."""
    if stype == "row_sparse" and rsp_indices is not None:
        density = 0.0
    return create_sparse_array(shape, stype, data_init, rsp_indices, dtype, modifier_func, density, shuffle_csr_indices)


def rand_ndarray(shape: Any, stype: str = "default", density: Any = None, dtype: Any = None,
                 modifier_func: Modifier | None = None,
                 shuffle_csr_indices: bool = False, distribution: str | None = None, ctx: Any = None) -> NDArray:
    """Uniform numbers in a shape: in [-1, 1) of dense arrays, else ``rand_sparse_ndarray``."""
    if stype == "default":
        return nd.array(np.random.uniform(-1, 1, size=shape), ctx=ctx, dtype=dtype or default_dtype())
    return rand_sparse_ndarray(shape, stype, density, dtype, distribution, modifier_func=modifier_func,
                               shuffle_csr_indices=shuffle_csr_indices, ctx=ctx)[0]
