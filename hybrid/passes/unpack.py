"""From packed values back to the plain ones: where the program that packs only moves its inputs, they can be read from
its results."""
from __future__ import annotations

from typing import Any, Iterator

from ..base import dtype as dt
from ..ir import Node, Program

# (slice, ((first, size), ...)), (permute, axes), (reshape, shape), (cast, dtype's name), one after another
Steps = tuple[tuple[str, Any], ...]
Way = tuple[int, Steps]                      # a result's number, and how an input is read from it


def ways_back(program: Program) -> list[Way | None]:
    """For each input the result that holds every element of it, bit for bit, and the steps from there; None where there
    is none."""
    found: list[Way | None] = [None] * len(program.inputs)
    for k, out in enumerate(program.outputs):
        todo: list[tuple[Node, Steps]] = [(out, ())]
        while todo:
            n, steps = todo.pop()
            if n.prim == "input":
                slot = n.attrs["slot"]
                found[slot] = found[slot] or (k, steps)
            todo += [(a, (*steps, *way)) for a, way in _below(n)]
    return found


def _below(n: Node) -> Iterator[tuple[Node, Steps]]:
    """What a value holds whole, and how to get it from there."""
    if n.prim == "reshape":
        yield n.args[0], (("reshape", n.args[0].shape),)
    elif n.prim == "permute":
        axes = n.attrs["axes"]
        yield n.args[0], (("permute", tuple(axes.index(a) for a in range(n.ndim))),)
    elif n.prim == "pad" and min((*n.attrs["lo"], *n.attrs["hi"]), default=0) >= 0:
        yield n.args[0], (("slice", tuple(zip(n.attrs["lo"], n.args[0].shape))),)
    elif n.prim == "expand":
        yield n.args[0], (("slice", tuple((0, d) for d in n.args[0].shape)),)
    elif n.prim == "cast" and dt.is_half(n.args[0].dtype) and n.dtype == dt.float32:
        yield n.args[0], (("cast", n.args[0].dtype.name),)
    elif n.prim == "concat":
        first, axis = 0, n.attrs["axis"]
        for a in n.args:
            yield a, (("slice", tuple((first if i == axis else 0, d) for i, d in enumerate(a.shape))),)
            first += a.shape[axis]
