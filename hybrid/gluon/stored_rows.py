"""The whole values of row_sparse parameters, which a Trainer keeps: a device's array holds the rows that were asked for
last."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..buffers.array import NDArray
from ..base.device import Context
from ..base.errors import AttributeValueError, HybridError, user_location
from ..nd.functions import resolve
from ..base.scope import tracing
from .parameter_values import draw
from .per_device import PerDevice


def whole_of(array: NDArray) -> Any:
    """A row_sparse copy that stores every row of an array, so that rows are changed in place."""
    sparse = resolve("nd", "sparse")
    rows = np.arange(array.shape[0], dtype=np.int64)
    values = array.asnumpy()
    return sparse.make(sparse.RowSparseNDArray, array.shape, values, (rows,), array.ctx)


class StoredRows:
    """Whole values by parameter, taken from its array when they are first asked for."""

    def __init__(self) -> None:
        self._whole: dict[int, tuple[Any, Any]] = {}

    def of(self, parameter: Any) -> Any:
        """The whole value of a parameter."""
        found = self._whole.get(id(parameter))
        if found is None:
            found = self._whole[id(parameter)] = parameter, whole_of(next(iter(parameter.arrays().values())))
        return found[1]

    def forget(self, parameter: Any) -> None:
        """Take the value from the parameter's array again: it was set."""
        self._whole.pop(id(parameter), None)

    def pull(self, parameter: Any, out: list[NDArray], row_id: Any) -> None:
        """Some rows into arrays, which store these and no others then."""
        numbers = np.unique(row_id.asnumpy().astype(np.int64))
        for x in out:
            resolve("nd", "sparse.retain")(self.of(parameter), numbers, out=x)


def rows_of(parameter: Any, out: list[NDArray], row_id: Any) -> None:
    """Fill a parameter's arrays with the rows of its Trainer's value."""
    if not isinstance(row_id, NDArray):
        raise AttributeValueError(f"row_id must be an array of row numbers, got {type(row_id).__name__}")
    if parameter.trainer is None:
        raise HybridError(f"Parameter {parameter.name!r} is row_sparse: its rows come from its Trainer, and there is "
                          f"none; make gluon.Trainer(net.collect_params(), ...) first")
    parameter.trainer.stored.pull(parameter, out, row_id)


class SparseAccess:
    """What a Parameter does differently where its arrays are sparse."""
    name: str
    _stype: str
    _dtype: Any
    _data: Any
    _deferred: Any
    arrays: Any
    _check: Any
    _blank: Any
    _init_grad: Any

    def _make_sparse(self, init: Any, contexts: list[Context], default: Any, data: Any) -> None:
        if data is None:
            data = self._blank(contexts[0])
            draw(self.name, init if init is not None else default, default, data)
        made = self._stored(data)
        self._data = PerDevice((c, made.copyto(c)) for c in contexts)
        self._deferred = None
        self._init_grad()

    def _stored(self, data: NDArray) -> Any:
        """A value in the parameter's storage type: all rows of a row_sparse one are stored."""
        dense = data.tostype("default").astype(self._dtype)
        return whole_of(dense) if self._stype == "row_sparse" else dense.tostype(self._stype)

    def row_sparse_data(self, row_id: Any) -> Any:
        """The array on ``row_id``'s device, of a parameter of stype row_sparse, with the rows ``row_id`` of the value
        that its Trainer keeps."""
        self._refuse_dense("row_sparse_data()", "data()")
        out = self._check(row_id.context if isinstance(row_id, NDArray) else None)
        rows_of(self, [out], row_id)
        return out

    def list_row_sparse_data(self, row_id: Any) -> list[Any]:
        """``row_sparse_data`` on each device."""
        self._refuse_dense("list_row_sparse_data()", "list_data()")
        out = list(self.arrays().values())
        rows_of(self, out, row_id)
        return out

    def _refuse_dense(self, what: str, instead: str) -> None:
        if self._stype != "row_sparse" or tracing() is not None:
            raise HybridError(f"Parameter {self.name!r} has stype {self._stype!r}, so it has no {what}: use {instead}"
                              if self._stype != "row_sparse" else
                              f"{user_location()}: {what} of Parameter {self.name!r} inside of hybridized code, which "
                              f"computes with dense arrays: call it without hybridize")

    def _refuse_sparse(self, what: str, instead: str) -> None:
        raise HybridError(f"Parameter {self.name!r} has stype {self._stype!r}, so it has no {what}: use {instead}")
