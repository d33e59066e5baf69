"""Images turned, sheared and scaled by one affine map."""
from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

OPTIONS: dict[str, Any] = {"max_rotate_angle": 0, "rotate": -1, "max_shear_ratio": 0.0, "max_random_scale": 1.0,
                           "min_random_scale": 1.0, "max_aspect_ratio": 0.0,
                           "min_aspect_ratio": None, "max_img_size": 1e10, "min_img_size": 0.0}


def affine(pixels: np.ndarray, matrix: np.ndarray, size: tuple[int, int], fill: int,
           nearest: bool = False) -> np.ndarray:
    """A uint8 image (height, width, channels) mapped by ``matrix`` (2, 3), (x, y) to (x, y), onto one of ``size``,
    the rest filled.

    Interpolated linearly at steps of 1/32 pixel, as OpenCV does, or with the nearest pixel. Other methods of
    interpolation count as linear here.
    """
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    x, y = np.meshgrid(np.arange(size[1]), np.arange(size[0]))
    steps = 1 if nearest else 32
    at = [np.floor((r[0] * x + r[1] * y + r[2]) * steps + 0.5) for r in inverse[:2]]
    (left, along), (top, down) = ((np.floor(v / steps).astype(np.int64), (v % steps / steps)[..., None]) for v in at)
    padded = np.pad(pixels, ((1, 1), (1, 1), (0, 0)), constant_values=fill).astype(np.float32)
    h, w = pixels.shape[:2]

    def pixel(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return padded[(i + 1).clip(0, h + 1), (j + 1).clip(0, w + 1)]
    upper = pixel(top, left) * (1 - along) + pixel(top, left + 1) * along
    lower = pixel(top + 1, left) * (1 - along) + pixel(top + 1, left + 1) * along
    return np.floor(upper * (1 - down) + lower * down + 0.5).astype(np.uint8)


def warped(pixels: np.ndarray, o: dict[str, Any], rng: random.Random) -> np.ndarray:
    """An image under the map that the options draw (``OPTIONS``, fill_value and inter_method); itself where they ask
    for nothing.

    The map turns by ``rotate`` degrees, or up to max_rotate_angle to either side, shears by up to max_shear_ratio, and
    scales both directions together and against each other (by 1 - max_aspect_ratio to 1 + max_aspect_ratio, or from
    min_aspect_ratio to it; with random_resized_crop that is left to the crop); the middle stays the middle. The new
    size is the old one scaled, held between min_img_size and max_img_size.
    """
    crops = bool(o["random_resized_crop"])
    if all(o[k] == usual for k, usual in OPTIONS.items() if not (crops and k.endswith("aspect_ratio"))):
        return pixels
    most = int(o["max_rotate_angle"])
    angle = math.radians(o["rotate"] if o["rotate"] > 0 else rng.randint(-most, most))
    shear, scale = rng.uniform(-1, 1) * o["max_shear_ratio"], rng.uniform(o["min_random_scale"], o["max_random_scale"])
    low, high = o["min_aspect_ratio"], o["max_aspect_ratio"]
    ratio = 1.0 if crops else 1 + rng.uniform(-1, 1) * high if low is None else rng.uniform(low, high)
    tall = 2 * scale / (1 + ratio)
    wide, c, s = ratio * tall, math.cos(angle), math.sin(angle)
    turn = np.array([[tall * c - shear * s * wide, tall * s + shear * c * wide], [-s * wide, c * wide]])
    old = np.array([pixels.shape[1], pixels.shape[0]], float)
    new = np.clip(scale * old, o["min_img_size"], o["max_img_size"])
    matrix = np.column_stack([turn, (new - turn @ old) / 2])
    return affine(pixels, matrix, (max(1, int(new[1])), max(1, int(new[0]))), int(o["fill_value"]),
                  int(o["inter_method"]) == 0)


__all__ = ["OPTIONS", "affine", "warped"]
