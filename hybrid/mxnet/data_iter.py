"""Data iterators of MXNet's older interface: NDArrayIter and what wraps other iterators."""
from __future__ import annotations

from collections import namedtuple
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Mapping, Sequence

import numpy as np

from ..buffers.array import NDArray, array, wrap
from ..base.device import array_module, on
from ..base.errors import AttributeValueError, HybridError, ShapeError
from ..nd.functions import resolve

_LAST = ("pad", "discard", "roll_over")


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name and shape of an input, with ``dtype`` and ``layout`` (``NCHW``: which axis is what) beside them."""

    dtype: Any
    layout: str | None

    def __new__(cls, name: str, shape: Sequence[int], dtype: Any = np.float32,
                layout: str | None = "NCHW") -> "DataDesc":
        made = super().__new__(cls, name, tuple(shape))
        made.dtype, made.layout = dtype, layout
        return made

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    def __reduce__(self) -> Any:
        return DataDesc, (self.name, self.shape, self.dtype, self.layout)

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Which axis counts the samples: the place of N (-1 if there is none), 0 for no layout."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Sequence[Any], types: Sequence[Any] | None) -> "list[DataDesc]":
        """DataDescs from (name, shape) pairs and (name, dtype) pairs."""
        known = dict(types) if types is not None else {}
        return [DataDesc(name, shape, known[name]) if types is not None else DataDesc(name, shape)
                for name, shape in shapes]


class DataBatch:
    """One batch: lists ``data`` and ``label`` of arrays; ``pad``, how many samples at its end only fill it up;
    ``index``."""

    def __init__(self, data: Any, label: Any = None, pad: int | None = None, index: Any = None, bucket_key: Any = None,
                 provide_data: Any = None, provide_label: Any = None):
        for what, value in (("data", data), ("label", label)):
            if value is not None and not isinstance(value, (list, tuple)):
                raise AttributeValueError(f"DataBatch: {what} must be a list of arrays, got {type(value).__name__}")
        self.data, self.label, self.pad, self.index, self.bucket_key = data, label, pad, index, bucket_key
        self.provide_data, self.provide_label = provide_data, provide_label

    def __str__(self) -> str:
        labels = [x.shape for x in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {[x.shape for x in self.data]} label shapes: {labels}"


class DataIter:
    """An iterator over DataBatches that ``reset`` starts again. Subclasses define iter_next, getdata, getlabel,
    getpad."""

    def __init__(self, batch_size: int = 0):
        self.batch_size = batch_size

    def __iter__(self) -> Any:
        return self

    def reset(self) -> None:
        """Back to the first batch."""

    def next(self) -> DataBatch:
        """The next batch, or StopIteration."""
        if self.iter_next():
            return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())
        raise StopIteration

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> bool:
        """Go to the next batch; whether there is one."""
        raise NotImplementedError(f"{type(self).__name__} must define iter_next, or next")

    def getdata(self) -> Any:
        """The data arrays of this batch."""
        raise NotImplementedError(f"{type(self).__name__} must define getdata")

    def getlabel(self) -> Any:
        """The label arrays of this batch."""
        return None

    def getindex(self) -> Any:
        """The numbers of this batch's samples."""
        return None

    def getpad(self) -> Any:
        """How many samples only fill the batch up."""
        return None


def _named(data: Any, default: str, needed: bool) -> list[tuple[str, NDArray]]:
    """(name, array) pairs sorted by name, from an array, a list or a dict of arrays."""
    if data is None:
        data = []
    if isinstance(data, (np.ndarray, NDArray)):
        data = [data]
    if isinstance(data, (list, tuple)):
        data = {default: data[0]} if len(data) == 1 else {f"_{i}_{default}": d for i, d in enumerate(data)}
    if not isinstance(data, Mapping):
        raise TypeError(f"{default} must be an array, a list of arrays or a dict of them, got {type(data).__name__}")
    if needed and not data:
        raise HybridError(f"{default} is empty: an iterator needs at least one array")
    out = []
    for name, value in data.items():
        try:
            out.append((name, value if isinstance(value, NDArray) else array(np.asarray(value), dtype=np.float32)))
        except (TypeError, ValueError) as err:
            raise TypeError(f"{name}: {type(value).__name__} is no array of numbers ({err})") from None
    return sorted(out)


class NDArrayIter(DataIter):
    """Batches of arrays that are in memory.

    data, label: an array, a list, or a dict of arrays (NumPy or NDArray); NumPy ones become float32. There are as many
    samples as the first array of data has; longer arrays are read up to there.
    shuffle: a new order after every ``reset`` (by ``numpy.random``). last_batch_handle: a last batch that is shorter is
    filled from the start (``pad``; ``batch.pad`` counts these samples), dropped (``discard``), or put before the next
    epoch's first (``roll_over``). layout: the place of N is the batch axis.

    >>> [b.pad for b in NDArrayIter(np.zeros((5, 2)), batch_size=2)]
    [0, 0, 1]
    """

    def __init__(self, data: Any, label: Any = None, batch_size: int = 1, shuffle: bool = False,
                 last_batch_handle: str = "pad",
                 data_name: str = "data", label_name: str = "softmax_label", layout: str = "NCHW"):
        super().__init__(batch_size)
        if last_batch_handle not in _LAST:
            raise ValueError(f"last_batch_handle must be one of {', '.join(_LAST)}; got {last_batch_handle!r}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        self.data, self.label = _named(data, data_name, True), _named(label, label_name, False)
        self.shuffle, self.last_batch_handle, self.layout = shuffle, last_batch_handle, layout
        self._axis = max(0, layout.find("N"))
        self.num_data = self._length(*self.data[0])
        for name, value in self.data + self.label:
            if self._length(name, value) < self.num_data:
                raise ShapeError(f"all arrays must have at least as many samples as {self.data[0][0]!r}, "
                                 f"{self.num_data}; {name!r} has {self._length(name, value)}")
        if not self.num_data:
            raise ShapeError(f"{self.data[0][0]!r} has no samples (shape {self.data[0][1].shape})")
        self.idx = np.arange(self.num_data)
        self._order, self._carry = self.idx.copy(), self.idx[:0]
        self.cursor = -batch_size
        self.reset()

    def _axis_of(self, value: NDArray) -> int:
        return self._axis if value.ndim > self._axis else 0

    def _length(self, name: str, value: NDArray) -> int:
        if not value.ndim:
            raise ShapeError(f"{name!r} is a number: an iterator needs arrays of samples")
        return value.shape[self._axis_of(value)]

    def _describe(self, source: list[tuple[str, NDArray]]) -> list[DataDesc]:
        out = []
        for name, value in source:
            shape = list(value.shape)
            shape[self._axis_of(value)] = self.batch_size
            out.append(DataDesc(name, shape, value.dtype, self.layout))
        return out

    @property
    def provide_data(self) -> list[DataDesc]:
        """Name and shape of each data array of a batch."""
        return self._describe(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Name and shape of each label array of a batch."""
        return self._describe(self.label)

    def _shuffle(self) -> None:
        np.random.shuffle(self.idx)
        self._order = self._order[self.idx]

    def hard_reset(self) -> None:
        """Back to the start, forgetting what was to be rolled over."""
        if self.shuffle:
            self._shuffle()
        self.cursor, self._carry = -self.batch_size, self.idx[:0]

    def reset(self) -> None:
        """Back to the start; with ``roll_over`` what the last epoch left comes first."""
        if self.shuffle:
            self._shuffle()
        rest = self.last_batch_handle == "roll_over" and self.num_data - self.batch_size < self.cursor < self.num_data
        self.cursor = (self.cursor - self.num_data if rest else 0) - self.batch_size

    def iter_next(self) -> bool:
        """Go to the next batch; whether there is one."""
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        """The next batch, or StopIteration."""
        if not self.iter_next():
            raise StopIteration
        rows = self._rows()
        if len(rows) != self.batch_size:
            self._carry = rows
            raise StopIteration
        return DataBatch(self._take(self.data, rows), self._take(self.label, rows), self.getpad())

    def _rows(self) -> np.ndarray:
        """The samples of this batch; fewer than a batch at the end, unless it is padded."""
        begin, end = self.cursor, self.cursor + self.batch_size
        if self.last_batch_handle == "roll_over" and -self.batch_size < begin < 0:
            return np.concatenate([self._carry, self._order[:end]])
        rows = self._order[begin:end]
        if self.last_batch_handle == "pad" and end > self.num_data:
            return np.concatenate([rows, np.resize(self._order, end - self.num_data)])
        return rows

    def _take(self, source: list[tuple[str, NDArray]], rows: np.ndarray) -> list[Any]:
        return [self._picked(v, rows) for _, v in source]

    def _picked(self, v: NDArray, rows: np.ndarray) -> NDArray:
        if v.stype != "default":                                 # batches are dense, as MXNet's are
            picked = resolve("nd", "sparse.take_rows")(v, rows) if v.stype == "csr" and self._axis_of(v) == 0 else v
            return (picked.tostype("default") if picked is not v
                    else array(np.take(v.asnumpy(), rows, self._axis_of(v)), v.ctx))
        with on(v.ctx):
            return wrap(array_module(v.ctx).take(v._data, rows, self._axis_of(v)), v.ctx, type(v))

    def getdata(self) -> list[Any]:
        """The data arrays of this batch."""
        return self._take(self.data, self._rows())

    def getlabel(self) -> list[Any]:
        """The label arrays of this batch."""
        return self._take(self.label, self._rows())

    def getpad(self) -> int:
        """How many samples fill the batch up (``pad``), or come from the last epoch (``roll_over``)."""
        if self.last_batch_handle == "pad":
            return max(0, self.cursor + self.batch_size - self.num_data)
        return -self.cursor if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0 else 0


class ResizeIter(DataIter):
    """Another iterator cut or repeated to ``size`` batches an epoch. reset_internal: ``reset`` resets that one too."""

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True):
        super().__init__(data_iter.batch_size)
        self.data_iter, self.size, self.reset_internal, self.cur = data_iter, size, reset_internal, 0
        self.current_batch: Any = None
        self.provide_data, self.provide_label = data_iter.provide_data, data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        """Back to the first batch."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        """Go to the next batch; whether there is one."""
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            try:
                self.current_batch = self.data_iter.next()
            except StopIteration:
                raise HybridError("the iterator under a ResizeIter gives no batch, even after reset()") from None
        self.cur += 1
        return True

    def getdata(self) -> Any:
        """The data arrays of this batch."""
        return self.current_batch.data

    def getlabel(self) -> Any:
        """The label arrays of this batch."""
        return self.current_batch.label

    def getindex(self) -> Any:
        """The numbers of this batch's samples."""
        return self.current_batch.index

    def getpad(self) -> Any:
        """How many samples only fill the batch up."""
        return self.current_batch.pad


class PrefetchingIter(DataIter):
    """One or several iterators side by side, each with a thread that makes its next batch ahead.

    rename_data, rename_label: for each iterator a dict from its names to new ones. An exception in a thread is raised
    here.
    """

    def __init__(self, iters: Any, rename_data: Any = None, rename_label: Any = None):
        self.iters = list(iters) if isinstance(iters, (list, tuple)) else [iters]
        if not self.iters:
            raise AttributeValueError("PrefetchingIter needs at least one iterator")
        self.n_iter, self.rename_data, self.rename_label = len(self.iters), rename_data, rename_label
        super().__init__(self.provide_data[0].shape[0])
        self.current_batch: Any = None
        self._pools = [ThreadPoolExecutor(1, "hybrid-prefetch") for _ in self.iters]
        self._ahead: list[Future[Any]] = []
        self._start()

    def _start(self) -> None:
        self._ahead = [pool.submit(next, it, None) for pool, it in zip(self._pools, self.iters)]

    def __del__(self) -> None:
        for pool in getattr(self, "_pools", ()):
            pool.shutdown(wait=False, cancel_futures=True)

    def _described(self, what: str, rename: Any) -> list[DataDesc]:
        out = []
        for i, it in enumerate(self.iters):
            for d in getattr(it, what):
                d = d if isinstance(d, DataDesc) else DataDesc(*d)
                out.append(d if rename is None else DataDesc(rename[i][d.name], d.shape, d.dtype, d.layout))
        return out

    @property
    def provide_data(self) -> list[DataDesc]:
        """Name and shape of each data array of a batch."""
        return self._described("provide_data", self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Name and shape of each label array of a batch."""
        return self._described("provide_label", self.rename_label)

    def reset(self) -> None:
        """Back to the first batch of every iterator."""
        for future in self._ahead:
            future.exception()                                   # wait: the iterator is the thread's until then
        for it in self.iters:
            it.reset()
        self._start()

    def iter_next(self) -> bool:
        """Go to the next batch; whether there is one."""
        batches = [future.result() for future in self._ahead]
        if all(b is None for b in batches):
            return False
        if any(b is None or b.pad != batches[0].pad for b in batches):
            raise ShapeError("the iterators under a PrefetchingIter give different numbers of batches or of samples")
        self.current_batch = DataBatch([x for b in batches for x in b.data],
                                       [x for b in batches for x in b.label or ()], batches[0].pad, batches[0].index,
                                       provide_data=self.provide_data, provide_label=self.provide_label)
        self._start()
        return True

    def next(self) -> DataBatch:
        """The next batch, or StopIteration."""
        if self.iter_next():
            return self.current_batch
        raise StopIteration

    def getdata(self) -> Any:
        """The data arrays of this batch."""
        return self.current_batch.data

    def getlabel(self) -> Any:
        """The label arrays of this batch."""
        return self.current_batch.label

    def getpad(self) -> Any:
        """How many samples only fill the batch up."""
        return self.current_batch.pad


__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter"]
