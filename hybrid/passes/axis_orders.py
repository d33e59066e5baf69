"""Axes: orders of convolutions' data, where an axis is in another shape; and a convolution of channels-last data, as
the layout pass speaks of it."""
from __future__ import annotations

import math
from typing import Callable, Sequence

from ..base.records import dataclass
from .. import ir
from ..ir import Node
from ..ir.access import beneath, free_axes
from ..ir.build import make
from ..ir.packed import conv
from ..ir.size import same


def channels_first_order(rank: int) -> tuple[int, ...]:
    """The order of axes that makes (N, C, *size) of (N, *size, C). rank: number of spatial axes."""
    return (0, 1 + rank, *range(1, 1 + rank))


def channels_last_order(rank: int) -> tuple[int, ...]:
    """The order of axes that makes (N, *size, C) of (N, C, *size)."""
    return (0, *range(2, 2 + rank), 1)


def with_axes(n: Node, order: Sequence[int]) -> Node:
    """A value with its first axes in another order."""
    axes = (*order, *range(len(order), n.ndim))
    if n.prim == "expand":
        return ir.expand(with_axes(n.args[0], order), tuple(n.shape[a] for a in axes))
    if sum(not same(d, 1) for d in n.shape) <= 1:
        return ir.reshape(n, tuple(n.shape[a] for a in axes))
    return ir.permute(n, axes)


def permuted_inside_pad(n: Node, axes: Sequence[int], put: Callable[[Node, Sequence[int]], Node] = with_axes) -> Node:
    """Permutes a value by ``put``; a pad around it is kept outside."""
    if n.prim != "pad":
        return put(n, axes)
    lo, hi = (tuple(n.attrs[k][a] for a in axes) for k in ("lo", "hi"))
    return make("pad", (put(n.args[0], axes),), lo=lo, hi=hi, value=n.attrs["value"])


def is_channels_last(win: Node) -> bool:
    """Whether windows are of data that lies channels last already."""
    return beneath(win, ("window", "pad")).prim != "permute"


def unbordered(x: Node, axes: Sequence[int]) -> tuple[Node, tuple[int, ...]]:
    """A value without the zeros around it, and how many stand before it along some axes; itself and none where there
    are others."""
    around = x.prim == "pad" and float(x.attrs["value"]) == 0 and not any(
        x.attrs[k][a] for k in ("lo", "hi") for a in range(x.ndim) if a not in axes)
    return (x.args[0], tuple(x.attrs["lo"][a] for a in axes)) if around else (x, (0,) * len(axes))


def same_axis(shape: Sequence[int], other: Sequence[int], axis: int) -> int | None:
    """The axis of another shape of the same numbers that has the same elements, or None."""
    before = math.prod(shape[:axis])
    return next((i for i, d in enumerate(other) if d == shape[axis] and math.prod(other[:i]) == before), None)


def axis_in(n: Node, i: int, axis: int) -> int | None:
    """Where an axis of argument i of a node is in the node; None where it is summed over, or one with others."""
    if n.prim == "permute":
        return n.attrs["axes"].index(axis)                                  # type: ignore[no-any-return]
    if n.prim == "reshape":
        return same_axis(n.args[i].shape, n.shape, axis)
    if n.prim == "reduce":
        return None if axis in n.attrs["axes"] else axis - sum(a < axis for a in n.attrs["axes"])
    if n.prim == "dot":
        (first, second), free = n.attrs["batch"], free_axes(n)
        every = [*(second if i else first), *(-1 for _ in free[0] if i), *free[i]]
        return every.index(axis) if axis in every else None
    return axis


def axis_below(n: Node, i: int, axis: int) -> int | None:
    """Where an axis of a node comes from in its argument i; None where that is the same all along it."""
    x = n.args[i]
    if n.prim == "reshape":
        return same_axis(n.shape, x.shape, axis)
    found = next((a for a in range(x.ndim) if axis_in(n, i, a) == axis), None)
    return found if found is None or x.shape[found] == n.shape[axis] else None


def line(n: Node, order: tuple[int, ...]) -> Node:
    """A value, in an order (N, W, C), as (N, 1, W, C); zeros around it stay outside."""
    if n.prim == "pad":
        lo, hi = ((n.attrs[k][0], 0, *(n.attrs[k][a] for a in order[1:])) for k in ("lo", "hi"))
        return make("pad", (line(n.args[0], order),), lo=lo, hi=hi, value=n.attrs["value"])
    return ir.reshape(ir.permute(n, order), (n.shape[0], 1, *(n.shape[a] for a in order[1:])))


@dataclass(frozen=True)
class Window:
    """A convolution of channels-last data x with weights w (filters, C, *kernel), for a result of a shape (N, *out,
    filters); pads: zeros before the first."""
    x: Node
    w: Node
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    pads: tuple[int, ...]
    shape: tuple[int, ...]

    def conv(self, x: Node, packed: Node, form: str, groups: int = 1, zero: int = 0, together: int = 1) -> Node:
        """Of other data, with packed weights. zero: what stands beyond the data. together: groups that are computed as
        one."""
        return conv(x, packed, form, self.kernel, self.stride, self.dilate, self.pads, self.shape[1:-1],
                    self.shape[-1], groups=groups, zero=zero, together=together)

    def flat(self) -> Window:
        """The convolution of a volume as one of images where its taps lie in a plane, of planes of one line where
        they lie in a column; else itself."""
        n, depth, *plane, channels = self.x.shape
        out = self.shape[1:-1]
        if len(self.kernel) != 3:
            return self
        inside = not any(self.pads)
        if self.kernel[0] == self.stride[0] == 1 and not self.pads[0] and out[0] == depth:
            return self._as((n * depth, *plane), (n * depth, *out[1:]), slice(1, 3))
        # planes between are lines below a plane that no window reaches
        if self.kernel == (1, 1, 1) and inside and depth == out[0] * self.stride[0]:
            return self._as((n * out[0], self.stride[0] * plane[0], plane[1]), (n * out[0], *out[1:]), slice(1, 3))
        if self.kernel[1:] == self.stride[1:] == (1, 1) and not any(self.pads[1:]) and list(out[1:]) == plane:
            return self._as((n, depth, 1, math.prod(plane)), (n, out[0], 1, math.prod(plane)), slice(0, 3))
        return self

    def _as(self, data: Sequence[int], out: Sequence[int], kept: slice) -> Window:
        """Of data and results of other shapes, with some axes of the kernel."""
        x, w = ir.reshape(self.x,
                          (*data, self.x.shape[-1])), ir.reshape(self.w, (*self.w.shape[:2], *self.kernel[kept]))
        return Window(x, w, self.kernel[kept], self.stride[kept], self.dilate[kept], self.pads[kept],
                      (*out, self.shape[-1]))
