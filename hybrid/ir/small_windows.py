"""Extremes over a few last axes of short lengths, as pooling windows have them: one function over all windows for each
place in them, where NumPy's reduction is a loop of a few steps for each window."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

MOST = 32                               # places in a window
LEAST = 1 << 10                         # windows


def is_window(x: Any, axes: Sequence[int]) -> bool:
    """Whether axes are the last ones of an array or a node, short ones, and there are many such windows. Of float16 and
    bfloat16 NumPy's own way is kept."""
    if not axes or tuple(axes) != tuple(range(x.ndim - len(axes), x.ndim)) or x.dtype.itemsize < 4:
        return False
    places = math.prod(x.shape[a] for a in axes)
    return 0 < places <= MOST and x.size >= LEAST * places


def extremes(op: str, x: np.ndarray, axes: int) -> np.ndarray:
    """The maxima or minima (``op``) over the last axes; nan where there is one."""
    function = np.maximum if op == "max" else np.minimum
    places = list(np.ndindex(*x.shape[x.ndim - axes:]))
    out = np.array(x[(..., *places[0])], order="C")
    for place in places[1:]:
        function(out, x[(..., *place)], out=out)
    return out
