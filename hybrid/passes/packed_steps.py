"""Packed convolutions of a training step: the step itself packs the weights, as it changes them each time. Forward
convolutions and the gradients of their data, which are convolutions with flipped and transposed weights, take the forms
of inference (``layout.py``), and values between them stay channels last.
"""
from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from .. import ir
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.contraction import convolves, over_any_image
from ..ir.size import fixed, hint
from .axis_orders import is_channels_last, unbordered
from .channels_last import ChannelsLast, over_pixels
from .frozen import Frozen
from .layout import USUAL, Blocking, Conversion

FULL = 0.75                     # least share of the lanes of its vectors that an axis of filters or channels fills
# Least number of vectors that filters, and input channels, fill where vectors have fewer lanes than LONG_VECTOR or the
# program has grouped convolutions, which stay channels first, so that values are transposed between the two layouts. A
# program with depthwise convolutions and short vectors packs all: channels first those take ten times as long.
LEAST_VECTORS = 4
LONG_VECTOR = 16
# Share of a convolution's products inside of the image, below which it is packed with fewer vectors too: the packed
# form skips most of the others (the gradient of LeNet's data: 0.45 of the time)
MOSTLY_BORDER = 0.5


class PackedSteps(ChannelsLast):
    """One run over a program."""

    def __init__(self, program: Program, frozen: frozenset[int], blocking: Blocking):
        super().__init__(program, lambda dtype: dtype == np.float32)
        self.blocking, self._known = blocking, Frozen(program, frozen)
        grouped = any(map(_of_groups, program.order()))
        short = blocking.lanes < LONG_VECTOR and not any(map(_depthwise, program.order()))
        self.least = LEAST_VECTORS * blocking.lanes if grouped or short else 0

    @staticmethod
    def _pays(work: int, between: bool) -> bool:
        """Always: ``_over_taps`` and ``_packed`` refuse what is too small."""
        return True

    def _over_pixels(self, win: Node, w: Node, pixels: Sequence[int], channels: int, side: int) -> Node | None:
        """The gradient of filters, where the data or the gradient of the result lies channels last already."""
        if not over_any_image(win) and not is_channels_last(win) and not _gradient_is_channels_last(w, pixels):
            return None
        return over_pixels(win, w, pixels, channels, side)

    def _moved(self, n: Node) -> Node | None:
        """Also blocks of results put side by side, and windows over images of any height and width."""
        return super()._moved(n) or self._blocks(n) or self._turned(n)

    def _turned(self, n: Node) -> Node | None:
        """Windows over images of any height and width, as channels last, whose kernels take any number of lines."""
        if not over_any_image(n) or n.attrs["axes"] != (2, 3) or n.ndim != 6:
            return None
        if not fixed(n.shape[1]) or not self._fills(n.shape[1], 0):
            return None
        found = self._windows_last(n)
        self.found += found is not None
        return found and self._first(found, 2)

    def _blocks(self, n: Node) -> Node | None:
        """Blocks of results put side by side, as the gradient of a pool whose windows do not overlap."""
        a, rank = n.args[0] if n.prim == "reshape" else n, n.ndim - 2
        if n.prim != "reshape" or a.prim != "permute" or rank not in (2, 3) or a.ndim != 2 + 2 * rank:
            return None
        y, between = a.args[0], [(1 + i, 2 + rank + i) for i in range(rank)]
        batch, *out, channels = y.shape[:2 + rank]
        if a.attrs["axes"] != (0, 1 + rank, *(v for pair in between for v in pair)) or n.shape[:2] != (batch, channels):
            return None
        size = tuple(y.shape[i] * y.shape[j] for i, j in between)
        if n.shape[2:] != size:
            return None
        y = ir.permute(y, (0, *(v for pair in between for v in pair), 1 + rank))
        return self._first(ir.reshape(y, (batch, *size, channels)), rank)

    def _fills(self, channels: int, least: int | None = None) -> bool:
        """Whether so many channels are ``least`` or more, and leave few lanes of their vectors empty."""
        lanes = self.blocking.lanes
        return channels >= max(FULL * -(-channels // lanes) * lanes, self.least if least is None else least)

    def _may_pack(self, w: Node) -> bool:
        """Weights that the step changes; others are packed once, in ``layout.py``."""
        return not self._known(w)

    @staticmethod
    def _least_work(depthwise: bool, between: bool) -> int:
        """Depthwise convolutions of any size: the gradient of a strided one is several, which are added up."""
        return 0 if depthwise else Conversion._least_work(depthwise, between)

    def _packed(self, w: Node, win: Node, shape: tuple[int, ...], groups: int, between: bool,
                may_round_operands: bool) -> Node | None:
        """Depthwise convolutions; those of other groups stay as they are."""
        if not groups == shape[1] == win.shape[1 + len(shape) - 2] or not self._fills(groups):
            return None
        return Conversion._packed(self, w, win, shape, groups, between, False)

    def _of_groups(self, w: Node, axes: tuple[int, int], win: Node, shape: tuple[int, ...]) -> Node | None:
        """The gradient of a depthwise convolution's data."""
        if w.shape[1] > 1 or w.shape[2] > 1 or not self._fills(w.shape[0]):
            return None
        w = ir.reshape(w, (w.shape[0], 1, *w.shape[3:]))
        return Conversion._packed(self, w, win, shape, w.shape[0], True, False)

    def _data_of_groups(self, n: Node) -> Node | None:
        """The gradient of data (N, groups, 1, H, W), as an image of one plane shown channels first."""
        out = super()._data_of_groups(n)
        if out is None or n.ndim != 5 or (found := self._permuted(out.args[0])) is None:
            return out
        return self._first(ir.reshape(found[0], (n.shape[0], 1, *n.shape[3:], n.shape[1])), 3)

    def _filters_of_groups(self, n: Node) -> Node | None:
        """The gradient of a depthwise convolution's filters, where an operand lies channels last already."""
        out = super()._filters_of_groups(n) if _depthwise(n) and n.ndim == 5 else None
        return out if out is not None and any(beneath(a, ("window", "pad", "reshape")).prim != "permute"
                                              for a in out.args) else None

    def _over_taps(self, win: Node, w: Node, taps: Sequence[int], channel: int, rank: int) -> Node | None:
        """The packed convolution, where there is a form for it."""
        kept = [a for a in range(w.ndim) if a not in (*taps, channel)]
        if len(kept) != 1 or rank != 2 or win.prim != "window":
            return None
        least = 0 if _inside(win) < MOSTLY_BORDER else self.least
        if not self._fills(w.shape[kept[0]], least):
            return None
        data = beneath(win, ("window", "pad", "permute", "reshape", "cast"))
        if not self._fills(w.shape[channel], least) and data.prim != "input":
            return None
        if all(w.shape[a] == 1 for a in taps) and not is_channels_last(win):  # a product, as fast in this order
            return None
        w = ir.permute(w, (*kept, channel, *taps))
        batch, *out = win.shape[:1 + rank]
        return Conversion._packed(self, w, win, (batch, w.shape[0], *out), 1, False, False)


def _inside(win: Node) -> float:
    """The share of windows over channels-last data that lies inside of it."""
    x, pads = unbordered(win.args[0], range(win.ndim // 2 + 1))
    share = 1.0
    for i, axis in enumerate(win.attrs["axes"]):
        step, apart, taps, places = (*(win.attrs[k][i] for k in ("stride", "dilation", "size")), win.shape[axis])
        places, long = (max(hint(d), USUAL) if not fixed(d) else d for d in (places, x.shape[axis]))
        met = sum(0 <= y * step + t * apart - pads[axis] < long for y in range(places) for t in range(taps))
        share *= met / max(places * taps, 1)
    return share


def _grouped(n: Node) -> bool:
    """Whether this is a product of a convolution of groups."""
    return n.prim == "dot" and bool(n.attrs["batch"][0]) and convolves(n)


def _depthwise(n: Node) -> bool:
    """Whether this is a product of a convolution whose groups have one filter and one channel."""
    return _grouped(n) and not _of_groups(n)


def _of_groups(n: Node) -> bool:
    """Whether this is a product of a convolution of groups that have more than one filter and one channel."""
    if not _grouped(n):
        return False
    return any(a.shape[own[0] + 1] > 1 for a, own in zip(n.args, n.attrs["batch"]))


def _gradient_is_channels_last(w: Node, pixels: Sequence[int]) -> bool:
    """Whether a gradient lies channels last: its pixels at ``pixels`` come first in memory."""
    return w.prim == "permute" and [w.attrs["axes"][a] for a in pixels] == list(range(len(pixels)))


def packed_steps(program: Program, frozen: frozenset[int], blocking: Blocking,
                 packs: Mapping[Node, str]) -> tuple[Program, dict[Node, str]]:
    """A training step with its convolutions packed, and the packed weights with a line for the report. Programs that
    update nothing, or have symbolic sizes, stay as they are, unless these are heights or widths of images:
    channels-first kernels exist for fixed sizes only."""
    windows = [n for n in program.order() if n.prim == "window"]
    if not windows or not any(map(over_any_image, windows)) and (
            not frozen or not program.updates or not all(fixed(d) for n in program.inputs for d in n.shape)):
        return program, dict(packs)
    run = PackedSteps(program, frozen, blocking)
    roots = run.run()
    return (program.with_roots(roots), {**packs, **run.packs}) if run.packs or run.found else (program, dict(packs))
