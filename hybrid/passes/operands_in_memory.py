"""Operands of products that C stores beforehand: they would be computed again and again, or kept a faster form away."""
from __future__ import annotations

from typing import Sequence

import numpy as np

from ..ir import Node
from ..ir.access import ELEMENTWISE
from ..ir.contraction import of_filters
from ..ir.kernel import Use
from .halves_in_products import converted_often, upcast_of_half


def why_stored(n: Node, uses: Sequence[Use]) -> str:
    """Why a value is stored, and not computed in the kernels that read it; empty where nothing asks for that."""
    if converted_often(n, uses):
        return "a convolution, or windows, would convert its elements from halves again and again"
    if n.prim in ELEMENTWISE and not upcast_of_half(n) and any(_sums_over_places(u, n) for u in uses):
        return "the gradient of a convolution's filters reads it from memory"
    return ""


def _sums_over_places(u: Use, n: Node) -> bool:
    """Whether a gradient of filters in floats uses a value: it has forms that read both operands from memory, and the
    others read each element for every tap."""
    dot = u.kernel.dot
    return bool(u.inside) and dot is not None and dot.dtype == n.dtype == np.float32 and of_filters(dot)
