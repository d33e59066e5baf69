"""Iterators over files whose samples fit in memory: comma-separated text, LibSVM's text, MNIST's files."""
from __future__ import annotations

import gzip
import math
import os
import struct
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from ..mxnet.data_iter import DataBatch, DataDesc, DataIter
from ..base.device import cpu
from ..base.dtype import as_dtype
from ..base.errors import AttributeValueError, FileFormatError, MissingFileError, ShapeError, warn_user
from ..nd.functions import resolve
from ..nd import array


class MXDataIter(DataIter):
    """Batches of numbered samples. A subclass defines ``_data(rows)`` and ``_labels(rows)``, NumPy or csr arrays of
    those samples.

    round_batch: a last batch that is shorter is filled from the start (``batch.pad`` samples), and the next epoch goes
    on behind them, as in MXNet; else it is filled with samples of the batch before.
    """

    def __init__(self, count: int, shapes: Sequence[tuple[int, ...]], batch_size: int, round_batch: bool = True,
                 data_name: str = "data",
                 label_name: str = "softmax_label", dtype: Any = None, shuffle: bool = False, seed: int = 0):
        super().__init__(int(batch_size))
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        if not count:
            raise ShapeError(f"{type(self).__name__}: there are no samples")
        self.dtype = as_dtype(dtype or "float32")
        data, label = (DataDesc(name, (self.batch_size, *shape), self.dtype.type)
                       for name, shape in zip((data_name, label_name), shapes))
        self.provide_data, self.provide_label = [data], [label]
        self._order, self._round, self._shuffle = np.arange(count), bool(round_batch), bool(shuffle)
        self._random = np.random.RandomState(seed % 2**32)
        self._at, self._ended, self._wrapped = 0, False, False
        self._rows, self._pad = self._order[:0], 0
        if self._shuffle:
            self._random.shuffle(self._order)

    def _data(self, rows: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _labels(self, rows: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def reset(self) -> None:
        """The next epoch."""
        if not self._wrapped:
            self._at = 0
            if self._shuffle:
                self._random.shuffle(self._order)
        self._ended = self._wrapped = False

    def iter_next(self) -> bool:
        """Go to the next batch; whether there is one."""
        rows = self._order[self._at:self._at + self.batch_size]
        if self._ended or not len(rows):
            return False
        self._pad = self.batch_size - len(rows)
        self._at += len(rows)
        if self._pad:
            self._ended = True
            before = self._rows[len(rows):] if len(self._rows) else self._order
            rest = np.resize(self._order if self._round else before, self._pad)
            if self._round:
                self._at, self._wrapped = self._pad % len(self._order), True
            rows = np.concatenate([rows, rest])
        self._rows = rows
        return True

    def next(self) -> DataBatch:
        """The next batch, or StopIteration."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch([self.getdata()], [self.getlabel()], self._pad, self.getindex())

    def getdata(self) -> Any:
        """The data of this batch."""
        return array(self._data(self._rows), dtype=self.dtype)

    def getlabel(self) -> Any:
        """The labels of this batch."""
        return array(self._labels(self._rows), dtype=self.dtype)

    def getindex(self) -> Any:
        """The numbers of this batch's samples."""
        return self._rows.copy()

    def getpad(self) -> int:
        """How many samples only fill the batch up."""
        return self._pad


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """A file, or all files of a folder in the order of their names. MissingFileError where there is none."""
    found = Path(path)
    if found.is_dir():
        return sorted(f for f in found.iterdir() if f.is_file())
    if not found.is_file():
        raise MissingFileError(f"{found}: no such file")
    return [found]


def _shape(given: Any) -> tuple[int, ...]:
    shape = (int(given),) if isinstance(given, int) else tuple(int(n) for n in given)
    if any(n < 1 for n in shape):
        raise ShapeError(f"the shape of a sample has positive lengths, got {shape}")
    return shape


class _InMemory(MXDataIter):
    def __init__(self, data: Any, labels: Any, batch_size: int, **kwargs: Any):
        if len(data) != len(labels):
            raise ShapeError(f"{type(self).__name__}: {len(data)} samples for {len(labels)} labels")
        super().__init__(len(data), [data.shape[1:], labels.shape[1:]], batch_size, **kwargs)
        self._x, self._y = data, labels

    def _data(self, rows: np.ndarray) -> Any:
        return self._of(self._x, rows)

    def _labels(self, rows: np.ndarray) -> Any:
        return self._of(self._y, rows)

    def _of(self, samples: Any, rows: np.ndarray) -> Any:
        return samples[rows]


def _part(count: int, num_parts: int, part_index: int) -> slice:
    if not 0 <= part_index < num_parts:
        raise AttributeValueError(f"part_index must be from 0 to num_parts - 1, got part_index={part_index}, "
                                  f"num_parts={num_parts}")
    each = count // num_parts
    return slice(part_index * each, (part_index + 1) * each if part_index + 1 < num_parts else count)


class CSVIter(_InMemory):
    """Lines of comma-separated numbers, each reshaped to ``data_shape``.

    data_csv, label_csv: a file, or a folder whose files are read one after the other; without label_csv labels are 0.
    label_shape: of one label. dtype: float32, or int32, int64 for whole numbers. round_batch: see ``MXDataIter``.
    """

    def __init__(self, data_csv: str, data_shape: Any, label_csv: str | None = None, label_shape: Any = (1,),
                 batch_size: int = 1, round_batch: bool = True,
                 dtype: Any = None, data_name: str = "data", label_name: str = "softmax_label", **kwargs: Any):
        _check_ignored(type(self), kwargs)
        data = _csv(data_csv, _shape(data_shape))
        labels = _csv(label_csv,
                      _shape(label_shape)) if label_csv not in (None,
                                                                "NULL") else np.zeros((len(data), *_shape(label_shape)))
        labels = labels.reshape(len(labels)) if _shape(label_shape) == (1,) else labels
        super().__init__(data, labels, batch_size, round_batch=round_batch, dtype=dtype, data_name=data_name,
                         label_name=label_name)


# how MXNet spreads its work
_IGNORED = {"prefetch_buffer", "ctx", "verbose", "silent", "preprocess_threads", "device_id"}


def _check_ignored(kind: type, kwargs: Any) -> None:
    """Warn of arguments that are not known, which MXNet's iterators take in silence."""
    unknown = sorted(set(kwargs) - _IGNORED)
    if unknown:
        warn_user(f"{kind.__name__} has no argument {', '.join(unknown)}: ignored")


def _csv(path: Any, shape: tuple[int, ...]) -> np.ndarray:
    parts = []
    for file in files_of(path):
        try:
            parts.append(np.loadtxt(file, np.float64, delimiter=",", ndmin=2, comments=None))
        except ValueError as err:
            raise FileFormatError(f"{file}: not a table of comma-separated numbers: {err}") from None
    table = np.concatenate([p for p in parts if p.size] or [np.zeros((0, math.prod(shape)))])
    if table.shape[1] != math.prod(shape):
        raise ShapeError(f"{path}: lines have {table.shape[1]} numbers, a sample of shape {shape} has "
                         f"{math.prod(shape)}")
    return table.reshape(len(table), *shape)


class LibSVMIter(_InMemory):
    """Lines ``label index:value index:value …`` with indices from 0; a batch is a csr array (``nd.sparse.CSRNDArray``).

    data_shape: (length of a row,). label_libsvm, label_shape: another such file whose rows are the labels, csr arrays
    too. num_parts, part_index: the part of the lines that is read.
    """

    def __init__(self, data_libsvm: str, data_shape: Any, label_libsvm: str | None = None, label_shape: Any = (1,),
                 num_parts: int = 1, part_index: int = 0,
                 batch_size: int = 1, round_batch: bool = True, dtype: Any = None, data_name: str = "data",
                 label_name: str = "softmax_label", **kwargs: Any):
        _check_ignored(type(self), kwargs)
        if not round_batch:
            raise AttributeValueError("LibSVMIter: round_batch must be True")
        data, labels = _libsvm(data_libsvm, _shape(data_shape))
        if label_libsvm not in (None, "NULL"):
            labels = _libsvm(label_libsvm, _shape(label_shape))[0]
        if len(data) != len(labels):
            raise ShapeError(f"LibSVMIter: {len(data)} samples for {len(labels)} labels")
        keep = _part(len(data), num_parts, part_index)
        super().__init__(data[keep], labels[keep], batch_size, dtype=dtype, data_name=data_name, label_name=label_name)

    def _of(self, samples: Any, rows: np.ndarray) -> Any:
        return samples[rows] if isinstance(samples, np.ndarray) else resolve("nd", "sparse.take_rows")(samples, rows)


def _libsvm(path: Any, shape: tuple[int, ...]) -> tuple[Any, np.ndarray]:
    """The rows as a csr array, and what stands before them."""
    if len(shape) != 1:
        raise ShapeError(f"a LibSVM row has one length, got shape {shape}")
    labels, ends, columns, values = list[float](), [0], list[int](), list[float]()
    for file in files_of(path):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if not line.strip():
                continue
            try:
                label, *words = line.split()
                labels.append(float(label))
                row = {int(index): float(value) for index, value in (word.split(":") for word in words)}
                if row and not 0 <= min(row) <= max(row) < shape[0]:
                    raise ValueError(f"indices must be from 0 to {shape[0] - 1}")
            except ValueError as err:
                raise FileFormatError(f"{file}, line {number}: expected 'label index:value …': {err}") from None
            columns += sorted(row)
            values += [row[c] for c in sorted(row)]
            ends.append(len(columns))
    parts = np.array(values, np.float32), np.array(columns, np.int64), np.array(ends, np.int64)
    return resolve("nd", "sparse.csr_matrix")(parts, shape=(len(labels), *shape),
                                              ctx=cpu()), np.array(labels, np.float32)


class MNISTIter(_InMemory):
    """MNIST's files (also compressed with gzip): images (1, 28, 28) of numbers from 0 to 1, or rows of 784 with
    flat=True.

    A last batch that is shorter is dropped. seed: of the order, with shuffle.
    """

    def __init__(self, image: str = "./train-images-idx3-ubyte", label: str = "./train-labels-idx1-ubyte",
                 batch_size: int = 128, shuffle: bool = True,
                 flat: bool = False, seed: int = 0, num_parts: int = 1, part_index: int = 0, dtype: Any = None,
                 data_name: str = "data",
                 label_name: str = "softmax_label", **kwargs: Any):
        _check_ignored(type(self), {k: v for k, v in kwargs.items() if k != "input_shape"})
        pictures, labels = _idx(image, 3), _idx(label, 1)
        if len(pictures) != len(labels):
            raise ShapeError(f"{image} has {len(pictures)} pictures, {label} has {len(labels)} labels")
        keep = _part(len(pictures), num_parts, part_index)
        data = pictures.reshape(len(pictures), -1) if flat else pictures[:, None]
        super().__init__(data[keep], labels[keep], batch_size, dtype=dtype, data_name=data_name, label_name=label_name,
                         shuffle=shuffle, seed=seed)

    def iter_next(self) -> bool:
        """Go to the next batch; whether there is one."""
        return self._at + self.batch_size <= len(self._order) and super().iter_next()

    def _data(self, rows: np.ndarray) -> np.ndarray:
        return self._x[rows] * np.float32(1 / 256)


def _idx(path: str, ndim: int) -> np.ndarray:
    """The bytes of a file in MNIST's format: a magic number, ``ndim`` lengths, the elements."""
    raw = files_of(path)[0].read_bytes()
    try:
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError) as err:
        raise FileFormatError(f"{path}: damaged gzip data: {err}") from None
    head = 4 * (ndim + 1)
    numbers = struct.unpack(f">{ndim + 1}I", raw[:head]) if len(raw) >= head else (0,)
    if numbers[0] != 0x800 + ndim:
        raise FileFormatError(f"{path}: not MNIST's format for {ndim} dimensions: it begins with {numbers[0]:#x}, "
                              f"expected {0x800 + ndim:#x}")
    if math.prod(numbers[1:]) != len(raw) - head:
        raise FileFormatError(f"{path}: {numbers[1:]} bytes should follow, there are {len(raw) - head}: the file is "
                              f"truncated or damaged")
    return np.frombuffer(raw, np.uint8, offset=head).reshape(numbers[1:])


for _kind in (CSVIter, LibSVMIter, MNISTIter):
    setattr(_kind, "options", (*_IGNORED, "input_shape"))         # for as_mxnet --check

__all__ = ["CSVIter", "LibSVMIter", "MNISTIter", "MXDataIter"]
