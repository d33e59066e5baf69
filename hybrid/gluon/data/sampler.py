"""Samplers: in which order the samples of a dataset are visited."""
from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator

import numpy as np

LAST_BATCH = ("keep", "discard", "rollover")


class Sampler:
    """Gives indices. Subclasses define ``__iter__`` and ``__len__``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class SequentialSampler(Sampler):
    """start, start + 1, … start + length - 1.

    >>> list(SequentialSampler(3, start=5))
    [5, 6, 7]
    """

    def __init__(self, length: int, start: int = 0):
        self._length, self._start = length, start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """0 … length - 1 in a new random order at every iteration, by ``numpy.random`` (``numpy.random.seed`` repeats
    it)."""

    def __init__(self, length: int):
        self._length = length

    def __iter__(self) -> Iterator[int]:
        indices = np.arange(self._length)
        np.random.shuffle(indices)
        return iter(indices.tolist())

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The indices of the samples for which ``fn(sample)`` is true; every sample is looked at once, here.

    >>> list(FilterSampler(lambda x: x > 3, [1, 5, 2, 7]))
    [1, 3]
    """

    def __init__(self, fn: Callable[[Any], Any], dataset: Any):
        self._fn, self._dataset = fn, dataset
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class IntervalSampler(Sampler):
    """Every ``interval``-th index; with ``rollover`` again from the first one skipped until all have been visited.

    >>> list(IntervalSampler(7, 3))
    [0, 3, 6, 1, 4, 2, 5]
    >>> list(IntervalSampler(7, 3, rollover=False))
    [0, 3, 6]
    """

    def __init__(self, length: int, interval: int, rollover: bool = True):
        if not 0 < interval <= length:
            raise ValueError(f"the interval must be from 1 to the length, {length}; got {interval}")
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self) -> Iterator[int]:
        for first in range(self._interval if self._rollover else 1):
            yield from range(first, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else len(range(0, self._length, self._interval))


class BatchSampler(Sampler):
    """Lists of ``batch_size`` indices of another sampler.

    last_batch says what becomes of a last one that is shorter: ``keep`` gives it, ``discard`` drops it, ``rollover``
    puts it before the next iteration's.

    >>> list(BatchSampler(SequentialSampler(5), 2, "keep"))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Any, batch_size: int, last_batch: str = "keep"):
        if last_batch not in LAST_BATCH:
            raise ValueError(f"last_batch must be one of {', '.join(LAST_BATCH)}; got {last_batch!r}")
        if isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1:
            raise ValueError(f"batch_size must be a positive integer, got {batch_size!r}")
        self._sampler: Iterable[Any] = sampler
        self._batch_size, self._last_batch = int(batch_size), last_batch
        self._prev: list[Any] = []

    def __iter__(self) -> Iterator[list[Any]]:
        batch, self._prev = self._prev, []
        for i in self._sampler:
            batch.append(i)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._prev = batch

    def __len__(self) -> int:
        n = len(self._sampler)                                   # type: ignore[arg-type]
        if self._last_batch == "keep":
            return -(-n // self._batch_size)
        return (n + len(self._prev if self._last_batch == "rollover" else ())) // self._batch_size
