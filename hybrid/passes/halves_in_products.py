"""Half types beside convolutions and windows of float32: what would be read as halves again and again, and what would
be stored as halves."""
from __future__ import annotations

from typing import Sequence

import numpy as np

from ..base.dtype import is_half
from ..ir import Node
from ..ir.access import depth_of
from ..ir.contraction import convolves
from ..ir.kernel import Kernel, Use
from ..ir.size import hint

OFTEN = 8                       # times from which on an operand's elements are converted once, beforehand


def upcast_of_half(n: Node) -> bool:
    """Whether a value is a half type cast to float32: it is stored as the half, which takes fewer bytes."""
    return n.prim == "cast" and is_half(n.args[0].dtype) and n.dtype == np.float32


def converted_often(n: Node, uses: Sequence[Use]) -> bool:
    """Whether a kernel's convolution, or its windows, would convert each element of a value from a half type many
    times. Products of matrices convert their operands as they pack them."""
    return upcast_of_half(n) and any(
        u.inside and (_in_windows(u.kernel) or _in_convolution(n, u.kernel.dot)) for u in uses)


def _in_convolution(n: Node, dot: Node | None) -> bool:
    return (dot is not None and dot.prim == "dot" and convolves(dot)
            and hint(dot.size) * hint(depth_of(dot)) >= OFTEN * hint(n.size))


def _in_windows(k: Kernel) -> bool:
    return k.dot is None and any(m.prim == "window" for m in k.members)


def stores_halves(dot: Node, k: Kernel) -> bool:
    """Whether a kernel would store a product of float32 as halves."""
    return dot.dtype == np.float32 and is_half(k.root.dtype)
