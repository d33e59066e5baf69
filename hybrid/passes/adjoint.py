"""Adjoints of sliding windows in forms that fuse: windows that do not overlap are moved, and the gradient of a convolution
with respect to its data is a convolution of the padded gradient with the flipped weights (Dumoulin and Visin, "A guide to
convolution arithmetic for deep learning", 2016), so that no matrix of columns is stored.
"""
from __future__ import annotations

from .. import ir
from ..ir import Node


def apart(n: Node) -> Node | None:
    """Windows that do not overlap are put side by side, with zeros between and after them."""
    axes, stride, dilation = n.attrs["axes"], n.attrs["stride"], n.attrs["dilation"]
    y, rank = n.args[0], n.ndim
    size = y.shape[rank:]
    if any(k > s or (d > 1 and k > 1) for k, s, d in zip(size, stride, dilation)):
        return None
    room = [0] * rank + [s - k for k, s in zip(size, stride)]
    y = ir.pad(y, (0,) * y.ndim, room)
    order: list[int] = []
    for i in range(rank):
        order += [i, rank + axes.index(i)] if i in axes else [i]
    y = ir.permute(y, order)
    y = ir.reshape(y, [n.args[0].shape[i] * (stride[axes.index(i)] if i in axes else 1) for i in range(rank)])
    y = ir.slice(y, (0,) * rank, [min(a, b) for a, b in zip(y.shape, n.shape)])
    return ir.pad(y, (0,) * rank, [b - a for a, b in zip(y.shape, n.shape)])


def of_product(n: Node) -> Node | None:
    """unwindow of a contraction of weights with a gradient, with stride 1: a contraction of weights with windows."""
    y, order = n.args[0], list(range(n.args[0].ndim))
    while y.prim == "permute":
        order = [y.attrs["axes"][i] for i in order]
        y = y.args[0]
    if y.prim != "dot" or any(s != 1 for s in n.attrs["stride"]):
        return None
    homes = _homes(y)
    kernel = [homes[order[n.ndim + j]] for j in range(len(n.attrs["axes"]))]
    places = [homes[order[a]] for a in n.attrs["axes"]]
    for side in (0, 1):
        if all(h is not None and h[0] == side for h in kernel) and all(h is not None and h[0] == 1 - side for h in places):
            return _convolved(n, y, order, side, [h[1] for h in kernel], [h[1] for h in places])           # type: ignore[index]
    return None


def _homes(dot: Node) -> list[tuple[int, int] | None]:
    """For each axis of a contraction the operand and the axis it comes from; None for batch axes."""
    contract, batch = dot.attrs["contract"], dot.attrs["batch"]
    out: list[tuple[int, int] | None] = [None] * len(batch[0])
    for side, x in enumerate(dot.args):
        out += [(side, a) for a in range(x.ndim) if a not in contract[side] and a not in batch[side]]
    return out


def _convolved(n: Node, dot: Node, order: list[int], side: int, kernel: list[int], places: list[int]) -> Node:
    weights, grad = dot.args[side], dot.args[1 - side]
    size, dilation = [weights.shape[a] for a in kernel], n.attrs["dilation"]
    begin, step = [0] * weights.ndim, [1] * weights.ndim
    for a in kernel:
        begin[a], step[a] = weights.shape[a] - 1, -1
    weights = ir.slice(weights, begin, weights.shape, step)
    lo, hi = [0] * grad.ndim, [0] * grad.ndim
    for a, axis, k, d in zip(places, n.attrs["axes"], size, dilation):
        lo[a] = (k - 1) * d
        hi[a] = n.shape[axis] - grad.shape[a]
    view = ir.window(ir.pad(grad, lo, hi), places, size, (1,) * len(places), dilation)
    contract = [list(dot.attrs["contract"][0]), list(dot.attrs["contract"][1])]
    contract[side] += kernel
    contract[1 - side] += range(grad.ndim, view.ndim)
    operands = (weights, view) if side == 0 else (view, weights)
    out = ir.dot(*operands, (contract[0], contract[1]), dot.attrs["batch"])
    left = [i for i, h in enumerate(_homes(dot)) if h is None or h[0] != side or h[1] not in kernel]      # axes of the old contraction that remain
    return ir.permute(out, [left.index(order[i]) for i in range(n.ndim)])
