"""ImageDetIter: batches of images with boxes."""
from __future__ import annotations

import inspect
import logging
from typing import Any, Iterator, Sequence

import numpy as np

from ..mxnet.data_iter import DataBatch, DataDesc
from ..base.errors import AttributeValueError, FileFormatError, ShapeError
from ..nd import array
from .augmenters import statistics
from .detection import CreateDetAugmenter
from .drawing import boxes_drawn
from .iterator import ImageIter


class ImageDetIter(ImageIter):
    """Batches of images and their boxes, (batch, most objects of an image, width of an object), filled up with -1.

    A raw label is: length of the head (itself included), width of an object, rest of the head, then the objects (class,
    left, top, right, bottom, …), their sides from 0 to 1. aug_list: DetAugmenters; by default
    ``CreateDetAugmenter(data_shape, **kwargs)``. The rest as for ImageIter.
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], path_imgrec: str | None = None,
                 path_imglist: str | None = None,
                 path_root: str | None = None, path_imgidx: str | None = None, shuffle: bool = False,
                 part_index: int = 0, num_parts: int = 1,
                 aug_list: Any = None, imglist: Any = None, data_name: str = "data", label_name: str = "label",
                 last_batch_handle: str = "pad", **kwargs: Any):
        augmenters = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        super().__init__(batch_size, data_shape, path_imgrec=path_imgrec, path_imglist=path_imglist,
                         path_root=path_root, path_imgidx=path_imgidx,
                         shuffle=shuffle, part_index=part_index, num_parts=num_parts, aug_list=augmenters,
                         imglist=imglist, data_name=data_name,
                         label_name=label_name, last_batch_handle=last_batch_handle)
        self.label_shape = self._estimate_label_shape()
        self._describe_label(label_name)

    def _describe_label(self, name: str) -> None:
        self.provide_label = [DataDesc(name, (self.batch_size, *self.label_shape))]

    def _estimate_label_shape(self) -> tuple[int, int]:
        """The most objects of an image, and the width of one."""
        most, width = 0, 5
        self.reset()
        while True:
            try:
                label = self._parse_label(self.next_sample()[0])
            except StopIteration:
                break
            most, width = max(most, len(label)), label.shape[1]
        self.reset()
        return most, width

    def _parse_label(self, label: Any) -> np.ndarray:
        """The boxes of a raw label; those without an area are left out."""
        raw = np.asarray(label, np.float32).ravel()
        if raw.size < 7:
            raise FileFormatError(f"the label of a picture has {raw.size} numbers; a head of two and an object of "
                                  f"five are the least")
        head, width = int(raw[0]), int(raw[1])
        if head < 2 or width < 5 or (raw.size - head) % width:
            raise FileFormatError(f"a label of {raw.size} numbers does not hold a head of {head} and objects of "
                                  f"{width} numbers")
        boxes = raw[head:].reshape(-1, width)
        boxes = boxes[(boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])]
        if not len(boxes):
            raise FileFormatError("the label of a picture has no object with an area")
        return boxes

    def _sample(self, label: Any, encoded: bytes) -> tuple[Any, Any]:
        picture = self.imdecode(encoded)
        self.check_valid_image([picture])
        picture, boxes = self.augmentation_transform(picture, self._parse_label(label))
        if not len(boxes) or not (boxes[:, 3] > boxes[:, 1]).any():
            raise FileFormatError("no object is left after augmenting")
        return self._values(picture), boxes

    def augmentation_transform(self, data: Any,  # type: ignore[override]
                               label: np.ndarray) -> tuple[Any, np.ndarray]:
        """An image and its boxes after all augmenters."""
        for augmenter in self.auglist:
            data, label = augmenter(data, label)                   # type: ignore[call-arg]
        return data, label

    def _batch(self, rows: list[Any], pad: int) -> DataBatch:
        labels = np.full((self.batch_size, *self.label_shape), -1, np.float32)
        for i, (_, boxes) in enumerate(rows):
            count = min(len(boxes), self.label_shape[0])
            labels[i, :count] = boxes[:count, :self.label_shape[1]]
        return DataBatch([array(np.stack([x for x, _ in rows]), dtype=self.dtype)], [array(labels)], pad)

    def draw_next(self, color: Any = None, thickness: int = 2, mean: Any = None, std: Any = None, clip: bool = True,
                  waitKey: int | None = None,  # noqa: N803
                  window_name: str = "draw_next", id2labels: Any = None) -> Iterator[np.ndarray]:
        """The augmented images one after another with their boxes drawn: uint8 arrays (height, width, 3), red first.

        color: of all frames, random ones by default. mean, std: what normalizing took away (True: ImageNet's), to bring
        it back. clip: to 0 to 255. id2labels: names of the classes. waitKey would open a window, which is not
        supported: show the arrays, as with matplotlib's imshow.

        >>> for image in ImageDetIter(1, (3, 300, 300), path_imgrec="train.rec").draw_next():                            # doctest: +SKIP
        ...     plt.imshow(image)
        """  # noqa: E501
        if waitKey is not None:
            raise AttributeValueError("draw_next(waitKey=...): windows are not supported; leave it out and show the "
                                      "arrays, as with matplotlib's imshow")
        mean, std = statistics(mean, (123.68, 116.28, 103.53), "mean"), statistics(std, (58.395, 57.12, 57.375), "std")
        while True:
            try:
                label, encoded = self.next_sample()
            except StopIteration:
                return
            try:
                values, boxes = self._sample(label, encoded)
            except FileFormatError as err:
                logging.debug("Invalid image, skipping: %s", err)
                continue
            pixels = np.asarray(values, np.float32).transpose(1, 2, 0)
            pixels = pixels * (1 if std is None else np.asarray(std,
                                                                np.float32)) + (0 if mean is None
                    else np.asarray(mean, np.float32))
            yield boxes_drawn((pixels.clip(0, 255) if clip else pixels).astype(np.uint8), boxes, color, thickness,
                              id2labels)

    def reshape(self, data_shape: Sequence[int] | None = None, label_shape: Sequence[int] | None = None) -> None:
        """Batches of other images' or labels' shapes from here on. label_shape: (objects, width), not smaller than
        what the data need."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.data_shape = tuple(data_shape)
            self.provide_data = [DataDesc(self.provide_data[0].name, (self.batch_size, *data_shape))]
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.label_shape = (int(label_shape[0]), int(label_shape[1]))
            self._describe_label(self.provide_label[0].name)

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """ShapeError for a label's shape in which the data do not fit."""
        if len(label_shape) != 2 or label_shape[0] < self.label_shape[0] or label_shape[1] != self.label_shape[1]:
            raise ShapeError(f"label_shape must be (objects, {self.label_shape[1]}) with at least "
                             f"{self.label_shape[0]} objects, got {tuple(label_shape)}")

    def sync_label_shape(self, it: "ImageDetIter", verbose: bool = False) -> "ImageDetIter":
        """Give both iterators (of training and of validation) the larger number of objects; returns the other one."""
        if not isinstance(it, ImageDetIter):
            raise TypeError(f"sync_label_shape takes an ImageDetIter, got {type(it).__name__}")
        if it.label_shape[1] != self.label_shape[1]:
            raise ShapeError(f"objects have {self.label_shape[1]} numbers here and {it.label_shape[1]} there")
        shape = max(self.label_shape[0], it.label_shape[0]), self.label_shape[1]
        for one in (self, it):
            one.reshape(None, shape)
        return it


setattr(ImageDetIter, "options", tuple(inspect.signature(CreateDetAugmenter).parameters))  # for as_mxnet --check

__all__ = ["ImageDetIter"]
