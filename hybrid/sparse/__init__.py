"""Sparse arrays: ``nd.sparse``, as MXNet 1.9.1 has it. Eager: hybridized code computes with dense arrays, graphs of
sparse arrays are run as eager calls.

``CSRNDArray`` and ``RowSparseNDArray`` (``storage``) are NDArrays that store part of their elements; ``create`` makes
them, ``rules`` says which operators keep them sparse, ``product`` multiplies them. All other operators compute with the
dense contents, as in MXNet.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import dispatch
from ..nd import functions
from ..buffers.array import NDArray
from ..base.errors import AttributeValueError, NotSupportedForSparseNDArray, ShapeError
from ..nd.operators import BINARY, two
from ..ops.registry import OPS
from .create import array, cast_storage, csr_matrix, empty, of_storage, refuse_trace, row_sparse_array, zeros
from .graph import by_storage, evaluate, gradient_storage, handle, storage_of
from .gathered import gathered, gradients_of
from .rules import densely, dot, recorded, route, take_rows
from .updates import adagrad_update
from .storage import KINDS, BaseSparseNDArray, CSRNDArray, RowSparseNDArray, cast, make, storage_type

NDArray = NDArray  # noqa: PLW0127  MXNet's module has it
dispatch.ROUTE.append(route)


def convert(x: Any, stype: Any) -> Any:
    """``x.tostype(stype)``; a gradient flows through. Raises AttributeValueError between csr and row_sparse, ShapeError
    for a csr array without two axes."""
    return recorded(x, of_storage(x, storage_type(stype)))


def _two(name: str, operator: str) -> Any:
    def function(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, BaseSparseNDArray) or isinstance(rhs, BaseSparseNDArray):
            refuse_trace(f"nd.sparse.{name}")
        if isinstance(lhs, NDArray) and isinstance(rhs, NDArray) and lhs.shape == rhs.shape:
            return dispatch.invoke(OPS[BINARY[operator][0]], [lhs, rhs], {}, hint=BINARY[operator][0])
        return two(BINARY[operator], lhs, rhs)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (f"Elementwise {name} of arrays or numbers, broadcast where shapes differ. Of two arrays of "
                        f"one shape and storage type the result has "
                        "that type; of others what MXNet gives, mostly dense.")
    return function


add, subtract, multiply, divide = _two("add", "add"), _two("subtract",
                                                           "sub"), _two("multiply", "mul"), _two("divide", "truediv")


def retain(data: Any, indices: Any, out: Any = None, **_: Any) -> Any:
    """Some rows of a row_sparse array, all others zero. indices: numbers of rows; one that is not stored is stored as
    zeros. out: an array to write to.

    >>> retain(row_sparse_array(([[1., 2.], [3., 4.]], [0, 2]), shape=(3, 2)), np.array([2])).asnumpy().tolist()
    [[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]]
    """
    if not isinstance(data, RowSparseNDArray):
        raise AttributeValueError(f"retain takes a row_sparse array, got "
                                  f"{getattr(data, 'stype', type(data).__name__)!r}")
    rows = (indices.asnumpy() if isinstance(indices, NDArray) else np.asarray(indices)).astype(np.int64).reshape(-1)
    if len(rows) and not 0 <= rows.min() <= rows.max() < data.shape[0]:
        raise ShapeError(f"retain: rows must be from 0 to {data.shape[0] - 1}, got {rows.tolist()[:5]}")
    made = recorded(data, make(RowSparseNDArray, data.shape, data._rows_at(rows), (rows,), data._ctx), _Retain(rows))
    return made if out is None else made.copyto(out)


class _Retain:
    """What the tape keeps of ``retain``: the rows that have a gradient."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    def _pull(self, entry: Any, grads: list[Any]) -> list[Any]:
        return [retain(g if g.stype == "row_sparse" else g.tostype("default").tostype("row_sparse"),
                       np.unique(self.rows)) for g in grads]


def _copy(self: Any) -> Any:
    """A copy on the same device; a gradient flows through."""
    return recorded(self, self._like(self._values.copy(), tuple(a.copy() for a in self._aux)))


def _in_place(function: Any) -> Any:
    def method(self: Any, other: Any) -> Any:
        self._assign(function(self, other))
        return self
    return method


def _bracket(self: CSRNDArray, key: Any) -> Any:
    """x[i], x[a:b] and x[:]: rows, as a csr array."""
    refuse_trace("a csr array's x[...]")
    key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -self.shape[0] <= key < self.shape[0]:
            raise IndexError(f"index {key} of an array of shape {self.shape}")
        key = slice(int(key) % self.shape[0], int(key) % self.shape[0] + 1)
    if not isinstance(key, slice) or key.step not in (None, 1):
        raise NotSupportedForSparseNDArray(f"x[{key!r:.60}] (x[i] and x[a:b] are)")
    begin, end, _ = key.indices(self.shape[0])
    return dispatch.invoke(OPS["slice"], [self], {"begin": (begin,), "end": (max(begin, end),)}, hint="slice")


def _whole(self: RowSparseNDArray, key: Any) -> Any:
    """x[:], the array itself; other brackets are not supported."""
    if isinstance(key, slice) and key == slice(None):
        return self
    raise NotSupportedForSparseNDArray(f"x[{key!r:.60}] (only x[:] is; x.retain(rows) keeps rows)")


for _cls in KINDS.values():
    _cls.copy = _copy                                                                # type: ignore[method-assign]
    for _name, _function in (("add", add), ("sub", subtract), ("mul", multiply), ("truediv", divide)):
        setattr(_cls, f"__{_name}__", (lambda f: lambda self, other: f(self, other))(_function))
        setattr(_cls, f"__i{_name}__", _in_place(_function))
setattr(CSRNDArray, "__getitem__", _bracket)
setattr(CSRNDArray, "__iter__", lambda self: (self[i] for i in range(len(self))))
setattr(RowSparseNDArray, "__getitem__", _whole)
setattr(RowSparseNDArray, "retain", retain)

__all__ = ["BaseSparseNDArray", "CSRNDArray", "KINDS", "NDArray", "NotSupportedForSparseNDArray", "RowSparseNDArray",
           "adagrad_update", "add", "array", "by_storage", "cast", "cast_storage", "convert", "csr_matrix",
           "densely", "divide", "dot", "empty", "evaluate", "gathered", "gradient_storage", "gradients_of", "handle",
           "make", "multiply", "retain", "row_sparse_array", "storage_of", "subtract", "take_rows", "zeros"]


def __getattr__(name: str) -> Any:
    """Every other operator, as ``nd`` has it: ``nd.sparse.square``, ``nd.sparse.norm``, …"""
    if name.startswith("__"):
        raise AttributeError(name)
    return functions.resolve("nd", name)
