"""Winograd's convolution F(2x2, 3x3) on GPUs, channels last: squares of 4x4 pixels and filters are transformed by
kernels of their own, sixteen products of matrices follow, one for each place in a square, and one more kernel puts
their sums together.

It takes 4 multiplications where the direct form takes 9, but the transformed values pass through memory. So it pays
only for float32 (where tensor cores compute three products for one) with many channels and large batches. The constants
below were fitted to the counts of benchmarks/gpu_counts.py.
"""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from .. import ir
from ..ir import Node
from ..ir.winograd import Rows, square
from .axis_orders import is_channels_last

TILE, TAPS = 2, 3                                          # result pixels of a square, taps of a filter, along an axis
CHUNK = 4                                                  # channels are a multiple of it: so many are copied at once
BYTE = 16                                                  # multiplications in the time of reading or writing a byte
LAUNCHES = 2e8                                             # multiplications in the time that three more launches take
Grid = list[list[Node]]


def pays(pixels: int, squares: int, channels: int, filters: int) -> bool:
    """Whether a convolution takes less time in this form. pixels: of the results; squares: of 4x4 pixels."""
    of_square = (TILE + TAPS - 1) ** 2
    saved = channels * filters * (pixels * TAPS ** 2 - squares * of_square)
    moved = pixels * (channels + 3 * filters) + squares * of_square * (channels + filters)
    return saved > BYTE * 4 * (moved + channels * filters * (TAPS ** 2 + of_square)) + LAUNCHES


def _fits(win: Node) -> bool:
    """Whether windows are 3x3 neighbouring pixels of float32, in data that is channels last."""
    return (win.prim == "window" and win.dtype == np.float32 and win.shape[3] % CHUNK == 0
            and [win.attrs[k] for k in ("size", "stride", "dilation")] == [(TAPS, TAPS), (1, 1), (1, 1)]
            and is_channels_last(win))


def over_squares(win: Node, w: Node, taps: Sequence[int], channel: int) -> Node | None:
    """The sums over channels and taps of windows (N, *out, C, *kernel): (N, *out, filters). taps, channel: the axes of
    w. None where this form does not fit, or does not pay."""
    if not _fits(win):
        return None
    n, height, width, channels = win.shape[:4]
    kernels = next(a for a in range(w.ndim) if a not in (*taps, channel))
    filters, down, across = w.shape[kernels], -(-height // TILE), -(-width // TILE)
    squares = n * down * across
    if not pays(n * height * width, squares, channels, filters):
        return None
    at, g, bt = square("winograd")
    x = ir.pad(win.args[0], (0,) * 4, (0, TILE * down - height, TILE * across - width, 0))
    pixels = [[ir.reshape(ir.slice(x, (0, i, j, 0), (n, down, across, channels), (1, TILE, TILE, 1)),
                          (1, squares, channels)) for j in range(TILE + TAPS - 1)] for i in range(TILE + TAPS - 1)]
    of_taps = [[_tap(w, kernels, channel, dict(zip(taps, (i, j)))) for j in range(TAPS)] for i in range(TAPS)]
    sums = ir.dot(_stacked(bt, pixels), _stacked(g, of_taps), ((2,), (2,)), ((0,), (0,)))
    found = [[ir.slice(sums, (i * len(bt) + j, 0, 0), (1, squares, filters)) for j in range(len(bt))]
             for i in range(len(bt))]
    y = ir.reshape(_stacked(at, found), (TILE, TILE, n, down, across, filters))
    y = ir.reshape(ir.permute(y, (2, 3, 0, 4, 1, 5)), (n, TILE * down, TILE * across, filters))
    return ir.slice(y, (0,) * 4, (n, height, width, filters))


def _tap(w: Node, kernels: int, channel: int, at: dict[int, int]) -> Node:
    """The weights of one tap: (1, filters, channels). at: by axis of w, its place."""
    one = ir.slice(w, [at.get(a, 0) for a in range(4)], [1 if a in at else w.shape[a] for a in range(4)])
    return ir.reshape(ir.permute(one, (*at, kernels, channel)), (1, w.shape[kernels], w.shape[channel]))


def _stacked(rows: Rows, parts: Grid) -> Node:
    """rows @ parts @ transposed rows, where parts is a square matrix of arrays (1, …): the results, concatenated.
    Each result is one sum of parts, so that fusion computes it in one kernel and does not store sums of a row."""
    return ir.concat([_sum([(f * g, x) for f, line in zip(down, parts) for g, x in zip(across, line)])
                      for down in rows for across in rows], 0)


def _sum(terms: Sequence[tuple[Fraction, Node]]) -> Node:
    """The sum of parts times their factors; parts with positive factors come first."""
    out: Node | None = None
    for f, x in sorted(terms, key=lambda term: term[0] <= 0):
        if f:
            term = x if abs(f) == 1 else x * float(abs(f))
            out = (term if f > 0 else -term) if out is None else out + term if f > 0 else out - term
    assert out is not None
    return out
