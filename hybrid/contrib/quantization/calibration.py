"""Calibration: ranges of activations, found by running a float32 network on examples: the least and the greatest
element, or the clipping threshold with the least divergence of Kullback and Leibler."""
from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np

from ...base import py_str
from ...base.errors import AttributeValueError
from ...buffers.array import NDArray, array

BINS = 8001                      # of a histogram, MXNet's number: odd, so that zero is in the middle of one
MOST_BINS = 8 * BINS             # of a histogram that grew; instead of more bins, it gets wider ones
LEVELS = 255                     # bins that a distribution is quantized to
Ends = dict[str, tuple[float, float]]                          # ranges (min, max) by name
# counts, their edges, least and greatest element, half the width
Histogram = tuple[np.ndarray, np.ndarray, float, float, float]


def batches(data: Any, inputs: int, most: int | None) -> Iterator[list[NDArray]]:
    """The inputs of each batch of a DataLoader, a DataIter, or an iterable of arrays, labels left out; until there are
    ``most`` examples."""
    if hasattr(data, "reset"):
        data.reset()
    seen = 0
    for batch in data:
        given = batch.data if hasattr(batch, "data") and hasattr(batch, "label") else batch
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(given) < inputs:
            raise AttributeValueError(f"calib_data gives {len(given)} arrays a batch, the network takes {inputs}")
        taken = [x if isinstance(x, NDArray) else array(x) for x in given[:inputs]]
        yield taken
        seen += taken[0].shape[0]
        if most is not None and seen >= most:
            return
    if not seen:
        raise AttributeValueError("calib_data gives no batches")


class Collector:
    """Collects statistics of tensors. ``collect`` can be the callback of an executor's monitor.

    dtype: of the 8-bit numbers. include_layer: names of the tensors to look at; None: all.
    """

    def __init__(self, dtype: str, include_layer: Sequence[str] | None = None):
        self.quantized_dtype, self.include_layer = dtype, include_layer

    def collect(self, name: str | bytes, x: Any) -> None:
        """Updates the statistics of a tensor with another batch, which may be empty. Raises an error for elements that
        are not finite, since these have no range."""
        name = py_str(name)
        if self.include_layer is not None and name not in self.include_layer:
            return
        x = x.asnumpy() if isinstance(x, NDArray) else np.asarray(x)
        if not np.isfinite(x).all():
            raise AttributeValueError(f"calibration: {name} has elements that are infinite or no numbers, so no range")
        if x.size:
            self._collect(name, x)

    def _collect(self, name: str, x: np.ndarray) -> None:
        raise NotImplementedError

    def ends(self) -> Ends:
        """Ranges (min, max) by name."""
        raise NotImplementedError


class Extremes(Collector):
    """The least and the greatest element of each tensor."""

    def __init__(self, dtype: str, include_layer: Sequence[str] | None = None):
        super().__init__(dtype, include_layer)
        self.min_max_dict: Ends = {}

    def _collect(self, name: str, x: np.ndarray) -> None:
        low, high = float(x.min()), float(x.max())
        a, b = self.min_max_dict.get(name, (low, high))
        self.min_max_dict[name] = min(a, low), max(b, high)

    def ends(self) -> Ends:
        """Ranges (min, max) by name."""
        return self.min_max_dict


class Histograms(Collector):
    """Histograms of tensors, whose ranges are the clipping thresholds with the least divergence."""

    def __init__(self, dtype: str, include_layer: Sequence[str] | None = None):
        super().__init__(dtype, include_layer)
        self.hist_dict: dict[str, Histogram] = {}

    def _collect(self, name: str, x: np.ndarray) -> None:
        low, high = float(x.min()), float(x.max())
        wide = max(abs(low), abs(high)) or 1e-8
        if name in self.hist_dict:
            self.hist_dict[name] = combine_histogram(self.hist_dict[name], x, low, high, wide)
        else:
            self.hist_dict[name] = (*np.histogram(x, bins=BINS, range=(-wide, wide)), low, high, wide)

    def ends(self) -> Ends:
        """Ranges (min, max) by name."""
        return ends_of_histograms(self.hist_dict, self.quantized_dtype)


def combine_histogram(old_hist: Histogram, arr: Any, new_min: float, new_max: float, new_th: float) -> Histogram:
    """A histogram that counts the elements of another array, too. If some lie outside of it, it grows by whole bins;
    where these would be more than MOST_BINS in all, it keeps their number and makes them wider.

    old_hist: counts, edges, least element, greatest element, half the width. new_min, new_max, new_th: the least and
    the greatest element of ``arr``, and its greatest magnitude.

    >>> counts, edges = np.histogram([1.0, -1.0], bins=3, range=(-1, 1))
    >>> combine_histogram((counts, edges, -1.0, 1.0, 1.0), np.zeros(4), 0.0, 0.0, 0.0)[0].tolist()
    [1, 4, 1]
    """
    old, edges, least, greatest, have = old_hist
    ends = min(least, new_min), max(greatest, new_max)
    if new_th <= have:
        return old + np.histogram(arr, bins=len(old), range=(-have, have))[0], edges, *ends, have
    step = 2 * have / len(old)
    if (new_th - have) / step > (MOST_BINS - len(old)) / 2:
        moved = np.histogram((edges[:-1] + edges[1:]) / 2, len(old), (-new_th, new_th), weights=old)[0]
        new, edges = np.histogram(arr, len(old), (-new_th, new_th))
        return new + moved.astype(new.dtype), edges, *ends, new_th
    more = int((new_th - have) // step + 1)
    wide = more * step + have
    new, edges = np.histogram(arr, bins=len(old) + 2 * more, range=(-wide, wide))
    new[more:len(new) - more] += old
    return new, edges, *ends, wide


def ends_of_histograms(histograms: Mapping[str, Histogram], dtype: str) -> Ends:
    """Ranges (min, max) of tensors by name, up to their clipping thresholds. They begin at zero for tensors without
    negative elements, if the 8-bit numbers may be unsigned."""
    out = {}
    for name, (histogram, edges, low, _, _) in histograms.items():
        positive = low >= 0 and dtype in ("auto", "uint8")
        wide = threshold(histogram, edges, LEVELS * 2 + 1 if positive else LEVELS)[0]
        out[name] = (0.0, wide) if positive else (-wide, wide)
    return out


def threshold(histogram: np.ndarray, edges: np.ndarray, levels: int = LEVELS) -> tuple[float, float]:
    """The distance from zero at which to cut a distribution off, so that what is left, in so many levels, differs least
    from all of it (by Kullback and Leibler), and that divergence. After S. Migacz, 8-bit inference with TensorRT, 2017.

    histogram: counts in an odd number of bins around zero; edges: one more.
    """
    counts = np.asarray(histogram, np.float64)
    middle = len(counts) // 2
    best, found = np.inf, float(edges[-1])
    total = np.concatenate([[0.0], np.cumsum(counts)])
    for i in range(levels // 2, middle + 1):
        start, stop = middle - i, middle + i + 1
        inside = counts[start:stop]
        whole = inside.copy()
        whole[0] += total[start]
        whole[-1] += total[-1] - total[stop]
        first = np.arange(levels) * (len(inside) // levels)
        some = whole != 0
        sums, many = np.add.reduceat(inside, first), np.add.reduceat(some.astype(np.int64), first)
        means = np.divide(sums, many, out=np.zeros(levels), where=many > 0)
        coarse = np.repeat(means, np.diff(np.append(first, len(inside)))) * some
        divergence = _divergence(whole, coarse)
        if divergence < best:
            best, found = divergence, float(edges[stop])
    return found, float(best)


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Kullback and Leibler's of two histograms, whose empty bins get a little of the others."""
    if not q.any() or not p.any():
        return float(np.inf)
    p, q = _smooth(p), _smooth(q)
    if (p <= 0).any() or (q <= 0).any():
        return float(np.inf)
    p, q = p / p.sum(), q / q.sum()
    return float((p * np.log(p / q)).sum())


def _smooth(p: np.ndarray, least: float = 1e-4) -> np.ndarray:
    empty = p == 0
    taken = least * empty.sum() / max((~empty).sum(), 1)
    return np.where(empty, least, p - taken)


COLLECTORS = {"naive": Extremes, "entropy": Histograms}


def calibrate(run: Any, names: Sequence[str], data: Iterable[Any], inputs: int, most: int | None,
              collector: Any) -> Ends:
    """Ranges of values by name. run: computes their arrays from the inputs."""
    for given in batches(data, inputs, most):
        values = run(*given)
        for name, x in zip(names, values if isinstance(values, (list, tuple)) else [values]):
            collector.collect(name, x.asnumpy())
    return ends_of(collector)


def ends_of(collector: Any) -> Ends:
    """The ranges that a collector found: one of ours, or a user's with ``ends()`` or MXNet's ``min_max_dict``."""
    return dict(collector.ends() if hasattr(collector, "ends") else collector.min_max_dict)
