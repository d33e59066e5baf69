"""Convolutions that sample where learned offsets say: deformable (Dai et al. 2017) and modulated deformable (Zhu et al.
2018)."""
from __future__ import annotations

from typing import Any

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .conv import check_window, per_axis
from .registry import Bool, Enum, Int, Shape, op

_ATTRS: dict[str, Any] = {"kernel": Shape(), "stride": Shape(()), "dilate": Shape(()), "pad": Shape(()),
                          "num_filter": Int(), "num_group": Int(1),
                          "num_deformable_group": Int(1), "workspace": Int(1024), "no_bias": Bool(False),
                          "layout": Enum(None, "NCHW", "NCW", "NCDHW")}


def _params(shapes: list, a: Attrs) -> list:
    """Weight and bias from the data's shape; they are the last inputs."""
    at = next(i for i in (2, 3) if i >= len(shapes) - (1 if a.no_bias else 2))
    if shapes[0] is not None and shapes[0][1] > 0:
        shapes[at] = (a.num_filter, shapes[0][1] // a.num_group, *a.kernel)
    if len(shapes) > at + 1 and not a.no_bias:
        shapes[at + 1] = (a.num_filter,)
    return shapes


class _Geometry:
    """Sizes of one call."""

    def __init__(self, data: Node, offset: Node, weight: Node, a: Attrs):
        if data.ndim != 4 or len(a.kernel) != 2:
            raise ShapeError(f"data (N, C, H, W) and a kernel of two lengths are needed, got {data.shape} and "
                             f"{a.kernel}")
        check_window(a, 2)
        self.stride, self.dilate, self.pad = per_axis(a.stride, 2, 1), per_axis(a.dilate, 2, 1), per_axis(a.pad, 2, 0)
        self.n, self.c, self.h, self.w = data.shape
        self.groups, self.parts, self.kernel = a.num_group, a.num_deformable_group, tuple(a.kernel)
        self.out = tuple((d + 2 * p - t * (k - 1) - 1) // s + 1
                         for d, p, t, k, s in zip((self.h, self.w), self.pad, self.dilate, self.kernel, self.stride))
        if min(self.groups,
               self.parts) < 1 or self.c % self.groups or self.c % self.parts or a.num_filter % self.groups:
            raise ShapeError(f"{self.c} channels and {a.num_filter} filters must be divided by "
                             f"num_group={self.groups}, the channels by num_deformable_group={self.parts}")
        if min(self.out) < 1:
            raise ShapeError(f"the kernel {self.kernel} with dilation {self.dilate} is larger than the padded input")
        taps = self.kernel[0] * self.kernel[1]
        self.check("offset", offset, (self.n, 2 * self.parts * taps, *self.out))
        self.check("weight", weight, (a.num_filter, self.c // self.groups, *self.kernel))

    @staticmethod
    def check(name: str, x: Node, wanted: tuple[int, ...]) -> None:
        """One clear error for a wrong shape."""
        if x.shape != wanted:
            raise ShapeError(f"{name} must be {wanted}, got {x.shape}")

    def places(self, offset: Node) -> list[Node]:
        """Rows and columns that are read, each (N, parts, taps, out h, out w)."""
        kh, kw = self.kernel
        parts = ir.reshape(offset, (self.n, self.parts, kh * kw, 2, *self.out))
        found = []
        for axis in (0, 1):
            own = ir.reshape(ir.slice(parts, (0, 0, 0, axis, 0, 0), (self.n, self.parts, kh * kw, 1, *self.out)),
                             (self.n, self.parts, kh, kw, *self.out))
            tap = ir.reshape(ir.cast(ir.iota(self.kernel[axis]), offset.dtype),
                             tuple(self.kernel[axis] if i == 2 + axis else 1 for i in range(6)))
            step = ir.reshape(ir.cast(ir.iota(self.out[axis]), offset.dtype),
                              tuple(self.out[axis] if i == 4 + axis else 1 for i in range(6)))
            place = own + (tap * self.dilate[axis] + (step * self.stride[axis] - self.pad[axis]))
            found.append(ir.reshape(place, (self.n, self.parts, kh * kw, *self.out)))
        return found

    def read(self, data: Node, corners: list[tuple[Node, Node, Node]]) -> Node:
        """Sums over corners (row, column, weight) of data's values: (N, C, taps, out h, out w)."""
        each = self.c // self.parts
        flat = ir.reshape(ir.permute(ir.reshape(data, (self.n, self.parts, each, self.h * self.w)), (2, 0, 1, 3)),
                          (each, -1))
        base = ir.reshape(ir.iota(self.n * self.parts) * (self.h * self.w), (self.n, self.parts, 1, 1, 1))
        out: Node | None = None
        for row, column, weight in corners:
            part = ir.gather(flat, base + row * self.w + column, 1) * weight
            out = part if out is None else out + part
        assert out is not None
        return ir.reshape(ir.permute(out, (1, 2, 0, 3, 4, 5)), (self.n, self.c, *out.shape[3:]))

    def contract(self, columns: Node, weight: Node) -> Node:
        """The sampled values with the weights: (N, filters, out h, out w)."""
        g, taps, filters = self.groups, columns.shape[2], weight.shape[0]
        x = ir.reshape(columns, (self.n, g, self.c // g, taps, *self.out))
        w = ir.reshape(weight, (g, filters // g, self.c // g, taps))
        y = ir.dot(w, x, ((2, 3), (2, 3)), ((0,), (1,)))                              # group, filter, N, out h, out w
        return ir.reshape(ir.permute(y, (2, 0, 1, 3, 4)), (self.n, filters, *self.out))


def _index(x: Node, n: int) -> Node:
    return ir.map("minimum", ir.map("maximum", ir.cast(x, dt.int64), 0), n - 1)


def _with_bias(out: Node, bias: Node | None, a: Attrs) -> Node:
    if bias is None or a.no_bias:
        return out
    _Geometry.check("bias", bias, (a.num_filter,))
    return out + ir.reshape(bias, (1, a.num_filter, 1, 1))


@op("_contrib_DeformableConvolution", "data offset weight bias?", mx=("contrib.DeformableConvolution",),
    npx=("deformable_convolution",),
    json=("_npx_deformable_convolution",), params=_params, takes={"bias": lambda a: not a.no_bias}, **_ATTRS)
def deformable_convolution(data: Node, offset: Node, weight: Node, bias: Node | None, a: Attrs) -> Node:
    """Convolution whose taps are moved by offset (N, 2 * num_deformable_group * taps, out h, out w): for each tap its
    move down, then right, in pixels. Between pixels it reads bilinearly; beyond the image 0, past the last pixel's
    centre that pixel."""
    size = _Geometry(data, offset, weight, a)
    places = size.places(offset)
    inside: Node | None = None
    parts: list[list[tuple[Node, Node]]] = []
    for place, length in zip(places, (size.h, size.w)):
        here = ir.map("logical_and", ir.map("ge", place, 0), ir.map("lt", place, length))
        inside = here if inside is None else ir.map("logical_and", inside, here)
        held = ir.map("minimum", place, length - 1)
        low = ir.map("floor", held)
        parts.append([(_index(low, length), low + 1 - held), (_index(low + 1, length), held - low)])
    assert inside is not None
    corners = [(row, column, ir.map("where", inside, ww * wh, 0)) for row, wh in parts[0] for column, ww in parts[1]]
    return _with_bias(size.contract(size.read(data, corners), weight), bias, a)


@op("_contrib_ModulatedDeformableConvolution", "data offset mask weight bias?",
    mx=("contrib.ModulatedDeformableConvolution",),
    npx=("modulated_deformable_convolution",), json=("_npx_modulated_deformable_convolution",), params=_params,
    takes={"bias": lambda a: not a.no_bias},
    im2col_step=Int(64), **_ATTRS)
def modulated_deformable_convolution(data: Node, offset: Node, mask: Node, weight: Node, bias: Node | None,
                                     a: Attrs) -> Node:
    """Deformable convolution with a factor for each tap: mask (N, num_deformable_group * taps, out h, out w). What is
    read fades to 0 within one pixel beyond the image."""
    size = _Geometry(data, offset, weight, a)
    taps = size.kernel[0] * size.kernel[1]
    size.check("mask", mask, (size.n, size.parts * taps, *size.out))
    factor = ir.reshape(mask, (size.n, size.parts, taps, *size.out))
    parts: list[list[tuple[Node, Node]]] = []
    for place, length in zip(size.places(offset), (size.h, size.w)):
        low = ir.map("floor", place)
        sides = []
        for at, weight_of in ((low, low + 1 - place), (low + 1, place - low)):
            here = ir.map("logical_and", ir.map("ge", at, 0), ir.map("le", at, length - 1))
            sides.append((_index(at, length), ir.map("where", here, weight_of, 0)))
        parts.append(sides)
    corners = [(row, column, ww * wh * factor) for row, wh in parts[0] for column, ww in parts[1]]
    return _with_bias(size.contract(size.read(data, corners), weight), bias, a)
