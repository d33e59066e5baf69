"""Channels last between the convolutions of a program for GPUs: pixels are rows and filters columns of a product whose
depth is the channels of one tap after another, so that neighbours in memory are neighbours along it.

The gradient of a convolution's data is such a product too, of the gradient and filters that are exchanged with
channels; that of its filters is one whose depth is the pixels. All of them stay contractions over windows and read the
same weights, which are put in order and not packed. What lies between moves as in the layout pass.
"""
from __future__ import annotations

import math
from typing import Callable, Sequence

import numpy as np

from .. import ir
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.build import make
from ..ir.size import fixed
from .axis_orders import BACK, DEEP, FIRST, below_pad, last
from .layout import Blocking, Conversion
from .rewrite import rebuild, relaid

LEAST_PRODUCTS = 1 << 25        # of a convolution; below, another order costs more than it saves
BETWEEN = 32                    # times fewer, where the data is in that order already
CHUNK = 16                      # bytes that are copied together


class ChannelsLast(Conversion):
    """One run over a program. takes: of which types products read neighbours together."""
    ranks = (2, 3)

    def __init__(self, program: Program, takes: Callable[[np.dtype], bool]):
        super().__init__(program, frozenset(), Blocking(1, lambda form, filters, pixels: 1, lambda filters, n: 1,
                                                        lambda n: True))
        self.takes, self.found = takes, 0

    def _dense(self, n: Node) -> Node | None:
        """Products with matrices stay as they are."""
        return None

    def _packed(self, w: Node, win: Node, shape: tuple[int, ...], groups: int, between: bool) -> Node | None:
        """A convolution of groups (N, *out, O) of windows (N, *out, C, *kernel): nothing is packed. With a group for
        each channel, neighbouring threads have neighbouring channels."""
        work, rank = math.prod(shape) * math.prod(w.shape[1:]), len(shape) - 2
        if groups == 1 or w.dtype != win.dtype or not self.takes(w.dtype) or not self._pays(work, between):
            return None
        self.found += 1
        each, taps, first = w.shape[1], range(2, 2 + rank), tuple(range(1 + rank))
        if each == 1 and w.shape[0] == groups:
            w = ir.permute(ir.reshape(w, (groups, *w.shape[2:])), (*(a - 1 for a in taps), 0))
            w, own, summed, group = ir.reshape(w, (*w.shape, 1)), (*(a + rank for a in taps),), first[:-1], rank
        else:
            w = ir.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
            w, group = ir.permute(w, (0, 1, *(a + 1 for a in taps), 2)), 0
            win = ir.reshape(win, (*win.shape[:1 + rank], groups, each, *win.shape[2 + rank:]))
            own, summed = (*(a + rank + 1 for a in taps), 2 + rank), (*taps, 2 + rank)
        y = ir.dot(win, w, (own, summed), ((1 + rank,), (group,)))
        return ir.reshape(ir.permute(y, (*(a + 1 for a in first), 0, y.ndim - 1)), (*win.shape[:1 + rank], shape[1]))

    @staticmethod
    def _pays(work: int, between: bool) -> bool:
        """Whether so many products are worth another order. between: the data is in that order already."""
        return work >= (LEAST_PRODUCTS // BETWEEN if between else LEAST_PRODUCTS)

    def _convolution(self, n: Node) -> Node | None:
        """Products with windows, whatever follows them."""
        if n.prim == "permute" and n.args[0].prim == "permute":
            return ir.permute(n.args[0], n.attrs["axes"])
        if n.prim != "dot":
            return super()._convolution(n)
        if n.attrs["batch"] != ((), ()):
            return None
        sides = sorted((0, 1), key=lambda s: n.args[s].prim == "permute" and n.args[s].args[0].prim != "window")
        return next((y for s in sides for channel in (1, 0) if (y := self._product(n, s, channel)) is not None), None)

    # ---- products with windows
    def _product(self, n: Node, side: int, channel: int) -> Node | None:
        """A contraction whose operand ``side`` is windows (N, C, *out, *kernel), or with ``channel`` 0 (C, N, …), over
        their channels and taps, or over all pixels."""
        win, w = self._windows(n.args[side], channel), n.args[1 - side]
        if win is None or w.dtype != win.dtype or not self.takes(w.dtype):
            return None
        rank = len(win.attrs["axes"]) if win.prim == "window" else win.ndim - 2
        own, summed = n.attrs["contract"][side], n.attrs["contract"][1 - side]
        taps, pixels = range(2 + rank, win.ndim), (1 - channel, *range(2, 2 + rank))
        between = beneath(win, ("window", "pad")).prim != "permute"
        work = n.size * math.prod(w.shape[a] for a in summed)
        if rank not in (2, 3) or not self._pays(work, between):
            return None
        with_it = dict(zip(own, summed))                       # axes of w that are multiplied with those of the windows
        if set(own) == {channel, *taps}:
            y = _over_taps(win, w, [with_it[t] for t in taps], with_it[channel], rank)
            if y is not None and side == 1:
                y = ir.permute(y, (*range(1 + rank, y.ndim), *range(1 + rank)))
        elif set(own) == set(pixels):
            y = _over_pixels(win, w, [with_it[a] for a in pixels], n.args[side].shape[channel], side)
        else:
            return None
        self.found += y is not None
        return y

    def _windows(self, x: Node, channel: int) -> Node | None:
        """Windows (N, *out, C, *kernel) of ones that have their channels at an axis; a value stands for its windows of
        one pixel, if it lies channels last."""
        order = (1 - channel, *range(2, x.ndim), channel)
        if x.prim == "permute":
            if x.args[0].prim == "window":
                found = self._permuted(x) if channel == 1 else None
                return found[0] if found is not None and found[0].attrs["axes"][0] == 1 else None
            return x.args[0] if [x.attrs["axes"][a] for a in order] == list(range(x.ndim)) else None
        if x.prim != "window" or x.attrs["axes"] != tuple(range(2, x.args[0].ndim)):
            return None
        order = (1 - channel, *x.attrs["axes"], channel)
        data = below_pad(x.args[0], order, lambda y: last(y, order))
        return make("window", (data,), **{**x.attrs, "axes": tuple(a - 1 for a in x.attrs["axes"])})

    # ---- what lies between
    def _moved(self, n: Node) -> Node | None:
        """Also functions of which one argument alone is channels last, and gradients of pools."""
        out = super()._moved(n)
        found = next((f for a in n.args if (f := self._permuted(a)) is not None), None) if out is None else None
        if found is None:
            return out
        x, back = found
        rank = len(back)
        if n.prim == "map" and n.ndim >= rank:
            return self._first(make("map", tuple(last(a, BACK[back]) for a in n.args), **n.attrs), back)
        if n.prim == "reshape" and n.args[0].ndim == rank and n.shape[:2] == n.args[0].shape[:2] and n.ndim in (4, 5):
            return self._first(ir.reshape(x, (n.shape[0], *n.shape[2:], n.shape[1])), FIRST if n.ndim == 4 else DEEP)
        if n.prim in ("reshape", "expand") and n.shape[:rank] == n.args[0].shape[:rank]:
            tail = (*x.shape[:rank], *n.shape[rank:])
            return self._first(ir.reshape(x, tail) if n.prim == "reshape" else ir.expand(x, tail), back)
        if n.prim == "argreduce" and n.attrs["axis"] >= rank or n.prim == "unwindow" and n.ndim == rank:
            return self._first(relaid(n, (x,), (*back, *range(rank, x.ndim))), back)
        return None


def _over_taps(win: Node, w: Node, taps: Sequence[int], channel: int, rank: int) -> Node | None:
    """Sums over channels and taps: (N, *out, filters). taps, channel: the axes of w."""
    more = -win.shape[1 + rank] % (CHUNK // w.dtype.itemsize)
    if more:
        wide = _wider(win, more)
        if wide is None:
            return None
        win, w = wide, _padded(w, channel, more)
    if w.ndim == 2 + rank and sorted((*taps, channel)) == [channel, *range(2, w.ndim)]:
        order = [0, *range(2, w.ndim), 1]
        w = _ordered(w, order)
        taps, channel = [order.index(a) for a in taps], order.index(channel)
    return ir.dot(win, w, ((*range(2 + rank, win.ndim), 1 + rank), (*taps, channel)))


def _over_pixels(win: Node, w: Node, pixels: Sequence[int], channels: int, side: int) -> Node:
    """Sums over pixels: the gradient of filters. pixels: the axes of w; side: of the windows in the product."""
    rank, kept = len(pixels) - 1, [a for a in range(w.ndim) if a not in pixels]
    more = -channels % (CHUNK // w.dtype.itemsize)
    win = more and _wider(win, more) or win
    taps = range(2 + rank, win.ndim)
    y = ir.dot(ir.permute(w, (*pixels, *kept)), ir.permute(win, (*range(1 + rank), *taps, 1 + rank)),
               (range(1 + rank), range(1 + rank)))
    y = ir.slice(y, (0,) * y.ndim, (*y.shape[:-1], channels))
    filters, other = range(len(kept)), (y.ndim - 1, *range(len(kept), y.ndim - 1))
    return ir.permute(y, (*filters, *other) if side == 1 else (*other, *filters))


def _ordered(w: Node, order: Sequence[int]) -> Node:
    """Weights in another order of axes, of which parts are taken afterwards: gradients then read those of the forward
    pass."""
    if w.prim == "slice":
        moved = {k: tuple(v[a] for a in order) for k, v in w.attrs.items() if isinstance(v, tuple)}
        return make(w.prim, (_ordered(w.args[0], order),), **{**w.attrs, **moved})
    if math.prod(w.shape[2:]) == 1:
        return ir.reshape(w, tuple(w.shape[a] for a in order))
    return ir.permute(w, order)


def _padded(n: Node, axis: int, more: int) -> Node:
    """Zeros behind an axis."""
    return ir.pad(n, (0,) * n.ndim, tuple(more if a == axis else 0 for a in range(n.ndim)))


def _wider(n: Node, more: int) -> Node | None:
    """Windows over data of more channels, zeros, where the data is put in order for them; else None."""
    if n.prim == "window":
        x = _wider(n.args[0], more)
        return None if x is None else make("window", (x,), **n.attrs)
    if n.prim == "pad":
        x = _wider(n.args[0], more)
        return None if x is None else rebuild(n, [x])
    if n.prim == "permute" and n.attrs["axes"][-1] in (0, 1):
        return ir.permute(_padded(n.args[0], n.attrs["axes"][-1], more), n.attrs["axes"])
    return None


def channels_last(program: Program, takes: Callable[[np.dtype], bool]) -> Program:
    """The program with its convolutions channels last, where it has any."""
    if not any(n.prim == "window" for n in program.order()):
        return program
    if not all(fixed(d) for n in program.inputs for d in n.shape):
        return program
    run = ChannelsLast(program, takes)
    roots = run.run()
    return program.with_roots(roots) if run.found else program
