"""A sparse array as files hold it: what is stored, and where it stands."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

STORAGE = {1: "row_sparse", 2: "csr"}           # by MXNet's numbers


class SparseParts(NamedTuple):
    """``indices`` are (rows,) of row_sparse and (indptr, columns) of csr."""
    kind: str
    shape: tuple[int, ...]
    values: np.ndarray
    indices: tuple[np.ndarray, ...]

    @property
    def dtype(self) -> np.dtype:
        """Element type."""
        return self.values.dtype

    def checked(self) -> SparseParts:
        """These parts with indices of int64; ValueError where they do not fit each other."""
        if any(i.ndim != 1 or i.dtype.kind not in "iu" for i in self.indices):
            raise ValueError("indices are lists of integers")
        indices = tuple(i.astype(np.int64) for i in self.indices)
        (_check_rows if self.kind == "row_sparse" else _check_columns)(self.shape, self.values, *indices)
        return self._replace(indices=indices)

    def dense(self) -> np.ndarray:
        """The whole array."""
        out = np.zeros(self.shape, self.values.dtype)
        if self.kind == "row_sparse":
            out[self.indices[0]] = self.values
        else:
            ends, columns = self.indices
            out[np.repeat(np.arange(self.shape[0]), np.diff(ends)), columns] = self.values
        return out


def _check_rows(shape: tuple[int, ...], values: np.ndarray, rows: np.ndarray) -> None:
    if values.shape != (len(rows), *shape[1:]) or len(rows) and not 0 <= rows.min() <= rows.max() < shape[0]:
        raise ValueError("rows out of range")


def _check_columns(shape: tuple[int, ...], values: np.ndarray, ends: np.ndarray, columns: np.ndarray) -> None:
    if (len(shape) != 2 or len(ends) != shape[0] + 1 or values.shape != columns.shape or ends[0] != 0
        or ends[-1] != len(columns)):
        raise ValueError("counts differ")
    if (np.diff(ends) < 0).any() or len(columns) and not 0 <= columns.min() <= columns.max() < shape[1]:
        raise ValueError("columns out of range")
