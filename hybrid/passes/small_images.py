"""Convolutions of a few small images in training, and the gradients of their filters: a product of two matrices, one of
them all windows side by side (im2col). Lines of such images are too short for vectors, and filters that a step changes
would have to be packed again at every step.
"""
from __future__ import annotations

import math

from .. import ir
from ..ir import Node
from ..ir.contraction import with_windows
from ..ir.size import fixed
from .frozen import Frozen
from .rewrite import Rule

# im2col is used up to SHORT output pixels a row (gradients of filters), up to MOST_PLACES output pixels in all images,
# and from CHANNELS input channels on
SHORT, MOST_PLACES, CHANNELS = 8, 512, 16


def of_small_images(n: Node) -> Node | None:
    """The gradient of filters from few places of small images, which vectors of neighbouring pixels
    (codegen/printers/convolutions/weight_gradient.py) would leave half empty."""
    side = with_windows(n, 2, (0, 2, 3))
    return _as_matrices(n, side, False) if side is not None and n.args[side].shape[3] <= SHORT else None


def over_small_images(lasts: Frozen) -> Rule:
    """A rule: convolutions with few output pixels in all and rows shorter than the kernel become matrix products.
    lasts: whether a value is frozen; frozen filters are packed, so their convolutions stay."""
    def over(n: Node) -> Node | None:
        side = with_windows(n, 2, (1, 4, 5))
        if side is None or lasts(n.args[1 - side]):
            return None
        *_, rows, columns, _, width = n.args[side].shape
        # a filter as large as the image has one place, and needs no windows at all
        return _as_matrices(n, side, True) if columns < width and rows * columns != 1 else None
    return over


def _as_matrices(n: Node, side: int, first: bool) -> Node | None:
    """A product with windows (operand ``side``) as one of two matrices. first: whether what is not summed of the other
    operand comes before what is."""
    win, other = n.args[side], n.args[1 - side]
    if n.ndim != 4 or not all(fixed(d) for d in (*win.shape, *other.shape)):
        return None
    own, summed = n.attrs["contract"][side], n.attrs["contract"][1 - side]
    free = [a for a in range(other.ndim) if a not in summed]
    if win.shape[0] * win.shape[2] * win.shape[3] > MOST_PLACES or win.shape[1] < CHANNELS or len(free) != 1:
        return None
    depth = math.prod(win.shape[a] for a in own)
    columns = ir.reshape(ir.permute(win, (*own, *(a for a in range(6) if a not in own))), (depth, win.size // depth))
    order, shape = ((*free, *summed), (n.size // columns.shape[1], depth))
    if not first:
        order, shape = (*summed, *free), shape[::-1]
    rows = ir.reshape(ir.permute(other, order), shape)
    y = ir.dot(rows, columns, ((int(first),), (0,))) if side else ir.dot(columns, rows, ((0,), (int(first),)))
    return ir.reshape(y, n.shape)
