"""Convolutions of a few small images in training, and the gradients of their filters: a product of two matrices, one of
them all windows side by side (im2col). Lines of such images are too short for vectors, and filters that a step changes
would have to be packed again at every step.
"""
from __future__ import annotations

import math

from .. import ir
from ..ir import Node
from ..ir.size import fixed
from .frozen import Frozen
from .rewrite import Rule

# im2col is used up to SHORT output pixels a row (gradients of filters), up to MOST_PLACES output pixels in all images,
# and from CHANNELS input channels on
SHORT, MOST_PLACES, CHANNELS = 8, 512, 16


def of_small_images(n: Node) -> Node | None:
    """The gradient of filters from few places of small images, which vectors of neighbouring pixels
    (codegen/printers/convolutions/weight_gradient.py) would leave half empty."""
    if n.prim != "dot" or n.attrs["batch"] != ((), ()):
        return None
    contract = n.attrs["contract"]
    side = next((s for s in (0, 1) if n.args[s].prim == "window" and n.args[s].attrs["axes"] == (2, 3)
                 and n.args[s].ndim == 6 and sorted(contract[s]) == [0, 2, 3]), None)
    if side is None or n.ndim != 4:
        return None
    win, grad = n.args[side], n.args[1 - side]
    if not all(fixed(d) for d in (*win.shape, *grad.shape)):
        return None
    places = math.prod(win.shape[a] for a in contract[side])
    if win.shape[3] > SHORT or places > MOST_PLACES or win.shape[1] < CHANNELS:
        return None
    free = [a for a in range(grad.ndim) if a not in contract[1 - side]]
    if len(free) != 1:
        return None
    columns = ir.reshape(ir.permute(win, (*contract[side], 1, 4, 5)), (places, win.size // places))
    rows = ir.reshape(ir.permute(grad, (*contract[1 - side], *free)), (places, grad.shape[free[0]]))
    y = ir.dot(rows, columns, ((0,), (0,))) if side else ir.dot(columns, rows, ((0,), (0,)))
    return ir.reshape(y, n.shape)


def over_small_images(lasts: Frozen) -> Rule:
    """A rule: convolutions with few output pixels in all and rows shorter than the kernel become matrix products.
    lasts: whether a value is frozen; frozen filters are packed, so their convolutions stay."""
    def over(n: Node) -> Node | None:
        return _over(n, lasts)
    return over


def _over(n: Node, lasts: Frozen) -> Node | None:
    if n.prim != "dot" or n.attrs["batch"] != ((), ()):
        return None
    contract = n.attrs["contract"]
    side = next((s for s in (0, 1) if n.args[s].prim == "window" and n.args[s].attrs["axes"] == (2, 3)
                 and n.args[s].ndim == 6 and sorted(contract[s]) == [1, 4, 5]), None)
    if side is None or n.ndim != 4:
        return None
    win, filters = n.args[side], n.args[1 - side]
    if lasts(filters) or not all(fixed(d) for d in (*win.shape, *filters.shape)):
        return None
    places = math.prod(win.shape[a] for a in (0, 2, 3))
    # a filter as large as the image has one place, and needs no windows at all
    if (win.shape[3] >= win.shape[5] or win.shape[2] * win.shape[3] == 1 or places > MOST_PLACES
            or win.shape[1] < CHANNELS):
        return None
    free = [a for a in range(filters.ndim) if a not in contract[1 - side]]
    if len(free) != 1:
        return None
    columns = ir.reshape(ir.permute(win, (*contract[side], 0, 2, 3)), (win.size // places, places))
    rows = ir.reshape(ir.permute(filters, (*free, *contract[1 - side])), (filters.shape[free[0]], win.size // places))
    y = ir.dot(rows, columns, ((1,), (0,))) if side else ir.dot(columns, rows, ((0,), (1,)))
    return ir.reshape(y, n.shape)
