"""Operators on images, (height, width, channels) or a batch of them: colours, flips, tensors.

Colour arithmetic is float32; a result in an integer dtype is cut to its range and then truncated, as MXNet does
(src/operator/image/image_random-inl.h). Each image of a batch draws its own random numbers.
"""
from __future__ import annotations

import itertools
import math
from typing import Any, Callable

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import AttributeValueError, ShapeError
from ..ir import Node
from .attributes import Attrs
from .nn import uniform01
from .registry import Float, Floats, op

GRAY = (0.299, 0.587, 0.114)                     # weights of red, green, blue (ITU-R BT.601)
# principal directions of ImageNet's colours: eigenvectors (rows: red, green, blue) times eigenvalues (Krizhevsky et al.
# 2012)
LIGHTING = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                     [-0.5836, -0.6948, 0.4203]]) * np.array([55.46, 4.794, 1.148])


def image_op(name: str, **kwargs: Any) -> Any:
    """``op`` for an operator on pictures: ``nd.image.name``, ``sym.image.name`` and ``npx.image.name``."""
    return op(f"_image_{name}", "data", mx=(f"image.{name}",), npx=(f"image.{name}",), **kwargs)


def check_image(x: Node, colour: bool = False) -> None:
    """An image or a batch; with ``colour`` of one or three channels."""
    if x.ndim not in (3, 4):
        raise ShapeError(f"a picture has the shape (height, width, channels), a batch (N, height, width, channels); "
                         f"got {x.shape}")
    if colour and x.shape[-1] not in (1, 3):
        raise ShapeError(f"a picture has 1 or 3 channels, the last axis; got {x.shape}")


def _wide(x: Node) -> Node:
    return x if x.dtype == dt.float64 else ir.cast(x, dt.float32)


def saturate(x: Node, dtype: np.dtype) -> Node:
    """A real number in another dtype: cut to the range of an integer type, then truncated."""
    if not dt.is_int(dtype):
        return ir.cast(x, dtype)
    info = np.iinfo(dtype)
    # the largest float that fits
    high = float(info.max) if info.bits < 32 else float(np.nextafter(np.float32(info.max), np.float32(0)))
    return ir.cast(ir.map("trunc", ir.map("minimum", ir.map("maximum", x, float(info.min)), high)), dtype)


def saturate_array(xp: Any, x: Any, dtype: Any) -> Any:
    """``saturate`` of a NumPy or CuPy array."""
    if not dt.is_int(np.dtype(dtype)):
        return x.astype(dtype)
    info = np.iinfo(dtype)
    return xp.trunc(xp.clip(x, info.min, info.max)).astype(dtype)


def _per_image(x: Node) -> tuple[int, ...]:
    return (x.shape[0], 1, 1, 1) if x.ndim == 4 else (1, 1, 1)


def _gray(x: Node) -> Node:
    if x.shape[-1] == 1:
        return x
    r, g, b = (_channel(x, i) * w for i, w in enumerate(GRAY))
    return r + g + b


def _channel(x: Node, i: int) -> Node:
    return ir.slice(x, (0,) * (x.ndim - 1) + (i,), (*x.shape[:-1], 1))


def _mean(gray: Node) -> Node:
    return ir.reduce("sum", gray, (-3, -2, -1), keepdims=True) * (1.0 / max(1, gray.shape[-2] * gray.shape[-3]))


def _modulo(x: Node, n: float) -> Node:
    return x - ir.map("floor", x * (1 / n)) * n


# ---- one factor each: float in, float out
def brightness(x: Node, factor: Node) -> Node:
    """x times the factor."""
    return x * factor


def contrast(x: Node, factor: Node) -> Node:
    """Away from the mean brightness of the image."""
    return x * factor + _mean(_gray(x)) * (1.0 - factor)


def saturation(x: Node, factor: Node) -> Node:
    """Away from each pixel's own brightness. A gray image has none to change."""
    return x if x.shape[-1] == 1 else x * factor + _gray(x) * (1.0 - factor)


def hue(x: Node, turn: Node) -> Node:
    """The hue turned by a share of the full circle; lightness and saturation (HLS) stay. A gray image stays."""
    if x.shape[-1] == 1:
        return x
    r, g, b = (_channel(x, i) for i in range(3))
    high, low = (ir.map(fn, r, ir.map(fn, g, b)) for fn in ("maximum", "minimum"))
    span = high - low
    coloured = ir.map("gt", span, 1e-7)
    over = 1.0 / ir.map("where", coloured, span, 1.0)
    sector = ir.map("where", ir.map("eq", high, r), (g - b) * over,
                    ir.map("where", ir.map("eq", high, g), (b - r) * over + 2.0, (r - g) * over + 4.0))
    h = _modulo(sector + turn * 6.0, 6.0)                  # in sixths of the circle
    parts = []
    # red, green, blue: the same curve a third of the circle apart
    for shift in (0.0, 4.0, 2.0):
        at = ir.map("abs", _modulo(h + shift, 6.0) - 3.0) - 1.0
        parts.append(low + span * ir.map("minimum", ir.map("maximum", at, 0.0), 1.0))
    return ir.map("where", ir.expand(coloured, (*x.shape[:-1], 3)), ir.concat(parts, -1), x)


_FACTORS: dict[str, Callable[[Node, Node], Node]] = {"brightness": brightness, "contrast": contrast,
                                                     "saturation": saturation, "hue": hue}


def _random_factor(name: str) -> None:
    apply = _FACTORS[name]

    def lower(data: Node, a: Attrs) -> Node:
        check_image(data, colour=True)
        if not 0 <= a.min_factor <= a.max_factor:
            raise AttributeValueError(f"random_{name}: 0 <= min_factor <= max_factor is wanted, got {a.min_factor} "
                                      f"and {a.max_factor}")
        factor = uniform01(a.key, _per_image(data), 0) * (a.max_factor - a.min_factor) + a.min_factor
        return saturate(apply(_wide(data), factor), data.dtype)
    lower.__doc__ = f"Random change of {name}, by a factor from min_factor to max_factor."
    image_op(f"random_{name}", needs=("key",), min_factor=Float(), max_factor=Float())(lower)


for _name in _FACTORS:
    _random_factor(_name)


_LINEAR = ("brightness", "contrast", "saturation")


def _linear_step(x: Node, which: Node, active: Node | bool, factors: list[tuple[int, Node]]) -> Node:
    """One of brightness, contrast and saturation, whichever ``which`` says: all are x * f + (1 - f) * g, with g
    nothing, the mean brightness, or the pixel's own. Unless ``active``, x.
    """
    wide = _wide(x)
    gray = _gray(wide)
    f: Node | float = 1.0
    for i, factor in factors:
        f = ir.map("where", ir.map("logical_and", ir.map("eq", which, i), active), factor, f)
    assert isinstance(f, Node)
    own, mean = (ir.cast(ir.map("eq", which, i), wide.dtype) for i in (2, 1))
    if x.shape[-1] == 1:                                         # a gray image has no saturation
        f, own = ir.map("where", ir.map("eq", which, 2), 1.0, f), own * 0.0
    return saturate(wide * f + (gray * own + _mean(gray) * mean) * (1.0 - f), x.dtype)


@image_op("random_color_jitter", needs=("key",), brightness=Float(), contrast=Float(), saturation=Float(), hue=Float())
def random_color_jitter(data: Node, a: Attrs) -> Node:
    """Brightness, contrast, saturation and hue changed at random, in random order: each by a factor from 1 - v to 1 +
    v.

    Every order of the changes is drawn with equal probability, the same one for a whole batch.
    """
    check_image(data, colour=True)
    strength = {name: float(getattr(a, name)) for name in _FACTORS}
    if min(strength.values()) < 0:
        raise AttributeValueError(f"random_color_jitter: the strengths must not be negative, got {strength}")
    linear = [i for i, name in enumerate(_LINEAR) if strength[name]]
    shape = _per_image(data)
    factors = []
    for i in linear:
        low, high = max(0.0, 1 - strength[_LINEAR[i]]), 1 + strength[_LINEAR[i]]
        factors.append((i, uniform01(a.key, shape, i + 1) * (high - low) + low))
    # the hue comes after the first ``turn`` of the others; that gives all orders, and computes it once
    order, turn = _drawn_order(a.key, linear, len(linear) + 1 if strength["hue"] else 1, data.ndim)
    x = data
    if not strength["hue"]:
        for which in order:
            x = _linear_step(x, which, True, factors)
        return x
    for at, which in enumerate(order):
        x = _linear_step(x, which, ir.map("gt", turn, at), factors)
    x = saturate(hue(_wide(x), uniform01(a.key, shape, 4) * (2 * strength["hue"]) - strength["hue"]), data.dtype)
    for at, which in enumerate(order):
        x = _linear_step(x, which, ir.map("le", turn, at), factors)
    return x


def _drawn_order(key: Node, items: list[int], places: int, ndim: int) -> tuple[list[Node], Node]:
    """The items in random order, and a random number below ``places``, each of ``ndim`` axes of length 1."""
    orders = list(itertools.permutations(items))
    table = np.array([(*order, place) for order in orders for place in range(places)], np.int64)
    drawn = ir.cast(uniform01(key, (1,), 0) * float(len(table)), dt.int64)
    row = ir.gather(ir.data(table), ir.map("minimum", drawn, len(table) - 1), 0)
    columns = [ir.reshape(ir.slice(row, (0, i), (1, 1)), (1,) * ndim) for i in range(len(items) + 1)]
    return columns[:-1], columns[-1]


def _lit(data: Node, shift: Node) -> Node:
    return data if data.shape[-1] == 1 else saturate(_wide(data) + shift, data.dtype)


@image_op("adjust_lighting", alpha=Floats())
def adjust_lighting(data: Node, a: Attrs) -> Node:
    """Colours shifted along ImageNet's principal directions, by ``alpha`` (three numbers) times their eigenvalues."""
    check_image(data, colour=True)
    if len(a.alpha) != 3:
        raise AttributeValueError(f"adjust_lighting: alpha has three numbers, got {a.alpha}")
    return _lit(data, ir.data((LIGHTING @ np.array(a.alpha)).astype(np.float32)))


@image_op("random_lighting", needs=("key",), alpha_std=Float(0.05))
def random_lighting(data: Node, a: Attrs) -> Node:
    """``adjust_lighting`` with three normal draws of deviation alpha_std."""
    check_image(data, colour=True)
    shape = (*_per_image(data)[:-1], 3)
    normal = ir.map("sqrt",
                    ir.map("log", 1.0 - uniform01(a.key, shape,
                                                  0)) * -2.0) * ir.map("cos",
                                                                       uniform01(a.key, shape, 1) * (2 * math.pi))
    alpha = normal * a.alpha_std
    parts = [ir.reduce("sum", alpha * ir.data(LIGHTING[i].astype(np.float32)), (-1,), keepdims=True) for i in range(3)]
    return _lit(data, ir.concat(parts, -1))


# ---- flips
def _flip(x: Node, axis: int) -> Node:
    axis %= x.ndim
    begin = [x.shape[i] - 1 if i == axis and x.shape[i] else 0 for i in range(x.ndim)]
    return ir.slice(x, begin, x.shape, [-1 if i == axis else 1 for i in range(x.ndim)])


def _flips(name: str, axis: int, words: str) -> None:
    def fixed(data: Node, a: Attrs) -> Node:
        check_image(data)
        return _flip(data, axis)
    fixed.__doc__ = f"The picture mirrored {words}."
    image_op(f"flip_{name}")(fixed)

    def drawn(data: Node, a: Attrs) -> Node:
        check_image(data)
        chosen = ir.map("lt", uniform01(a.key, _per_image(data), 0), a.p)
        return ir.map("where", ir.expand(chosen, data.shape), _flip(data, axis), data)
    drawn.__doc__ = f"The picture mirrored {words} with probability p."
    image_op(f"random_flip_{name}", needs=("key",), p=Float(0.5))(drawn)


_flips("left_right", -2, "left to right")
_flips("top_bottom", -3, "upside down")


# ---- tensors
@image_op("to_tensor")
def to_tensor(data: Node, a: Attrs) -> Node:
    """(height, width, channels) of 0 to 255 to (channels, height, width) of 0 to 1, float32; batches alike."""
    check_image(data)
    return ir.permute(ir.cast(data, dt.float32) / 255.0, (2, 0, 1) if data.ndim == 3 else (0, 3, 1, 2))


@image_op("normalize", mean=Floats((0.0,)), std=Floats((1.0,)))
def normalize(data: Node, a: Attrs) -> Node:
    """(x - mean) / std of a tensor (channels, height, width) or (N, channels, height, width), by channel or one for
    all."""
    if data.ndim not in (3, 4) or data.shape[-3] not in (1, 3):
        raise ShapeError("normalize takes (channels, height, width) or (N, channels, height, width) with 1 or 3 "
                         "channels, as to_tensor gives it; "
                         f"got {data.shape}")
    for what in ("mean", "std"):
        if len(getattr(a, what)) not in (1, data.shape[-3]):
            raise AttributeValueError(f"normalize: {what} has one number, or one for each of the {data.shape[-3]} "
                                      f"channels; got {getattr(a, what)}")
    if 0 in a.std:
        raise AttributeValueError(f"normalize divides by std, which must not be 0; got {a.std}")
    x = _wide(data)
    mean, std = (ir.data(np.array(v, x.dtype).reshape(-1, 1, 1)) for v in (a.mean, a.std))
    out = (x - mean) / std
    return ir.cast(ir.map("trunc", out), data.dtype) if dt.is_int(data.dtype) else ir.cast(out, data.dtype)
