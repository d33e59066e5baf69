"""Convolutions of channels-last data with weights that were packed beforehand: what the layout pass makes of
contractions over windows (``passes/layout.py``), and C prints in registers (``codegen/printers/convolutions``).

Data (N, H, W, C), or of volumes (N, D, H, W, C) with a kernel (kd, kh, kw). Forms, with lanes L and a panel of P = n L
filters:

- ``direct``: weights (panels, *kernel, C, P); with groups (groups panels, *kernel, C / groups, P), each group's panels
  of its own filters
- ``winograd``: F(2x2, 3x3), ``winograd4``: F(4x4, 3x3), weights (panels, C, 3, 3, P), which the kernel transforms: G g
  Gᵀ (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015). Transformed beforehand they would be 1.8
  or 4 times as large, and longer to read. Planes of volumes are transformed and summed over the depth: weights (panels,
  kd C, 3, 3, P)
- ``winograd_words``: F(2x2, 3x3) whose products are of transformed data and weights rounded to bfloat16, two to a word:
  weights (panels, 16, half of C rounded up, P, 2), transformed beforehand: less memory than plain ones of float32
- ``depthwise``: weights (*kernel, C rounded up to L)
- ``words``: of bfloat16 data with bfloat16 weights, or uint8 with int8: weights (panels, *kernel, C / G, P, G), G
  numbers in a word of 32 bits; sums of float32, or exact ones rounded to it. ``zero``: what stands beyond the data;
  ``interleaved``: pixels of a line (1, 1, pixels, C) in tiles of at most so many (pairs.py)
- ``tiles``: as ``words``, multiplied by tile registers
- ``batch_in_lanes``, ``batch_in_lanes_winograd``: other data too (``batch_in_lanes.py``)
"""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from ..base.errors import ShapeError
from ..base import dtype as dt
from . import batch_in_lanes, low_precision, pairs
from .build import cast, data, dot, make, map_, pad, permute, reshape
from .build import slice as slice_
from .node import Node
from .primitives import PRIMS, Prim
from .size import fixed
from .winograd import TILES, WINOGRAD_WORDS, array, square, tiles

WORDS = ("words", "tiles")                     # forms that multiply words of 32 bits


def _infer(args: tuple[Node, ...], form: str, kernel: Any, stride: Any, dilate: Any, pads: Any, out: tuple[int, int],
           filters: int,
           pool: Any = (1, 1), groups: int = 1, zero: int = 0, together: int = 1, interleaved: int = 0) -> Any:
    x, w = args
    if form in batch_in_lanes.FORMS:
        return batch_in_lanes.infer(x, w, form, kernel, pool, out, filters)
    if (form not in ("direct", "depthwise", WINOGRAD_WORDS, *WORDS, *TILES) or x.ndim not in (4, 5)
            or x.ndim != len(kernel) + 2):
        raise ShapeError(f"a packed convolution of form {form!r} over {x.shape}, kernel {kernel}")
    channels, rank = x.shape[-1], len(kernel)
    if form == WINOGRAD_WORDS:
        if (w.dtype.name != "bfloat16" or w.ndim != 5 or w.shape[1:3] + w.shape[4:] != (16, -(-channels // 2), 2)
                or w.shape[0] * w.shape[3] < filters or rank != 2):
            raise ShapeError(f"packed weights {w.shape} of form {form} do not fit data {x.shape}, {filters} filters")
        return (x.shape[0], *out, filters), np.dtype(np.float32)
    if form in WORDS:
        if low_precision.word_of(x.dtype, w.dtype) != w.shape[-1]:
            raise ShapeError(f"a packed convolution of words of {w.shape[-1]} from {x.dtype} and {w.dtype}")
        wanted, out_type = (*kernel, channels // groups // w.shape[-1]), np.dtype(np.float32)
        if w.shape[1:2 + rank] != wanted or w.shape[0] // groups * groups * w.shape[-2] < filters:
            raise ShapeError(f"packed words {w.shape} do not fit data {x.shape}, kernel {kernel}, {filters} filters")
        return (x.shape[0], *out, filters), out_type
    all_groups = groups * together
    if together > 1 and (form not in ("direct", *TILES) or channels % all_groups or filters % all_groups):
        raise ShapeError(f"a packed convolution of form {form!r} of {groups} times {together} groups over {x.shape}, "
                         f"{filters} filters")
    if groups > 1 and (form != "direct" or channels % groups or filters % groups or w.shape[0] % groups):
        raise ShapeError(f"a packed convolution of form {form!r} in {groups} groups over {x.shape}, {filters} filters")
    wanted, found, panels = ((*kernel, channels // groups), w.shape[1:2 + rank],
                             w.shape[0]) if form == "direct" else (tuple(kernel), w.shape[:rank], 1)
    if form in TILES:
        wanted, found, panels = (math.prod(kernel[:-2]) * channels, *kernel[-2:]), w.shape[1:4], w.shape[0]
    room = w.shape[-1] * (panels // groups) * groups
    if tuple(found) != wanted or room < filters:
        raise ShapeError(f"packed weights {w.shape} of form {form} do not fit data {x.shape}, kernel {kernel}, "
                         f"{filters} filters")
    return (x.shape[0], *out, filters), x.dtype


def _windows(x: Any, n: Node, size: Sequence[int], stride: Sequence[int], dilate: Sequence[int],
             counts: Sequence[int]) -> Any:
    """Windows (N, *out, C, *kernel) of padded data, zeros beyond it."""
    pads, rank = n.attrs["pads"], len(size)
    spans = [(c - 1) * s + d * (k - 1) + 1 for c, s, d, k in zip(counts, stride, dilate, size)]
    wide = np.full((x.shape[0], *(max(span, have + p) for span, have, p in zip(spans, x.shape[1:], pads)),
                     x.shape[-1]), n.attrs.get("zero", 0), x.dtype)
    wide[(slice(None), *(slice(p, p + have) for p, have in zip(pads, x.shape[1:])))] = x
    reach = [d * (k - 1) + 1 for k, d in zip(size, dilate)]
    views = np.lib.stride_tricks.sliding_window_view(wide, reach,
                                                     axis=tuple(range(1, 1 + rank)))  # type: ignore[call-overload]
    taken = [slice(0, (c - 1) * s + 1, s) for c, s in zip(counts, stride)]
    return views[(slice(None), *taken, slice(None), *(slice(None, None, d) for d in dilate))]


def _eager(xp: Any, n: Node, x: Any, w: Any) -> Any:
    a = n.attrs
    if a["form"] in batch_in_lanes.FORMS:
        return batch_in_lanes.eager(n, x, w)
    if a["form"] in (WINOGRAD_WORDS, *TILES):
        return _winograd(n, x, w)
    if a.get("interleaved"):
        x = pairs.interleaved(xp, x.reshape(x.shape[-2:]), a["interleaved"], back=True).reshape(x.shape)
    if a["form"] in WORDS:
        x, w = low_precision.exact(x), low_precision.unpacked(low_precision.exact(w))
    win, rank = _windows(x, n, a["kernel"], a["stride"], a["dilate"], a["out"]), len(a["kernel"])
    summed = tuple(range(rank + 2, 2 * rank + 2))
    if a["form"] == "depthwise":
        return (win * np.moveaxis(w[..., :a["filters"]], -1, 0)).sum(summed, dtype=x.dtype)
    groups, own = a.get("groups", 1), a.get("together", 1)
    parts = []
    for v, u in zip(np.split(win, groups, axis=1 + rank), np.split(w, groups)):
        flat = np.moveaxis(u, 0, -2).reshape(*u.shape[1:-1], -1)[..., :a["filters"] // groups]
        for i, each in enumerate(np.split(v, own, axis=1 + rank)):       # without the zeros of the other groups
            mine = np.split(np.split(flat, own, axis=-1)[i], own, axis=-2)[i]
            parts.append(np.tensordot(each, mine, ((*summed, 1 + rank), tuple(range(rank + 1)))))
    return np.concatenate(parts, axis=1 + rank).astype(n.dtype)


def _winograd(n: Node, x: Any, w: Any) -> Any:
    a = n.attrs
    if x.ndim == 4:
        return _plane(n, x, w, a["out"], a["dilate"], a["pads"])
    # the sum over the depth's taps of convolutions of planes
    taps = np.split(w, a["kernel"][0], axis=1)
    low, out, far = a["pads"][0], a["out"], a["dilate"][0] * (len(taps) - 1)
    wide = np.pad(x, [(0, 0), (low, max(out[0] + far - low - x.shape[1], 0)), (0, 0), (0, 0), (0, 0)])
    planes = (wide[:, t * a["dilate"][0]:][:, :out[0]].reshape(-1, *x.shape[2:]) for t in range(len(taps)))
    return sum(_plane(n, p, u, out[1:], a["dilate"][1:], a["pads"][1:]) for p, u in zip(planes, taps)).reshape(n.shape)


def _plane(n: Node, x: Any, w: Any, out: Sequence[int], dilate: Sequence[int], pads: Sequence[int]) -> Any:
    m, in_words = TILES.get(n.attrs["form"], 2), n.attrs["form"] == WINOGRAD_WORDS
    at, g, bt = (array(rows) for rows in square(n.attrs["form"]))
    x = low_precision.exact(x) if in_words and dt.is_half(x.dtype) else x
    ys, xs = (np.array([t // d * d * m + t % d + d * np.arange(m + 2) for t in range(tiles(size, d, m))])
              for size, d in zip(out, dilate))
    room = [(p, max(int(i.max()) + 1 - p - size, 0)) for p, i, size in zip(pads, (ys, xs), x.shape[1:3])]
    parts = np.pad(x, [(0, 0), *room, (0, 0)])[:, ys][:, :, :, xs]
    v = np.einsum("ai,nhiwjc,bj->abnhwc", bt, parts, bt, optimize=True)
    if in_words:
        u = low_precision.unpacked(low_precision.exact(w)).transpose(1, 2, 0, 3)[:, :x.shape[-1]]
        u, v = u.reshape(4, 4, x.shape[-1], -1)[..., :n.attrs["filters"]], _rounded(v)
    else:
        flat = w.transpose(1, 2, 3, 0, 4).reshape(*w.shape[1:4], -1)[..., :n.attrs["filters"]]
        u = np.einsum("ai,cijo,bj->abco", g, flat, g, optimize=True)
    p = np.einsum("abnhwc,abco->abnhwo", v, u, optimize=True)
    y = np.empty((x.shape[0], int(ys.max()) + 1, int(xs.max()) + 1, n.attrs["filters"]), n.dtype)
    y[:, ys[:, :m, None, None], xs[:, :m]] = np.einsum("pa,abnhwo,qb->nhpwqo", at, p, at, optimize=True)
    return y[:, :out[0], :out[1]]


def _rounded(x: Any) -> Any:
    return x.astype(dt.as_dtype("bfloat16")).astype(np.float32)


PRIMS["conv"] = Prim("conv", _infer, _eager)


def conv(x: Node, w: Node, form: str, kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int],
         pads: Sequence[int], out: Sequence[int], filters: int,
         pool: Sequence[int] = (1, 1), groups: int = 1, zero: int = 0, together: int = 1,
         interleaved: int = 0) -> Node:
    """A packed convolution: x (N, H, W, C) or (N, D, H, W, C) -> (N, *out, filters); pads: zeros before the first
    plane, line and column (those behind follow from out).

    pool: of how many lines and columns of results the greatest is taken (forms of images alone). groups: of channels,
    each with filters of its own (``direct`` and forms of words). zero: what padding holds (forms of words alone).
    together: how many groups each of those stands for, with zeros between their weights (``direct`` and Winograd's).
    interleaved: pixels of a tile at most, where those of a line lie tile by tile (``words`` of bfloat16).
    """
    return make("conv", (x, w), form=form, kernel=tuple(kernel), stride=tuple(stride), dilate=tuple(dilate),
                pads=tuple(pads), out=tuple(out), filters=int(filters),
                **({"pool": tuple(pool)} if form in batch_in_lanes.FORMS else {}),
                **({"groups": groups} if groups > 1 else {}), **({"zero": zero} if zero else {}),
                **({"together": together} if together > 1 else {}),
                **({"interleaved": interleaved} if interleaved else {}))


def product(x: Node, w: Node, filters: int, form: str = "direct", zero: int = 0, interleaved: int = 0) -> Node:
    """Rows (1, 1, rows, depth) times a packed matrix: a convolution of a line whose filters have one pixel."""
    return conv(x, w, form, (1, 1), (1, 1), (1, 1), (0, 0), x.shape[1:3], filters, zero=zero, interleaved=interleaved)


def met(w: Node, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int],
        pads: Sequence[int],
        out: Sequence[int]) -> tuple[Node, tuple[int, ...], tuple[int, ...]]:
    """Weights without lines and columns that meet nothing but padding (3x3 filters over one pixel), their kernel, the
    padding before what remains. Along axes of symbolic size all are kept."""
    kept = []
    for h, k, s, d, p, o in zip(size, kernel, stride, dilate, pads, out):
        if not (fixed(h) and fixed(o)):
            kept.append((0, k))
            continue
        taps = [t for t in range(k) if any(0 <= y * s - p + t * d < h for y in range(o))] or [0]
        kept.append((min(taps[0], p // d), taps[-1] + 1))
    sizes = tuple(b - a for a, b in kept)
    w = slice_(w, (0, 0, *(a for a, _ in kept)), (*w.shape[:2], *sizes))
    return w, sizes, tuple(p - a * d for p, d, (a, _) in zip(pads, dilate, kept))


def joined(w: Node, groups: int, together: int) -> Node:
    """Weights (filters, C, kh, kw) of groups as those of fewer groups, so many together: with zeros for the channels of
    the others."""
    filters, channels, *kernel = w.shape
    parts = (groups // together, together, filters // groups, together, channels, *kernel)
    own = data(np.eye(together, dtype=bool).reshape(1, together, 1, together, 1, *[1] * len(kernel)))
    return reshape(map_("where", own, reshape(w, (*parts[:3], 1, *parts[4:])), 0.0),
                   (filters, together * channels, *kernel))


def pack(w: Node, form: str, width: int, groups: int = 1) -> Node:
    """Weights (filters, C / groups, *kernel) in the packed form; width: filters of a panel (depthwise: channels rounded
    up to it)."""
    zeros = (0,) * (w.ndim - 1)
    if groups > 1:
        each, rest = w.shape[0] // groups, w.shape[1:]
        w = pad(reshape(w, (groups, each, *rest)), (0, 0, *zeros), (0, -each % width, *zeros))
        w = reshape(w, (groups * w.shape[1], *rest))
    filters, channels, *kernel = w.shape
    panels, taps = -(-filters // width), len(kernel)
    if panels * width > filters:
        w = pad(w, (0, *zeros), (panels * width - filters, *zeros))
    if form == WINOGRAD_WORDS:
        g = data(array(square(form)[1]))
        w = dot(dot(pad(w, (0,) * 4, (0, channels % 2, 0, 0)), g, ((2,), (1,))), g, ((2,), (1,)))
        w = reshape(cast(w, dt.as_dtype("bfloat16")), (panels, width, -(-channels // 2), 2, 16))
        return permute(w, (0, 4, 2, 1, 3))
    if form == "depthwise":
        return reshape(permute(w, (*range(2, w.ndim), 0, 1)), (*kernel, panels * width))
    if form in TILES and taps == 3:                                      # the depth's taps are further channels
        w = reshape(permute(w, (0, 2, 1, 3, 4)), (panels * width, kernel[0] * channels, *kernel[1:]))
        channels, kernel, taps = kernel[0] * channels, kernel[1:], 2
    if form in TILES:
        return permute(reshape(permute(w, (1, 2, 3, 0)), (channels, *kernel, panels, width)), (3, 0, 1, 2, 4))
    split = reshape(permute(w, (*range(2, w.ndim), 1, 0)), (*kernel, channels, panels, width))
    return permute(split, (taps + 1, *range(taps + 1), taps + 2))
