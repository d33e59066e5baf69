"""Running sums in windows, for short axes, where they are part of another kernel."""
from __future__ import annotations

from . import build as b
from .node import Node
from .size import fixed

SHORT = 16                             # elements up to which windows are a few additions
BLOCK = 64                             # a running sum over a longer axis goes by blocks: n * BLOCK additions, not n * n


def running_sum(x: Node, axis: int) -> Node:
    """Sums of the first 1, 2, … elements along an axis."""
    n = x.shape[axis]
    return windows_sum(x, axis) if fixed(n) and n <= SHORT else b.cumulate(x, axis)


def windows_sum(x: Node, axis: int) -> Node:
    """The same of windows that begin before the array."""
    n = x.shape[axis]
    if n > BLOCK:
        return _blocks(x, axis)
    lo = [n - 1 if i == axis and n else 0 for i in range(x.ndim)]
    windows = b.window(b.pad(x, lo, [0] * x.ndim), (axis,), (n,), (1,), (1,))
    return b.reduce("sum", windows, (x.ndim,))


def _blocks(x: Node, axis: int) -> Node:
    n = x.shape[axis]
    blocks = -(-n // BLOCK)
    hi = [blocks * BLOCK - n if i == axis else 0 for i in range(x.ndim)]
    cells = b.reshape(b.pad(x, [0] * x.ndim, hi), (*x.shape[:axis], blocks, BLOCK, *x.shape[axis + 1:]))
    within = windows_sum(cells, axis + 1)
    totals = b.reduce("sum", cells, (axis + 1,), True)
    shifted = [1 if i == axis else 0 for i in range(totals.ndim)]
    # no difference: infinity stays where it is
    before = b.pad(_first(windows_sum(totals, axis), axis, blocks - 1), shifted, [0] * totals.ndim)
    return _first(b.reshape(b.map_("add", within, before), (*x.shape[:axis], blocks * BLOCK, *x.shape[axis + 1:])),
                  axis, n)


def _first(x: Node, axis: int, size: int) -> Node:
    return b.slice(x, [0] * x.ndim, [size if i == axis else d for i, d in enumerate(x.shape)])
