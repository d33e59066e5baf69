"""Sparse arrays: compressed rows (CSR) and whole rows (row_sparse), as NumPy arrays on the host that know their device.

Wherever an array's dense contents are asked for (``_data``), they are made; that is what every operator without a rule
in ``rules.py`` computes with.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from ..buffers.array import RECORDS, ZEROS, NDArray, array, wrap
from ..base.device import Context
from ..base.errors import AttributeValueError, HybridError, NotSupportedForSparseNDArray, ShapeError


def on_host(raw: Any) -> np.ndarray:
    """A NumPy or CuPy array as a NumPy array."""
    return raw if isinstance(raw, np.ndarray) else raw.get()


class BaseSparseNDArray(NDArray):
    """What both kinds of sparse arrays have. Make one with ``nd.sparse.csr_matrix``, ``nd.sparse.row_sparse_array`` or
    ``x.tostype(...)``."""
    __slots__ = ("_shape", "_values", "_places", "_sound")
    _shape: tuple[int, ...]
    _values: np.ndarray
    _places: tuple[np.ndarray, ...]               # of csr (indptr, columns), of row_sparse (rows,); int64
    _sound: bool                                  # whether values and places are known to fit the shape

    def __init__(self, *given: Any, **_: Any):
        if given == (None,):                      # MXNet's pickles make such an array, and give it its state
            return
        raise TypeError(f"{type(self).__name__} is made by nd.sparse.csr_matrix, nd.sparse.row_sparse_array or "
                        f"x.tostype({self.stype!r})")

    # ---- what differs between the kinds
    def _dense(self) -> np.ndarray:
        raise NotImplementedError

    def _from_dense(self, raw: np.ndarray) -> None:
        raise NotImplementedError

    def _blank(self) -> np.ndarray:
        try:
            return np.zeros(self._shape, self._values.dtype)
        except (MemoryError, ValueError):
            raise ShapeError(f"a {self.stype} array of shape {self._shape} has no room in memory as a dense one, "
                             f"which this operation needs") from None

    def check_format(self, full_check: bool = True) -> None:
        """Raise HybridError where indices and shapes do not fit each other. full_check: also the order of the
        indices."""
        raise NotImplementedError

    @property
    def _aux(self) -> tuple[np.ndarray, ...]:
        """The places, checked before anything is computed with them."""
        if not self._sound:
            self.check_format(full_check=False)
            self._sound = True
        return self._places

    @_aux.setter
    def _aux(self, places: tuple[np.ndarray, ...]) -> None:
        self._places, self._sound = places, True

    # ---- what it is
    @property
    def _data(self) -> Any:                                       # type: ignore[override]
        return array(self._dense(), self._ctx)._data

    @_data.setter
    def _data(self, raw: Any) -> None:
        self._from_dense(on_host(raw))

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """Element type, as a NumPy type."""
        return self._values.dtype.type

    @property
    def size(self) -> int:
        """Number of elements, stored or not."""
        return int(np.prod(self._shape))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._values.dtype.itemsize

    @property
    def data(self) -> NDArray:
        """A copy of the stored values."""
        return array(self._values, self._ctx)

    @property
    def indices(self) -> NDArray:
        """A copy of the places of the stored values: columns (csr), or rows (row_sparse); int64."""
        return array(self._places[-1], self._ctx)

    def asnumpy(self) -> np.ndarray:
        """A dense NumPy copy."""
        return self._dense()

    def __repr__(self) -> str:
        return f"\n<{type(self).__name__} {'x'.join(map(str, self._shape))} @{self._ctx}>"

    def __getstate__(self) -> Any:
        return self._shape, self._values, self._aux, self._ctx.device_type, self._ctx.device_id

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple):
            state = RECORDS[0](state, type(self)).__getstate__()
        self._shape, self._values, self._aux, kind, number = state
        self._ctx, self._ag, self._version = Context(kind, number), None, 0

    # ---- contents
    def _bump(self) -> None:
        self._version += 1

    def _rebind(self, raw: Any) -> None:
        self._data = raw

    def _exposed(self) -> Any:
        return self._data

    def _write(self, value: Any) -> None:
        """New contents from a dense array, or a number."""
        if not getattr(value, "shape", ()) and not isinstance(value, (list, tuple)) and value == 0:
            self._clear()
            return
        self._from_dense(np.broadcast_to(np.asarray(on_host(value) if hasattr(value, "shape") else value,
                                                    self._values.dtype), self._shape))
        self._bump()

    def _clear(self) -> None:
        """Zeros everywhere: nothing is stored."""
        empty = ZEROS[0](self.stype, self._shape, self._ctx, self._values.dtype)
        self._values, self._aux = empty._values, empty._aux
        self._bump()

    def _assign(self, source: NDArray) -> None:
        """New contents of the same shape, in this array's dtype and storage type."""
        if source.shape != self._shape:
            raise ShapeError(f"the target has shape {self._shape}, the source {source.shape}")
        if isinstance(source, BaseSparseNDArray) and source.stype == self.stype:
            self._values, self._aux = source._values.astype(self._values.dtype), tuple(a.copy() for a in source._aux)
            self._bump()
        else:
            self._write(source.asnumpy())

    def _like(self, values: np.ndarray, aux: tuple[np.ndarray, ...] | None = None,
              shape: tuple[int, ...] | None = None) -> Any:
        """An array of this kind on this device with other contents."""
        return make(type(self), shape or self._shape, values, self._aux if aux is None else aux, self._ctx)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not (isinstance(key, slice) and key == slice(None) or key is Ellipsis):
            raise NotSupportedForSparseNDArray(f"x[{key!r:.60}] = value (only x[:] = value is)")
        if isinstance(value, NDArray):
            self._assign(value)
        else:
            self._write(np.asarray(value))

    # ---- copies
    def copy(self) -> Any:
        """A copy on the same device."""
        return self._like(self._values.copy(), tuple(a.copy() for a in self._aux))

    def copyto(self, other: Any) -> Any:
        """Copy onto a device, or into another array: a dense one, or one of the same kind."""
        if isinstance(other, Context):
            return make(type(self), self._shape, self._values.copy(), tuple(a.copy() for a in self._aux), other)
        if isinstance(other, BaseSparseNDArray):
            if other.stype != self.stype:
                raise TypeError(f"copyto: an array of storage type {self.stype!r} cannot be copied into one of "
                                f"{other.stype!r}")
            other._assign(self)
            return other
        return self.tostype("default").copyto(other)

    def astype(self, dtype: Any, copy: bool = True, **_: Any) -> Any:
        """A copy of the same kind in another dtype."""
        wanted = dt.as_dtype(dtype)
        return self if not copy and wanted == self._values.dtype else self._like(self._values.astype(wanted),
                tuple(a.copy() for a in self._aux))

    def as_nd_ndarray(self) -> Any:
        """This array."""
        return self

    def detach(self) -> Any:
        """The same contents outside of the recorded computation."""
        return self._like(self._values)

    def wait_to_read(self) -> None:
        """Nothing to wait for: sparse arrays are computed on the host."""

    wait_to_write = wait_to_read

    def reshape(self, *shape: Any, **_: Any) -> Any:
        """Not supported."""
        raise NotSupportedForSparseNDArray("reshape")

    def __iter__(self) -> Any:
        raise NotSupportedForSparseNDArray("a loop over the rows")


class CSRNDArray(BaseSparseNDArray):
    """A matrix of compressed rows: row i holds ``data[indptr[i]:indptr[i+1]]`` in the columns
    ``indices[indptr[i]:indptr[i+1]]``.

    >>> from hybrid import nd
    >>> x = nd.sparse.csr_matrix(([1., 2., 3.], [1, 0, 2], [0, 1, 1, 3]), shape=(3, 3))
    >>> x[2].asnumpy().tolist(), nd.sparse.dot(x, nd.ones((3, 1))).asnumpy().ravel().tolist()
    ([[2.0, 0.0, 3.0]], [1.0, 0.0, 5.0])
    """
    __slots__ = ()
    stype = "csr"

    @property
    def indptr(self) -> NDArray:
        """A copy of where each row begins in ``data`` and ``indices``, and where the last one ends; int64."""
        return array(self._places[0], self._ctx)

    def _rows(self) -> np.ndarray:
        """The row of each stored value."""
        return np.repeat(np.arange(self._shape[0]), np.diff(self._aux[0]))

    def _dense(self) -> np.ndarray:
        out = self._blank()
        out[self._rows(), self._aux[1]] = self._values
        return out

    def _from_dense(self, raw: np.ndarray) -> None:
        if raw.ndim != 2:
            raise ShapeError(f"to convert to a CSR, the array must have 2 axes, its shape is {raw.shape}")
        self._shape = raw.shape
        rows, columns = np.nonzero(raw)
        ends = np.zeros(raw.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=raw.shape[0]), out=ends[1:])
        self._values, self._aux = raw[rows, columns], (ends, columns.astype(np.int64))

    def check_format(self, full_check: bool = True) -> None:
        """Raise HybridError where data, indices, indptr and shape do not fit each other. full_check: also that columns
        ascend in each row."""
        ends, columns = self._places
        if len(ends) != self._shape[0] + 1 or len(columns) != len(self._values):
            raise HybridError(f"csr array of shape {self._shape}: indptr must have {self._shape[0] + 1} numbers and "
                              f"has {len(ends)}; "
                              f"there are {len(columns)} indices for {len(self._values)} values")
        if ends[0] != 0 or ends[-1] != len(columns) or (np.diff(ends) < 0).any():
            raise HybridError(f"csr array of shape {self._shape}: indptr must ascend from 0 to the number of values, "
                              f"{len(columns)}")
        if len(columns) and not 0 <= columns.min() <= columns.max() < self._shape[1]:
            raise HybridError(f"csr array of shape {self._shape}: columns must be from 0 to {self._shape[1] - 1}")
        if (full_check and len(columns) > 1
            and (np.diff(columns)[np.diff(np.repeat(np.arange(len(ends) - 1), np.diff(ends))) == 0] <= 0).any()):
            raise HybridError(f"csr array of shape {self._shape}: columns must ascend in each row")

    def asscipy(self) -> Any:
        """A copy as a ``scipy.sparse.csr_matrix``. ImportError without SciPy."""
        try:
            from scipy import sparse  # noqa: PLC0415  an optional package
        except ImportError:
            raise ImportError("asscipy needs SciPy: pip install scipy") from None
        return sparse.csr_matrix((self._values.copy(), self._aux[1].copy(), self._aux[0].copy()), shape=self._shape,
                                 dtype=self._values.dtype)

    def _row_range(self, begin: int, end: int) -> Any:
        ends, columns = self._aux
        kept = slice(int(ends[begin]), int(ends[end]))
        return self._like(self._values[kept].copy(), (ends[begin:end + 1] - ends[begin], columns[kept].copy()),
                          (end - begin, self._shape[1]))


class RowSparseNDArray(BaseSparseNDArray):
    """An array of which some rows (places along the first axis) are stored: row ``indices[i]`` is ``data[i]``, all
    others are zero.

    >>> from hybrid import nd
    >>> nd.sparse.row_sparse_array(([[1., 2.]], [1]), shape=(3, 2)).asnumpy().tolist()
    [[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]
    """
    __slots__ = ()
    stype = "row_sparse"

    def _dense(self) -> np.ndarray:
        out = self._blank()
        out[self._aux[0]] = self._values
        return out

    def _from_dense(self, raw: np.ndarray) -> None:
        if not raw.ndim:
            raise ShapeError("to convert to row_sparse, the array must have an axis at least, its shape is ()")
        self._shape = raw.shape
        rows = np.flatnonzero((raw != 0).reshape(raw.shape[0], -1).any(1)) if raw.size else np.zeros(0, np.int64)
        self._values, self._aux = raw[rows], (rows.astype(np.int64),)

    def _found(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each of some rows whether it is stored, and where."""
        own, = self._aux
        if not len(own):
            return np.zeros(len(rows), bool), np.zeros(len(rows), np.int64)
        order = np.argsort(own, kind="stable")
        at = order[np.searchsorted(own, rows, sorter=order).clip(0, len(own) - 1)]
        return own[at] == rows, at

    def _rows_at(self, rows: np.ndarray) -> np.ndarray:
        """Rows by number, zeros where they are not stored."""
        there, at = self._found(rows)
        out = np.zeros((len(rows), *self._shape[1:]), self._values.dtype)
        out[there] = self._values[at[there]]
        return out

    def _put_rows(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Write rows by number, each named once; those that are not stored yet are from now on."""
        there, at = self._found(rows)
        if there.all():
            self._values[at] = values
        else:
            kept = np.setdiff1d(np.arange(len(self._aux[0])), at[there])
            numbers = np.concatenate([self._aux[0][kept], rows])
            order = np.argsort(numbers, kind="stable")
            self._values = np.concatenate([self._values[kept], values.astype(self._values.dtype, copy=False)])[order]
            self._aux = (numbers[order],)
        self._bump()

    def check_format(self, full_check: bool = True) -> None:
        """Raise HybridError where data, indices and shape do not fit each other. full_check: also that the rows
        ascend."""
        rows, = self._places
        if self._values.shape != (len(rows), *self._shape[1:]):
            raise HybridError(f"row_sparse array of shape {self._shape}: {len(rows)} rows need data of shape "
                              f"{(len(rows), *self._shape[1:])}, "
                              f"got {self._values.shape}")
        if len(rows) and not 0 <= rows.min() <= rows.max() < self._shape[0]:
            raise HybridError(f"row_sparse array of shape {self._shape}: rows must be from 0 to {self._shape[0] - 1}")
        if full_check and (np.diff(rows) <= 0).any():
            raise HybridError(f"row_sparse array of shape {self._shape}: rows must ascend")


KINDS: dict[str, type[BaseSparseNDArray]] = {"csr": CSRNDArray, "row_sparse": RowSparseNDArray}


def make(cls: Any, shape: tuple[int, ...], values: np.ndarray, aux: tuple[np.ndarray, ...], ctx: Context,
         sound: bool = True) -> Any:
    """A sparse array over its parts, which are taken as they are. sound: whether they are known to fit each other."""
    out = object.__new__(cls)
    out._shape, out._values, out._places, out._sound, out._ctx, out._ag, out._version = tuple(
            shape), values, aux, sound, ctx, None, 0
    return out


def cast(raw: np.ndarray, stype: str, ctx: Context) -> Any:
    """A dense NumPy array as an array of a storage type."""
    if stype == "default":
        return array(raw, ctx)
    return wrap(raw, ctx, KINDS[stype])


def storage_type(stype: Any) -> str:
    """The storage type, or an error that names those there are."""
    if stype not in ("default", *KINDS):
        raise AttributeValueError(f"unknown storage type {stype!r}; there are default, csr and row_sparse")
    return stype
