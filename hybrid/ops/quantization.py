"""MXNet's quantized operators: int8 or uint8 arrays with the range (min, max) that they represent as two further
results.

The scale of an int8 array is max(|min|, |max|) / 127.5, that of a uint8 array max / 255.5; values outside the range
saturate. Products give int32 sums, whose range is 2^31 - 1 times the product of the operands' scales of 1 / 127 or 1 /
255 of their ranges (the constants of MXNet 1.9.1 on a CPU). On purpose, ``quantized_conv`` differs from MXNet's: it
takes int8 data, its uint8 data has the scale 1 / 255, and its bias is rescaled to the sums.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..base.errors import DTypeError, ShapeError
from ..ir import Node
from ..ir.low_precision import clipped
from .attributes import Attrs
from .conv import LAYOUTS, conv_params, convolve, per_axis
from .nn import fc_params
from .pooling import pooling
from .registry import Bool, Enum, Float, Int, Lowered, Shape, Str, op

LEVELS = {dt.int8: 127.5, dt.uint8: 255.5, dt.int32: float(2**31 - 1)}      # levels up to the end of the range
WHOLE = {dt.int8: 127.0, dt.uint8: 255.0}                                  # the same for ``quantize``, and for sums
LIMITS = {dt.int8: (-128.0, 127.0), dt.uint8: (0.0, 255.0)}
EIGHT = Enum("int8", "auto", "int8", "uint8")


def three(a: Attrs) -> int:
    """Number of results: values, min, max."""
    return 3


def _end(x: Node) -> Node:
    return ir.reshape(ir.cast(x, dt.float32), (1,))


def _wide(low: Node, high: Node) -> Node:
    """max(|min|, |max|)."""
    return ir.map("maximum", ir.map("abs", _end(low)), ir.map("abs", _end(high)))


def _step(d: np.dtype, low: Node, high: Node, levels: "dict[np.dtype, float]" = LEVELS) -> Node:
    """The scale, of shape (1,)."""
    return (_end(high) if d == dt.uint8 else _wide(low, high)) / levels[d]


def _times(x: Node, by: Node) -> Node:
    """x times a number (1,)."""
    return x * ir.expand(ir.reshape(by, (1,) * x.ndim), x.shape)


def _eight(x: Node, target: np.dtype) -> Node:
    """Rounds, and saturates to an 8-bit type."""
    return ir.cast(clipped(x, *LIMITS[target]), target)


def _ends(target: np.dtype, low: Node, high: Node) -> tuple[Node, Node]:
    """The range of results: symmetric for int8."""
    if target == dt.uint8:
        return _end(low), _end(high)
    wide = _wide(low, high)
    return -wide, wide


def _quantized(x: Node, target: np.dtype, low: Node, high: Node,
               levels: "dict[np.dtype, float]" = LEVELS) -> tuple[Node, Node, Node]:
    if not dt.is_float(x.dtype):
        raise DTypeError(f"quantized are real numbers, got {x.dtype}")
    scale = levels[target] / (_end(high) if target == dt.uint8 else _wide(low, high))
    return (_eight(_times(ir.cast(x, dt.float32), scale), target), *_ends(target, low, high))


def _eight_bits(name: str, *given: Node) -> None:
    for x in given:
        if x.dtype not in LIMITS:
            raise DTypeError(f"{name} takes int8 or uint8 numbers, got {x.dtype}: quantize_v2 makes them")


@op("_contrib_quantize", "data min_range max_range", mx=("contrib.quantize",), outputs=three,
    out_type=Enum("uint8", "int8", "uint8"))
def quantize(data: Node, min_range: Node, max_range: Node, a: Attrs) -> Lowered:
    """Real numbers between two ends as numbers of 8 bits, and these ends."""
    return Lowered(_quantized(data, dt.as_dtype(a.out_type), min_range, max_range, WHOLE))


@op("_contrib_quantize_v2", "data", mx=("contrib.quantize_v2",), outputs=three, out_type=EIGHT,
    min_calib_range=Float(None), max_calib_range=Float(None))
def quantize_v2(data: Node, a: Attrs) -> Lowered:
    """Real numbers as numbers of 8 bits, between two ends that were found beforehand, or the least and the greatest of
    them. ``auto``: uint8 where the lower end is known and not negative."""
    known = a.min_calib_range is not None and a.max_calib_range is not None
    target = a.out_type if a.out_type != "auto" else "uint8" if known and a.min_calib_range >= 0 else "int8"
    every = tuple(range(data.ndim))
    low, high = ([ir.cast(ir.const(v, dt.float32), dt.float32) for v in (a.min_calib_range, a.max_calib_range)] if known
                 else [ir.reduce(which, data, every) for which in ("min", "max")])
    return Lowered(_quantized(data, dt.as_dtype(target), low, high))


@op("_contrib_dequantize", "data min_range max_range", mx=("contrib.dequantize",), out_type=Enum("float32", "float32"))
def dequantize(data: Node, min_range: Node, max_range: Node, a: Attrs) -> Node:
    """The real numbers that int8, uint8 or int32 ones stand for."""
    if data.dtype not in LEVELS:
        raise DTypeError(f"dequantize takes int8, uint8 or int32 numbers, got {data.dtype}")
    return _times(ir.cast(data, dt.float32), _step(data.dtype, min_range, max_range))


@op("_contrib_requantize", "data min_range max_range", mx=("contrib.requantize",), outputs=three, out_type=EIGHT,
    min_calib_range=Float(None), max_calib_range=Float(None))
def requantize(data: Node, min_range: Node, max_range: Node, a: Attrs) -> Lowered:
    """int32 sums as numbers of 8 bits, between ends found beforehand or those of the sums themselves."""
    if data.dtype != dt.int32:
        raise DTypeError(f"requantize takes int32 sums, got {data.dtype}")
    known = a.min_calib_range is not None and a.max_calib_range is not None
    target = dt.as_dtype(a.out_type if a.out_type != "auto"
                         else "uint8" if known and a.min_calib_range >= 0 else "int8")
    step = _step(dt.int32, min_range, max_range)
    if known:
        ends = [ir.cast(ir.const(v, dt.float32), dt.float32) for v in (a.min_calib_range, a.max_calib_range)]
    else:
        every = tuple(range(data.ndim))
        ends = [_end(ir.cast(ir.reduce(which, data, every), dt.float32)) * step for which in ("min", "max")]
    wide = _end(ends[1]) if target == dt.uint8 else _wide(*ends)
    levels = LEVELS if known else WHOLE
    y = _eight(_times(ir.cast(data, dt.float32), step * (levels[target] / wide)), target)
    return Lowered((y, *_ends(target, *ends)))


# ---- products
def _sums(y: Node, bias: Node | None, ends: list[Node | None], d: np.dtype, shape: tuple[int, ...]) -> Lowered:
    """int32 sums with a bias of int8 in their steps, and the ends of int32."""
    low, high, w_low, w_high, b_low, b_high = ends
    step = _step(d, low, high) * _step(dt.int8, w_low, w_high)                # type: ignore[arg-type]
    if bias is not None:
        if b_low is None or b_high is None:
            raise ShapeError("a quantized bias needs min_bias and max_bias")
        scaled = _times(ir.cast(bias, dt.float32), _step(bias.dtype, b_low, b_high) / step)
        y = y + ir.expand(ir.reshape(ir.cast(scaled, dt.int32), shape), y.shape)
    wide = (_step(d, low, high, WHOLE) * _step(dt.int8, w_low, w_high, WHOLE)      # type: ignore[arg-type]
            * LEVELS[dt.int32])
    return Lowered((y, -wide, wide))


def _given(inputs: tuple[Any, ...], a: Attrs) -> tuple[Node | None, list[Node | None]]:
    """The bias, and the ends of data, weight and bias: without a bias fewer inputs are given."""
    rest = [x for x in inputs if x is not None]
    if a.no_bias:
        return None, [*rest[:4], None, None]
    if len(rest) != 7:
        raise ShapeError("with a bias: data, weight, bias, min_data, max_data, min_weight, max_weight, min_bias, "
                         f"max_bias; {len(rest) + 2} inputs were given")
    return rest[0], [*rest[1:]]


INPUTS = "data weight bias? min_data? max_data? min_weight? max_weight? min_bias? max_bias?"
WITH_BIAS = {n: lambda a: not a.no_bias for n in ("bias", "min_bias", "max_bias")}
ALWAYS = {n: lambda a: True for n in ("min_data", "max_data", "min_weight", "max_weight")}


def _ends_known(params: Any) -> Any:
    """Shapes as of the operator of real numbers; ends are of one number."""
    def known(shapes: list, a: Attrs) -> list:
        first = 2 if a.no_bias and len(shapes) == 6 else 3
        return [*params(shapes[:first], a), *((1,) for _ in shapes[first:])]
    return known


@op("_contrib_quantized_fully_connected", INPUTS, mx=("contrib.quantized_fully_connected",), outputs=three,
    params=_ends_known(fc_params), takes={**WITH_BIAS, **ALWAYS},
    num_hidden=Int(), no_bias=Bool(False), flatten=Bool(True))
def quantized_fully_connected(data: Node, weight: Node, *rest: Any) -> Lowered:
    """data weightᵀ + bias of 8-bit numbers, as int32 sums. data int8 or uint8 (N, …), weight int8 (num_hidden, K), bias
    int8; the ends of each, (1,)."""
    *inputs, a = rest
    _eight_bits("quantized_fully_connected", data, weight)
    bias, ends = _given(tuple(inputs), a)
    x = ir.reshape(data, (data.shape[0], math.prod(data.shape[1:]))) if a.flatten else data
    if weight.shape != (a.num_hidden, x.shape[-1]):
        raise ShapeError(f"weight must be {(a.num_hidden, x.shape[-1])} for data {data.shape} and "
                         f"num_hidden={a.num_hidden}, got {weight.shape}")
    y = ir.dot(ir.cast(x, dt.int32), ir.cast(weight, dt.int32), ((x.ndim - 1,), (1,)))
    return _sums(y, bias, ends, data.dtype, (1,) * (y.ndim - 1) + (a.num_hidden,))


@op("_contrib_quantized_conv", INPUTS, mx=("contrib.quantized_conv",), outputs=three,
    params=_ends_known(conv_params), takes={**WITH_BIAS, **ALWAYS},
    kernel=Shape(), stride=Shape(()), dilate=Shape(()), pad=Shape(()), num_filter=Int(), num_group=Int(1),
    workspace=Int(1024), no_bias=Bool(False), cudnn_tune=Str(None), cudnn_off=Bool(False), layout=Enum(None, *LAYOUTS))
def quantized_conv(data: Node, weight: Node, *rest: Any) -> Lowered:
    """A convolution of 8-bit numbers, as int32 sums. data int8 or uint8 (N, C, …), weight int8, bias int8; the ends of
    each, (1,)."""
    *inputs, a = rest
    _eight_bits("quantized_conv", data, weight)
    bias, ends = _given(tuple(inputs), a)
    if a.layout not in (None, "NCW", "NCHW", "NCDHW"):
        raise ShapeError(f"quantized_conv takes channels first, got layout {a.layout}")
    n = data.ndim - 2
    want = (a.num_filter, data.shape[1] // a.num_group, *a.kernel)
    if weight.shape != want:
        raise ShapeError(f"weight must be {want} for data {data.shape}, got {weight.shape}")
    y = convolve(ir.cast(data, dt.int32), ir.cast(weight, dt.int32), a.num_group, per_axis(a.stride, n, 1),
                 per_axis(a.dilate, n, 1), per_axis(a.pad, n, 0))
    return _sums(y, bias, ends, data.dtype, (1, a.num_filter) + (1,) * n)


# ---- what keeps the steps
@op("_contrib_quantized_pooling", "data min_data max_data", mx=("contrib.quantized_pooling",), outputs=three,
    kernel=Shape(()), pool_type=Enum("max", "max", "avg", "sum", "lp"), global_pool=Bool(False),
    cudnn_off=Bool(False), pooling_convention=Enum("valid", "valid", "full", "same"), stride=Shape(()), pad=Shape(()),
    p_value=Int(None), count_include_pad=Bool(None), layout=Enum(None, *LAYOUTS))
def quantized_pooling(data: Node, min_data: Node, max_data: Node, a: Attrs) -> Lowered:
    """max or avg pooling of 8-bit numbers; averages are rounded to the nearest."""
    _eight_bits("quantized_pooling", data)
    if a.pool_type == "max":
        y = pooling.fn(data, a)
    elif a.pool_type == "avg":
        y = _eight(pooling.fn(ir.cast(data, dt.float32), a), data.dtype)
    else:
        raise ShapeError(f"quantized_pooling is of max or avg, got {a.pool_type}")
    return Lowered((y, _end(min_data), _end(max_data)))


@op("_contrib_quantized_flatten", "data min_data max_data", mx=("contrib.quantized_flatten",), outputs=three)
def quantized_flatten(data: Node, min_data: Node, max_data: Node, a: Attrs) -> Lowered:
    """(N, …) as (N, K)."""
    y = ir.reshape(data, (data.shape[0], math.prod(data.shape[1:])))
    return Lowered((y, _end(min_data), _end(max_data)))


@op("_contrib_quantized_act", "data min_data max_data", mx=("contrib.quantized_act",), outputs=three,
    act_type=Enum("relu", "relu"))
def quantized_act(data: Node, min_data: Node, max_data: Node, a: Attrs) -> Lowered:
    """relu of 8-bit numbers or int32 sums."""
    y = data if data.dtype == dt.uint8 else ir.map("relu", data)
    return Lowered((y, _end(min_data), _end(max_data)))


def _requantized(values: list[tuple[Node, Node, Node]], low: Node, high: Node, target: np.dtype) -> list[Node]:
    """8-bit numbers in the steps of two other ends."""
    to = _step(target, low, high)
    return [x if x.dtype == target and lo is low and hi is high else
            _eight(_times(ir.cast(x, dt.float32), _step(x.dtype, lo, hi) / to), target) for x, lo, hi in values]


@op("_contrib_quantized_concat", "*data", mx=("contrib.quantized_concat",), outputs=three, arity_attr="num_args",
    num_args=Int(), dim=Int(1))
def quantized_concat(data: list[Node], a: Attrs) -> Lowered:
    """8-bit numbers one after another, in the steps of the farthest ends. Inputs: all data, then the lower and the
    upper end of each, as MXNet has them: lower, upper, lower, upper."""
    n = a.num_args
    if len(data) != 3 * n:
        raise ShapeError(f"quantized_concat of num_args={n} takes {3 * n} inputs, got {len(data)}")
    xs, ends = data[:n], data[n:]
    _eight_bits("quantized_concat", *xs)
    lows, highs = [_end(x) for x in ends[::2]], [_end(x) for x in ends[1::2]]
    target = dt.uint8 if all(x.dtype == dt.uint8 for x in xs) else dt.int8
    low, high = lows[0], highs[0]
    for lo, hi in zip(lows[1:], highs[1:]):
        low, high = ir.map("minimum", low, lo), ir.map("maximum", high, hi)
    return Lowered((ir.concat(_requantized(list(zip(xs, lows, highs)), low, high, target), a.dim),
                    *_ends(target, low * 0.0 if target == dt.uint8 else low, high)))


@op("_contrib_quantized_elemwise_add", "lhs rhs lhs_min lhs_max rhs_min rhs_max",
    mx=("contrib.quantized_elemwise_add",), outputs=three, min_calib_range=Float(None), max_calib_range=Float(None))
def quantized_elemwise_add(lhs: Node, rhs: Node, lhs_min: Node, lhs_max: Node, rhs_min: Node, rhs_max: Node,
                           a: Attrs) -> Lowered:
    """Sums of 8-bit numbers: of 8 bits (uint8 where both are) between ends found beforehand, else int32 between the
    sums of the ends."""
    _eight_bits("quantized_elemwise_add", lhs, rhs)
    total = (_times(ir.cast(lhs, dt.float32), _step(lhs.dtype, lhs_min, lhs_max))
             + _times(ir.cast(rhs, dt.float32), _step(rhs.dtype, rhs_min, rhs_max)))
    if a.min_calib_range is not None and a.max_calib_range is not None:
        target = dt.uint8 if lhs.dtype == rhs.dtype == dt.uint8 else dt.int8
        ends = [ir.cast(ir.const(v, dt.float32), dt.float32) for v in (a.min_calib_range, a.max_calib_range)]
        wide = _end(ends[1]) if target == dt.uint8 else _wide(*ends)
        return Lowered((_eight(_times(total, LEVELS[target] / wide), target), *_ends(target, *ends)))
    wide = _wide(lhs_min, lhs_max) + _wide(rhs_min, rhs_max)
    y = ir.cast(ir.map("rint", ir.cast(_times(total, 1.0 / wide), dt.float64) * LEVELS[dt.int32]), dt.int32)
    return Lowered((y, -wide, wide))
