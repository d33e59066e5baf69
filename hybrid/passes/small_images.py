"""Convolutions of a few small images in training, and the gradients of their filters: a product of two matrices, one of
them all windows side by side (im2col). The gradient of their data is a product of two matrices that windows add up
(col2im). Lines of such images are too short for vectors, and filters that a step changes would have to be packed again
at every step.
"""
from __future__ import annotations

import math

from .. import ir
from ..ir import Node
from ..ir.access import depth_of, free_axes
from ..ir.build import make
from ..ir.contraction import with_windows
from ..ir.size import fixed
from .adjoint import Product, spread_product
from .frozen import Frozen
from .rewrite import Rule

# im2col is used up to SHORT output pixels a row (gradients of filters), up to MOST_PLACES output pixels in all images,
# and from CHANNELS input channels on
SHORT, MOST_PLACES, CHANNELS = 8, 512, 16


def of_small_images(n: Node) -> Node | None:
    """The gradient of filters from few places of small images, which vectors of neighbouring pixels
    (codegen/printers/convolutions/weight_gradient.py) would leave half empty."""
    side = with_windows(n, 2, (0, 2, 3))
    if side is None or not all(map(fixed, n.args[side].shape[2:4])):
        return None
    return _as_matrices(n, side, False) if n.args[side].shape[3] <= SHORT else None


def over_small_images(lasts: Frozen) -> Rule:
    """A rule: convolutions with few output pixels in all and rows shorter than the kernel become matrix products.
    lasts: whether a value is frozen; frozen filters are packed, so their convolutions stay."""
    def over(n: Node) -> Node | None:
        side = with_windows(n, 2, (1, 4, 5))
        if side is None or lasts(n.args[1 - side]):
            return None
        *_, rows, columns, _, width = n.args[side].shape
        if not fixed(rows) or not fixed(columns):
            return None
        # a filter as large as the image has one place, and needs no windows at all
        return _as_matrices(n, side, True) if columns < width and rows * columns != 1 else None
    return over


def back_over_small_images(lasts: Frozen) -> Rule:
    """A rule: the gradient of the data of a convolution with few output pixels in all and rows shorter than the kernel
    is the product of two matrices, added at overlapping positions. As a convolution of the padded gradient it would
    read the filters flipped and transposed. lasts: as over_small_images."""
    def back(n: Node) -> Node | None:
        p = spread_product(n)
        if p is None or n.ndim != 4 or p.dot.attrs["batch"] != ((), ()) or not all(
                fixed(d) and d for d in (*n.shape, *p.dot.shape)):
            return None
        w, grad = p.dot.args[p.side], p.dot.args[1 - p.side]
        columns, places = grad.shape[p.places[-1]], math.prod(grad.shape[a] for a in free_axes(p.dot)[1 - p.side])
        channels = n.size // (n.shape[0] * math.prod(n.shape[a] for a in n.attrs["axes"]))
        if (lasts(w) or channels < CHANNELS or places > MOST_PLACES or columns >= w.shape[p.kernel[-1]]
                or math.prod(grad.shape[a] for a in p.places) == 1):
            return None
        return make("unwindow", (_gradient_first(p),), **n.attrs)
    return back


def _gradient_first(p: Product) -> Node:
    """The product as one of matrices: pixels of the gradient times filters, which are read in their order."""
    dot, (left, right) = p.dot, free_axes(p.dot)
    first, second = (1 - p.side, p.side)
    free, summed = (left, right), dot.attrs["contract"]
    rows = ir.permute(dot.args[first], (*free[first], *summed[first]))
    columns = ir.permute(dot.args[second], (*summed[second], *free[second]))
    depth = depth_of(dot)
    y = ir.dot(ir.reshape(rows, (rows.size // depth, depth)), ir.reshape(columns, (depth, columns.size // depth)),
               ((1,), (0,)))
    y = ir.reshape(y, (*rows.shape[:len(free[first])], *columns.shape[len(summed[second]):]))
    own = [(side, a) for side in (0, 1) for a in free[side]]
    made = [(side, a) for side in (first, second) for a in free[side]]
    return ir.permute(y, [made.index(own[i]) for i in p.order])


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
