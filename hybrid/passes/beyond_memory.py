"""Values that no memory could hold, which a fused kernel would compute element by element for minutes or days."""
from __future__ import annotations

import functools
import math
import os

from ..base.device import too_large
from ..ir.kernel import Fused, Kernel, Use

_LEAST = 1 << 40                    # bytes that may always be computed on the way


@functools.cache
def most() -> int:
    """Bytes of the largest value that is computed: a terabyte, or all memory of the machine where that is more."""
    try:
        return max(_LEAST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):                # systems that do not tell
        return _LEAST


def _steps(kernel: Kernel, use: Use) -> int:
    """How often a kernel computes a member at one place."""
    return math.prod(v.extent for v in (*kernel.loops, *use.inside))


def refuse_beyond_memory(fused: Fused) -> None:
    """TooLargeError where a kernel computes all elements of a value that is larger than any memory: eager code ends in
    that error too. What products and attention sum over is no such value."""
    for kernel in fused.kernels:
        if kernel.dot is None and kernel.attention is None:
            for node, uses in kernel.members.items():
                if node.nbytes > most() and any(_steps(kernel, u) >= node.size for u in uses):
                    raise too_large(node.nbytes, f"{node.size} values of {node.dtype} that are computed on the way")
