"""Programs that put the elements of one array in another order or shape, or leave some out: where their result lies in
the argument's memory (kernels/c/launcher_strided.h)."""
from __future__ import annotations

import numpy as np

from .primitives import PRIMS
from .program import Program

MOST = 1 << 12                       # elements: of larger results NumPy's time is that of the elements
_MOVES = frozenset({"reshape", "permute", "slice", "expand", "detach"})

# dtype, elements of the argument, byte where the first one lies, dims and strides of what is read, shape of the result
Places = tuple[np.dtype, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def places(program: Program) -> Places | None:
    """Where the elements of a small result lie; None for programs that compute something, or move elements twice."""
    root = program.outputs[0]
    if len(program.inputs) != 1 or len(program.outputs) != 1 or program.updates or not 0 < root.size <= MOST:
        return None
    chain = [root]
    while chain[-1].prim in _MOVES:
        chain.append(chain[-1].args[0])
    if chain.pop().prim != "input":
        return None
    argument = value = read = np.empty(program.inputs[0].shape, program.inputs[0].dtype)
    for n in reversed(chain):
        value = PRIMS[n.prim].eager(np, n, value)
        if np.may_share_memory(value, argument):
            read = value
        elif n.prim != "reshape":                        # of a copy
            return None
    offset = read.__array_interface__["data"][0] - argument.__array_interface__["data"][0]
    return argument.dtype, argument.size, offset, read.shape, read.strides, root.shape
