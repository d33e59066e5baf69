"""Decides which operands of products C code stores first: those it would recompute often, and those that a faster form
must read from memory."""
from __future__ import annotations

from typing import Sequence

import numpy as np

from ..ir import Node
from ..ir.access import ELEMENTWISE
from ..ir.contraction import is_weight_gradient
from ..ir.kernel import Use
from .halves_in_products import converted_often, upcast_of_half


def why_stored(n: Node, uses: Sequence[Use]) -> str:
    """Why a value is stored, and not computed in the kernels that read it; empty where nothing asks for that."""
    if converted_often(n, uses):
        return "a convolution, or windows, would convert its elements from halves again and again"
    if n.prim in ELEMENTWISE and not upcast_of_half(n) and any(_in_weight_gradient(u, n) for u in uses):
        return "the weight gradient of a convolution reads it from memory"
    return ""


def _in_weight_gradient(u: Use, n: Node) -> bool:
    """Whether a float32 weight gradient reads the value. Its fast forms need both operands in memory; the others
    compute each element once per tap."""
    dot = u.kernel.dot
    return bool(u.inside) and dot is not None and dot.dtype == n.dtype == np.float32 and is_weight_gradient(dot)
