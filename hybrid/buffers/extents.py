"""Where arrays lie in memory: first and last addresses."""
from __future__ import annotations

import bisect
from typing import Any, Iterable

import numpy as np


def is_array(raw: Any) -> bool:
    """Whether something is a raw array, of NumPy or on a GPU."""
    return isinstance(raw, np.ndarray) or hasattr(type(raw), "__cuda_array_interface__")


def extent(raw: Any) -> tuple[int, int]:
    """First and last address (exclusive) of an array's memory, on any device: no two devices share an address."""
    # half the time of __array_interface__
    start = (raw.ctypes.data or 0) if isinstance(raw, np.ndarray) else int(raw.data.ptr)
    if raw.flags.c_contiguous:
        return start, start + raw.nbytes
    if not raw.size:
        return start, start
    reach = [(n - 1) * step for n, step in zip(raw.shape, raw.strides)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + raw.dtype.itemsize


class Extents:
    """The memory of some arrays, as sorted stretches that do not touch. ``places``: first and last addresses, replaced
    as one: another thread may look at any time.
    """

    def __init__(self, arrays: Iterable[Any]):
        starts: list[int] = []
        stops: list[int] = []
        for start, stop in sorted(map(extent, arrays)):
            if stops and start < stops[-1]:
                stops[-1] = max(stop, stops[-1])
            elif stop > start:
                starts.append(start)
                stops.append(stop)
        self.places = starts, stops

    def meets(self, start: int, stop: int) -> bool:
        """Whether a stretch of memory is among it."""
        starts, stops = self.places
        at = bisect.bisect_left(starts, stop)
        return at > 0 and stops[at - 1] > start

    def add(self, start: int, stop: int) -> None:
        """One more stretch. One with those that it overlaps."""
        starts, stops = self.places
        first, last = bisect.bisect_right(stops, start), bisect.bisect_left(starts, stop)
        if first < last:
            start, stop = min(start, starts[first]), max(stop, stops[last - 1])
        if start < stop:
            self.places = [*starts[:first], start, *starts[last:]], [*stops[:first], stop, *stops[last:]]

    def remove(self, start: int, stop: int) -> bool:
        """Take a stretch away, if it is one of them."""
        starts, stops = self.places
        at = bisect.bisect_left(starts, start)
        if at == len(starts) or (starts[at], stops[at]) != (start, stop):
            return False
        self.places = [*starts[:at], *starts[at + 1:]], [*stops[:at], *stops[at + 1:]]
        return True

    def meets_any(self, other: "Extents") -> bool:
        """Whether some of it is some of another's."""
        return any(map(self.meets, *other.places))
