"""Patches of images as columns (im2col, col2im), and patches of two images compared (Correlation)."""
from __future__ import annotations

import math

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .conv import check_window, per_axis
from .registry import Bool, Int, Shape, op


def _extents(sizes: tuple[int, ...], a: Attrs) -> tuple[int, ...]:
    """How many patches there are along each axis."""
    n = len(a.kernel)
    stride, dilate, pad = per_axis(a.stride, n, 1), per_axis(a.dilate, n, 1), per_axis(a.pad, n, 0)
    out = tuple((d + 2 * p - t * (k - 1) - 1) // s + 1 for d, p, t, k, s in zip(sizes, pad, dilate, a.kernel, stride))
    if min(out) < 1:
        raise ShapeError(f"the kernel {a.kernel} with dilation {dilate} is larger than the padded size of {sizes}")
    return out


@op("im2col", "data", kernel=Shape(), stride=Shape(()), dilate=Shape(()), pad=Shape(()))
def im2col(data: Node, a: Attrs) -> Node:
    """Patches of data (N, C, …) as columns: (N, C * taps, patches), as a convolution by a matrix product needs them."""
    n = len(a.kernel)
    if data.ndim != n + 2:
        raise ShapeError(f"a kernel {a.kernel} needs data of {n + 2} axes (batch, channel, {n} spatial), got "
                         f"{data.shape}")
    check_window(a, n)
    _extents(data.shape[2:], a)
    pad = (0, 0, *per_axis(a.pad, n, 0))
    win = ir.window(ir.pad(data, pad, pad), tuple(range(2, 2 + n)), a.kernel, per_axis(a.stride, n, 1),
                    per_axis(a.dilate, n, 1))
    taps = tuple(range(2 + n, 2 + 2 * n))
    out = ir.permute(win, (0, 1, *taps, *range(2, 2 + n)))
    return ir.reshape(out, (data.shape[0], data.shape[1] * math.prod(a.kernel), -1))


@op("col2im", "data", output_size=Shape(), kernel=Shape(), stride=Shape(()), dilate=Shape(()), pad=Shape(()))
def col2im(data: Node, a: Attrs) -> Node:
    """The sum of columns (N, C * taps, patches) at their patches' places: (N, C, *output_size); im2col turned round."""
    n = len(a.kernel)
    taps = math.prod(a.kernel)
    if len(a.output_size) != n or data.ndim not in (2, 3):
        raise ShapeError(f"columns (N, C * taps, patches), and output_size and kernel of equally many numbers are "
                         f"needed, got {data.shape}, {a.output_size}, {a.kernel}")
    check_window(a, n)
    x = data if data.ndim == 3 else ir.reshape(data, (1, *data.shape))
    out = _extents(a.output_size, a)
    if x.shape[1] % taps or x.shape[2] != math.prod(out):
        raise ShapeError(f"columns {data.shape} do not fit: {taps} taps and {math.prod(out)} patches are needed for "
                         f"output_size={a.output_size}")
    channels = x.shape[1] // taps
    y = ir.permute(ir.reshape(x, (x.shape[0], channels, *a.kernel, *out)),
                   (0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n)))
    pad = per_axis(a.pad, n, 0)
    whole = (x.shape[0], channels, *(d + 2 * p for d, p in zip(a.output_size, pad)))
    full = ir.unwindow(y, tuple(range(2, 2 + n)), per_axis(a.stride, n, 1), per_axis(a.dilate, n, 1), whole)
    return ir.slice(full, (0, 0, *pad), (x.shape[0], channels, *a.output_size))


@op("Correlation", "data1 data2", kernel_size=Int(1), max_displacement=Int(1), stride1=Int(1), stride2=Int(1),
    pad_size=Int(0), is_multiply=Bool(True))
def correlation(data1: Node, data2: Node, a: Attrs) -> Node:
    """Patches of data1 (N, C, H, W) compared with those of data2 at all displacements up to max_displacement in steps
    of stride2:
    mean products, or absolute differences with is_multiply=False. (N, displacements, out h, out w). Dosovitskiy et al.,
    "FlowNet" (2015)."""
    if data1.ndim != 4 or data1.shape != data2.shape:
        raise ShapeError(f"two arrays (N, C, H, W) of one shape are needed, got {data1.shape} and {data2.shape}")
    if a.kernel_size < 1 or a.kernel_size % 2 == 0 or min(a.stride1,
                                                          a.stride2) < 1 or min(a.max_displacement, a.pad_size) < 0:
        raise ShapeError(f"kernel_size={a.kernel_size} must be odd, the strides at least 1, max_displacement and "
                         f"pad_size at least 0")
    n, c, h, w = data1.shape
    radius = (a.kernel_size - 1) // 2
    border = a.max_displacement + radius
    out = [-(-(d + 2 * a.pad_size - 2 * border) // a.stride1) for d in (h, w)]
    if min(out) < 1:
        raise ShapeError(f"the picture {(h, w)} is too small for max_displacement={a.max_displacement}, "
                         f"kernel_size={a.kernel_size}, pad_size={a.pad_size}")
    steps = a.max_displacement // a.stride2
    # positions are the middles of patches: border + stride1 * i; the patch begins radius before
    reach = [border + a.stride1 * (m - 1) + a.max_displacement + radius + 1 for m in out]
    spare = [max(0, r - (d + 2 * a.pad_size)) for r, d in zip(reach, (h, w))]
    lo, hi = (0, 0, a.pad_size, a.pad_size), (0, 0, a.pad_size + spare[0], a.pad_size + spare[1])
    x, y = ir.pad(data1, lo, hi), ir.pad(data2, lo, hi)

    def patches(z: Node, down: int, right: int) -> Node:
        first = (0, 0, border - radius + down, border - radius + right)
        size = [a.stride1 * (m - 1) + a.kernel_size for m in out]
        return ir.slice(z, first, (n, c, *size))

    planes = []
    for down in range(-steps, steps + 1):
        for right in range(-steps, steps + 1):
            p, q = patches(x, 0, 0), patches(y, down * a.stride2, right * a.stride2)
            each = p * q if a.is_multiply else ir.map("where", ir.map("ge", p, q), p - q, q - p)
            sums = ir.reduce("sum", each, (1,), True)
            win = ir.window(sums, (2, 3), (a.kernel_size,) * 2, (a.stride1,) * 2, (1, 1))
            planes.append(ir.reduce("sum", win, (4, 5)))
    return ir.concat(planes, 1) * (1.0 / (a.kernel_size ** 2 * c))
