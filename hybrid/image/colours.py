"""Hue, lightness and saturation of images changed by amounts in OpenCV's units."""
from __future__ import annotations

import numpy as np

# a full circle of hues, and the largest lightness and saturation, as OpenCV counts them in bytes
HUES, LEVELS = 180, 255


def shifted(pixels: np.ndarray, hue: float = 0, lightness: float = 0, saturation: float = 0) -> np.ndarray:
    """A uint8 image (height, width, 3), red first, with its hue (180 a circle), lightness and saturation (255 the
    largest) moved and clipped.

    Conversion to and from hue, lightness and saturation: Joblove and Greenberg, "Color spaces for computer graphics",
    SIGGRAPH 1978.

    >>> shifted(np.full((1, 1, 3), 100, np.uint8), lightness=20).tolist()
    [[[120, 120, 120]]]
    """
    x = pixels.astype(np.float32) / LEVELS
    high, low = x.max(-1), x.min(-1)
    span, level = high - low, (high + low) / 2
    safe = np.where(span == 0, 1, span)
    r, g, b = (x[..., k] for k in range(3))
    sixth = np.where(high == r, (g - b) / safe, np.where(high == g, 2 + (b - r) / safe, 4 + (r - g) / safe)) % 6
    room = 1 - abs(2 * level - 1)                              # the largest span at this lightness
    rich = span / np.where(room <= 0, 1, room)
    sixth = np.clip(sixth * HUES / 6 + hue, 0, HUES) * 6 / HUES if hue else sixth
    level, rich = np.clip(level + lightness / LEVELS, 0, 1), np.clip(rich + saturation / LEVELS, 0, 1)
    reach = rich * np.minimum(level, 1 - level)
    turns = [(n + 2 * sixth) % 12 for n in (0, 8, 4)]
    channels = [level - reach * np.clip(np.minimum(k - 3, 9 - k), -1, 1) for k in turns]
    return np.round(np.stack(channels, -1) * LEVELS).clip(0, LEVELS).astype(np.uint8)


__all__ = ["shifted"]
