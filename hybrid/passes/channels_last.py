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
from ..ir.build import make
from ..ir.size import fixed
from .axis_orders import channels_first_order, channels_last_order, is_channels_last, with_axes
from .layout import Blocking, Conversion
from .rewrite import rebuild, relaid
from .winograd import over_squares

LEAST_PRODUCTS = 1 << 25        # of a convolution; below, another order costs more than it saves
BETWEEN = 32                    # times fewer, where the data is in that order already
FEW_FILTERS = 8                 # of a group, up to which threads read them together and no tile has them
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

    def _packed(self, w: Node, win: Node, shape: tuple[int, ...], groups: int, between: bool,
                may_round_operands: bool) -> Node | None:
        """A convolution of groups (N, *out, O) of windows (N, *out, C, *kernel): nothing is packed. With a group for
        each channel, neighbouring threads have neighbouring channels."""
        work = math.prod(shape) * math.prod(w.shape[1:])
        if groups == 1 or w.dtype != win.dtype or not self.takes(w.dtype) or not self._pays(work, between):
            return None
        return self._of_groups(ir.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:])), (1, 2), win, shape)

    def _of_groups(self, w: Node, axes: tuple[int, int], win: Node, shape: tuple[int, ...]) -> Node | None:
        """The same of weights (groups, …, *kernel), None where that has no form. axes: of filters, channels."""
        self.found += 1
        (filters, channels), groups, rank = axes, w.shape[0], len(shape) - 2
        taps, of_win, first = range(3, 3 + rank), range(2 + rank, 2 + 2 * rank), range(1 + rank)
        if w.shape[1] == w.shape[2] == 1:
            w = _ordered(w, (*taps, 0))
            w, own, summed, group = ir.reshape(w, (*w.shape, 1)), (*of_win,), (*first[:-1],), rank
        else:
            few = w.shape[filters] <= FEW_FILTERS
            w = _ordered(w, (0, *taps, channels, filters) if few else (0, filters, *taps, channels))
            each, group = w.shape[-2 if few else -1], 0
            win = ir.reshape(win, (*win.shape[:1 + rank], groups, each, *win.shape[2 + rank:]))
            own = (*(a + 1 for a in of_win), 2 + rank)
            summed = tuple(range(1, 2 + rank)) if few else tuple(range(2, 3 + rank))
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
            return super()._convolution(n) or self._data_of_groups(n)
        if n.attrs["batch"] != ((), ()):
            return self._filters_of_groups(n)
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
        between = is_channels_last(win)
        work = n.size * math.prod(w.shape[a] for a in summed)
        if rank not in (2, 3) or not self._pays(work, between):
            return None
        with_it = dict(zip(own, summed))                       # axes of w that are multiplied with those of the windows
        if set(own) == {channel, *taps}:
            y = self._over_taps(win, w, [with_it[t] for t in taps], with_it[channel], rank)
            if y is not None and side == 1:
                y = ir.permute(y, (*range(1 + rank, y.ndim), *range(1 + rank)))
        elif set(own) == set(pixels):
            y = self._over_pixels(win, w, [with_it[a] for a in pixels], n.args[side].shape[channel], side)
        else:
            return None
        self.found += y is not None
        return y

    def _over_taps(self, win: Node, w: Node, taps: Sequence[int], channel: int, rank: int) -> Node | None:
        """The sum over channels and taps (N, *out, filters). taps, channel: the axes of w."""
        return over_squares(win, w, taps, channel) or _over_taps(win, w, taps, channel, rank)

    def _over_pixels(self, win: Node, w: Node, pixels: Sequence[int], channels: int, side: int) -> Node | None:
        """The sum over pixels, the gradient of filters. pixels: the axes of w; side: of the windows."""
        return over_pixels(win, w, pixels, channels, side, CHUNK // w.dtype.itemsize)

    def _windows(self, x: Node, channel: int) -> Node | None:
        """Windows (N, *out, C, *kernel) of ones that have their channels at an axis; a value stands for its windows of
        one pixel, if it lies channels last."""
        if x.prim != "permute" or x.args[0].prim == "window":
            return self._windows_last(x, channel)
        order = (1 - channel, *range(2, x.ndim), channel)
        return x.args[0] if [x.attrs["axes"][a] for a in order] == list(range(x.ndim)) else None

    # ---- gradients of convolutions of groups
    def _data_of_groups(self, n: Node) -> Node | None:
        """The gradient of the data: a convolution, with channels for filters, of a gradient (groups, filters, N,
        *out)."""
        rank = n.ndim - 3
        if n.prim != "permute" or rank not in (2, 3) or n.args[0].prim != "dot":
            return None
        d, taps = n.args[0], tuple(range(3, 3 + rank))
        if n.attrs["axes"] != (2, 0, 1, *taps) or d.attrs["batch"] != ((0,), (0,)):
            return None
        w, win = d.args
        if (d.attrs["contract"] != ((1, *taps), (1, *(a + rank for a in taps))) or win.prim != "window"
                or win.attrs["axes"] != taps or not self.takes(w.dtype) or w.dtype != win.dtype):
            return None
        x, lo, hi = (win.args[0].args[0], *(win.args[0].attrs[k] for k in ("lo", "hi"))) if (
            win.args[0].prim == "pad") else (win.args[0], (0,) * (3 + rank), (0,) * (3 + rank))
        y, between = self._channels_last(x)
        if any((*lo[:3], *hi[:3])) or not self._pays(n.size * math.prod((w.shape[1], *w.shape[3:])), between):
            return None
        y = ir.pad(y, (0, *lo[3:], 0), (0, *hi[3:], 0))
        y = make("window", (y,), **{**win.attrs, "axes": tuple(range(1, 1 + rank))})
        out = self._of_groups(w, (2, 1), y, (n.shape[0], n.shape[1] * n.shape[2], *n.shape[3:]))
        return out and ir.reshape(self._first(out, rank), n.shape)

    def _filters_of_groups(self, n: Node) -> Node | None:
        """The gradient of filters: a sum over pixels of a gradient (groups, filters, N, *out) times windows (N, groups,
        channels, *out, *kernel)."""
        side = n.attrs["batch"].index((1,)) if sorted(n.attrs["batch"]) == [(0,), (1,)] else 0
        win, g = n.args[side], n.args[1 - side]
        rank = g.ndim - 3
        pixels = tuple(range(3, 3 + rank))
        if (rank not in (2, 3) or n.attrs["batch"][side] != (1,) or n.attrs["contract"][side] != (0, *pixels)
                or n.attrs["contract"][1 - side] != (2, *pixels) or win.prim != "reshape" or win.ndim != 3 + 2 * rank
                or win.args[0].ndim != 2 + 2 * rank or g.dtype != win.dtype or not self.takes(g.dtype)):
            return None
        found, (last_of, between) = self._windows_last(win.args[0]), self._channels_last(g)
        if found is None or not self._pays(n.size * math.prod(g.shape[2:]), between):
            return None
        self.found += 1
        operands = [ir.reshape(last_of, (*last_of.shape[:-1], *g.shape[:2]))] * 2
        operands[side] = ir.reshape(found, (*found.shape[:1 + rank], *win.shape[1:3], *found.shape[2 + rank:]))
        summed, group = tuple(range(1 + rank)), (1 + rank,)
        return ir.dot(operands[0], operands[1], (summed, summed), (group, group))

    def _channels_last(self, x: Node) -> tuple[Node, bool]:
        """A value (groups, filters, N, *out) as (N, *out, channels), and whether it lies so."""
        rank = x.ndim - 3
        if x.prim == "permute" and x.attrs["axes"] == (1, 2, 0, *range(3, x.ndim)) and x.args[0].prim == "reshape":
            y = x.args[0].args[0]
            if y.ndim == 2 + rank and y.shape == (x.shape[2], x.shape[0] * x.shape[1], *x.shape[3:]):
                return with_axes(y, channels_last_order(rank)), self._permuted(y) is not None
        y = ir.permute(x, (*range(2, x.ndim), 0, 1))
        if y.prim == "permute":
            long = [a for a in y.attrs["axes"] if y.args[0].shape[a] > 1]
            y = ir.reshape(y.args[0], y.shape) if long == sorted(long) else y
        return ir.reshape(y, (*y.shape[:-2], y.shape[-2] * y.shape[-1])), y.prim != "permute"

    # ---- what lies between
    def _moved(self, n: Node) -> Node | None:
        """Also functions of which one argument alone is channels last, and gradients of pools."""
        out = super()._moved(n)
        found = next((f for a in n.args if (f := self._permuted(a)) is not None), None) if out is None else None
        if found is None:
            return out
        x, rank = found
        every = 2 + rank                                         # axes but those of windows
        if n.prim == "map" and n.ndim >= every:
            args = tuple(with_axes(a, channels_last_order(rank)) for a in n.args)
            return self._first(make("map", args, **n.attrs), rank)
        if n.prim == "reshape" and n.args[0].ndim == every and n.shape[:2] == n.args[0].shape[:2] and n.ndim in (4, 5):
            return self._first(ir.reshape(x, (n.shape[0], *n.shape[2:], n.shape[1])), n.ndim - 2)
        if n.prim in ("reshape", "expand") and n.shape[:every] == n.args[0].shape[:every]:
            tail = (*x.shape[:every], *n.shape[every:])
            return self._first(ir.reshape(x, tail) if n.prim == "reshape" else ir.expand(x, tail), rank)
        if n.prim == "argreduce" and n.attrs["axis"] >= every or n.prim == "unwindow" and n.ndim == every:
            return self._first(relaid(n, (x,), (*channels_first_order(rank), *range(every, x.ndim))), rank)
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


def over_pixels(win: Node, w: Node, pixels: Sequence[int], channels: int, side: int, chunk: int = 1) -> Node:
    """Sums over pixels: the gradient of filters. pixels: the axes of w; side: of the windows in the product; chunk:
    channels that are read together."""
    rank, kept = len(pixels) - 1, [a for a in range(w.ndim) if a not in pixels]
    more = -channels % chunk
    win = more and _wider(win, more) or win
    taps = range(2 + rank, win.ndim)
    y = ir.dot(ir.permute(w, (*pixels, *kept)), ir.permute(win, (*range(1 + rank), *taps, 1 + rank)),
               (range(1 + rank), range(1 + rank)))
    y = ir.slice(y, (0,) * y.ndim, (*y.shape[:-1], channels))
    filters, other = range(len(kept)), (y.ndim - 1, *range(len(kept), y.ndim - 1))
    return ir.permute(y, (*filters, *other) if side == 1 else (*other, *filters))


def _ordered(w: Node, order: Sequence[int]) -> Node:
    """Weights in another order of axes, without those of one element that it does not name; of which parts are taken
    afterwards: gradients then read those of the forward pass."""
    if w.prim == "slice":
        moved = {k: tuple(v[a] for a in order) for k, v in w.attrs.items() if isinstance(v, tuple)}
        return make(w.prim, (_ordered(w.args[0], order),), **{**w.attrs, **moved})
    kept, long = sorted(order), [a for a in order if w.shape[a] != 1]
    if long == sorted(long):
        return ir.reshape(w, [w.shape[a] for a in order])
    return ir.permute(ir.reshape(w, [w.shape[a] for a in kept]), [kept.index(a) for a in order])


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
