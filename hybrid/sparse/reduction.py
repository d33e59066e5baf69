"""Sums, means and norms of sparse arrays from what is stored."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from ..buffers.array import array
from ..ops.registry import OpDef
from .storage import CSRNDArray, RowSparseNDArray


def reduced(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    """``sum``, ``mean`` or ``norm`` over all axes, of csr arrays also over one; None for what is computed from the
    dense contents."""
    x, = inputs
    a = d.parse(attrs)
    axis = (a.axis,) if isinstance(a.axis, int) else tuple(a.axis or range(x.ndim))
    axes = tuple(sorted({n % x.ndim for n in axis if -x.ndim <= n < x.ndim}))
    if x._values.dtype.kind != "f" or len(axes) != len(axis) or getattr(a, "exclude",
                                                                        False) or getattr(a, "out_dtype",
            None) or getattr(a, "ord", 2) not in (1, 2):
        return None
    if len(axes) < x.ndim and not isinstance(x, CSRNDArray):
        return None
    terms = _terms(d.name, getattr(a, "ord", 2), x._values.ravel().astype(np.float64))
    if len(axes) == x.ndim:
        total = np.array([terms.sum()])
    else:                                                      # over the rows: by column, and the other way round
        # without stored values, bincount counts in integers
        total = np.bincount(x._aux[1] if axes == (0,) else x._rows(), terms, x.shape[1 - axes[0]]).astype(np.float64)
    if d.name == "mean":
        total /= max(1, int(np.prod([x.shape[n] for n in axes])))
    elif d.name == "norm" and a.ord == 2:
        total = np.sqrt(total)
    shape = tuple(1 if n in axes else s for n, s in enumerate(x.shape)) if a.keepdims else total.shape
    return array(total.astype(x._values.dtype).reshape(shape), x._ctx)


def square_sum(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    """The sums of squares of a row_sparse matrix's rows, as a column with the same rows stored; None for others."""
    x, = inputs
    a = d.parse(attrs)
    if not isinstance(x, RowSparseNDArray) or x.ndim != 2 or a.axis not in (1, (1,)) or not a.keepdims or a.exclude:
        return None
    return x._like((x._values * x._values).sum(1, keepdims=True), x._aux, (x.shape[0], 1))


def _terms(name: str, order: int, values: np.ndarray) -> np.ndarray:
    return values if name != "norm" else np.abs(values) if order == 1 else values * values
