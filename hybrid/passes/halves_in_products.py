"""Half types beside a product of float32: what is read as halves again and again, and what is stored as halves."""
from __future__ import annotations

import numpy as np

from ..base.dtype import is_half
from ..ir import Node
from ..ir.access import depth_of
from ..ir.kernel import Kernel
from ..ir.size import hint

OFTEN = 8                       # times from which on an operand's elements are converted once, beforehand


def of_halves(n: Node) -> bool:
    """Whether a value is float32 of halves: memory holds what has fewer bytes."""
    return n.prim == "cast" and is_half(n.args[0].dtype) and n.dtype == np.float32


def converted_often(n: Node, k: Kernel) -> bool:
    """Whether the product of a kernel would convert each element of an operand, which is halves, many times."""
    dot = k.dot
    return dot is not None and of_halves(n) and hint(dot.size) * hint(depth_of(dot)) >= OFTEN * hint(n.size)


def stores_halves(dot: Node, k: Kernel) -> bool:
    """Whether a kernel would store a product of float32 as halves."""
    return dot.dtype == np.float32 and is_half(k.root.dtype)
