"""Samplers that give each rank its own part of a data set."""
from __future__ import annotations

import random
from typing import Any, Iterator

import numpy as np

from .. import collective
from ..base.errors import AttributeValueError
from ..gluon.data.sampler import Sampler


def _part(num_parts: int | None, part_index: int | None) -> tuple[int, int]:
    world = collective.current()
    parts = num_parts if num_parts is not None else world.size if world is not None else 1
    index = part_index if part_index is not None else world.rank if world is not None else 0
    if not 0 <= index < parts:
        raise AttributeValueError(f"part_index must be one of 0 … {parts - 1}, got {index}")
    return parts, index


class SplitSampler(Sampler):
    """The numbers of one of ``num_parts`` equal parts of a data set, in a random order of Python's ``random``; what is
    left over is in no part, so that all ranks have equally many batches.

    >>> sorted(SplitSampler(7, 2, 1))
    [3, 4, 5]
    """

    def __init__(self, length: int, num_parts: int | None = None, part_index: int | None = None, shuffle: bool = True):
        self._parts, index = _part(num_parts, part_index)
        self.part_len = length // self._parts
        self.start, self.end, self._shuffle = self.part_len * index, self.part_len * (index + 1), shuffle

    def __iter__(self) -> Iterator[int]:
        numbers = list(range(self.start, self.end))
        if self._shuffle:
            random.shuffle(numbers)
        return iter(numbers)

    def __len__(self) -> int:
        return self.part_len


class DistributedSampler(Sampler):
    """One random order of a whole data set an epoch, the same on all ranks, of which each rank takes its share.

    The order depends on seed and epoch alone: ``set_epoch(n)`` before each epoch, as with torch's; each iteration
    without it is the next epoch. The last numbers are repeated until all ranks have equally many, or left out with
    drop_last.

    >>> sampler = DistributedSampler(5, num_parts=2, part_index=1, shuffle=False)
    >>> list(sampler)
    [1, 3, 0]
    """

    def __init__(self, length: Any, shuffle: bool = True, seed: int = 0, drop_last: bool = False,
                 num_parts: int | None = None, part_index: int | None = None):
        self._length = length if isinstance(length, int) else len(length)
        self._parts, self._index = _part(num_parts, part_index)
        self._shuffle, self._seed, self._drop, self._epoch = shuffle, seed, drop_last, 0

    def set_epoch(self, epoch: int) -> None:
        """The number of the next epoch."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = (np.random.default_rng((self._seed, self._epoch)).permutation(self._length) if self._shuffle
                 else np.arange(self._length))
        self._epoch += 1
        return iter(np.resize(order, len(self) * self._parts)[self._index::self._parts].tolist())

    def __len__(self) -> int:
        whole, rest = divmod(self._length, self._parts)
        return whole + (1 if rest and not self._drop else 0)
