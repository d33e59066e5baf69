"""Memory of large results, used again once nothing refers to a result any more: the system would fill fresh pages with
zeros first, which takes longer than many programs do.
"""
from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from typing import Any, Callable, Sequence

import numpy as np

from ..base import forking
from ..base.device import ALIGN, CACHES, aligned_bytes

SMALLEST = 1 << 20          # bytes of a result that is worth keeping; below, malloc does it
MOST = 1 << 28              # bytes kept at most while nobody uses them


class Pool:
    """Unused stretches of memory by size; those of the size used longest ago are given up first. Safe for several
    threads."""

    def __init__(self, most: int = MOST):
        self.most, self.idle = most, 0
        self._free: OrderedDict[int, list[np.ndarray]] = OrderedDict()         # the size used longest ago comes first
        self._back: list[np.ndarray] = []        # what came back, not sorted in yet
        self._lock = forking.lock()

    def take(self, size: int) -> np.ndarray:
        """Memory of a size, on a cache line, of any content."""
        with self._lock:
            self._sort_in()
            kept = self._free.get(size)
            if kept:
                self._free.move_to_end(size)
                self.idle -= size
                return kept.pop()
        return aligned_bytes(size)

    def give(self, memory: np.ndarray) -> None:
        """Keep memory for the next that asks for this size. Called by finalizers, so perhaps while this thread holds
        the lock."""
        if memory.nbytes > self.most:
            return
        self._back.append(memory)
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def _sort_in(self) -> None:
        while self._back:
            memory = self._back.pop()
            self._free.setdefault(memory.nbytes, []).append(memory)
            self._free.move_to_end(memory.nbytes)
            self.idle += memory.nbytes
        while self.idle > self.most:
            size, kept = next(iter(self._free.items()))
            if kept:
                kept.pop()
                self.idle -= size
            else:
                del self._free[size]

    def clear(self) -> None:
        """Give everything back to the system."""
        with self._lock:
            self._back.clear()
            self._free.clear()
            self.idle = 0


POOL = Pool()
CACHES.append(POOL.clear)


class _Lease:
    """What an array in pooled memory refers to; when the array and all its views are gone, so is this."""
    __slots__ = ("memory", "__array_interface__")

    def __init__(self, memory: np.ndarray, shape: tuple[int, ...], dtype: np.dtype):
        self.memory = memory
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str,
                                    "data": (memory.ctypes.data, False)}

    def __del__(self, give: Callable[[np.ndarray], None] = POOL.give) -> None:
        give(self.memory)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised array as of ``numpy.empty``, a large one in memory of an earlier one of its size."""
    if not pooled(shape, dtype):
        return np.empty(shape, dtype)
    return np.asarray(_Lease(POOL.take(size_of(shape, dtype)), shape, dtype))


def separate(specs: Sequence[tuple[tuple[int, ...], Any]]) -> list[np.ndarray]:
    """Uninitialised arrays of shapes and dtypes."""
    return [empty(shape, dtype) for shape, dtype in specs]


def together(specs: Sequence[tuple[tuple[int, ...], Any]]) -> list[np.ndarray]:
    """Uninitialised arrays of shapes and dtypes that live and die together, in one stretch of memory: the system gives
    it in large pages."""
    sizes = [size_of(*spec) for spec in specs]
    ends = list(itertools.accumulate(size + -size % ALIGN for size in sizes))
    memory = aligned_bytes(ends[-1] if ends else 0)
    return [memory[end - (size + -size % ALIGN):][:size].view(dtype).reshape(shape)
            for (shape, dtype), size, end in zip(specs, sizes, ends)]


def size_of(shape: tuple[int, ...], dtype: Any) -> int:
    """Bytes of an array."""
    return math.prod(shape) * int(dtype.itemsize)


def pooled(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether arrays like this have memory from the pool."""
    return size_of(shape, dtype) >= SMALLEST and dtype.kind in "fiub"
