"""Datasets: things with a length and an index."""
from __future__ import annotations

import os
from typing import Any, Callable

from ...serialize import recordio
from ...buffers.array import NDArray
from ...base.errors import AttributeValueError, MissingFileError, ShapeError
from .sampler import FilterSampler, Sampler, SequentialSampler


class Dataset:
    """Samples by index. Subclasses define ``__getitem__`` and ``__len__``; an array or a list can be used as it is.

    A sample is one value or a tuple (data, label, …).
    """

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def filter(self, fn: Callable[[Any], Any]) -> "Dataset":
        """The samples for which ``fn(sample)`` is true. Every sample is made once, now, and again when it is read."""
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> "Dataset":
        """Part ``index`` of ``num_shards`` parts of (nearly) equal length. Shard before shuffling.

        >>> list(SimpleDataset([0, 1, 2, 3, 4]).shard(2, 0))
        [0, 1, 2]
        """
        if num_shards < 1 or not 0 <= index < num_shards:
            raise AttributeValueError(f"the index of a shard is from 0 to num_shards - 1; got index={index}, "
                                      f"num_shards={num_shards}")
        size, rest = divmod(len(self), num_shards)
        return _SampledDataset(self, SequentialSampler(size + (index < rest), size * index + min(index, rest)))

    def take(self, count: int | None) -> "Dataset":
        """The first ``count`` samples; all for None or when there are fewer."""
        if count is not None and count < 0:
            raise ValueError(f"take needs a count of 0 or more, got {count}")
        return _SampledDataset(self, SequentialSampler(len(self) if count is None else min(count, len(self))))

    def sample(self, sampler: Sampler) -> "Dataset":
        """The samples at the indices of a sampler, drawn once, now."""
        if not isinstance(sampler, Sampler):
            raise TypeError(f"sample needs a gluon.data.Sampler, got {type(sampler).__name__}: {sampler!r}")
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> "Dataset":
        """``fn(*sample)`` of every sample: when it is read, or with ``lazy=False`` all of them once, now.

        Random transforms must be lazy, or every epoch sees the same draw.

        >>> list(SimpleDataset([1, 2]).transform(lambda x: x * 10))
        [10, 20]
        """
        out = _LazyTransformDataset(self, fn)
        return out if lazy else SimpleDataset([out[i] for i in range(len(out))])

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> "Dataset":
        """Like ``transform``, on the first value of each sample; the others (the label) stay."""
        return self.transform(_TransformFirst(fn), lazy)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


class SimpleDataset(Dataset):
    """A list, an array or anything else with a length and an index, as a Dataset."""

    def __init__(self, data: Any):
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]


class _LazyTransformDataset(Dataset):
    def __init__(self, data: Any, fn: Callable[..., Any]):
        self._data, self._fn = data, fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class _TransformFirst:
    """A class, not a nested function: worker processes may have to pickle it."""

    def __init__(self, fn: Callable[[Any], Any]):
        self._fn = fn

    def __call__(self, x: Any, *rest: Any) -> Any:
        return (self._fn(x), *rest) if rest else self._fn(x)


class _DownloadedDataset(Dataset):
    """Images and labels that fit into memory: the base of datasets from files. Subclasses set ``_data`` and
    ``_label`` in ``_get_data``.

    root: the folder of the files, made when it is not there. transform: called with (data, label) of a sample.
    """

    def __init__(self, root: str, transform: Callable[[Any, Any], Any] | None = None):
        self._root, self._transform = os.path.expanduser(os.fspath(root)), transform
        self._data: Any = None
        self._label: Any = None
        os.makedirs(self._root, exist_ok=True)
        self._get_data()

    def _get_data(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _get_data(self), which sets self._data and "
                                  f"self._label")

    def __getitem__(self, idx: Any) -> Any:
        sample = self._data[idx], self._label[idx]
        return self._transform(*sample) if self._transform is not None else sample

    def __len__(self) -> int:
        return len(self._label)


class _SampledDataset(Dataset):
    def __init__(self, dataset: Any, sampler: Sampler):
        self._dataset, self._sampler = dataset, sampler
        self._indices = list(sampler)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: Any) -> Any:
        return self._dataset[self._indices[idx]]


class ArrayDataset(Dataset):
    """Several arrays, lists or datasets of equal length side by side: sample i is ``(a[i], b[i], …)``, or ``a[i]`` for
    one.

    >>> ArrayDataset([1, 2], ["a", "b"])[1]
    (2, 'b')
    """

    def __init__(self, *args: Any):
        if not args:
            raise AttributeValueError("ArrayDataset needs at least one array")
        self._length = len(args[0])
        for i, data in enumerate(args):
            if len(data) != self._length:
                raise ShapeError(f"all arrays must have the same length; array 0 has {self._length}, array {i} has "
                                 f"{len(data)}")
        # the numbers of a 1-D array (labels) come out as numbers and not as arrays of one element
        self._data = [a.asnumpy() if isinstance(a, NDArray) and a.ndim == 1 else a for a in args]

    def __getitem__(self, idx: Any) -> Any:
        return self._data[0][idx] if len(self._data) == 1 else tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length


class RecordFileDataset(Dataset):
    """The records (bytes) of a ``.rec`` file, by its index, the ``.idx`` file beside it."""

    def __init__(self, filename: str | os.PathLike[str]):
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        for path in (self.filename, self.idx_file):
            if not os.path.isfile(path):
                raise MissingFileError(f"{path} is not there: a record dataset needs the .rec file and its .idx file "
                                       f"side by side")
        self._record = recordio.MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx: Any) -> Any:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)
