"""Functions of single elements that take NumPy several passes, over large arrays: in pieces, whose intermediate values
stay in cache."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

PIECE = 1 << 14                      # elements: some values of each are in the cache at a time
LARGE = 4 * PIECE                    # from so many on that is worth it


def in_pieces(fn: Callable[[np.ndarray], np.ndarray], x: Any) -> np.ndarray:
    """``fn(x)``, where each element of the result depends on that element of x alone."""
    if type(x) is not np.ndarray or x.size < LARGE or not x.flags.c_contiguous:
        return fn(x)
    flat = x.reshape(-1)
    first = fn(flat[:PIECE])
    out = np.empty(x.shape, first.dtype)
    target = out.reshape(-1)
    target[:PIECE] = first
    for start in range(PIECE, x.size, PIECE):
        target[start:start + PIECE] = fn(flat[start:start + PIECE])
    return out
