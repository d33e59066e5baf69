"""Augmenters of images with boxes. A label is an array of rows (class, left, top, right, bottom, …), the sides from 0
to 1."""
from __future__ import annotations

import json
import math
import random
from typing import Any, Sequence

import numpy as np

from ..base.errors import AttributeValueError
from .augmenters import (Augmenter, CastAug, ColorJitterAug, ColorNormalizeAug, ForceResizeAug, HueJitterAug,
                         LightingAug, RandomGrayAug, ResizeAug, flipped, statistics)
from .image import copyMakeBorder, fixed_crop


class DetAugmenter:
    """Base class: ``augmenter(picture, label)`` gives both. ``dumps()`` describes it as JSON."""

    def __init__(self, **kwargs: Any):
        self._kwargs = {k: v.asnumpy().tolist() if hasattr(v, "asnumpy") else v.tolist() if isinstance(v, np.ndarray)
                        else v for k, v in kwargs.items()}

    def dumps(self) -> str:
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(src, label)")


class DetBorrowAug(DetAugmenter):
    """An augmenter of images that leaves boxes where they are."""

    def __init__(self, augmenter: Augmenter):
        if not isinstance(augmenter, Augmenter):
            raise TypeError(f"DetBorrowAug takes an Augmenter, got {type(augmenter).__name__}")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> str:                               # type: ignore[override]
        """Name and arguments as a list."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]       # type: ignore[return-value]

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several augmenters, or none with the probability skip_prob."""

    def __init__(self, aug_list: Any, skip_prob: float = 0):
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        for one in self.aug_list:
            if not isinstance(one, DetAugmenter):
                raise ValueError(f"DetRandomSelectAug takes DetAugmenters, got {type(one).__name__}")
        self.skip_prob = skip_prob if self.aug_list else 1.0

    def dumps(self) -> str:                               # type: ignore[override]
        """Name and arguments as a list."""
        return [type(self).__name__.lower(), [a.dumps() for a in self.aug_list]]          # type: ignore[return-value]

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirrored left to right with probability p."""

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        if random.random() >= self.p:
            return src, label
        label = label.copy()
        label[:, 1], label[:, 3] = 1.0 - label[:, 3], 1.0 - label[:, 1].copy()
        return flipped(src), label


def _areas(boxes: np.ndarray) -> np.ndarray:
    return np.maximum(0, boxes[:, 2] - boxes[:, 0]) * np.maximum(0, boxes[:, 3] - boxes[:, 1])


def _pair(given: Any) -> Any:
    """One number as a range of one value."""
    return given if isinstance(given, (list, tuple)) else (given, given)


def _range(value: Any, name: str, positive: bool = True) -> tuple[float, float]:
    """A pair (low, high)."""
    low, high = (float(v) for v in value)
    if low > high or positive and low <= 0:
        raise AttributeValueError(f"{name} must be two numbers, the smaller one "
                                  f"first{' and positive' if positive else ''}, got {value}")
    return low, high


class DetRandomCropAug(DetAugmenter):
    """A random part of the image that shows enough of the objects; after max_attempts the whole image.

    min_object_covered: the share of each object that it touches at least. aspect_ratio_range: width to height.
    area_range: share of the image. min_eject_coverage: objects of which less is left are dropped.
    """

    def __init__(self, min_object_covered: float = 0.1, aspect_ratio_range: Any = (0.75, 1.33),
                 area_range: Any = (0.05, 1.0),
                 min_eject_coverage: float = 0.3, max_attempts: int = 50):
        aspect_ratio_range, area_range = _pair(aspect_ratio_range), _pair(area_range)
        super().__init__(min_object_covered=min_object_covered, aspect_ratio_range=aspect_ratio_range,
                         area_range=area_range,
                         min_eject_coverage=min_eject_coverage, max_attempts=max_attempts)
        self.min_object_covered, self.min_eject_coverage, self.max_attempts = (min_object_covered, min_eject_coverage,
                max_attempts)
        self.aspect_ratio_range, self.area_range = _range(aspect_ratio_range,
                                                          "aspect_ratio_range"), _range(area_range, "area_range", False)

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        height, width = src.shape[:2]
        found = self._proposal(label, height, width)
        if found is None:
            return src, label
        x, y, w, h, label = found
        return fixed_crop(src, x, y, w, h, None), label

    def _proposal(self, label: np.ndarray, height: int, width: int) -> tuple[int, int, int, int, np.ndarray] | None:
        """Left, top, width and height of a part, and the label within it; None where no draw fits."""
        low, high = (share * height * width for share in self.area_range)
        if not (self.area_range[1] > 0 and height > 0 and width > 0):
            return None
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            most = round(math.sqrt(high / ratio))
            if round(most * ratio) > width:
                most = int((width + 0.4999999) / ratio)
            most = min(most, height)
            h = min(round(math.sqrt(low / ratio)), most)
            if h < most:
                h = random.randint(h, most)
            h += round(h * ratio) * h < low                  # what rounding took away, or added
            h -= round(h * ratio) * h > high
            w = round(h * ratio)
            if not (low <= w * h <= high and w <= width and h <= height):
                continue
            y, x = random.randint(0, height - h), random.randint(0, width - w)
            inside = w * h >= 2 and self._covered(label, (x, y, x + w, y + h), height, width)
            new = self._moved(label, (x, y, w, h), height, width) if inside else None
            if new is not None:
                return x, y, w, h, new
        return None

    def _covered(self, label: np.ndarray, part: tuple[int, int, int, int], height: int, width: int) -> bool:
        """Whether of each object of more than two pixels that the part touches, it shows enough."""
        left, top, right, bottom = part[0] / width, part[1] / height, part[2] / width, part[3] / height
        boxes, whole = label[:, 1:5], _areas(label[:, 1:5])
        large = whole * width * height > 2
        boxes, whole = boxes[large], whole[large]
        cut = np.column_stack([np.maximum(boxes[:, :2], (left, top)), np.minimum(boxes[:, 2:], (right, bottom))])
        shares = _areas(cut) / whole
        shares = shares[shares > 0]
        return len(shares) > 0 and shares.min() > self.min_object_covered

    def _moved(self, label: np.ndarray, crop: tuple[int, int, int, int], height: int, width: int) -> np.ndarray | None:
        x, y, w, h = crop[0] / width, crop[1] / height, crop[2] / width, crop[3] / height
        out = label.copy()
        out[:, (1, 3)] = (out[:, (1, 3)] - x) / w
        out[:, (2, 4)] = (out[:, (2, 4)] - y) / h
        out[:, 1:5] = out[:, 1:5].clip(0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            coverage = _areas(out[:, 1:5]) * w * h / _areas(label[:, 1:5])
        keep = (out[:, 3] > out[:, 1]) & (out[:, 4] > out[:, 2]) & (coverage > self.min_eject_coverage)
        return out[keep] if keep.any() else None


class DetRandomPadAug(DetAugmenter):
    """The image at a random place of a larger one filled with pad_val; after max_attempts as it is."""

    def __init__(self, aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (1.0, 3.0), max_attempts: int = 50,
                 pad_val: Any = (128, 128, 128)):
        pad_val = tuple(pad_val) if isinstance(pad_val, (list, tuple, np.ndarray)) else (pad_val,)
        aspect_ratio_range, area_range = _pair(aspect_ratio_range), _pair(area_range)
        super().__init__(aspect_ratio_range=aspect_ratio_range, area_range=area_range, max_attempts=max_attempts,
                         pad_val=pad_val)
        self.pad_val, self.max_attempts = pad_val, max_attempts
        self.aspect_ratio_range, self.area_range = _range(aspect_ratio_range,
                                                          "aspect_ratio_range"), _range(area_range, "area_range")
        if self.area_range[1] <= 1:
            raise AttributeValueError(f"area_range must end above 1, since the larger image holds the given one, got "
                                      f"{area_range}")

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        height, width = src.shape[:2]
        found = self._proposal(height, width)
        if found is None:
            return src, label
        x, y, w, h = found
        out = copyMakeBorder(src, y, h - y - height, x, w - x - width, 0, values=self.pad_val)
        label = label.copy()
        label[:, (1, 3)] = (label[:, (1, 3)] * width + x) / w
        label[:, (2, 4)] = (label[:, (2, 4)] * height + y) / h
        return out, label

    def _proposal(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        low, high = (share * height * width for share in self.area_range)
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            h, most = round(math.sqrt(low / ratio)), round(math.sqrt(high / ratio))
            if round(h * ratio) < width:
                h = int((width + 0.499999) / ratio)
            h = min(max(h, height), most)
            if h < most:
                h = random.randint(h, most)
            w = round(h * ratio)
            if h - height < 2 or w - width < 2:
                continue
            y, x = random.randint(0, h - height), random.randint(0, w - width)
            return x, y, w, h
        return None


def CreateMultiRandCropAugmenter(min_object_covered: Any = 0.1, aspect_ratio_range: Any = (0.75, 1.33),
                                 area_range: Any = (0.05, 1.0),  # noqa: N802
                                 min_eject_coverage: Any = 0.3, max_attempts: Any = 50,
                                 skip_prob: float = 0) -> DetRandomSelectAug:
    """One of several random crops: arguments that are lists give one crop for each of their elements."""
    given = [min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts]
    lists = [v if isinstance(v, list) else [v] for v in given]
    count = max(map(len, lists))
    if any(len(v) not in (1, count) for v in lists):
        raise AttributeValueError(f"lists must have the same length, got {[len(v) for v in lists]}")
    wide = [v * count if len(v) == 1 else v for v in lists]
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in zip(*wide)], skip_prob)


def CreateDetAugmenter(data_shape: Sequence[int], resize: int = 0, rand_crop: float = 0, rand_pad: float = 0,
                       rand_gray: float = 0,  # noqa: N802
                       rand_mirror: bool = False, mean: Any = None, std: Any = None, brightness: float = 0,
                       contrast: float = 0, saturation: float = 0,
                       pca_noise: float = 0, hue: float = 0, inter_method: int = 2, min_object_covered: Any = 0.1,
                       aspect_ratio_range: Any = (0.75, 1.33),
                       area_range: Any = (0.05, 3.0), min_eject_coverage: Any = 0.3, max_attempts: Any = 50,
                       pad_val: Any = (127, 127, 127)) -> list[DetAugmenter]:
    """The usual list of augmenters for detection in images of ``data_shape`` (channels, height, width).

    resize: shorter edge first. rand_crop, rand_pad, rand_gray: probabilities. area_range: of the crop below 1, of the
    padding above. The rest:
    as in ``CreateAugmenter`` and ``DetRandomCropAug``.
    """
    out: list[DetAugmenter] = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        out.append(CreateMultiRandCropAugmenter(min_object_covered, aspect_ratio_range, area_range, min_eject_coverage,
                                                max_attempts, skip_prob=1 - rand_crop))
    if rand_mirror:
        out.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        out.append(DetRandomSelectAug([DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts,
                                                       pad_val)], 1 - rand_pad))
    plain: list[Augmenter] = [ForceResizeAug((data_shape[2], data_shape[1]), inter_method), CastAug()]
    if brightness or contrast or saturation:
        plain.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        plain.append(HueJitterAug(hue))
    if pca_noise > 0:
        plain.append(LightingAug(pca_noise, np.array([55.46, 4.794, 1.148]),
                                 np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                                           [-0.5836, -0.6948, 0.4203]])))
    if rand_gray > 0:
        plain.append(RandomGrayAug(rand_gray))
    mean, std = statistics(mean, (123.68, 116.28, 103.53), "mean",
                           float), statistics(std, (58.395, 57.12, 57.375), "std", float)
    if mean is not None or std is not None:
        plain.append(ColorNormalizeAug(mean, std))
    return [*out, *map(DetBorrowAug, plain)]


__all__ = ["CreateDetAugmenter", "CreateMultiRandCropAugmenter", "DetAugmenter", "DetBorrowAug",
           "DetHorizontalFlipAug", "DetRandomCropAug",
           "DetRandomPadAug", "DetRandomSelectAug"]
