"""Decides which operands of products C code stores first: those it would recompute often, and those that a faster form
must read from memory."""
from __future__ import annotations

from typing import Sequence

import numpy as np

from ..ir import Node
from ..ir.access import ELEMENTWISE, beneath
from ..ir.contraction import is_weight_gradient, over_any_image
from ..ir.kernel import Use
from .halves_in_products import converted_often, upcast_of_half


def why_stored(n: Node, uses: Sequence[Use]) -> str:
    """Why a value is stored, and not computed in the kernels that read it; empty where nothing asks for that."""
    if converted_often(n, uses):
        return "a convolution, or windows, would convert its elements from halves again and again"
    if n.prim in ELEMENTWISE and not upcast_of_half(n) and any(_in_weight_gradient(u, n) for u in uses):
        return "the weight gradient of a convolution reads it from memory"
    if is_interleaved(n) and any(u.kernel.kind not in ("elementwise", "concat") for u in uses):
        return "gradient of a strided convolution: stored once, since computing it at each read costs more"
    if n.prim != "reshape" and any(u.kernel.dot is None and n in map(_any_image, u.kernel.members) for u in uses):
        return "windows over images of any height and width are read from memory only"
    return ""


def _any_image(a: Node) -> Node | None:
    """The channels-last data that windows lie over, if its height or width is known at a call only."""
    return beneath(a, ("window", "pad")) if over_any_image(a) and a.attrs["axes"] == (1, 2) else None


def is_interleaved(n: Node) -> bool:
    """Whether a value is a sum of others that were padded and reshaped, which puts their elements a step apart: the
    gradient of a convolution with a stride."""
    return n.prim == "map" and n.fn == "add" and all(_is_spread(a) or is_interleaved(a) for a in n.args)


def _is_spread(n: Node) -> bool:
    while n.prim in ("slice", "pad"):
        n = n.args[0]
    return n.prim == "reshape" and n.args[0].prim == "pad" and n.ndim < n.args[0].ndim


def _in_weight_gradient(u: Use, n: Node) -> bool:
    """Whether a float32 weight gradient reads the value. Its fast forms need both operands in memory; the others
    compute each element once per tap."""
    dot = u.kernel.dot
    return bool(u.inside) and dot is not None and dot.dtype == n.dtype == np.float32 and is_weight_gradient(dot)
