"""How the index of a value becomes the index of its arguments: the whole meaning of the movement primitives."""
from __future__ import annotations

import math
from typing import Collection

from .index import Ix, Val, Var, bounds, div, regroup, variables
from .node import Node
from .size import at_least

Index = tuple[Ix, ...]
# conditions (kind, expression, bound): "ge" x >= n, "lt" x < n, "rem" x % n == 0
Guard = tuple[tuple[str, Ix, int], ...]

ELEMENTWISE = frozenset({"map", "cast", "bitcast"})
MOVEMENT = frozenset({"reshape", "permute", "expand", "slice", "pad", "window"})


def of_index(idx: Index, guard: Guard = ()) -> set[Var | Val]:
    """The loop variables and run-time values that occur in an index and in guards."""
    return {v for x in (*idx, *(x for _, x, _ in guard)) for v in variables(x)}


def beneath(n: Node, prims: Collection[str]) -> Node:
    """The value under nodes of some primitives, which have one argument or are followed to their first."""
    while n.prim in prims:
        n = n.args[0]
    return n


def free_axes(dot: Node) -> tuple[list[int], list[int]]:
    """The axes of each operand of a product that are neither summed nor shared: those of the result."""
    left, right = ([a for a in range(x.ndim) if a not in (*summed, *shared)]
                   for x, summed, shared in zip(dot.args, dot.attrs["contract"], dot.attrs["batch"]))
    return left, right


def depth_of(dot: Node) -> int:
    """How many products each element of a product sums."""
    return math.prod(dot.args[0].shape[a] for a in dot.attrs["contract"][0])


def pull(n: Node, idx: Index) -> tuple[Index, Guard]:
    """Index into the first argument of a movement (or elementwise) node for an index into the node, and when it is
    inside."""
    x = n.args[0]
    a = n.attrs
    if n.prim in ELEMENTWISE:
        return idx, ()
    if n.prim == "reshape":
        return regroup(x.shape, n.shape, idx), ()
    if n.prim == "permute":
        out: list[Ix] = [Ix()] * x.ndim
        for i, ax in enumerate(a["axes"]):
            out[ax] = idx[i]
        return tuple(out), ()
    if n.prim == "expand":
        return tuple(Ix() if d == 1 else i for d, i in zip(x.shape, idx)), ()
    if n.prim == "slice":
        return tuple(i * s + b for i, b, s in zip(idx, a["begin"], a["step"])), ()
    if n.prim == "pad":
        return _pull_pad(n, x, idx)
    if n.prim == "window":
        moved = list(idx[:x.ndim])
        for j, (ax, s, d) in enumerate(zip(a["axes"], a["stride"], a["dilation"])):
            moved[ax] = moved[ax] * s + idx[x.ndim + j] * d
        return tuple(moved), ()
    raise KeyError(n.prim)


def _pull_pad(n: Node, x: Node, idx: Index) -> tuple[Index, Guard]:
    out, guard = [], []
    for i, lo, d in zip(idx, n.attrs["lo"], x.shape):
        j = i - lo
        low, high = bounds(j)
        if not at_least(low, 0):
            guard.append(("ge", j, 0))
        if not at_least(d - high, 1):
            guard.append(("lt", j, d))
        out.append(j)
    return tuple(out), tuple(guard)


def pull_unwindow(n: Node, idx: Index, offsets: Index) -> tuple[Index, Guard]:
    """Index into the windows that hold element ``idx`` at kernel ``offsets``, and when there is such a window."""
    y = n.args[0]
    out, guard = list(idx), []
    for j, (ax, s, d) in enumerate(zip(n.attrs["axes"], n.attrs["stride"], n.attrs["dilation"])):
        t = idx[ax] - offsets[j] * d
        low, high = bounds(t)
        if low < 0:
            guard.append(("ge", t, 0))
        if s > 1:
            guard.append(("rem", t, s))
        q = div(t, s)
        if high // s >= y.shape[ax]:
            guard.append(("lt", q, y.shape[ax]))
        out[ax] = q
    return (*out, *offsets), tuple(guard)
