"""Weights of image resizing along one axis, as OpenCV takes them (modules/imgproc/src/resize.cpp).

Each new pixel is a weighted sum of a few old ones, its taps. No method but ``area`` smooths when it shrinks.
"""
from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..base.records import dataclass
from ..base.errors import AttributeValueError

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)
_SCALE = 2048                          # 8-bit pictures: weights as 11-bit integers
_S45 = 0.70710678118654752440
# cos and sin of k times 45 degrees: a row a shifted tap of the Lanczos window
_LANCZOS_CS = np.array([[1, 0], [-_S45, -_S45], [0, 1], [_S45, -_S45], [-1, 0], [_S45, _S45], [0, -1], [-_S45, _S45]])


@dataclass(frozen=True, eq=False)
class Taps:
    """``index`` (new, k): which old pixels; ``weight`` (new, k): how much of each; ``integer``: 11-bit weights or
    None."""
    index: np.ndarray
    weight: np.ndarray
    integer: np.ndarray | None


def _centers(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole and fractional part of where the centre of each new pixel lies, in float32."""
    at = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    low = np.floor(at).astype(np.int64)
    return low, (at - low.astype(np.float32)).astype(np.float32)


def _linear(old: int, new: int, area: bool, vertical: bool) -> tuple[np.ndarray, np.ndarray]:
    if area:                                                     # what INTER_AREA means where an axis grows
        low = np.floor(np.arange(new) * (old / new)).astype(np.int64)
        part = ((np.arange(new) + 1) - (low + 1) * (new / old)).astype(np.float32)
        part = np.where(part <= 0, np.float32(0), part - np.floor(part)).astype(np.float32)
    else:
        low, part = _centers(old, new)
    # down the columns both taps fall on the edge pixel instead, which rounds differently
    if not vertical:
        part = np.where((low < 0) | (low >= old - 1), np.float32(0), part).astype(np.float32)
    return np.stack([low, low + 1], 1), np.stack([np.float32(1) - part, part], 1)


def _cubic(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    a, one = np.float32(-0.75), np.float32(1)
    low, x = _centers(old, new)
    w0 = ((a * (x + one) - 5 * a) * (x + one) + 8 * a) * (x + one) - 4 * a
    w1 = ((a + 2) * x - (a + 3)) * x * x + one
    w2 = ((a + 2) * (one - x) - (a + 3)) * (one - x) * (one - x) + one
    return low[:, None] + np.arange(-1, 3), np.stack([w0, w1, w2, one - w0 - w1 - w2], 1).astype(np.float32)


def _lanczos(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    low, x = _centers(old, new)
    y = -(x[:, None].astype(np.float64) + 3 - np.arange(8)) * np.pi * 0.25
    y0 = -(x.astype(np.float64) + 3) * np.pi * 0.25
    exact = x < np.finfo(np.float32).eps
    with np.errstate(divide="ignore", invalid="ignore"):
        w = ((_LANCZOS_CS[:, 0] * np.sin(y0)[:, None] + _LANCZOS_CS[:,
                                                                    1] * np.cos(y0)[:,
                None]) / (y * y)).astype(np.float32)
    w = np.where(exact[:, None], (np.arange(8) == 3).astype(np.float32), w)
    return low[:, None] + np.arange(-3, 5), (w * (np.float32(1) / w.sum(1, dtype=np.float32,
                                                                        keepdims=True))).astype(np.float32)


def _area(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the old pixels that a new one covers."""
    scale = old / new
    begin, end = np.arange(new) * scale, np.minimum((np.arange(new) + 1) * scale, old)
    first, k = np.floor(begin + 1e-3).astype(np.int64), int(np.ceil(scale)) + 1
    index = first[:, None] + np.arange(k)
    cover = np.minimum(index + 1, end[:, None]) - np.maximum(index, begin[:, None])
    cover = np.where(cover > 1e-3, cover, 0.0)
    return index, (cover / np.minimum(scale, old - begin)[:, None]).astype(np.float32)


@lru_cache(maxsize=512)
def taps(method: int, old: int, new: int, shrinks: bool, vertical: bool) -> Taps:
    """Taps along an axis of ``old`` pixels that becomes ``new``. shrinks: no axis of the image grows."""
    if method == NEAREST:
        index = np.floor(np.arange(new) * (old / new)).astype(np.int64)[:, None]
        weight = np.ones((new, 1), np.float32)
    elif method == AREA and shrinks:
        index, weight = _area(old, new)
    elif method in (LINEAR, AREA):
        index, weight = _linear(old, new, method == AREA, vertical)
    else:
        index, weight = _cubic(old, new) if method == CUBIC else _lanczos(old, new)
    integer = (np.rint(weight * np.float32(_SCALE)).astype(np.int32) if method not in (NEAREST,)
               and not (method == AREA and shrinks) else None)
    return Taps(np.clip(index, 0, old - 1), weight, integer)


def method_of(interp: int, old: tuple[int, int], new: tuple[int, int]) -> int:
    """The method meant by MXNet's number: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 by the sizes."""
    if interp == 9:
        grows, shrinks = new[0] > old[0] and new[1] > old[1], new[0] < old[0] and new[1] < old[1]
        return CUBIC if grows else AREA if shrinks else LINEAR
    if interp not in (NEAREST, LINEAR, CUBIC, AREA, LANCZOS):
        raise AttributeValueError(f"interp must be 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area), 4 (Lanczos) or 9 "
                                  f"(by the sizes), got {interp}")
    if interp == LINEAR and old == (2 * new[0], 2 * new[1]):     # OpenCV: halving takes the mean of four
        return AREA
    return interp
