"""Random counts of a distribution whose parameters are numbers: by inversion of its distribution function, which is
tabulated when the program is made, with one draw of 32 bits and a binary search for each count.

The tail at each end whose total probability is 2**-33 or less is never drawn.
"""
from __future__ import annotations

import functools
import math

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..ir import Node

MOST = 1 << 16                   # entries of a table: distributions that need more are drawn in another way
BITS = 32
TAIL = 30.0                      # minus the logarithm of the probability that a table leaves out, with some to spare


def poisson_table(lam: float) -> tuple[int, bytes] | None:
    """The table of a Poisson distribution of mean lam: P(k) / P(k - 1) = lam / k."""
    k = _counts(lam, lam, 1.0)
    if k is None:
        return None
    with np.errstate(divide="ignore"):
        return _table(int(k[0]) - 1, np.log(lam / k))


def negative_binomial_table(k: float, p: float) -> tuple[int, bytes] | None:
    """The table of failures before k successes of probability p: P(x) / P(x - 1) = (x - 1 + k) / x (1 - p)."""
    mean = k * (1 - p) / p
    x = _counts(mean, mean / p, 1.0 if p == 1 else -math.log1p(-p))
    if x is None:
        return None
    with np.errstate(divide="ignore"):
        return _table(int(x[0]) - 1, np.log((x - 1 + k) / x * (1 - p)))


def generalized_negative_binomial_table(mu: float, alpha: float) -> tuple[int, bytes] | None:
    """The table of counts of mean mu and dispersion alpha."""
    return negative_binomial_table(1 / alpha, 1 / (1 + alpha * mu)) if alpha and mu else poisson_table(mu)


def _counts(mean: float, variance: float, rate: float) -> np.ndarray | None:
    """Counts around a mean, without those that are never drawn; None for too many. rate: by how much
    the logarithm of the probability falls from one count to the next, far above the mean."""
    wide = 12 * math.sqrt(variance) + 20
    low, high = max(mean - wide, 0.0), mean + wide + TAIL / rate
    return np.arange(int(low) + 1, int(high) + 1, dtype=np.float64) if high - low < MOST else None


def _table(first: int, ratios: np.ndarray) -> tuple[int, bytes]:
    """The first count, and for each count but the last the largest draw of 32 bits that gives this count or a smaller
    one (uint32). ratios: logarithms of P(count) / P(count - 1), from the second count on."""
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
