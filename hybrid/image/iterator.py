"""ImageIter: batches of images from a record file, a list file or a list, augmented."""
from __future__ import annotations

import inspect
import logging
import os
import random
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from ..serialize import recordio
from ..buffers.array import NDArray
from ..mxnet.data_iter import DataBatch, DataDesc, DataIter
from ..base.errors import AttributeValueError, FileFormatError, HybridError, ShapeError
from ..nd import array
from .augmenters import CreateAugmenter
from .image import imdecode

_LAST = ("pad", "discard", "roll_over")


def read_list(path: str | os.PathLike[str]) -> dict[int, tuple[np.ndarray, str]]:
    """A ``.lst`` file: lines of index, labels and path between tabs. By index (labels, path)."""
    found = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        words = line.strip().split("\t")
        if words == [""]:
            continue
        try:
            found[int(words[0])] = np.array(words[1:-1], np.float32), words[-1]
        except ValueError:
            raise FileFormatError(f"{os.fspath(path)}, line {number}: expected index, labels and path between tabs, "
                                  f"got {line[:80]!r}") from None
        if len(words) < 3:
            raise FileFormatError(f"{os.fspath(path)}, line {number}: expected index, labels and path between tabs, "
                                  f"got {line[:80]!r}")
    return found


class ImageIter(DataIter):
    """Batches (batch, channels, height, width) of images with their labels.

    data_shape: (channels, height, width). One of: path_imgrec (a record file, with path_imgidx for shuffling and
    parts), path_imglist (a ``.lst`` file) or imglist (``[label or labels, path]`` each), the last two with path_root
    before the paths; path_imglist beside path_imgrec gives the labels. label_width: labels an image. aug_list:
    augmenters; by default those of ``CreateAugmenter(data_shape, **kwargs)``. part_index, num_parts: the part of the
    images that is read. last_batch_handle: as for NDArrayIter.

    >>> it = ImageIter(32, (3, 224, 224), path_imgrec="train.rec", path_imgidx="train.idx", shuffle=True, rand_crop=True)     # doctest: +SKIP
    """  # noqa: E501

    def __init__(self, batch_size: int, data_shape: Sequence[int], label_width: int = 1,
                 path_imgrec: str | None = None, path_imglist: str | None = None,
                 path_root: str | None = None, path_imgidx: str | None = None, shuffle: bool = False,
                 part_index: int = 0, num_parts: int = 1,
                 aug_list: Sequence[Any] | None = None, imglist: Any = None, data_name: str = "data",
                 label_name: str = "softmax_label",
                 dtype: Any = "float32", last_batch_handle: str = "pad", **kwargs: Any):
        super().__init__(batch_size)
        if not path_imgrec and not path_imglist and not isinstance(imglist, list):
            raise AttributeValueError(f"{type(self).__name__}: give path_imgrec, path_imglist or imglist")
        if last_batch_handle not in _LAST:
            raise ValueError(f"last_batch_handle must be one of {', '.join(_LAST)}; got {last_batch_handle!r}")
        self.check_data_shape(data_shape)
        self.data_shape, self.label_width, self.dtype, self.shuffle = tuple(data_shape), label_width, dtype, shuffle
        self.path_root, self.last_batch_handle = path_root, last_batch_handle
        self.imgrec: Any = None
        self.imglist: dict[Any, tuple[np.ndarray, str]] | None = None
        self.seq: list[Any] | None = None
        self._open(path_imgrec, path_imgidx, path_imglist, imglist)
        if self.seq is None and (shuffle or num_parts > 1):
            raise AttributeValueError(f"{type(self).__name__}: shuffle and num_parts need the record file's index: "
                                      f"give path_imgidx")
        if self.seq is not None and num_parts > 1:
            if not 0 <= part_index < num_parts:
                raise AttributeValueError(f"part_index must be from 0 to num_parts - 1, got part_index={part_index}, "
                                          f"num_parts={num_parts}")
            each = len(self.seq) // num_parts
            self.seq = self.seq[part_index * each:(part_index + 1) * each]
        self.auglist = CreateAugmenter(data_shape, **kwargs) if aug_list is None else list(aug_list)
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape), dtype)]
        self.provide_label = [DataDesc(label_name, (batch_size, label_width) if label_width > 1 else (batch_size,),
                                       dtype)]
        self.cur, self._carry, self._ended = 0, list[Any](), False
        self.reset()

    def _open(self, path_imgrec: Any, path_imgidx: Any, path_imglist: Any, imglist: Any) -> None:
        if path_imgrec:
            self.imgrec = recordio.MXIndexedRecordIO(path_imgidx, path_imgrec,
                                                     "r") if path_imgidx else recordio.MXRecordIO(path_imgrec, "r")
            self.seq = list(self.imgrec.keys) if path_imgidx else None
        if path_imglist:
            self.imglist = read_list(path_imglist)
        elif isinstance(imglist, list):
            self.imglist = {i: (np.atleast_1d(np.array(row[:-1] if len(row) > 2 else row[0], np.float32)).ravel(),
                                row[-1]) for i, row in enumerate(imglist)}
        if self.imglist is not None:
            self.seq = [k for k in self.imglist if self.imgrec is None or self.seq is None or k in set(self.seq)]

    # ---- order
    def reset(self) -> None:
        """Back to the first image, in a new order with shuffle; with ``roll_over`` what the last epoch left comes
        first."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.last_batch_handle != "roll_over":
            self._carry = []
        self._rewind()
        self._ended = False

    def hard_reset(self) -> None:
        """Back to the first image, forgetting what was to be rolled over."""
        self._carry = []
        self.reset()

    def _rewind(self) -> None:
        self.cur = 0
        if self.imgrec is not None and self.seq is None:
            self.imgrec.reset()

    def next_sample(self) -> tuple[Any, bytes]:
        """(label, encoded image) of the next one, or StopIteration."""
        if self.seq is None:
            record = self.imgrec.read()
            if record is None:
                raise StopIteration
            header, picture = recordio.unpack(record)
            return header.label, picture
        if self.cur >= len(self.seq):
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is None:
            assert self.imglist is not None
            label, name = self.imglist[key]
            return label, self.read_image(name)
        header, picture = recordio.unpack(self.imgrec.read_idx(key))
        return (self.imglist[key][0] if self.imglist is not None else header.label), picture

    def next(self) -> DataBatch:
        """The next batch, or StopIteration."""
        if self._ended:
            raise StopIteration
        rows, self._carry = self._carry, []
        carried = len(rows)
        self._fill(rows)
        pad = self.batch_size - (carried or len(rows))           # as MXNet counts them: what is not of the last epoch
        if len(rows) < self.batch_size:
            self._ended = True
            if not rows or self.last_batch_handle == "discard":
                raise StopIteration
            if self.last_batch_handle == "roll_over":
                self._carry = rows
                raise StopIteration
            while len(rows) < self.batch_size:                  # from the start again
                self._rewind()
                self._fill(rows)
        return self._batch(rows, pad)

    def iter_next(self) -> bool:
        """Not known before the images are read: use ``next``."""
        raise NotImplementedError(f"{type(self).__name__} gives batches by next()")

    def _fill(self, rows: list[Any]) -> None:
        """Read samples until there is a batch, or no more."""
        while len(rows) < self.batch_size:
            try:
                label, encoded = self.next_sample()
            except StopIteration:
                return
            try:
                sample = self._sample(label, encoded)
            except FileFormatError as err:
                logging.debug("Invalid image, skipping: %s", err)
                continue
            rows.append(sample)

    def _sample(self, label: Any, encoded: bytes) -> tuple[Any, Any]:
        picture = self.imdecode(encoded)
        self.check_valid_image([picture])
        picture = self.augmentation_transform(picture)
        return self._values(picture), np.asarray(label, np.float32).ravel()

    def _values(self, picture: Any) -> np.ndarray:
        """The numbers of an augmented image, channels first."""
        values = self.postprocess_data(picture).asnumpy()
        if values.shape != self.data_shape:
            raise ShapeError(f"the augmenters made a picture of shape {values.shape}, data_shape is {self.data_shape}")
        return values

    def _batch(self, rows: list[Any], pad: int) -> DataBatch:
        data = array(np.stack([x for x, _ in rows]), dtype=self.dtype)
        labels = np.zeros((self.batch_size, self.label_width), np.float32)
        for i, (_, label) in enumerate(rows):
            if len(label) < self.label_width:
                raise ShapeError(f"a picture has {len(label)} labels, label_width is {self.label_width}")
            labels[i] = label[:self.label_width]
        return DataBatch([data], [array(labels if self.label_width > 1 else labels[:, 0], dtype=self.dtype)], pad)

    # ---- steps that a subclass may change
    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """ShapeError unless it is (3, height, width)."""
        if len(data_shape) != 3 or data_shape[0] != 3:
            raise ShapeError(f"data_shape must be (3, height, width), got {tuple(data_shape)}")

    def check_valid_image(self, data: Any) -> None:
        """FileFormatError for an empty image."""
        if not data[0].ndim:
            raise FileFormatError("Data shape is wrong")

    def imdecode(self, s: bytes) -> Any:
        """The image of encoded bytes."""
        return imdecode(s)

    def read_image(self, fname: str) -> bytes:
        """The bytes of an image's file."""
        return Path(self.path_root or "", fname).read_bytes()

    def augmentation_transform(self, data: Any) -> Any:
        """An image after all augmenters."""
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """Channels first."""
        if datum.ndim != 3:
            raise HybridError(f"an augmenter gave an array of shape {datum.shape}; a picture has (height, width, "
                              f"channels)")
        return datum.transpose(2, 0, 1)                            # type: ignore[attr-defined]


setattr(ImageIter, "options", tuple(inspect.signature(CreateAugmenter).parameters))        # for as_mxnet --check

__all__ = ["ImageIter", "read_list"]
