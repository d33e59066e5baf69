"""Adjoints of sliding windows in forms that fuse: windows that do not overlap are moved, and the gradient of a
convolution with respect to its data is a convolution of the padded gradient with the flipped weights (Dumoulin and
Visin, "A guide to convolution arithmetic for deep learning", 2016), so that no matrix of columns is stored.
"""
from __future__ import annotations

import math
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from ..base.records import dataclass
from .. import ir
from ..ir import Node
from ..ir.access import ELEMENTWISE, beneath, free_axes
from ..ir.contraction import with_windows
from ..ir.size import Int, at_least, fixed, greater, smaller
from .rewrite import over

PHASES = 16                    # convolutions up to which the gradient of a strided one is taken apart
FEW_MORE = 8                    # of a symbolic length: results of a phase beyond the windows, fewer than this many
TAPS = 16                      # elements of a window up to which those of a computed value are added one by one


def apart(n: Node) -> Node | None:
    """Windows that do not overlap are put side by side, with zeros between and after them."""
    axes, stride, dilation = n.attrs["axes"], n.attrs["stride"], n.attrs["dilation"]
    y, rank = n.args[0], n.ndim
    size = y.shape[rank:]
    # one window overlaps with none
    stride = tuple(max(s, k) if y.shape[a] == 1 else s for a, s, k in zip(axes, stride, size))
    if any(k > s or (d > 1 and k > 1) for k, s, d in zip(size, stride, dilation)):
        return None
    room = [0] * rank + [s - k for k, s in zip(size, stride)]
    y = ir.pad(y, (0,) * y.ndim, room)
    order: list[int] = []
    for i in range(rank):
        order += [i, rank + axes.index(i)] if i in axes else [i]
    y = ir.permute(y, order)
    y = ir.reshape(y, [n.args[0].shape[i] * (stride[axes.index(i)] if i in axes else 1) for i in range(rank)])
    y = ir.slice(y, (0,) * rank, [smaller(a, b) for a, b in zip(y.shape, n.shape)])
    return ir.pad(y, (0,) * rank, [b - a for a, b in zip(y.shape, n.shape)])


def taps_apart(n: Node) -> Node | None:
    """Overlapping windows of an elementwise value, added up without scattering (the gradient of max pooling): results
    are split by their position modulo the stride, the phase, and each phase is a sum of shifted slices, one for each
    element of a window that falls on it. None where windows do not overlap or are too large."""
    axes, stride, dilation = n.attrs["axes"], n.attrs["stride"], n.attrs["dilation"]
    y, rank = n.args[0], n.ndim
    size = y.shape[rank:]
    beside = any(k < s for k, s in zip(size, stride)) or all(k <= s for k, s in zip(size, stride))
    if (y.prim not in ELEMENTWISE or math.prod(size) > TAPS or max(stride) == 1 or beside or max(dilation) > 1
            or not all(fixed(d) for a, d in enumerate(y.shape) if a not in axes)):
        return None
    y = _positions_in_floats(y)

    def of_phase(phase: tuple[int, ...]) -> Node:
        out: Node | None = None
        for tap in np.ndindex(*size):
            if any((t - at) % s for t, at, s in zip(tap, phase, stride)):
                continue
            lo, hi = [0] * rank, [0] * rank
            for axis, t, s in zip(axes, tap, stride):
                lo[axis] = t // s
                hi[axis] = _places(n.shape[axis], s, 0, y.shape[axis]) - y.shape[axis] - lo[axis]
            one = padded(_at_tap(y, rank, tap), lo, hi)
            out = one if out is None else out + one
        assert out is not None
        return out
    return _interleaved_sum(n, ((phase, of_phase(phase)) for phase in np.ndindex(*stride)))


def _operands(y: Node) -> list[Node]:
    """The values from which elementwise functions compute a value."""
    return [m for m in ir.reached([y], lambda m: m.prim in ELEMENTWISE) if m.prim not in ELEMENTWISE]


def _positions_in_floats(y: Node) -> Node:
    """A function of positions within windows, which vectors of float32 hold, or the same value where it is of other
    integers."""
    positions = [beneath(m, ("expand", "reshape")) for m in _operands(y) if m.dtype.kind in "iu"]
    if not all(p.prim in ("argreduce", "iota") for p in positions):
        return y
    return over([y], {p: ir.cast(p, np.float32) for p in positions})[0]


def _at_tap(y: Node, rank: int, tap: tuple[int, ...]) -> Node:
    """Elementwise functions of one element of all windows, whose axes come after ``rank`` others."""
    given: dict[Node, Node] = {}
    for m in _operands(y):
        if m.shape == y.shape:
            one = ir.slice(m, [*[0] * rank, *tap], [*m.shape[:rank], *[1] * len(tap)])
            given[m] = ir.reshape(one, m.shape[:rank])
    return over([y], given)[0]


def _interleaved_sum(shown: Node, parts: Iterable[tuple[tuple[int, ...], Node]]) -> Node | None:
    """Results of the phases of a step, each where it belongs."""
    out: Node | None = None
    for phase, part in parts:
        for axis, s, at in zip(shown.attrs["axes"], shown.attrs["stride"], phase):
            part = _spread(part, axis, s, at, shown.shape[axis])
        out = part if out is None else out + part
    return out


def of_product(n: Node) -> Node | None:
    """unwindow of a contraction of weights with a gradient: a contraction of weights with windows, for each phase of
    the stride."""
    found = _below_reshape(n)
    return None if found is None else _phases(*found, n)


def cropped(n: Node) -> Node | None:
    """A slice of windows' sums, which leaves out the forward pass's padding, as a convolution that computes this part
    alone: the gradient is padded by less, and nothing is copied. None for other slices, and where windows lie apart or
    have a stride: results of those are put together before the slice."""
    u, begin = n.args[0], n.attrs["begin"]
    if u.prim != "unwindow" or {*n.attrs["step"], *u.attrs["stride"]} != {1} or apart(u) is not None:
        return None
    axes, found = u.attrs["axes"], _below_reshape(u)
    if found is None or any(n.shape[a] != d for a, d in enumerate(u.shape) if a not in axes):
        return None
    (whole, p), grad = found, found[1].dot.args[1 - found[1].side]
    for a, i, k, d in zip(axes, p.places, u.args[0].shape[u.ndim:], u.attrs["dilation"]):
        beyond = max(begin[a] - (k - 1) * d, 0) + max(grad.shape[i] - begin[a] - n.shape[a], 0)
        if grad.shape[i] <= beyond:                          # zeros alone
            return None
    shape, own = list(whole.shape), whole.attrs["axes"]
    for a, i in zip(axes, own):
        shape[i] = n.shape[a]
    return ir.reshape(_convolved(tuple(shape), own, u.attrs["dilation"], p, p.dot.args[p.side],
                                 [begin[a] for a in axes]), n.shape)


def spread_product(n: Node) -> Product | None:
    """The contraction that is spread by windows, if it is one of weights with a gradient."""
    y, order = n.args[0], list(range(n.args[0].ndim))
    while y.prim == "permute":
        order = [y.attrs["axes"][i] for i in order]
        y = y.args[0]
    if y.prim != "dot":
        return None
    homes = _homes(y)
    kernel = [homes[order[n.ndim + j]] for j in range(len(n.attrs["axes"]))]
    places = [homes[order[a]] for a in n.attrs["axes"]]
    for side in (0, 1):
        if all(h is not None and h[0] == side for h in kernel) and all(h is not None and h[0] == 1 - side
                                                                       for h in places):
            return Product(y, order, side, tuple(h[1] for h in kernel),     # type: ignore[index]
                           tuple(h[1] for h in places))                     # type: ignore[index]
    return None


def _below_reshape(n: Node) -> tuple[Node, Product] | None:
    """A sum of windows, and the product whose results the windows hold; None for other nodes. Where groups and their
    channels were put together before the windows, the sum given here is one that does so after them."""
    y = n.args[0]
    if y.prim != "reshape":
        found = spread_product(n)
        return None if found is None else (n, found)
    inner, first = y.args[0], min(n.attrs["axes"])
    last = y.ndim - first                                    # axes from the first window on
    if inner.ndim < last or inner.shape[inner.ndim - last:] != y.shape[first:]:
        return None
    more = inner.ndim - y.ndim
    lead = inner.shape[:inner.ndim - last]
    apart = ir.unwindow(inner, [a + more for a in n.attrs["axes"]], n.attrs["stride"], n.attrs["dilation"],
                        (*lead, *n.shape[first:]))
    p = spread_product(apart)
    return None if p is None else (apart, p)


@dataclass(frozen=True)
class Product:
    """A contraction of weights with a gradient: ``order`` of its axes, operand ``side`` the weights, their ``kernel``
    axes and the ``places`` of the gradient that go with them.
    """
    dot: Node
    order: Sequence[int]
    side: int
    kernel: tuple[int, ...]
    places: tuple[int, ...]


def _phases(n: Node, p: Product, shown: Node) -> Node | None:
    """With a stride s, results s apart make a convolution with every s-th weight; each is put where it belongs. shown:
    n with the axes before its windows as others want them."""
    axes, stride, dilation = n.attrs["axes"], n.attrs["stride"], n.attrs["dilation"]
    weights = p.dot.args[p.side]
    if all(s == 1 for s in stride):
        return ir.reshape(_convolved(n.shape, axes, dilation, p, weights), shown.shape)
    if any(d > 1 for d in dilation) or math.prod(stride) > PHASES:
        return None
    lead, first = shown.shape[:min(shown.attrs["axes"])], min(axes)

    def parts() -> Iterator[tuple[tuple[int, ...], Node]]:
        grad = p.dot.args[1 - p.side]
        for phase in np.ndindex(*stride):
            begin, step, shape = [0] * weights.ndim, [1] * weights.ndim, list(n.shape)
            for a, axis, s, at, i in zip(p.kernel, axes, stride, phase, p.places):
                begin[a], step[a], shape[axis] = at, s, _places(n.shape[axis], s, at, grad.shape[i])
            if any(at >= weights.shape[a] for a, at in zip(p.kernel, phase)) or 0 in shape:
                continue                                     # no weight meets these
            size = [-(-(d - b) // t) for d, b, t in zip(weights.shape, begin, step)]
            part = _convolved(tuple(shape), axes, dilation, p, ir.slice(weights, begin, size, step))
            yield phase, ir.reshape(part, (*lead, *part.shape[first:]))
    return _interleaved_sum(shown, parts())


def _places(length: Int, step: int, first: int, windows: Int) -> Any:
    """How many results of one phase are computed along an axis; ``_spread`` leaves out those beyond its length. For a
    symbolic length: the windows, and the least number more that is enough for all lengths. That is the same for each
    phase, so that no guard is needed that asks whether a length is odd."""
    if not fixed(length):
        for more in range(FEW_MORE):
            if at_least((windows + more) * step - length, 0):
                return windows + more
    return -(-(length - first) // step)


def _spread(x: Node, axis: int, step: int, first: int, length: int) -> Node:
    """x at every ``step``-th place of an axis from ``first`` on, zeros elsewhere."""
    if step == 1:
        return x
    lo, hi = [0] * (x.ndim + 1), [0] * (x.ndim + 1)
    lo[axis + 1], hi[axis + 1] = first, step - 1 - first
    count = x.shape[axis]
    cells = ir.pad(ir.reshape(x, (*x.shape[:axis + 1], 1, *x.shape[axis + 1:])), lo, hi)
    x = ir.reshape(cells, (*x.shape[:axis], count * step, *x.shape[axis + 1:]))
    size = [smaller(length, d) if a == axis else d for a, d in enumerate(x.shape)]
    x = ir.slice(x, (0,) * x.ndim, size)
    return ir.pad(x, (0,) * x.ndim, [length - d if a == axis else 0 for a, d in enumerate(size)])


def _homes(dot: Node) -> list[tuple[int, int] | None]:
    """For each axis of a contraction the operand and the axis it comes from; None for batch axes."""
    free = [(side, a) for side, axes in enumerate(free_axes(dot)) for a in axes]
    return [*[None] * len(dot.attrs["batch"][0]), *free]


def _convolved(shape: tuple[int, ...], axes: Sequence[int], dilation: Sequence[int], p: Product, weights: Node,
               first: Sequence[int] = (0, 0, 0)) -> Node:
    """The part of the result with this shape, for stride 1: the flipped weights over windows of the padded gradient.
    first: where the part begins along each of the axes."""
    dot, side, grad = p.dot, p.side, p.dot.args[1 - p.side]
    size = [weights.shape[a] for a in p.kernel]
    begin, step = [0] * weights.ndim, [1] * weights.ndim
    for a in p.kernel:
        begin[a], step[a] = weights.shape[a] - 1, -1
    weights = ir.slice(weights, begin, weights.shape, step)
    lo, hi = [0] * grad.ndim, [0] * grad.ndim
    for a, axis, k, d, at in zip(p.places, axes, size, dilation, first):
        lo[a] = (k - 1) * d - at
        hi[a] = at + shape[axis] - grad.shape[a]
    view = ir.window(padded(grad, lo, hi), p.places, size, (1,) * len(p.places), dilation)
    contract = [list(dot.attrs["contract"][0]), list(dot.attrs["contract"][1])]
    contract[side] += p.kernel
    contract[1 - side] += range(grad.ndim, view.ndim)
    operands = (weights, view) if side == 0 else (view, weights)
    out = ir.dot(*operands, (contract[0], contract[1]), dot.attrs["batch"])
    # axes of the old contraction that remain
    left = [i for i, h in enumerate(_homes(dot)) if h is None or h[0] != side or h[1] not in p.kernel]
    return ir.permute(out, [left.index(p.order[i]) for i in range(len(shape))])


def padded(x: Node, lo: Sequence[int], hi: Sequence[int]) -> Node:
    """Padding, which is a slice where it is negative."""
    x = ir.slice(x, [greater(-a, 0) for a in lo],
                 [d - greater(-a, 0) - greater(-b, 0) for d, a, b in zip(x.shape, lo, hi)])
    return ir.pad(x, [greater(a, 0) for a in lo], [greater(b, 0) for b in hi])


def plane_by_plane(n: Node) -> Node | None:
    """The gradient of a volume's filters, a sum over all places of a gradient times windows with a border in depth: for
    each tap of the depth the sum over those planes that it meets, as of images. These have a form without gathered
    windows (codegen/printers/convolutions/weight_gradient.py).
    """
    side = with_windows(n, 3, (0, 2, 3, 4))
    if side is None or n.args[side].args[0].prim != "pad":
        return None
    contract = n.attrs["contract"]
    win, grad = n.args[side], n.args[1 - side]
    border, at = win.args[0].attrs, contract[1 - side][contract[side].index(2)]
    if border["value"] or not (border["lo"][2] or border["hi"][2]) or min(*border["lo"], *border["hi"]) < 0:
        return None
    (taps, *size), (step, *stride), (apart_, *dilation) = (win.attrs[k] for k in ("size", "stride", "dilation"))
    x = ir.pad(win.args[0].args[0], (*border["lo"][:2], 0, *border["lo"][3:]),
               (*border["hi"][:2], 0, *border["hi"][3:]))
    axis, parts = 1 + (n.ndim - 4 if side else 0), []
    for t in range(taps):
        met = [z for z in range(win.shape[2]) if 0 <= z * step + t * apart_ - border["lo"][2] < x.shape[2]]
        if not met:
            return None
        planes = ir.slice(x, (0, 0, met[0] * step + t * apart_ - border["lo"][2], 0, 0),
                          (*x.shape[:2], len(met), *x.shape[3:]), (1, 1, step, 1, 1))
        some = ir.slice(grad, [met[0] if a == at else 0 for a in range(grad.ndim)],
                        [len(met) if a == at else d for a, d in enumerate(grad.shape)])
        windows = ir.window(planes, (3, 4), size, stride, dilation)
        first, second = (some, windows) if side else (windows, some)
        parts.append(ir.reshape(ir.dot(first, second, contract), (*n.shape[:axis], 1, *n.shape[axis + 1:])))
    return ir.concat(parts, axis)
