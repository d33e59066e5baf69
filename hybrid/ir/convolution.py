"""Convolutions, and what transposed ones add up, as products over windows."""
from __future__ import annotations

from typing import Sequence

from ..base.errors import ShapeError
from . import build
from .node import Node


def convolve(x: Node, w: Node, groups: int, stride: Sequence[int], dilate: Sequence[int], pad: Sequence[int]) -> Node:
    """x (N, C, …), w (O, C/groups, …) -> (N, O, …): a contraction over windows of the padded input."""
    n = x.ndim - 2
    win = build.window(build.pad(x, (0, 0, *pad), (0, 0, *pad)), tuple(range(2, n + 2)), w.shape[2:], stride, dilate)
    out = win.shape[2:n + 2]
    if 0 in out:
        raise ShapeError(f"the kernel {w.shape[2:]} with dilation {tuple(dilate)} is larger than the padded input "
                         f"{tuple(d + 2 * p for d, p in zip(x.shape[2:], pad))}")
    if groups == 1:
        y = build.dot(w, win, (tuple(range(1, n + 2)), (1, *range(n + 2, 2 * n + 2))))
        return build.permute(y, (1, 0, *range(2, n + 2)))
    each, filters = x.shape[1] // groups, w.shape[0] // groups
    win = build.reshape(win, (x.shape[0], groups, each) + win.shape[2:])
    w = build.reshape(w, (groups, filters) + w.shape[1:])
    y = build.dot(w, win, (tuple(range(2, n + 3)), (2, *range(n + 3, 2 * n + 3))), ((0,), (1,)))  # group, filter, N, …
    return build.reshape(build.permute(y, (2, 0, 1, *range(3, n + 3))), (x.shape[0], w.shape[0] * filters) + out)


def columns(x: Node, w: Node) -> Node:
    """What a transposed convolution adds up: data (N, groups, C / groups, …), weights (groups, C / groups, F / groups,
    …) -> (N, F, …, kernel…)."""
    n = x.ndim - 3
    y = build.dot(x, w, ((2,), (1,)), ((1,), (0,)))                            # group, N, …, filter, kernel…
    y = build.permute(y, (1, 0, 2 + n, *range(2, 2 + n), *range(3 + n, y.ndim)))
    return build.reshape(y, (x.shape[0], w.shape[0] * w.shape[2], *y.shape[3:]))
