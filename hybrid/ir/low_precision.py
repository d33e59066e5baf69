"""Products of few bits: numbers of 16 or 8 bits, as many as fit a word of 32 bits beside one another along the depth.
One instruction multiplies the words of two vectors number by number and adds the products up in 32 bits.
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base import dtype as dt
from . import build
from .access import MOVEMENT, beneath
from .node import Node
from .scalar import SCALARS, half_rounded_to

WORDS = {("bfloat16", "bfloat16"): 2, ("uint8", "int8"): 4}        # of data and weights: numbers of a word


def word_of(x: np.dtype, w: np.dtype) -> int:
    """Numbers in a word of data and weights of some types; 0 where there is no such product."""
    return WORDS.get((x.name, w.name), 0)


TILE, LEAST_TILE = 16, 7                # words of a row of a tile, at most and at least


def tile_depth(run: int) -> int:
    """Words of a row of a tile of data (kernels/c/tiles.h) for so many that lie one after another: equal parts."""
    return next(d for d in range(min(TILE, run), 0, -1) if run % d == 0)


def in_tiles(channels: int, kernel: Sequence[int], dilate: Sequence[int], groups: int) -> bool:
    """Whether tiles are filled well. channels: words that a filter reads of a pixel."""
    together = groups == 1 and dilate[-1] == 1
    return tile_depth(channels * kernel[-1] if together else channels) >= LEAST_TILE


def exact(x: Any) -> Any:
    """Numbers as NumPy sums their products: float32 ones of bfloat16, float64 ones of integers, so that no sum is
    rounded."""
    return x.astype(np.float32 if dt.is_half(x.dtype) else np.float64)


def unpacked(w: Any) -> Any:
    """Weights (panels, *kernel, C / G, P, G) as (panels, *kernel, C, P)."""
    w = np.moveaxis(w, -1, -2)
    return w.reshape(*w.shape[:-3], w.shape[-3] * w.shape[-2], w.shape[-1])


def pack(w: Node, word: int) -> Node:
    """Weights (panels, *kernel, C, P) of form ``direct`` as those of words; C is a multiple of ``word``."""
    *rest, channels, width = w.shape
    split = build.reshape(w, (*rest, channels // word, word, width))
    return build.permute(split, (*range(len(rest) + 1), len(rest) + 2, len(rest) + 1))


def _constant(n: Node) -> float | None:
    n = beneath(n, ("expand", "reshape", "cast"))
    return float(n.attrs["value"]) if n.prim == "const" else None


def limits(x: Node) -> "tuple[float, float] | None":
    """The least and the greatest value of whole numbers of float32, where they are limited: ``clipped`` ones, perhaps
    with a whole constant added."""
    if x.prim != "map" or len(x.args) != 2 or (c := _constant(x.args[1])) is None:
        return None
    inner = x.args[0]
    if x.fn == "add":
        found = limits(inner)
        return (found[0] + c, found[1] + c) if found is not None and c == int(c) else None
    if x.fn == "maximum" and inner.fn == "minimum":
        high = _constant(inner.args[1])
        return (c, high) if high is not None and _whole(inner.args[0]) else None
    return None


def _whole(x: Node) -> bool:
    """Whether values are rounded to whole numbers, and perhaps have one added."""
    if x.fn == "add" and (c := _constant(x.args[1])) is not None and c == int(c):
        return _whole(x.args[0])
    return x.fn == "rint"


def clipped(x: Node, low: float, high: float) -> Node:
    """The nearest whole numbers, within limits."""
    return build.map_("maximum", build.map_("minimum", build.map_("rint", x), high), low)


def fits_bytes(x: Node, d: np.dtype) -> bool:
    """Whether values are whole numbers that a type of 8 bits has."""
    if x.dtype == d:
        return True
    found = limits(x)
    return found is not None and np.iinfo(d).min <= found[0] and found[1] <= np.iinfo(d).max


def shifted(x: Node) -> Node:
    """int8 numbers and 128, as uint8."""
    if x.prim in MOVEMENT:
        return build.pad(shifted(x.args[0]), x.attrs["lo"], x.attrs["hi"],
                         128) if x.prim == "pad" else build.make(x.prim, (shifted(x.args[0]),), **x.attrs)
    wide = x.args[0] if x.prim == "cast" and fits_bytes(x.args[0], x.dtype) else x
    return build.cast(build.map_("add", build.cast(wide, np.float32), 128.0), np.uint8)


def exact_half_type(x: Node, depth: int = 6) -> str:
    """Name of the half type in which each of these float32 values is exactly representable, as it was rounded to that
    type or cast from it; "" where there is none."""
    if half := half_rounded_to(x.fn):
        return half
    if x.prim == "cast":
        return x.args[0].dtype.name if dt.is_half(x.args[0].dtype) and x.dtype == np.float32 else ""
    kept = x.prim in MOVEMENT or x.prim == "reduce" and x.attrs["op"] in ("max", "min")
    if not depth or not kept and not (x.prim == "map" and SCALARS[x.fn].exact) or x.dtype != np.float32:
        return ""
    found = {exact_half_type(a, depth - 1) for a in x.args if a.dtype == np.float32 and _constant(a) != 0}
    return found.pop() if len(found) == 1 else ""


def narrow(x: Node) -> "tuple[Node, int] | None":
    """What float32 values are a cast of, where that is a type of few bits, before or after its elements were moved; and
    the whole number that was subtracted, which stands for zero."""
    if x.prim == "cast" and x.dtype == np.float32 and x.args[0].dtype.name in ("bfloat16", "uint8", "int8"):
        return x.args[0], 0
    if x.prim not in MOVEMENT and exact_half_type(x) == "bfloat16":
        return build.cast(x, dt.as_dtype("bfloat16")), 0
    if x.fn in ("sub", "add") and (c := _constant(x.args[1])) is not None:
        found = narrow(x.args[0])
        zero = c if x.fn == "sub" else -c
        whole = found is not None and found[1] == 0 and found[0].dtype.itemsize == 1 and zero == int(zero)
        return (found[0], int(zero)) if whole else None                  # type: ignore[index]
    if x.prim not in MOVEMENT or x.prim == "pad" and float(x.attrs["value"]) != 0:
        return None
    inner = narrow(x.args[0])
    if inner is None:
        return None
    if x.prim == "pad":
        return build.pad(inner[0], x.attrs["lo"], x.attrs["hi"], inner[1]), inner[1]
    return build.make(x.prim, (inner[0],), **x.attrs), inner[1]
