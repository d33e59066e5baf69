"""Random counts of a distribution whose parameters are numbers: by inversion of its distribution function, which is
tabulated when the program is made, with one draw of 32 bits and a binary search for each count.

The tail at each end whose total probability is 2**-33 or less is never drawn.
"""
from __future__ import annotations

import functools
import math
from typing import Callable

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..ir import Node

MOST = 1 << 16                   # entries of a table: distributions that need more are drawn in another way
BITS = 32
TAIL = 30.0                      # minus the logarithm of the probability that a table leaves out, with some to spare


def poisson_table(lam: float) -> tuple[int, bytes] | None:
    """The table of a Poisson distribution of mean lam: P(k) / P(k - 1) = lam / k."""
    return _table(lam, lam, 1.0, lambda k: lam / k)


def negative_binomial_table(k: float, p: float, failure: float | None = None) -> tuple[int, bytes] | None:
    """The table of failures before k successes of probability p: P(x) / P(x - 1) = (x - 1 + k) / x (1 - p). failure:
    1 - p, where that is known to more digits."""
    q = 1 - p if failure is None else failure
    mean = k * q / p
    return _table(mean, mean / p, p, lambda x: (x - 1 + k) / x * q)      # -log(1 - p) is p at least


def generalized_negative_binomial_table(mu: float, alpha: float) -> tuple[int, bytes] | None:
    """The table of counts of mean mu and dispersion alpha."""
    spread = 1 + alpha * mu
    return negative_binomial_table(1 / alpha, 1 / spread, alpha * mu / spread) if alpha and mu else poisson_table(mu)


def _table(mean: float, variance: float, rate: float,
           ratio: Callable[[np.ndarray], np.ndarray]) -> tuple[int, bytes] | None:
    """The first count that is drawn, and for each count but the last the largest draw of 32 bits that gives this count
    or a smaller one (uint32); None for too many counts. rate: by how much the logarithm of the probability falls from
    one count to the next, far above the mean, at least. ratio: P(count) / P(count - 1)."""
    wide = 12 * math.sqrt(variance) + 20
    low, high = max(mean - wide, 0.0), mean + wide + TAIL / rate
    if not high - low < MOST:
        return None
    first = int(low)
    with np.errstate(divide="ignore"):
        ratios = np.log(ratio(np.arange(first + 1, int(high) + 1, dtype=np.float64)))
    logs = np.concatenate(([0.0], np.cumsum(ratios)))
    chances = np.exp(logs - logs.max())
    upto = np.rint(np.cumsum(chances) / chances.sum() * 2.0**BITS)
    never = int(np.searchsorted(upto, 0, "right"))
    return first + never, (upto[never:np.searchsorted(upto, 2.0**BITS)] - 1).astype(np.uint32).tobytes()


def counts(key: Node, shape: tuple[int, ...], first: int, table: bytes, stream: int = 0) -> Node:
    """Counts as float32: the first one, and one more for each entry of the table that is below the draw."""
    bits = ir.random_bits(key, shape, stream)
    entries = np.frombuffer(table, np.uint32)
    steps = [1 << i for i in reversed(range(len(entries).bit_length()))]
    filled = ir.data(np.concatenate((entries, np.full(2 * steps[0] - len(entries), 2**BITS - 1, np.uint32)))
                     if steps else entries)
    at = ir.full(0, shape, dt.int32)
    for step in steps:
        passed = ir.map("lt", ir.gather(filled, at + (step - 1)), bits)
        at = at + ir.map("where", passed, ir.const(step, dt.int32), ir.const(0, dt.int32))
    return ir.cast(at + first, dt.float32)


TABLES = {"poisson": functools.lru_cache(256)(poisson_table),
          "negative_binomial": functools.lru_cache(256)(negative_binomial_table),
          "generalized_negative_binomial": functools.lru_cache(256)(generalized_negative_binomial_table)}
