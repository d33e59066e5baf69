"""Looking up rows of a row_sparse table, in time and memory of the rows that are looked up."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..buffers.array import NDArray, array
from ..base.errors import RangeError, ShapeError
from ..ops.registry import Attrs
from .gathered import gathered
from .storage import RowSparseNDArray, on_host


class LookUp:
    """What the tape keeps of a look-up: the gradient of the table is row_sparse."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    def _pull(self, entry: Any, grads: list[Any]) -> list[Any]:
        ids, table = entry.inputs
        g, = grads
        of_ids = None if entry.sources[0] is None else array(np.zeros(ids.shape, ids.dtype), ids._ctx)
        return [of_ids, gathered([(self.rows, g._data)], table.shape, table.dtype, table._ctx)]


def look_up(ids: NDArray, table: RowSparseNDArray, a: Attrs) -> tuple[Any, LookUp]:
    """Rows at integer positions, and what the tape keeps. RangeError for rows that the table does not have, as in
    MXNet."""
    if table.shape != (a.input_dim, a.output_dim):
        raise ShapeError(f"Embedding: the weight must be {(a.input_dim, a.output_dim)}, got {table.shape}")
    rows = on_host(ids._data).astype(np.int64)
    if rows.size and not 0 <= rows.min() <= rows.max() < a.input_dim:
        raise RangeError(f"Embedding: rows must be from 0 to {a.input_dim - 1}, got {int(rows.min())} to "
                         f"{int(rows.max())}")
    found = table._rows_at(rows.reshape(-1)).reshape(*rows.shape, a.output_dim)
    return array(found, table._ctx), LookUp(rows)
