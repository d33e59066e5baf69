"""ImageRecordIter: batches of images from a record file, decoded by several threads."""
from __future__ import annotations

import math
import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Sequence

import numpy as np

from ..base import codec
from ..serialize import recordio
from ..base.errors import AttributeValueError, FileFormatError, ShapeError, warn_user
from ..image import CreateAugmenter, warp
from ..image import image as pictures
from ..image.colours import shifted
from ..image.iterator import read_list
from ..nd import array
from ..serialize import load
from .rows import MXDataIter, _part, files_of

# Options of MXNet's iterator that are accepted and change nothing here, and those whose other values are refused
PLAIN = {"aug_seq", "preprocess_threads", "verbose", "device_id", "shuffle_chunk_size", "shuffle_chunk_seed",
         "prefetch_buffer", "ctx", "seed_aug",
          "cudnn_tune", "batch_p"}
_REFUSED = {"rotate_list": ()}


class _Records:
    """The records of a file by number."""

    def __init__(self, path: str, index: str):
        if not path:
            raise AttributeValueError("ImageRecordIter: give path_imgrec, a record file")
        self.file = str(files_of(path)[0])
        if index and os.path.exists(index):
            self.reader: Any = recordio.MXIndexedRecordIO(index, self.file, "r")
            self.places = [self.reader.idx[k] for k in self.reader.keys]
        else:
            self.reader, self.places = recordio.MXRecordIO(self.file, "r"), []
            while True:
                at = self.reader._ready(writing=False).tell()
                if self.reader.read() is None:
                    break
                self.places.append(at)

    def read(self, number: int) -> bytes:
        """One record."""
        self.reader._ready(writing=False, allow_reset=True).seek(self.places[number])
        found = self.reader.read()
        if found is None:
            raise FileFormatError(f"{self.file}: there is no record at offset {self.places[number]}: the file is cut "
                                  f"off, or the index is that of another one")
        return found


class RecordPictures(MXDataIter):
    """Batches of the images of a record file, made by several threads. A subclass defines ``_sample(record, seed)``,
    an image and its label."""

    def _open(self, path: str, index: str, listed: str, data_shape: Sequence[int], part: tuple[int, int],
              options: dict[str, Any], seed: int, threads: int) -> None:
        if len(data_shape) != 3 or data_shape[0] not in (1, 3):
            raise ShapeError(f"data_shape must be (1 or 3, height, width), got {tuple(data_shape)}")
        self._records, self._shape, self._options = _Records(path, index), tuple(int(n) for n in data_shape), options
        count = len(self._records.places)
        self._numbers = np.arange(count)[_part(count, *part)]
        self._list = read_list(listed) if listed else None
        self._rng = random.Random(seed)
        self._mean, self._std = self._statistics()
        self._pool = ThreadPoolExecutor(max(1, threads), "hybrid-pictures")
        self._found: tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]] | None = None

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.shutdown(wait=False)

    def _statistics(self) -> tuple[np.ndarray, np.ndarray]:
        o, channels = self._options, self._shape[0]
        mean, std = (np.array([o[f"{what}_{c}"] for c in "rgb"][:channels], np.float32)[:, None, None]
                     for what in ("mean", "std"))
        if o["mean_img"]:
            found = load(o["mean_img"])
            mean = (next(iter(found.values())) if isinstance(found, dict) else found[0]).asnumpy()
            if mean.shape != self._shape:
                raise ShapeError(f"{o['mean_img']} holds a mean of shape {mean.shape}, data_shape is {self._shape}")
        return mean, std

    def _samples(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        if self._found is None or self._found[0] is not rows:
            encoded = [self._records.read(int(self._numbers[i])) for i in rows]
            seeds = [self._rng.random() for _ in rows]
            self._found = rows, list(self._pool.map(self._sample, encoded, seeds))
        return self._found[1]

    def _sample(self, record: bytes, seed: float) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _data(self, rows: np.ndarray) -> np.ndarray:
        return np.stack([x for x, _ in self._samples(rows)])

    def _labels(self, rows: np.ndarray) -> np.ndarray:
        return np.stack([y for _, y in self._samples(rows)])

    def getlabel(self) -> Any:
        """The labels of this batch, float32."""
        return array(self._labels(self._rows), dtype="float32")

    def getindex(self) -> Any:
        """The numbers of this batch's images in the file."""
        return self._numbers[self._rows]

    def _label(self, header: Any) -> np.ndarray:
        """What the list says of an image, else the record."""
        return np.asarray(self._list[header.id][0] if self._list is not None and header.id in self._list
                          else header.label, np.float32).ravel()

    def _pixels(self, header: Any, encoded: bytes) -> np.ndarray:
        """An image (height, width, channels), with its shorter edge resized where that is wanted."""
        x = codec.decode(encoded, 1 if self._shape[0] == 3 else 0, True, f"{self._records.file}: picture {header.id}")
        x, short = x if x.ndim == 3 else x[..., None], self._options["resize"]
        if short <= 0:
            return x
        h, w = x.shape[:2]
        return resized(x, (short, w * short // h) if h < w else (h * short // w, short),
                       int(self._options["inter_method"]))


class ImageRecordIter(RecordPictures):
    """Batches (batch, channels, height, width) of the images of a record file, cut and changed on the way.

    path_imgrec: the file; path_imgidx: its index (found by reading through the file where it is absent); path_imglist:
    a ``.lst`` file whose labels are taken. data_shape: (1 or 3 channels, height, width). label_width: labels an image.
    shuffle, seed; num_parts, part_index: the part that is read. preprocess_threads: for decoding.

    In this order: resize (shorter edge; a smaller image is enlarged); turned, sheared and scaled (rotate or
    max_rotate_angle, max_shear_ratio, max_random_scale and min_random_scale, max_aspect_ratio; see ``image.warp``); pad
    (border of fill_value); random_resized_crop (of min_random_area to max_random_area and min_aspect_ratio to
    max_aspect_ratio), or, also where no such part fits, a crop from anywhere (rand_crop) or the middle, of
    min_crop_size to max_crop_size where given; random_h, random_s, random_l (hue of 180, saturation and lightness of
    255); brightness, contrast, saturation, pca_noise; rand_mirror or mirror; then (x - mean) * scale / std by channel
    (mean_r …, std_r …, or the file mean_img).
    """
    kind = "float32"

    def __init__(self, path_imgrec: str = "", data_shape: Sequence[int] = (), batch_size: int = 1,
                 path_imgidx: str = "", path_imglist: str = "", label_width: int = 1,
                 shuffle: bool = False, seed: int = 0, num_parts: int = 1, part_index: int = 0,
                 round_batch: bool = True, dtype: Any = None,
                 data_name: str = "data", label_name: str = "softmax_label", **options: Any):
        chosen = checked(type(self).__name__, options, _DEFAULTS, _REFUSED)
        self._open(path_imgrec, path_imgidx, path_imglist, data_shape, (num_parts, part_index), chosen, seed,
                   int(options.get("preprocess_threads", 4)))
        self._width = int(label_width)
        super().__init__(len(self._numbers), [self._shape, (self._width,) if self._width > 1 else ()], batch_size,
                         round_batch, data_name, label_name,
                         dtype or self.kind, shuffle, seed)
        self._colour = CreateAugmenter(self._shape, brightness=chosen["brightness"], contrast=chosen["contrast"],
                                       saturation=chosen["saturation"], pca_noise=chosen["pca_noise"])[2:]

    def _labels(self, rows: np.ndarray) -> np.ndarray:
        labels = super()._labels(rows)
        return labels if self._width > 1 else labels[:, 0]

    def _sample(self, record: bytes, seed: float) -> tuple[np.ndarray, np.ndarray]:
        header, encoded = recordio.unpack(record)
        label = self._label(header)
        if len(label) < self._width:
            raise ShapeError(f"{self._records.file}: picture {header.id} has {len(label)} labels, label_width is "
                             f"{self._width}")
        pixels = self._cut(self._pixels(header, encoded), random.Random(seed))
        return self._finished(pixels, random.Random(-seed)), label[:self._width]

    def _cut(self, pixels: np.ndarray, rng: random.Random) -> np.ndarray:
        """A part of an image in the wanted size."""
        o, (_, height, width) = self._options, self._shape
        method, pixels = int(o["inter_method"]), warp.warped(pixels, o, rng)
        if o["pad"] > 0:
            pixels = np.pad(pixels, ((o["pad"],) * 2, (o["pad"],) * 2, (0, 0)), constant_values=o["fill_value"])
        h, w = pixels.shape[:2]
        found = _part_of_area(o, h, w, rng) if o["random_resized_crop"] else None
        if found is not None:
            y, x, ch, cw = found
        else:
            low, high = o["min_crop_size"], o["max_crop_size"]
            ch, cw = (rng.randint(low if low > 0 else high, high),) * 2 if high > 0 else (height, width)
            if h < ch:                                            # enlarged until the crop fits, first in one direction
                pixels = resized(pixels, (ch, w * ch // h), method)
                h, w = pixels.shape[:2]
            if w < cw:
                pixels = resized(pixels, (h * cw // w, cw), method)
                h, w = pixels.shape[:2]
            y, x = (rng.randint(0, h - ch), rng.randint(0,
                                                        w - cw)) if o["rand_crop"] else ((h - ch) // 2, (w - cw) // 2)
        cut = pixels[y:y + ch, x:x + cw]
        return cut if (ch, cw) == (height, width) else resized(cut, (height, width), method)

    def _finished(self, pixels: np.ndarray, rng: random.Random) -> np.ndarray:
        """Colours changed, mirrored, channels first, and normalized."""
        o = self._options
        if pixels.shape[2] == 3 and (o["random_h"] or o["random_s"] or o["random_l"]):
            pixels = shifted(pixels, *(rng.randint(-int(o[k]), int(o[k]))
                                       for k in ("random_h", "random_l", "random_s")))
        if self._colour:
            picture = array(pixels, dtype="float32")
            for augmenter in self._colour:
                picture = augmenter(picture)
            pixels = picture.asnumpy()
        if o["mirror"] or o["rand_mirror"] and rng.random() < 0.5:
            pixels = pixels[:, ::-1]
        return self._normalized(np.ascontiguousarray(pixels.transpose(2, 0, 1)), rng)

    def _normalized(self, x: np.ndarray, rng: random.Random) -> np.ndarray:
        o = self._options
        contrast = 1 + rng.uniform(-1, 1) * o["max_random_contrast"]
        light = rng.uniform(-1, 1) * o["max_random_illumination"]
        return ((x.astype(np.float32) - self._mean) * contrast + light) * (o["scale"] / self._std)


def resized(pixels: np.ndarray, size: tuple[int, int], method: int) -> np.ndarray:
    """An image of another (height, width)."""
    return pictures.imresize(array(pixels, dtype=pixels.dtype), size[1], size[0], method).asnumpy()


def _part_of_area(o: dict[str, Any], h: int, w: int, rng: random.Random) -> tuple[int, int, int, int] | None:
    """Top, left, height and width of a random part; None after ten draws that do not fit."""
    low, high = o["min_aspect_ratio"], o["max_aspect_ratio"]
    low, high = (1 - high, 1 + high) if low is None else (low, high)
    for _ in range(10):
        area, ratio = rng.uniform(o["min_random_area"], o["max_random_area"]) * h * w, rng.uniform(low, high)
        cw, ch = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if rng.random() < 0.5:
            cw, ch = ch, cw
        if 0 < cw <= w and 0 < ch <= h:
            return rng.randint(0, h - ch), rng.randint(0, w - cw), ch, cw
    return None


_DEFAULTS: dict[str, Any] = {
    **warp.OPTIONS, "resize": -1, "rand_crop": False, "random_resized_crop": False, "max_crop_size": -1,
    "min_crop_size": -1,
    "max_random_area": 1.0, "min_random_area": 1.0, "brightness": 0.0, "contrast": 0.0, "saturation": 0.0,
    "pca_noise": 0.0, "pad": 0, "fill_value": 255, "inter_method": 1, "mean_img": "", "mean_r": 0.0, "mean_g": 0.0,
    "mean_b": 0.0, "mean_a": 0.0,
    "std_r": 1.0, "std_g": 1.0, "std_b": 1.0, "std_a": 1.0, "scale": 1.0, "max_random_contrast": 0.0,
    "max_random_illumination": 0.0,
    "random_h": 0, "random_s": 0, "random_l": 0, "rand_mirror": False, "mirror": False}


def checked(kind: str, given: dict[str, Any], defaults: dict[str, Any], refused: dict[str, Any]) -> dict[str, Any]:
    """All options; AttributeValueError for those in ``refused`` at another than their usual value. Unknown ones, which
    MXNet takes in silence, are warned of."""
    unknown = sorted(set(given) - set(defaults) - PLAIN - set(refused))
    if unknown:
        warn_user(f"{kind} has no option {', '.join(unknown)}: ignored")
    wrong = sorted(k for k, usual in refused.items() if given.get(k, usual) not in (usual, None, "", [], 0))
    if wrong:
        raise AttributeValueError(f"{kind}: {', '.join(wrong)} is not supported: use mx.image.ImageIter with "
                                  f"augmenters of your own")
    return {**defaults, **{k: v for k, v in given.items() if k in defaults}}


class ImageRecordUInt8Iter(ImageRecordIter):
    """ImageRecordIter that gives the pixels as they are, uint8."""
    kind = "uint8"

    def _normalized(self, x: np.ndarray, rng: random.Random) -> np.ndarray:
        return x.clip(0, 255).astype(np.uint8)


class ImageRecordInt8Iter(ImageRecordIter):
    """ImageRecordIter that gives int8 numbers: what is above 127 is 127."""
    kind = "int8"

    def _normalized(self, x: np.ndarray, rng: random.Random) -> np.ndarray:
        return super()._normalized(x, rng).clip(-128, 127).astype(np.int8)


setattr(ImageRecordIter, "options", (*_DEFAULTS, *PLAIN))

__all__ = ["ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordUInt8Iter"]
