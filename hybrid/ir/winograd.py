"""Winograd's convolution of a line, F(m, r): m results of a filter of r numbers with m + r - 1 products (Cook and
Toom's construction by interpolation; Blahut, Fast Algorithms for Signal Processing, 2010; Lavin and Gray, 2015).
"""
from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Sequence

import numpy as np

# in pairs: sums and differences are shared
POINTS = tuple(map(Fraction, (0, 1, -1, 2, -2))) + (Fraction(1, 2), Fraction(-1, 2))
# a third of the rounding errors of 2, -2 where both axes are transformed
MIXED = (*POINTS[:3], Fraction(1, 2), Fraction(-2))
TILES = {"winograd": 2, "winograd4": 4}                  # m of the forms F(m x m, 3x3)
WINOGRAD_WORDS = "winograd_words"                        # F(2x2, 3x3) whose products are of pairs of bfloat16
# recovers the 3 taps g from the 4 transformed values G g, for F(2, 3)
TAPS = ((-1, 0, 0, 0), (0, 1, -1, 0), (0, 0, 0, 1))
FILTER = {"winograd": 60, "winograd4": 110}              # a filter's transform, counted in products with a number
Rows = tuple[tuple[Fraction, ...], ...]


@lru_cache(maxsize=32)
def matrices(results: int, taps: int, points: tuple[Fraction, ...] = POINTS) -> tuple[Rows, Rows, Rows]:
    """Aᵀ, G and Bᵀ with y = Aᵀ ((G g) · (Bᵀ d)); there are results + taps - 1 points, 8 at most, the last at
    infinity."""
    n = results + taps - 1
    if not 2 <= n <= len(points) + 1:
        raise ValueError(f"F({results}, {taps}) has {n} points; 2 to {len(points) + 1} are known")
    points = points[:n - 1]
    at = tuple(tuple(p ** i for p in points) + (Fraction(int(i == results - 1)),) for i in range(results))
    g, bt = [], []
    for i, p in enumerate(points):
        others = [q for j, q in enumerate(points) if j != i]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        g.append(tuple(p ** j / scale for j in range(taps)))
        bt.append((*_polynomial(others), Fraction(0)))
    g.append(tuple(Fraction(int(j == taps - 1)) for j in range(taps)))
    bt.append(_polynomial(list(points)))
    return at, tuple(g), tuple(bt)


def square(form: str) -> tuple[Rows, Rows, Rows]:
    """The matrices of a form F(m x m, 3x3)."""
    return matrices(TILES.get(form, 2), 3, MIXED)


def _polynomial(roots: list[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients of the product of (x - root), the constant first."""
    c = [Fraction(1)]
    for r in roots:
        c = [(c[k - 1] if k else Fraction(0)) - (r * c[k] if k < len(c) else 0) for k in range(len(c) + 1)]
    return tuple(c)


def array(rows: Rows) -> np.ndarray:
    """A matrix in float32."""
    return np.array([[float(v) for v in row] for row in rows], np.float32)


def tiles(size: int, dilate: int, m: int) -> int:
    """Tiles of m results along an axis of so many. With a dilation each tile has results so far apart: those between
    are other tiles'."""
    each = -(-size // dilate)
    return dilate * -(-each // m)


def by_rule(kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int], out: Sequence[int], channels: int,
            batch: int = 1) -> str:
    """The form of a convolution by rule: F(4x4, 3x3), F(2x2, 3x3), or none ("")."""
    if not possible(kernel, stride, dilate, out) or channels < 8:
        return ""
    products = {f: batch * math.prod(tiles(size, d, m) for size, d in zip(out, dilate)) * (m + 2) ** 2 + FILTER[f]
                for f, m in TILES.items()}
    if products["winograd4"] * 1.2 < products["winograd"]:
        return "winograd4"
    return "winograd" if products["winograd"] * 1.2 < 9 * batch * math.prod(out) else ""


def possible(kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int], out: Sequence[int]) -> bool:
    """Whether a convolution could be of these forms at all."""
    return tuple(kernel) == (3, 3) and tuple(stride) == (1, 1) and all(size > 3 * d for size, d in zip(out, dilate))
