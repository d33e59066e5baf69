"""Slopes of functions by differences, to both sides of a point: where they differ there is a kink, and a gradient must
lie between them.
"""
from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

STEP = 1e-5


def sides(f: Callable[[Sequence[np.ndarray]], float], xs: Sequence[np.ndarray], here: float,
          moves: dict[int, np.ndarray]) -> tuple[float, float]:
    """Slopes to the right and to the left when inputs move along directions, by differences of second order."""
    def at(h: float) -> float:
        return f([x + h * moves[k] if k in moves else x for k, x in enumerate(xs)])
    right, left = ((4 * at(h) - at(2 * h) - 3 * here) / (2 * h) for h in (STEP, -STEP))
    return right, left


def check(got: float, slopes: tuple[float, float], room: float, what: str) -> None:
    """A gradient lies between the slopes to both sides."""
    low, high = min(slopes), max(slopes)
    room *= max(1.0, abs(low), abs(high))
    assert low - room <= got <= high + room, f"{what}: gradient {got}, differences {slopes}"
