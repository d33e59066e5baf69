"""Packed convolutions whose vectors hold one pixel of several images: data (B, C, H, W, L), image b L + l in lane l
of block b. What small nets of few channels become (``passes/batch_in_lanes.py``); ``packed_batch_in_lanes.py`` of
codegen/printers/convolutions prints
it.

With groups of g filters: weights (groups, kh, C, kw, g), or transformed along rows for F(m, kw), (groups, m + kw - 1,
kh, C, g). The maximum of each ``pool`` of results may be taken at once.
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base.errors import ShapeError
from .build import data, dot, pad, permute, reshape
from .node import Node
from .winograd import array, matrices

FORMS = ("batch_in_lanes", "batch_in_lanes_winograd")


def infer(x: Node, w: Node, form: str, kernel: Any, pool: Any, out: tuple[int, int], filters: int) -> Any:
    """Shape and dtype of a result."""
    (kh, kw), c = kernel, x.shape[1] if x.ndim == 5 else -1
    fits = w.ndim == 5 and (w.shape[1:4] == (kh, c, kw) if form == "batch_in_lanes" else w.shape[1] > kw
                            and w.shape[2:4] == (kh, c))
    if x.ndim != 5 or not fits or w.shape[0] * w.shape[4] < filters:
        raise ShapeError(f"packed weights {w.shape} of form {form} do not fit data {x.shape}, kernel {kernel}, "
                         f"{filters} filters")
    if form == "batch_in_lanes_winograd" and pool[1] > 1 and (w.shape[1] - kw + 1) % pool[1]:
        raise ShapeError(f"{w.shape[1] - kw + 1} results of a line at once are no whole pools of {pool[1]}")
    return (x.shape[0], filters, *out, x.shape[4]), x.dtype


def pack(w: Node, group: int, results: int) -> Node:
    """Weights (filters, C, kh, kw) in groups of ``group``; results: m of F(m, kw), 1 for filters as they are."""
    filters, channels, kh, kw = w.shape
    groups = -(-filters // group)
    if groups * group > filters:
        w = pad(w, (0, 0, 0, 0), (groups * group - filters, 0, 0, 0))
    if results == 1:
        return permute(reshape(w, (groups, group, channels, kh, kw)), (0, 3, 2, 4, 1))
    w = dot(w, data(array(matrices(results, kw)[1])), ((3,), (1,)))
    return permute(reshape(w, (groups, group, channels, kh, w.shape[3])), (0, 4, 3, 2, 1))


def eager(n: Node, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """In NumPy."""
    a = n.attrs
    (kh, kw), (ph, pw), (oh, ow) = a["kernel"], a["pool"], a["out"]
    wino = a["form"] == "batch_in_lanes_winograd"
    results = w.shape[1] - kw + 1 if wino else 1
    tiles, high = -(-ow * pw // results), oh * ph
    taps, step = (w.shape[1], results) if wino else (kw, a["stride"][1])
    win = _windows(x, (kh, taps), (a["stride"][0], step), (a["dilate"][0], 1 if wino else a["dilate"][1]), a["pads"],
                   (high, tiles))
    if not wino:
        y = np.einsum("bchwlij,gicjf->bgfhwl", win, w, optimize=True)
    else:
        at, _, bt = (array(m) for m in matrices(results, kw))
        m = np.einsum("bchtliq,pq,gpicf->bgfhtpl", win, bt, w, optimize=True)
        y = np.einsum("rp,bgfhtpl->bgfhtrl", at, m, optimize=True)
        y = y.reshape(*y.shape[:4], -1, y.shape[-1])
    y = y.reshape(x.shape[0], -1, high, y.shape[-2], x.shape[4])[:, :a["filters"], :, :ow * pw]
    return y.reshape(*y.shape[:2], oh, ph, ow, pw, y.shape[-1]).max((3, 5)).astype(x.dtype)


def _windows(x: np.ndarray, size: Sequence[int], stride: Sequence[int], dilate: Sequence[int], pads: Sequence[int],
             counts: Sequence[int]) -> np.ndarray:
    """Windows (B, C, oh, ow, L, kh, kw) of padded data, zeros beyond it."""
    spans = [(c - 1) * s + d * (k - 1) + 1 for c, s, d, k in zip(counts, stride, dilate, size)]
    wide = np.zeros((*x.shape[:2], max(spans[0], x.shape[2] + pads[0]), max(spans[1], x.shape[3] + pads[1]),
                     x.shape[4]), x.dtype)
    wide[:, :, pads[0]:pads[0] + x.shape[2], pads[1]:pads[1] + x.shape[3]] = x
    views = np.lib.stride_tricks.sliding_window_view(wide, [d * (k - 1) + 1 for k, d in zip(size, dilate)],
                                                     axis=(2, 3))  # type: ignore[call-overload]
    return views[:, :, ::stride[0], ::stride[1], :, ::dilate[0], ::dilate[1]][:, :, :counts[0], :counts[1]]
