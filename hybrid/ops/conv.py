"""Convolution and resampling."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from ..ir.convolution import columns, convolve
from ..ir.primitives import positions
from .attributes import Attrs, written
from .registry import Bool, Enum, Float, Int, Shape, Str, op

EMBEDDED = 4096                        # numbers of one constant in a program; longer ones are computed
LAYOUTS = ("NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC")


def per_axis(given: Sequence[int], n: int, default: int) -> tuple[int, ...]:
    """One number an axis; the default where none is given."""
    return tuple(given) if given else (default,) * n


def check_window(a: Attrs, n: int) -> None:
    """Kernel, stride and dilation of at least 1, padding of at least 0, one number each for the n spatial axes."""
    for name, least in (("kernel", 1), ("stride", 1), ("dilate", 1), ("pad", 0)):
        given = a.asdict().get(name)
        if given and (len(given) != n or min(given) < least):
            raise ShapeError(f"{name}={tuple(given)} must have {n} numbers of at least {least}")


def _geometry(data: Node, a: Attrs) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    n = len(a.kernel)
    if data.ndim != n + 2:
        raise ShapeError(f"a kernel {a.kernel} needs data of {n + 2} axes (batch, channel, {n} spatial), got "
                         f"{data.shape}")
    check_window(a, n)
    return n, per_axis(a.stride, n, 1), per_axis(a.dilate, n, 1), per_axis(a.pad, n, 0)


def is_channels_last(layout: str | None) -> bool:
    """Whether a layout such as "NHWC" ends with the channels."""
    return bool(layout) and layout[-1] == "C"            # type: ignore[index]


def to_channels_first(x: Node) -> Node:
    """N…C to NC…"""
    return ir.permute(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def to_channels_last(x: Node) -> Node:
    """NC… to N…C."""
    return ir.permute(x, (0, *range(2, x.ndim), 1))


def conv_params(shapes: list, a: Attrs) -> list:
    """Weight and bias from the data's shape."""
    data = shapes[0]
    if data is not None:
        last = is_channels_last(a.layout)
        channels = data[-1] if last else data[1]
        if channels > 0:
            group = channels // a.num_group
            shapes[1] = (a.num_filter, *a.kernel, group) if last else (a.num_filter, group, *a.kernel)
    if len(shapes) > 2 and not a.no_bias:
        shapes[2] = (a.num_filter,)
    return shapes


def _columns(x: np.ndarray, kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int],
             out: Sequence[int]) -> np.ndarray:
    """Windows of x (N, C, …) as (N, C, *kernel, *out): one copy of a part of x for each place in the kernel."""
    if all(k == 1 for k in kernel) and all(s == 1 for s in stride):
        return x.reshape(x.shape[:2] + (1,) * len(kernel) + tuple(out))
    columns = np.empty((*x.shape[:2], *kernel, *out), x.dtype)
    for place in np.ndindex(*kernel):
        part = tuple(slice(p * d, p * d + (m - 1) * s + 1, s) for p, d, m, s in zip(place, dilate, out, stride))
        columns[(slice(None), slice(None), *place)] = x[(slice(None), slice(None), *part)]
    return columns


def _conv_eager(xp: Any, arrays: list[Any], a: Attrs) -> list[Any]:
    """Windows as columns, one matrix product a group and image."""
    x, w = arrays[:2]
    n = len(a.kernel)
    stride, dilate, pad = per_axis(a.stride, n, 1), per_axis(a.dilate, n, 1), per_axis(a.pad, n, 0)
    if any(pad):
        wide = xp.zeros((*x.shape[:2], *(d + 2 * p for d, p in zip(x.shape[2:], pad))), x.dtype)
        wide[(slice(None), slice(None), *(slice(p, p + d) for d, p in zip(x.shape[2:], pad)))] = x
        x = wide
    out = tuple(positions(d, k, s, e) for d, k, s, e in zip(x.shape[2:], a.kernel, stride, dilate))
    groups, inner = a.num_group, math.prod(w.shape[1:])
    columns = _columns(x, a.kernel, stride, dilate, out).reshape((x.shape[0], groups, inner, math.prod(out)))
    weight = w.reshape(groups, w.shape[0] // groups, inner)
    if columns.shape[-1] == 1:                              # few positions: one product for all images
        y = xp.matmul(columns[..., 0].swapaxes(0, 1), weight.swapaxes(1, 2)).swapaxes(0, 1)
    else:
        y = xp.matmul(weight, columns)
    y = y.reshape((x.shape[0], w.shape[0], *out))
    if len(arrays) > 2 and arrays[2] is not None and not a.no_bias:
        y += arrays[2].reshape((-1,) + (1,) * n)
    return [y]


def conv_eager(xp: Any, arrays: list[Any], a: Attrs) -> list[Any] | None:
    """The fast eager way, where it applies."""
    if is_channels_last(a.layout) or arrays[0].dtype.itemsize < 4 or not arrays[0].size or xp is not np:
        return None
    return _conv_eager(xp, arrays, a)


@op("Convolution", "data weight bias?", npx=("convolution",), json=("_npx_convolution", "Convolution_v1"),
    params=conv_params, eager=conv_eager,
    takes={"bias": lambda a: not a.no_bias}, kernel=Shape(), stride=Shape(()), dilate=Shape(()), pad=Shape(()),
    num_filter=Int(), num_group=Int(1), workspace=Int(1024),
    no_bias=Bool(False), cudnn_tune=Str(None), cudnn_off=Bool(False), layout=Enum(None, *LAYOUTS))
def convolution(data: Node, weight: Node, bias: Node | None, a: Attrs) -> Node:
    """N-D convolution (cross-correlation). data (N, C, …), weight (num_filter, C/num_group, *kernel), bias
    (num_filter,)."""
    _, stride, dilate, pad = _geometry(data, a)
    last = is_channels_last(a.layout)
    x, w = (to_channels_first(data), to_channels_first(weight)) if last else (data, weight)
    want = (a.num_filter, x.shape[1] // a.num_group, *a.kernel)
    if x.shape[1] % a.num_group or a.num_filter % a.num_group:
        raise ShapeError(f"{x.shape[1]} channels and num_filter={a.num_filter} must be divisible by "
                         f"num_group={a.num_group}")
    if w.shape != want:
        raise ShapeError(f"weight must be {want} for data {data.shape}, num_filter={a.num_filter}, "
                         f"num_group={a.num_group}, got {w.shape}")
    y = convolve(x, w, a.num_group, stride, dilate, pad)
    y = _add_bias(y, bias, a)
    return to_channels_last(y) if last else y


def _add_bias(y: Node, bias: Node | None, a: Attrs) -> Node:
    if bias is None or a.no_bias:
        return y
    if bias.shape != (a.num_filter,):
        raise ShapeError(f"bias must be {(a.num_filter,)}, got {bias.shape}")
    return y + ir.reshape(bias, (1, a.num_filter) + (1,) * (y.ndim - 2))


def deconv_params(shapes: list, a: Attrs) -> list:
    """Weight and bias from the data's shape."""
    if shapes[0] is not None and shapes[0][1] > 0:
        shapes[1] = (shapes[0][1], a.num_filter // a.num_group, *a.kernel)
    if len(shapes) > 2 and not a.no_bias:
        shapes[2] = (a.num_filter,)
    return shapes


@op("Deconvolution", "data weight bias?", npx=("deconvolution",), json=("_npx_deconvolution",), params=deconv_params,
    takes={"bias": lambda a: not a.no_bias}, kernel=Shape(), stride=Shape(()),
    dilate=Shape(()), pad=Shape(()), adj=Shape(()), target_shape=Shape(()), num_filter=Int(), num_group=Int(1),
    workspace=Int(512), no_bias=Bool(True),
    cudnn_tune=Str(None), cudnn_off=Bool(False), layout=Enum(None, *LAYOUTS))
def deconvolution(data: Node, weight: Node, bias: Node | None, a: Attrs) -> Node:
    """Transposed convolution: data (N, C, …), weight (C, num_filter/num_group, *kernel)."""
    n, stride, dilate, pad = _geometry(data, a)
    adj = per_axis(a.adj, n, 0)
    groups, channels = a.num_group, data.shape[1]
    want = (channels, a.num_filter // groups, *a.kernel)
    if weight.shape != want:
        raise ShapeError(f"weight must be {want} for data {data.shape}, got {weight.shape}")
    full = [(d - 1) * s + dl * (k - 1) + 1 for d, s, dl, k in zip(data.shape[2:], stride, dilate, a.kernel)]
    size = [f - 2 * p + j for f, p, j in zip(full, pad, adj)]
    if a.target_shape and any(a.target_shape):
        extra = [f - t for f, t in zip(full, a.target_shape)]
        size, pad = list(a.target_shape), tuple((e + 1) // 2 if e > 0 else 0 for e in extra)
    x = ir.reshape(data, (data.shape[0], groups, channels // groups) + data.shape[2:])
    w = ir.reshape(weight, (groups, channels // groups) + weight.shape[1:])
    room = [max(f, p + s) for f, p, s in zip(full, pad, size)]
    y = ir.unwindow(columns(x, w), tuple(range(2, n + 2)), stride, dilate, (data.shape[0], a.num_filter, *room))
    y = ir.slice(y, (0, 0, *pad), (data.shape[0], a.num_filter, *size))
    return _add_bias(y, bias, a)


# ---- resampling
def _pool_matrix(n: int, out: int) -> np.ndarray:
    """Rows average the ranges floor(i n / out) … ceil((i + 1) n / out)."""
    written(out * n, "weights")
    rows = np.arange(out)
    begin, end = ((rows * n // out)[:, None], (-(-(rows + 1) * n // out))[:, None])
    places = np.arange(n)
    return ((places >= begin) & (places < end)) / (end - begin)


def _apply(x: Node, rows: np.ndarray, columns: np.ndarray) -> Node:
    """(N, C, H, W) -> rows x columnsᵀ for each image."""
    w, h = ir.data(columns.astype(x.dtype)), ir.data(rows.astype(x.dtype))
    y = ir.dot(x, w, ((3,), (1,)))                       # N C H w
    y = ir.dot(y, h, ((2,), (1,)))                       # N C w h
    return ir.permute(y, (0, 1, 3, 2))


@op("_contrib_AdaptiveAvgPooling2D", "data", mx=("contrib.AdaptiveAvgPooling2D",), output_size=Shape(()))
def adaptive_avg_pooling(data: Node, a: Attrs) -> Node:
    """Averages over a grid of output_size; the last axes (H, W)."""
    size = tuple(a.output_size) or (1,)
    oh, ow = size[0], size[-1]
    if data.ndim != 4 or len(size) > 2 or min(size) < 1 or not data.shape[2] * data.shape[3]:
        raise ShapeError(f"data must be (N, C, H, W) and output_size one or two positive numbers, got {data.shape} "
                         f"and {size}")
    if (oh, ow) == (1, 1):
        return ir.reduce("sum", data, (2, 3), True) / (data.shape[2] * data.shape[3])
    h, w = data.shape[2:]
    if h % oh == 0 and w % ow == 0:
        cells = ir.reshape(data, data.shape[:2] + (oh, h // oh, ow, w // ow))
        return ir.reduce("sum", cells, (3, 5)) / (h // oh * (w // ow))
    return _apply(data, _pool_matrix(h, oh), _pool_matrix(w, ow))


def _bilinear_matrix(n: int, out: int, align: bool) -> np.ndarray:
    """Row i holds the two weights of output i. Corners meet corners with ``align``, else the edges of the pixels do."""
    written(out * n, "weights")
    m, rows = np.zeros((out, n)), np.arange(out)
    at = rows * (n - 1) / max(out - 1, 1) if align else np.maximum((rows + 0.5) * n / out - 0.5, 0.0)
    if out == 1:                                          # the corner, as MXNet
        at = np.zeros(1)
    low = np.minimum(at.astype(np.int64), n - 1)
    m[rows, low] += 1 - (at - low)
    m[rows, np.minimum(low + 1, n - 1)] += at - low
    return m


def _resized(n: int, a: Attrs, size: int, scale: float | None) -> int:
    """The length of an axis after BilinearResize2D's mode (like is not among them)."""
    if a.mode == "size":
        return size if scale is None else int(n * scale)
    if a.mode == "odd_scale":
        if scale is None:
            raise ShapeError("mode='odd_scale' needs scale_height and scale_width")
        return int(n * scale) if n % 2 == 0 else int((n - 1) * scale) + 1
    parity, step = a.mode[3:].split("_")                         # to_even_up: one more where it is odd
    return n if (n % 2 == 0) == (parity == "even") else n + (1 if step == "up" else -1)


@op("_contrib_BilinearResize2D", "data like?", mx=("contrib.BilinearResize2D",),
    takes={"like": lambda a: a.mode == "like"},
    height=Int(1), width=Int(1), scale_height=Float(None), scale_width=Float(None),
    mode=Enum("size", "size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"),
    align_corners=Bool(True))
def bilinear_resize(data: Node, like: Node | None, a: Attrs) -> Node:
    """Bilinear interpolation of (N, C, H, W). mode: ``size`` to height and width (or by scale_height and scale_width),
    ``like`` to the size of a second input, ``odd_scale`` by the scales so that odd lengths stay odd, ``to_even_down`` …
    to the nearest even or odd length below or above. Corners are kept with align_corners."""
    if data.ndim != 4:
        raise ShapeError(f"data must be (N, C, H, W), got {data.shape}")
    h, w = data.shape[2:]
    if a.mode == "like":
        if like is None or like.ndim != 4:
            raise ShapeError("mode='like' needs a second input (N, C, H, W) that has the size")
        oh, ow = like.shape[2:]
    else:
        oh, ow = _resized(h, a, a.height, a.scale_height), _resized(w, a, a.width, a.scale_width)
    if oh < 1 or ow < 1 or not h or not w:
        raise ShapeError(f"cannot resize {data.shape} to {oh} x {ow}")
    if (oh, ow) == (h, w):
        return data
    return _apply(data, _bilinear_matrix(h, oh, a.align_corners), _bilinear_matrix(w, ow, a.align_corners))


def _upsampling_params(shapes: list, a: Attrs) -> list:
    """The weight of ``bilinear``: one square filter a channel."""
    if a.sample_type == "bilinear" and len(shapes) == 2 and shapes[0] is not None and shapes[0][1] > 0:
        k = 2 * a.scale - a.scale % 2
        return [shapes[0], (shapes[0][1], 1, k, k)]
    return shapes


@op("UpSampling", "*data", arity_attr="num_args", params=_upsampling_params, starts={"weight": '["bilinear", {}]'},
    listed=lambda a: ("data", "weight") if a.sample_type == "bilinear" else (), num_args=Int(1), scale=Int(),
    num_filter=Int(0), sample_type=Enum("nearest", "nearest", "bilinear"),
    multi_input_mode=Enum("concat", "concat", "sum"), workspace=Int(512))
def upsampling(data: list[Node], a: Attrs) -> Node:
    """``nearest``: each pixel repeated ``scale`` times in both directions; several inputs are brought to one size and
    joined. ``bilinear``: data and a weight (num_filter, 1, k, k), k = 2 scale - scale % 2: a Deconvolution of each
    channel."""
    if a.scale < 1:
        raise ShapeError(f"scale={a.scale} must be positive")
    if a.sample_type == "bilinear":
        if len(data) != 2:
            raise ShapeError(f"sample_type='bilinear' takes data and weight, got {len(data)} inputs")
        k, pad, channels = 2 * a.scale - a.scale % 2, a.scale // 2, data[0].shape[1]
        return deconvolution(*data, kernel=(k, k), stride=(a.scale,) * 2, pad=(pad,) * 2, num_filter=channels,
                             num_group=channels)
    height = data[0].shape[2] * a.scale
    parts = []
    for x in data:
        s = height // x.shape[2]
        n, c, h, w = x.shape
        parts.append(ir.reshape(ir.expand(ir.reshape(x, (n, c, h, 1, w, 1)), (n, c, h, s, w, s)), (n, c, h * s, w * s)))
    if len(parts) == 1:
        return parts[0]
    if a.multi_input_mode == "sum":
        out = parts[0]
        for p in parts[1:]:
            out = out + p
        return out
    return ir.concat(parts, 1)


