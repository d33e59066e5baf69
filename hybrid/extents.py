"""Where arrays lie in memory: first and last addresses."""
from __future__ import annotations

import bisect
from typing import Any, Iterable

import numpy as np


def extent(raw: Any) -> tuple[int, int]:
    """First and last address (exclusive) of an array's memory, on any device."""
    interface = raw.__array_interface__ if isinstance(raw, np.ndarray) else raw.__cuda_array_interface__
    start = interface["data"][0]
    if interface.get("strides") is None:                 # C order
        return start, start + raw.nbytes
    if not raw.size:
        return start, start
    reach = [(n - 1) * step for n, step in zip(raw.shape, raw.strides)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + raw.dtype.itemsize


class Extents:
    """The memory of some arrays, as sorted stretches that do not touch."""

    def __init__(self, arrays: Iterable[Any]):
        self.starts: list[int] = []
        self.stops: list[int] = []
        for start, stop in sorted(map(extent, arrays)):
            if self.stops and start < self.stops[-1]:
                self.stops[-1] = max(stop, self.stops[-1])
            elif stop > start:
                self.starts.append(start)
                self.stops.append(stop)

    def meets(self, start: int, stop: int) -> bool:
        """Whether a stretch of memory is among it."""
        at = bisect.bisect_left(self.starts, stop)
        return at > 0 and self.stops[at - 1] > start

    def meets_any(self, other: "Extents") -> bool:
        """Whether some of it is some of another's."""
        return any(map(self.meets, other.starts, other.stops))
