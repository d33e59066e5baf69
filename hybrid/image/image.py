"""Images as arrays (height, width, channels): reading, resizing, cropping. Reading needs Pillow (the extra
``image``)."""
from __future__ import annotations

import os
import random
from typing import Any, Sequence

import numpy as np

from ..base import codec
from ..buffers.array import NDArray, NP_CLASS, wrap
from ..buffers.moving import cast, copied
from ..base.device import array_module, cpu, on
from ..base.dtype import is_int
from ..base.errors import DTypeError, HybridError, ShapeError, warn_user
from ..numpy.extension import is_np_array
from ..ops import resampling
from ..ops.resize import resize_array
from ..base.atomic import existing


def _wrap(raw: Any, like: NDArray | None = None) -> Any:
    cls = NP_CLASS[0] if is_np_array() and NP_CLASS else type(like) if like is not None else NDArray
    return wrap(raw, like.ctx if like is not None else cpu(), cls)


def _into(result: Any, out: Any) -> Any:
    if out is None:
        return result
    if out.shape != result.shape:
        raise ShapeError(f"out has shape {out.shape}, the picture {result.shape}")
    out._write(cast(result._data, out._data.dtype, result.ctx))
    return out


def _shape(src: Any) -> tuple[int, int]:
    if src.ndim != 3:
        raise ShapeError(f"a picture has the shape (height, width, channels), got {src.shape}")
    return src.shape[0], src.shape[1]


def imread(filename: str | os.PathLike[str], flag: int = 1, to_rgb: bool = True, out: Any = None) -> Any:
    """An image file as a uint8 array on the CPU; see ``imdecode``. MissingFileError (a FileNotFoundError) when it is
    not there.

    >>> imread("flower.jpg").shape                      # doctest: +SKIP
    (224, 224, 3)
    """
    with open(existing(filename), "rb") as file:
        return _into(_decoded(file.read(), flag, to_rgb, os.fspath(filename)), out)


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: Any = None) -> Any:
    """An encoded image (JPEG, PNG, …) as a uint8 array (height, width, channels) on the CPU.

    buf: bytes, bytearray, or an array of bytes. flag: 1 for three channels, 0 for one (gray), -1 for those it has.
    to_rgb:
    red first, else blue first. FileFormatError when the data are cut off or no image.
    """
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if not isinstance(buf, (bytes, bytearray, memoryview, np.ndarray)):
        raise ValueError(f"buf must be bytes, bytearray or an array of bytes, got {type(buf).__name__}")
    return _into(_decoded(buf, flag, to_rgb, "the picture"), out)


def _decoded(data: Any, flag: int, to_rgb: bool, name: str) -> Any:
    pixels = codec.decode(data, int(flag), bool(to_rgb), name)
    return _wrap(pixels[..., None] if pixels.ndim == 2 else pixels)


def imresize(src: Any, w: int, h: int, interp: int = 1, out: Any = None) -> Any:
    """An image in the size w x h, as OpenCV resizes (no smoothing but by method 3).

    interp: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 bicubic to grow, area to shrink, else bilinear, 10 a
    random one. Keeps the dtype.
    """
    old = _shape(src)
    method = _get_interp_method(interp, (*old, h, w))
    with on(src.ctx):
        return _into(_wrap(resize_array(array_module(src.ctx), src._data, (int(h), int(w)), method), src), out)


def scale_down(src_size: Sequence[int], size: Sequence[int]) -> tuple[int, int]:
    """A crop size (width, height) made smaller, in proportion, until it fits into the image's.

    >>> scale_down((640, 480), (720, 120))
    (640, 106)
    """
    w, h = (float(v) for v in size)
    sw, sh = src_size
    if sh < h:
        w, h = w * sh / h, sh
    if sw < w:
        w, h = sw, h * sw / w
    return int(w), int(h)


_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}


def copyMakeBorder(src: Any, top: int, bot: int, left: int, right: int, type: int = 0,
                   value: float = 0.0,  # noqa: A002, N802
                   values: Sequence[float] = ()) -> Any:
    """An image with a border. type (OpenCV's numbers): 0 constant (``values`` by channel, or ``value``), 1 the edge,
    2 reflected with the edge repeated, 3 wrapped around, 4 reflected without.
    """
    _shape(src)
    if type not in _BORDERS:
        raise HybridError(f"the type of a border must be one of {sorted(_BORDERS)}, got {type}")
    xp, widths = array_module(src.ctx), ((top, bot), (left, right), (0, 0))
    if min(top, bot, left, right) < 0:
        raise ShapeError(f"border widths must not be negative, got {(top, bot, left, right)}")
    with on(src.ctx):
        out = xp.pad(src._data, widths, mode=_BORDERS[type])
        if type == 0 and (value or len(values)):
            mask = xp.pad(xp.zeros(src.shape, bool), widths, constant_values=True)
            fill = np.resize(np.asarray(values if len(values) else [value]), src.shape[2])
            out = xp.where(mask, xp.asarray(fill).astype(out.dtype), out)
    return _wrap(out, src)


def _get_interp_method(interp: int, sizes: Sequence[int] = ()) -> int:
    """The method (0 to 4) of MXNet's number; sizes: old height and width, new height and width."""
    if interp == 10:
        return random.randint(0, 4)
    if interp == 9 and not sizes:
        return resampling.CUBIC
    oh, ow, nh, nw = sizes or (1, 1, 1, 1)
    # method_of also knows what OpenCV does when it halves; that is the resizing's business
    if interp == 1:
        return interp
    return resampling.method_of(interp, (oh, ow), (nh, nw))


def resize_short(src: Any, size: int, interp: int = 2) -> Any:
    """The image resized in proportion so that its shorter edge is ``size``."""
    h, w = _shape(src)
    new_h, new_w = (size * h // w, size) if h > w else (size, size * w // h)
    return imresize(src, new_w, new_h, _get_interp_method(interp, (h, w, new_h, new_w)))


def fixed_crop(src: Any, x0: int, y0: int, w: int, h: int, size: Sequence[int] | None = None, interp: int = 2) -> Any:
    """The part of an image from column x0 and row y0, w wide and h high, then resized to ``size`` (width, height) if
    given."""
    height, width = _shape(src)
    if not (0 <= x0 < width and 0 <= y0 < height and w > 0 and h > 0):
        raise ShapeError(f"a crop of {w} x {h} from column {x0}, row {y0} leaves the picture of {width} x {height}")
    out = _wrap(copied(src._data[y0:y0 + h, x0:x0 + w], src.ctx), src)
    if size is not None and (w, h) != tuple(size):
        out = imresize(out, size[0], size[1], _get_interp_method(interp, (h, w, size[1], size[0])))
    return out


def random_crop(src: Any, size: Sequence[int], interp: int = 2) -> tuple[Any, tuple[int, int, int, int]]:
    """A part of ``size`` (width, height) from anywhere, by Python's ``random``; a smaller image is enlarged.

    The crop, and (x, y, width, height) of where it came from.
    """
    h, w = _shape(src)
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def center_crop(src: Any, size: Sequence[int], interp: int = 2) -> tuple[Any, tuple[int, int, int, int]]:
    """The middle part of ``size`` (width, height); a smaller image is enlarged. The crop, and where it came from."""
    h, w = _shape(src)
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = (w - new_w) // 2, (h - new_h) // 2
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def random_size_crop(src: Any, size: Sequence[int], area: Any, ratio: Sequence[float], interp: int = 2,
                     **kwargs: Any) -> tuple[Any, tuple[int, int, int, int]]:
    """A part of random area and aspect ratio, resized to ``size`` (width, height).

    area: smallest and largest share of the image, or the smallest alone. ratio: smallest and largest width to height.
    After ten draws that do not fit, the middle of the image.
    """
    if "min_area" in kwargs:
        warn_user("min_area is deprecated, use area", DeprecationWarning)
        area = kwargs.pop("min_area")
    if kwargs:
        raise TypeError(f"random_size_crop has no argument {', '.join(map(repr, kwargs))}")
    h, w = _shape(src)
    low, high = (float(area), 1.0) if isinstance(area,
                                                 (int, float, np.generic)) else area         # type: ignore[arg-type]
    for _ in range(10):
        target = random.uniform(low, high) * h * w
        aspect = np.exp(random.uniform(np.log(ratio[0]), np.log(ratio[1])))
        new_w, new_h = round(float(np.sqrt(target * aspect))), round(float(np.sqrt(target / aspect)))
        if 0 < new_w <= w and 0 < new_h <= h:
            x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)


def color_normalize(src: Any, mean: Any, std: Any = None) -> Any:
    """(src - mean) / std, in place; src must be of a floating dtype. mean or std may be None."""
    if is_int(src._data.dtype):
        raise DTypeError(f"color_normalize works in place and needs a floating dtype, got {src._data.dtype}: use "
                         f"src.astype('float32') first")
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src
