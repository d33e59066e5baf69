"""Channels last between the convolutions of an inference program for GPUs: pixels are rows and filters columns of a
product whose depth is the channels of one tap after another, so that neighbours in memory are neighbours along it.

Convolutions stay contractions over windows; no weights are packed. What follows them moves as in the layout pass.
"""
from __future__ import annotations

import math
from typing import Callable

import numpy as np

from .. import ir
from ..ir import Node, Program
from ..ir.build import make
from ..ir.size import fixed
from .axis_orders import BACK, DEEP, FIRST
from .layout import Blocking, Conversion
from .rewrite import rebuild

LEAST_PRODUCTS = 1 << 25        # of a convolution; below, another order costs more than it saves
BETWEEN = 32                    # times fewer, where the data is in that order already
CHUNK = 16                      # bytes that are copied together


class ChannelsLast(Conversion):
    """One run over a program. takes: of which types products read neighbours together."""

    def __init__(self, program: Program, takes: Callable[[np.dtype], bool]):
        super().__init__(program, frozenset(), Blocking(1, lambda form, filters, pixels: 1, lambda filters, n: 1,
                                                        lambda n: True))
        self.takes, self.found = takes, 0

    def _along_line(self, n: Node) -> Node | None:
        """Convolutions over one axis stay as they are."""
        return None

    def _dense(self, n: Node) -> Node | None:
        """Products too."""
        return None

    def _packed(self, w: Node, win: Node, shape: tuple[int, ...], groups: int, between: bool) -> Node | None:
        """The convolution (N, *out, O) of windows (N, *out, C, *kernel)."""
        rank = len(shape) - 2
        work = math.prod(shape) * math.prod(w.shape[1:])
        least = LEAST_PRODUCTS // BETWEEN if between else LEAST_PRODUCTS
        if groups > 1 or w.dtype != win.dtype or not self.takes(w.dtype) or work < least:
            return None
        each = CHUNK // w.dtype.itemsize
        more = -w.shape[1] % each
        if more:
            wide = _wider(win, more)
            if wide is None:
                return None
            win, w = wide, _padded(w, 1, more)
        taps = tuple(range(1, 1 + rank))
        weights = (ir.reshape(w, (w.shape[0], *w.shape[2:], w.shape[1])) if math.prod(w.shape[2:]) == 1 else
                   ir.permute(w, (0, *(a + 1 for a in taps), 1)))
        self.found += 1
        return ir.dot(win, weights, ((*(1 + rank + a for a in taps), 1 + rank), (*taps, 1 + rank)))


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
    if n.prim == "permute" and n.attrs["axes"] in (BACK[FIRST], BACK[DEEP]):
        return ir.permute(_padded(n.args[0], 1, more), n.attrs["axes"])
    return None


def channels_last(program: Program, takes: Callable[[np.dtype], bool]) -> Program:
    """The program with its convolutions channels last, where it has any and computes no gradients through windows."""
    order = program.order()
    if any(n.prim == "unwindow" for n in order) or not any(n.prim == "window" for n in order):
        return program
    if not all(fixed(d) for n in program.inputs for d in n.shape):
        return program
    run = ChannelsLast(program, takes)
    roots = run.run()
    return program.with_roots(roots) if run.found else program
