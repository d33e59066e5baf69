"""Boxes drawn into images, through Pillow."""
from __future__ import annotations

import random
from typing import Any, Sequence

import numpy as np

from ..base import codec


def boxes_drawn(pixels: np.ndarray, boxes: np.ndarray, color: Sequence[int] | None = None, thickness: int = 2,
                names: Any = None) -> np.ndarray:
    """A uint8 image (height, width, 3) with rows (class, left, top, right, bottom, …), sides from 0 to 1, drawn as
    frames.

    color: red, green and blue; a random one for each box by default. names: by class, written beside the frames.
    """
    picture = codec.pillow().fromarray(np.ascontiguousarray(pixels))
    from PIL import ImageDraw  # noqa: PLC0415 - optional
    draw, (height, width) = ImageDraw.Draw(picture), pixels.shape[:2]
    for kind, *sides in boxes[:, :5]:
        if kind < 0:                                           # a row that only fills up
            continue
        # Pixels in float64, as MXNet's with its NumPy: float32 would round 0.9 of 20 rows up to the 18th, in some
        # versions of NumPy and not in others
        left, top, right, bottom = (int(float(v) * n) for v, n in zip(sides, (width, height) * 2))
        paint = tuple(random.randint(0, 255) for _ in range(3)) if color is None else tuple(int(c) for c in color)
        draw.rectangle((left, top, max(left, right), max(top, bottom)), outline=paint, width=int(thickness))
        if names is not None and int(kind) in names:
            draw.text((left + 5, top + 5), str(names[int(kind)]), fill=paint)
    return np.array(picture)


__all__ = ["boxes_drawn"]
