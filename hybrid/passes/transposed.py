"""Transposed convolutions with a stride, for inference: ordinary convolutions whose results are put side by side, so
that the layout pass finds them.

With a stride s, results s apart read the same places of the weights (a phase). Either each phase is a convolution of
its own with every s-th weight, or all phases are filters of one, which reads what any of them needs (Shi et al., "Is
the deconvolution layer the same as a convolutional layer?", 2016). What takes fewer products, is taken.
"""
from __future__ import annotations

import math
from typing import Callable, Sequence

import numpy as np

from ..base.records import dataclass
from .. import ir
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.convolution import columns, convolve
from ..ir.node import made_from
from .adjoint import PHASES, padded
from .axis_orders import channels_first_order, channels_last_order
from . import layout
from .layout import Blocking
from .rewrite import rebuild

MOVED = 4                      # products that take as long as one number copied
WASTE = 2.5                    # times the products of the windows, up to which zeros are computed


@dataclass(frozen=True)
class Axis:
    """One axis: length of the data, weights, stride, and which part of the whole result is wanted."""
    length: int
    taps: int
    stride: int
    first: int
    size: int

    def phase(self, r: int) -> tuple[int, int, int]:
        """Results r, r + s, …: their first weight, how many weights, and the place of the data below the first weight
        at the first result."""
        place, weight = divmod(r + self.first, self.stride)
        return weight, max(-(-(self.taps - weight) // self.stride), 0), place

    @property
    def results(self) -> int:
        """Of each phase."""
        return -(-self.size // self.stride)

    @property
    def reach(self) -> tuple[int, int]:
        """The first place of the data that any phase needs for its first result, relative to that, and how many."""
        found = [(place - taps + 1, place) for _, taps, place in map(self.phase, range(self.stride)) if taps]
        low = min((a for a, _ in found), default=0)
        return low, max((b for _, b in found), default=0) - low + 1

    def whole(self) -> "Axis":
        """All results of the windows that the wanted ones come from: fewer places of the data for each, more
        results."""
        begin = self.first // self.stride * self.stride
        return Axis(self.length, self.taps, self.stride, begin,
                    -(-(self.first + self.size) // self.stride) * self.stride - begin)


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution: data (N, C, …), weights (groups, C / groups, F / groups, …)."""
    x: Node
    w: Node
    axes: tuple[Axis, ...]

    @property
    def filters(self) -> int:
        return self.w.shape[0] * self.w.shape[2]

    def products(self, axes: Sequence[Axis], together: bool, lanes: int) -> int:
        """Of both ways, filters rounded up to whole vectors."""
        results = math.prod(a.results for a in axes)
        up = lambda n: n if self.w.shape[0] > 1 else -(-n // lanes) * lanes                # noqa: E731
        if together:
            reach, filters = math.prod(a.reach[1] for a in axes), self.filters * math.prod(a.stride for a in axes)
            return results * reach * up(filters) * self.w.shape[1] * self.x.shape[0]
        taps = sum(math.prod(a.phase(int(r))[1] for a, r in zip(axes, at)) for at in self._each(axes))
        moved = MOVED * results * math.prod(a.stride for a in axes) * self.filters
        return (results * taps * up(self.filters) * self.w.shape[1] + moved) * self.x.shape[0]

    @staticmethod
    def _each(axes: Sequence[Axis]) -> list[tuple[int, ...]]:
        return list(np.ndindex(*(a.stride for a in axes)))

    def together(self, axes: Sequence[Axis], lanes: int) -> Node:
        """All phases as filters of one convolution: (N, results…, strides…, filters)."""
        g, c, f, rank = *self.w.shape[:3], len(axes)
        # zeros, so that each phase begins with a row of weights
        lo = [-a.first % a.stride for a in axes]
        w = ir.pad(self.w, (0, 0, 0, *lo), (0, 0, 0, *(a.reach[1] * a.stride - a.taps - z for a, z in zip(axes, lo))))
        w = ir.reshape(w, (g, c, f, *(d for a in axes for d in (a.reach[1], a.stride))))
        taps, phase = [3 + 2 * i for i in range(rank)], [4 + 2 * i for i in range(rank)]
        begin = [d - 1 if i in taps else 0 for i, d in enumerate(w.shape)]
        step = [-1 if i in taps else 1 for i in range(w.ndim)]
        # the last tap first; group, phases, filter, channel, window
        w = ir.permute(ir.slice(w, begin, w.shape, step), (0, *phase, 2, 1, *taps))
        w = ir.reshape(w, (math.prod(w.shape[:2 + rank]), c, *w.shape[3 + rank:]))
        filters = w.shape[0]
        # a whole vector of them
        w = ir.pad(w, (0,) * w.ndim, (max(lanes - filters, 0), *(0,) * (w.ndim - 1)))
        y = ir.permute(self._convolved(axes, [a.reach[0] for a in axes], w), channels_last_order(rank))
        y = ir.slice(y, (0,) * y.ndim, (*y.shape[:-1], filters))
        phases = tuple(a.stride for a in axes)
        y = ir.reshape(y, (*y.shape[:-1], g, *phases, f))
        back = (*range(1 + rank), *range(2 + rank, 2 + 2 * rank), 1 + rank, 2 + 2 * rank)
        return ir.reshape(ir.permute(y, back), (*y.shape[:1 + rank], *phases, g * f))

    def apart(self, axes: Sequence[Axis], _: int) -> Node:
        """Each phase as a convolution: (N, results…, strides…, filters)."""
        g, c, f, rank = *self.w.shape[:3], len(axes)
        parts = []
        for at in self._each(axes):
            w = self._weights(axes, at)
            low = [a.phase(int(r))[2] - a.phase(int(r))[1] + 1 for a, r in zip(axes, at)]
            w = ir.reshape(ir.permute(w, (0, 2, 1, *range(3, 3 + rank))), (g * f, c, *w.shape[3:]))
            parts.append(ir.permute(self._convolved(axes, low, w), channels_last_order(rank)))
        y = ir.concat(parts, 1 + rank)
        return ir.reshape(y, (*y.shape[:-1], *(a.stride for a in axes), g * f))

    def spread(self) -> Node:
        """Images of one pixel: a product with a matrix."""
        w, rest, rank = self.w, [a.size for a in self.axes], len(self.axes)
        w = ir.reshape(ir.slice(w, (0, 0, 0, *(a.first for a in self.axes)), (*w.shape[:3], *rest)),
                       (*w.shape[1:3], *rest))
        # packed in any case: channels last
        w = ir.permute(w, (0, *range(2, 2 + rank), 1))
        y = ir.dot(ir.reshape(self.x, self.x.shape[:2]), ir.reshape(w, (w.shape[0], math.prod(w.shape[1:]))),
                   ((1,), (0,)))
        return ir.permute(ir.reshape(y, (self.x.shape[0], *w.shape[1:])), channels_first_order(rank))

    def _weights(self, axes: Sequence[Axis], at: Sequence[int]) -> Node:
        """Every s-th weight of a phase, the last first."""
        w, first = self.w, [a.phase(int(r)) for a, r in zip(axes, at)]
        size = (*w.shape[:3], *(taps for _, taps, _ in first))
        begin = (0, 0, 0, *(weight + (taps - 1) * a.stride for a, (weight, taps, _) in zip(axes, first)))
        return ir.slice(w, begin, size, (1, 1, 1, *(-a.stride for a in axes)))

    def _convolved(self, axes: Sequence[Axis], low: Sequence[int], w: Node) -> Node:
        """A convolution with stride 1 of the data from some places on."""
        more = [a.results + k - 1 + at - a.length for a, at, k in zip(axes, low, w.shape[2:])]
        x = padded(self.x, [0, 0, *(-at for at in low)], [0, 0, *more])
        ones = (1,) * len(axes)
        return convolve(x, w, self.w.shape[0], ones, ones, (0,) * len(axes))

    def side_by_side(self, y: Node, axes: Sequence[Axis]) -> Node:
        """(N, results…, strides…, filters) as the wanted part of (N, filters, …)."""
        rank = len(axes)
        y = ir.permute(y, (0, *(i for a in range(rank) for i in (1 + a, 1 + rank + a)), 1 + 2 * rank))
        y = ir.reshape(y, (y.shape[0], *(a.results * a.stride for a in axes), self.filters))
        begin = [own.first - a.first for own, a in zip(self.axes, axes)]
        y = ir.slice(y, (0, *begin, 0), (y.shape[0], *(a.size for a in self.axes), self.filters))
        return ir.permute(y, channels_first_order(rank))


def _found(n: Node) -> Transposed | None:
    """The parts of what the operator Deconvolution gives, perhaps with a part of it cut out."""
    begin, size, y = (0,) * n.ndim, n.shape, n
    if (n.prim == "slice" and set(n.attrs["step"]) == {1} and n.attrs["begin"][:2] == (0, 0)
        and n.shape[:2] == n.args[0].shape[:2]):
        begin, y = n.attrs["begin"], n.args[0]
    rank = n.ndim - 2
    if (y.prim != "unwindow" or rank not in (1, 2, 3) or y.attrs["axes"] != tuple(range(2, n.ndim))
        or set(y.attrs["dilation"]) != {1}):
        return None
    d = beneath(y.args[0], ("reshape", "permute"))
    if d.prim != "dot" or d.attrs["contract"] != ((2,), (1,)) or d.attrs["batch"] != ((1,), (0,)):
        return None
    x, w = d.args
    if (x.ndim != rank + 3 or w.ndim != rank + 3 or columns(x, w) is not y.args[0]
            or set(y.attrs["stride"]) == {1} != set(x.shape[3:])):
        return None
    return Transposed(x, w, tuple(Axis(*a) for a in zip(x.shape[3:], w.shape[3:], y.attrs["stride"], begin[2:],
                                                        size[2:])))


def _taken(t: Transposed, lanes: int) -> Node | None:
    """The convolutions in place of a transposed one; None where it stays as it is."""
    groups, c, f = t.w.shape[:3]
    exact = t.x.size * math.prod(t.w.shape[2:])
    if t.x.dtype != np.float32 or exact < layout.LEAST_WORK or groups > 1 and c > 1:
        return None
    phases, wide = math.prod(a.stride for a in t.axes), tuple(a.whole() for a in t.axes)
    ways: list[tuple[int, int, tuple[Axis, ...], Callable[[Sequence[Axis], int], Node]]] = []
    if groups == 1 and all(a.length == 1 and a.first + a.size <= a.taps for a in t.axes):
        return t.spread()
    if groups == 1 and phases * f >= lanes // 2:
        ways += [(t.products(axes, True, lanes), i, axes, t.together) for i, axes in enumerate((t.axes, wide))]
    if t.filters >= lanes and phases <= PHASES and all(k >= a.stride for a, k in zip(t.axes, t.w.shape[3:])):
        ways.append((t.products(t.axes, False, lanes), 2, t.axes, t.apart))
    if not ways:
        return None
    cost, _, taken, way = min(ways, key=lambda v: v[:2])
    return t.side_by_side(way(taken, lanes), taken) if cost <= WASTE * exact else None


def transposed(program: Program, frozen: frozenset[int], blocking: Blocking) -> Program:
    """The program with convolutions for transposed ones whose weights last."""
    new: dict[Node, Node] = {}
    changed = False
    for n in program.order():
        made_from(n)
        t = _found(n)
        if t is not None and all(m.prim != "input" or m.attrs["slot"] in frozen for m in ir.toposort([t.w])):
            x = new[t.x]
            found = _taken(Transposed(ir.reshape(x, (x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])), t.w, t.axes),
                           blocking.lanes)
            if found is not None:
                new[n], changed = found, True
                continue
        new[n] = rebuild(n, [new[a] for a in n.args])
    return program.with_roots([new[r] for r in program.roots]) if changed else program
