"""Packed convolutions of a training step: weights, which each step changes, are put in order as a part of it. Forward
convolutions and the gradients of their data, which are convolutions with flipped and transposed weights, take the forms
of inference (``layout.py``), and values between them stay channels last.
"""
from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from .. import ir
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.size import fixed
from .channels_last import ChannelsLast
from .frozen import Frozen
from .layout import Blocking, Conversion

# a convolution is packed where its filters and its channels fill at least so many vectors each: with fewer, the
# gradient of its filters, channels last, would not fill whole tiles
TILE = 4


class PackedSteps(ChannelsLast):
    """One run over a program."""

    def __init__(self, program: Program, frozen: frozenset[int], blocking: Blocking):
        super().__init__(program, lambda dtype: dtype == np.float32)
        self.blocking, self._known = blocking, Frozen(program, frozen)

    @staticmethod
    def _pays(work: int, between: bool) -> bool:
        """Always: ``_over_taps`` and ``_packed`` refuse what is too small."""
        return True

    def _over_pixels(self, win: Node, w: Node, pixels: Sequence[int], channels: int, side: int) -> Node | None:
        """The gradient of filters, where the data lies channels last already."""
        return super()._over_pixels(win, w, pixels, channels, side) if _last(win) else None

    def _moved(self, n: Node) -> Node | None:
        """As in inference: where all arguments are channels last."""
        return Conversion._moved(self, n)

    def _may_pack(self, w: Node) -> bool:
        """Weights that the step changes; others are packed once, in ``layout.py``."""
        return not self._known(w)

    def _packed(self, w: Node, win: Node, shape: tuple[int, ...], groups: int, between: bool,
                rounded: bool) -> Node | None:
        """Convolutions of groups stay as they are."""
        return None

    def _over_taps(self, win: Node, w: Node, taps: Sequence[int], channel: int, rank: int) -> Node | None:
        """The packed convolution, where there is a form for it."""
        kept = [a for a in range(w.ndim) if a not in (*taps, channel)]
        if len(kept) != 1 or rank != 2 or min(w.shape[kept[0]], w.shape[channel]) < TILE * self.blocking.lanes:
            return None
        if all(w.shape[a] == 1 for a in taps) and not _last(win):     # a product, as fast in the order that is there
            return None
        w = ir.permute(w, (*kept, channel, *taps))
        batch, *out = win.shape[:1 + rank]
        return Conversion._packed(self, w, win, (batch, w.shape[0], *out), 1, False, False)


def _last(win: Node) -> bool:
    """Whether windows are of data that lies channels last already."""
    return beneath(win, ("window", "pad")).prim != "permute"


def packed_steps(program: Program, frozen: frozenset[int], blocking: Blocking,
                 packs: Mapping[Node, str]) -> tuple[Program, dict[Node, str]]:
    """A training step with its convolutions packed, and the packed weights with a line for the report. Programs that
    change nothing, or whose sizes a call gives, stay as they are."""
    if not program.updates or not all(fixed(d) for n in program.inputs for d in n.shape):
        return program, dict(packs)
    if not any(n.prim == "window" for n in program.order()):
        return program, dict(packs)
    run = PackedSteps(program, frozen, blocking)
    roots = run.run()
    return (program.with_roots(roots), {**packs, **run.packs}) if run.packs else (program, dict(packs))
