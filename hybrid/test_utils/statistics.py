"""Tests of random number generators: mean, variance, and Pearson's chi-square test of frequencies."""
from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import numpy as np

from .compare import host


def gen_buckets_probs_with_ppf(ppf: Callable[[float], Any], nbuckets: int) -> tuple[list[Any], list[float]]:
    """Intervals of equal probability, from the inverse of a distribution function."""
    if nbuckets < 1:
        raise ValueError(f"there must be a bucket or more, got {nbuckets}")
    return [(ppf(i / nbuckets), ppf((i + 1) / nbuckets)) for i in range(nbuckets)], [1.0 / nbuckets] * nbuckets


def mean_check(generator: Callable[[int], Any], mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the mean of nsamples draws is within three standard errors of mu."""
    return bool(abs(host(generator(nsamples)).mean(dtype=np.float64) - mu) < 3 * sigma / math.sqrt(nsamples))


def var_check(generator: Callable[[int], Any], sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the variance of nsamples draws is within three standard errors of sigma^2 (for normal draws)."""
    return bool(abs(host(generator(nsamples)).var(ddof=1,
                                                  dtype=np.float64) - sigma**2) < 3 * math.sqrt(
            2 * sigma**4 / (nsamples - 1)))


def chi_square_check(generator: Callable[[int], Any], buckets: Sequence[Any], probs: Sequence[float],
                     nsamples: int = 1000000) -> tuple[float, np.ndarray, np.ndarray]:
    """(p value, counts, expected counts) of draws in buckets: values, or (low, high) intervals, with their
    probabilities."""
    if len(probs) != len(buckets) or not buckets:
        raise ValueError(f"chi_square_check: {len(buckets)} buckets with {len(probs)} probabilities")
    expected = np.floor(nsamples * np.asarray(probs, np.float64)).astype(np.int64)
    samples = host(generator(nsamples)).reshape(-1)
    if isinstance(buckets[0], (list, tuple)):
        edges = sorted({float(e) for pair in buckets for e in pair})
        found = np.searchsorted(edges, samples, side="right") - 1
        place = {edge: i for i, edge in enumerate(edges)}
        counts = np.array([(found == place[float(low)]).sum() for low, _ in buckets])
    else:
        counts = np.array([(samples == b).sum() for b in buckets])
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.nansum((counts - expected)**2 / expected)
    return chi_square_tail(float(statistic), len(buckets) - 1), counts, expected


def chi_square_tail(x: float, freedom: int) -> float:
    """P(X >= x) for a chi-square distribution: the regularized upper incomplete gamma function Q(freedom / 2, x / 2).

    By its series below a + 1 and its continued fraction above (Numerical Recipes, 3rd edition, 6.2).
    """
    a, z = freedom / 2, x / 2
    if z <= 0:
        return 1.0
    front = math.exp(a * math.log(z) - z - math.lgamma(a))
    if z < a + 1:
        term = total = 1 / a
        n = a
        while term > total * 1e-16:
            n += 1
            term *= z / n
            total += term
        return max(1 - total * front, 0.0)
    b = z + 1 - a
    c, d = 1e300, 1 / b
    h = d
    for i in range(1, 10000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b or 1e-300)
        c = b + step / c or 1e-300
        h *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * h


def verify_generator(generator: Callable[[int], Any], buckets: Sequence[Any], probs: Sequence[float],
                     nsamples: int = 1000000, nrepeat: int = 5,
                     success_rate: float = 0.2, alpha: float = 0.05) -> list[float]:
    """p values of nrepeat chi-square tests. AssertionError if fewer than a share success_rate of them is above
    alpha."""
    found = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    values = [p for p, _, _ in found]
    if sum(p > alpha for p in values) < nrepeat * success_rate:
        raise AssertionError(f"Generator test fails, Chi-square p={values}, "
                             f"counts={[c.tolist() for _, c, _ in found]}, expected={found[0][2].tolist()}, "
                             f"buckets={buckets}, probs={probs}")
    return values
