"""Row_sparse gradients from what looking up rows leaves: numbers of rows, and a gradient for each time that a row was
looked up."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base.device import Context
from .storage import RowSparseNDArray, make, on_host

# sums in half precision are made in single precision, and rounded once
WIDER = {"float16": np.float32, "bfloat16": np.float32}


def gathered(pairs: Sequence[tuple[Any, Any]], shape: tuple[int, ...], dtype: Any, ctx: Context) -> RowSparseNDArray:
    """The sum of some pairs of (numbers of rows, rows) as a row_sparse array, which stores each row that was named.

    >>> from hybrid import cpu
    >>> gathered([(np.array([2, 0, 2]), np.ones((3, 2)))], (4, 2), np.float32, cpu()).asnumpy()[:, 0].tolist()
    [1.0, 0.0, 2.0, 0.0]
    """
    width = shape[1:]
    numbers = [on_host(i).reshape(-1).astype(np.int64, copy=False) for i, _ in pairs]
    values = [on_host(v).reshape(len(i), *width) for i, (_, v) in zip(numbers, pairs)]
    number = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    value = np.concatenate(values) if values else np.zeros((0, *width), dtype)
    if not len(number):
        return make(RowSparseNDArray, shape, value.astype(dtype, copy=False), (number,), ctx)
    order = np.argsort(number, kind="stable")
    ordered = number[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    wide = WIDER.get(value.dtype.name, value.dtype)
    sums = np.add.reduceat(value[order].astype(wide, copy=False), first, axis=0).astype(dtype, copy=False)
    return make(RowSparseNDArray, shape, sums, (ordered[first],), ctx)


def gradients_of(raw: Sequence[Any], layout: Sequence[int | None], targets: Sequence[Any], dense: Any) -> list[Any]:
    """Gradients from the results of a backward program whose gradients are of a ``layout`` (passes/row_gradients.py).

    targets: the arrays that they are gradients of. dense: what makes an array of a dense result.
    """
    out, at = [], 0
    for count, x in zip(layout, targets):
        if count is None:
            out.append(dense(raw[at]))
            at += 1
            continue
        pairs = [(raw[at + 2 * k], raw[at + 2 * k + 1]) for k in range(count)]
        out.append(gathered(pairs, x.shape, x.dtype, x._ctx))
        at += 2 * count
    return out
