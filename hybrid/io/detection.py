"""ImageDetRecordIter: batches of images with boxes from a record file, changed by several threads."""
from __future__ import annotations

import random
from typing import Any, Sequence

import numpy as np

from ..serialize import recordio
from ..base.errors import AttributeValueError, FileFormatError, ShapeError
from ..image.colours import shifted
from .records import PLAIN, RecordPictures, checked, resized

_SAMPLERS: dict[str, Any] = {
    "min_crop_scales": 0.0, "max_crop_scales": 1.0, "min_crop_aspect_ratios": 1.0, "max_crop_aspect_ratios": 1.0,
    "min_crop_overlaps": 0.0,
    "max_crop_overlaps": 1.0, "min_crop_sample_coverages": 0.0, "max_crop_sample_coverages": 1.0,
    "min_crop_object_coverages": 0.0,
    "max_crop_object_coverages": 1.0, "max_crop_trials": 25}            # each a number, or a number for each sampler
_DEFAULTS: dict[str, Any] = {
    **_SAMPLERS, "resize": -1, "rand_crop_prob": 0.0, "num_crop_sampler": 1, "crop_emit_mode": "center",
    "emit_overlap_thresh": 0.3, "rand_pad_prob": 0.0,
    "max_pad_scale": 1.0, "max_random_hue": 0, "random_hue_prob": 0.0, "max_random_saturation": 0,
    "random_saturation_prob": 0.0,
    "max_random_illumination": 0, "random_illumination_prob": 0.0, "max_random_contrast": 0.0,
    "random_contrast_prob": 0.0, "rand_mirror_prob": 0.0,
    "fill_value": 127, "inter_method": 1, "resize_mode": "force", "mean_img": "", "mean_r": 0.0, "mean_g": 0.0,
    "mean_b": 0.0, "mean_a": 0.0, "std_r": 0.0,
    "std_g": 0.0, "std_b": 0.0, "std_a": 0.0, "scale": 1.0}
_REFUSED = {"dtype": "float32", "aug_seq": "det_aug_default"}
_CHOICES = {"crop_emit_mode": ("center", "overlap"), "resize_mode": ("force", "fit", "shrink")}
_HEADER = 4                                                               # channels, height, width, length of the label


class ImageDetRecordIter(RecordPictures):
    """Batches (batch, channels, height, width) of the images of a record file, and of their boxes.

    A label is (channels, height, width, length of the raw label, raw label …), filled up with label_pad_value to 4 +
    label_pad_width numbers (by default the longest raw label). A raw label, as im2rec packs it, is: length of the head
    (itself included), width of an object, rest of the head, then the objects (class, left, top, right, bottom, …),
    their sides from 0 to 1.

    In this order: resize (shorter edge); hue, saturation, illumination and contrast, each with its probability;
    rand_mirror_prob; rand_pad_prob (a larger image, up to max_pad_scale, of fill_value); rand_crop_prob (a part that
    one of the samplers allows: its area and aspect ratio, and for one object at least overlap, share of the part and
    share of the object; boxes whose centre, or emit_overlap_thresh of whose area, is not in it are left out);
    data_shape (``resize_mode``: force, or fit and shrink, which keep the aspect ratio and leave the rest black); then
    (x - mean) * scale / std by channel, where a std of 0 is 1.

    label_width: the length that every raw label must have, -1 for any. The rest as for ImageRecordIter. FileFormatError
    for labels of another kind.
    """

    def __init__(self, path_imgrec: str = "./data/imgrec.rec", data_shape: Sequence[int] = (), batch_size: int = 1,
                 path_imgidx: str = "",
                 path_imglist: str = "", label_width: int = -1, label_pad_width: int = 0,
                 label_pad_value: float = -1.0, shuffle: bool = False, seed: int = 0,
                 num_parts: int = 1, part_index: int = 0, round_batch: bool = True, data_name: str = "data",
                 label_name: str = "softmax_label", **options: Any):
        chosen = checked(type(self).__name__, options, _DEFAULTS, _REFUSED)
        self._samplers = _samplers(chosen)
        self._open(path_imgrec, path_imgidx, path_imglist, data_shape, (num_parts, part_index), chosen, seed,
                   int(options.get("preprocess_threads", 4)))
        self._std = np.where(self._std == 0, np.float32(1), self._std)
        self._pad_value, self._width = float(label_pad_value), self._longest(int(label_width), int(label_pad_width))
        super().__init__(len(self._numbers), [self._shape, (_HEADER + self._width,)], batch_size, round_batch,
                         data_name, label_name, "float32", shuffle, seed)

    def _longest(self, wanted: int, padded: int) -> int:
        """Length of the longest raw label, or what it is to be filled up to."""
        longest = 0
        for number in range(len(self._records.places)):
            header, _ = recordio.unpack(self._records.read(number))
            raw = self._label(header)
            _boxes(raw, f"{self._records.file}: picture {header.id}")
            if wanted > 0 and raw.size != wanted:
                raise ShapeError(f"{self._records.file}: the label of picture {header.id} has {raw.size} numbers, "
                                 f"label_width is {wanted}")
            longest = max(longest, raw.size)
        if 0 < padded < longest:
            raise AttributeValueError(f"label_pad_width is {padded}, but {self._records.file} has a label of "
                                      f"{longest} numbers")
        return max(longest, padded)

    def _sample(self, record: bytes, seed: float) -> tuple[np.ndarray, np.ndarray]:
        rng, (header, encoded) = random.Random(seed), recordio.unpack(record)
        raw = self._label(header)
        head, boxes = _boxes(raw, f"{self._records.file}: picture {header.id}")
        pixels = self._coloured(self._pixels(header, encoded), rng)
        pixels, boxes = self._moved(pixels, boxes.copy(), rng)
        picture, (height, width) = self._fitted(pixels)
        label = np.full(_HEADER + self._width, self._pad_value, np.float32)
        found = np.concatenate([head, boxes.ravel()])
        label[:_HEADER], label[_HEADER:_HEADER + found.size] = (self._shape[0], height, width, found.size), found
        return picture, label

    def _coloured(self, pixels: np.ndarray, rng: random.Random) -> np.ndarray:
        o = self._options
        amounts = [rng.randint(-most, most) if most and rng.random() < o[f"random_{name}_prob"] else 0
                   for name, most in ((n, int(o[f"max_random_{n}"])) for n in ("hue", "illumination", "saturation"))]
        if any(amounts) and pixels.shape[2] == 3:
            pixels = shifted(pixels, *amounts)
        if o["max_random_contrast"] > 0 and rng.random() < o["random_contrast_prob"]:
            factor = 1 + rng.uniform(-1, 1) * o["max_random_contrast"]
            pixels = np.round(pixels * np.float32(factor)).clip(0, 255).astype(np.uint8)
        return pixels

    def _moved(self, pixels: np.ndarray, boxes: np.ndarray, rng: random.Random) -> tuple[np.ndarray, np.ndarray]:
        """Mirrored, padded and cropped."""
        o = self._options
        if rng.random() < o["rand_mirror_prob"]:
            pixels = pixels[:, ::-1]
            boxes[:, 1], boxes[:, 3] = 1 - boxes[:, 3], 1 - boxes[:, 1].copy()
        if o["max_pad_scale"] > 1 and rng.random() < o["rand_pad_prob"]:
            pixels, boxes = self._padded(pixels, boxes, rng)
        if rng.random() < o["rand_crop_prob"]:
            pixels, boxes = self._cropped(pixels, boxes, rng)
        return pixels, boxes

    def _padded(self, pixels: np.ndarray, boxes: np.ndarray, rng: random.Random) -> tuple[np.ndarray, np.ndarray]:
        h, w, channels = pixels.shape
        scale = rng.uniform(1, self._options["max_pad_scale"])
        height, width = int(h * scale), int(w * scale)
        y, x = rng.randint(0, height - h), rng.randint(0, width - w)
        out = np.full((height, width, channels), self._options["fill_value"], np.uint8)
        out[y:y + h, x:x + w] = pixels
        boxes[:, (1, 3)] = (boxes[:, (1, 3)] * w + x) / width
        boxes[:, (2, 4)] = (boxes[:, (2, 4)] * h + y) / height
        return out, boxes

    def _cropped(self, pixels: np.ndarray, boxes: np.ndarray, rng: random.Random) -> tuple[np.ndarray, np.ndarray]:
        """A part that one of the samplers allows, the whole where none does."""
        h, w = pixels.shape[:2]
        for sampler in rng.sample(self._samplers, len(self._samplers)):
            for _ in range(sampler["max_crop_trials"]):
                part = _draw(sampler, w / h, rng)
                if not _allowed(sampler, boxes, part):
                    continue
                inside = self._inside(boxes, part)
                left, top, right, bottom = int(part[0] * w), int(part[1] * h), int(part[2] * w), int(part[3] * h)
                if len(inside) and right > left and bottom > top:
                    return pixels[top:bottom, left:right], inside
        return pixels, boxes

    def _inside(self, boxes: np.ndarray, part: np.ndarray) -> np.ndarray:
        """The boxes that count as within a part, relative to it."""
        sides = boxes[:, 1:5]
        if self._options["crop_emit_mode"] == "center":
            centres = (sides[:, :2] + sides[:, 2:]) / 2
            keep = ((centres >= part[:2]) & (centres <= part[2:])).all(1)
        else:
            keep = _common(sides, part) > self._options["emit_overlap_thresh"] * _areas(sides)
        out = boxes[keep]
        out[:, 1:5] = ((out[:, 1:5] - np.tile(part[:2], 2)) / np.tile(part[2:] - part[:2], 2)).clip(0, 1)
        return out

    def _fitted(self, pixels: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
        """The image as normalized data, and the part (height, width) of the data that it takes."""
        o, (channels, height, width), (h, w) = self._options, self._shape, pixels.shape[:2]
        size = height, width
        if o["resize_mode"] != "force":
            ratio = min(height / h, width / w)
            ratio = min(ratio, 1.0) if o["resize_mode"] == "shrink" else ratio
            size = max(1, int(h * ratio)), max(1, int(w * ratio))
        if (h, w) != size:
            pixels = resized(pixels, size, int(o["inter_method"]))
        out = np.zeros((channels, height, width), np.float32)
        out[:, :size[0], :size[1]] = pixels.transpose(2, 0, 1)
        return (out - self._mean) * (o["scale"] / self._std), size


def _boxes(raw: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Head and objects of a raw label."""
    head, width = (int(raw[0]), int(raw[1])) if raw.size > 1 else (0, 0)
    if head < 2 or width < 5 or raw.size < head or (raw.size - head) % width:
        raise FileFormatError(f"{name}: a label of {raw.size} numbers is expected to be a head of at least 2 (its "
                              f"length, and the width of an object of at "
                              f"least 5), then the objects; it begins with {raw[:2].tolist()}")
    return raw[:head], raw[head:].reshape(-1, width)


def _samplers(o: dict[str, Any]) -> list[dict[str, Any]]:
    """The options of each crop sampler; checks those that have few values."""
    for key, known in _CHOICES.items():
        if o[key] not in known:
            raise AttributeValueError(f"ImageDetRecordIter: {key} must be one of {', '.join(known)}; got {o[key]!r}")
    count = int(o["num_crop_sampler"])
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for key in _SAMPLERS:
        values = list(o[key]) if isinstance(o[key], (list, tuple)) else [o[key]]
        values = values * count if len(values) == 1 else values
        if len(values) != count:
            raise AttributeValueError(f"ImageDetRecordIter: {key} has {len(values)} values for num_crop_sampler={count}")  # noqa: E501
        for sampler, value in zip(found, values):
            sampler[key] = int(value) if key == "max_crop_trials" else float(value)
    for sampler in found:
        for key in (k[4:] for k in _SAMPLERS if k.startswith("min_")):
            if sampler[f"min_{key}"] > sampler[f"max_{key}"]:
                raise AttributeValueError(f"ImageDetRecordIter: min_{key} {sampler[f'min_{key}']} is above max_{key} "
                                          f"{sampler[f'max_{key}']}")
    return found


def _draw(s: dict[str, Any], ratio: float, rng: random.Random) -> np.ndarray:
    """A part (left, top, right, bottom) of an image with this width to height; sides from 0 to 1."""
    scale = rng.uniform(s["min_crop_scales"], s["max_crop_scales"]) + 1e-12
    aspect = rng.uniform(max(s["min_crop_aspect_ratios"] / ratio, scale**2),
                         min(s["max_crop_aspect_ratios"] / ratio, scale**-2))
    w, h = min(1.0, scale * aspect**0.5), min(1.0, scale / aspect**0.5)
    x, y = rng.uniform(0, 1 - w), rng.uniform(0, 1 - h)
    return np.array([x, y, x + w, y + h])


def _areas(boxes: np.ndarray) -> np.ndarray:
    return np.maximum(0, boxes[..., 2] - boxes[..., 0]) * np.maximum(0, boxes[..., 3] - boxes[..., 1])


def _common(boxes: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Areas that boxes and a part have in common."""
    return _areas(np.column_stack([np.maximum(boxes[:, :2], part[:2]), np.minimum(boxes[:, 2:], part[2:])]))


def _allowed(s: dict[str, Any], boxes: np.ndarray, part: np.ndarray) -> bool:
    """Whether a part has the wanted overlap and coverages with one of the objects. Liu and others, "SSD", ECCV 2016,
    section 2.2."""
    sides = boxes[:, 1:5]
    common, areas, whole = _common(sides, part), _areas(sides), float(_areas(part))
    shares = {"overlaps": common / np.maximum(areas + whole - common, 1e-12),
              "sample_coverages": common / max(whole, 1e-12),
              "object_coverages": common / np.maximum(areas, 1e-12)}
    good = np.ones(len(boxes), bool)
    for name, share in shares.items():
        low, high = s[f"min_crop_{name}"], s[f"max_crop_{name}"]
        good &= (share >= low if low > 0 else True) & (share <= high if high < 1 else True)
    return bool(good.any())


setattr(ImageDetRecordIter, "options", (*_DEFAULTS, *PLAIN, *_REFUSED))            # for as_mxnet --check

__all__ = ["ImageDetRecordIter"]
