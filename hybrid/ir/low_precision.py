"""Products of few bits: numbers of 16 or 8 bits, as many as fit a word of 32 bits beside one another along the depth.
One instruction multiplies the words of two vectors number by number and adds the products up in 32 bits.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from . import build
from .access import MOVEMENT
from .node import Node

WORDS = {("bfloat16", "bfloat16"): 2, ("uint8", "int8"): 4}        # of data and weights: numbers of a word


def word_of(x: np.dtype, w: np.dtype) -> int:
    """Numbers in a word of data and weights of some types; 0 where there is no such product."""
    return WORDS.get((x.name, w.name), 0)


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


def narrow(x: Node) -> Node | None:
    """What float32 values are a cast of, where that is a type of few bits: before or after its elements were moved."""
    if x.prim == "cast" and x.dtype == np.float32 and x.args[0].dtype.name in ("bfloat16", "uint8", "int8"):
        return x.args[0]
    if x.prim not in MOVEMENT or x.prim == "pad" and float(x.attrs["value"]) != 0:
        return None
    inner = narrow(x.args[0])
    if inner is None:
        return None
    if x.prim == "pad":
        return build.pad(inner, x.attrs["lo"], x.attrs["hi"])
    return build.make(x.prim, (inner,), **x.attrs)
