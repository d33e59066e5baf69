"""Which programs may compute several rows of a batch together: those that give each row the bits it has alone.

Kernels for other batch sizes add in other orders, so a row's last bits depend on the size of its program. Here the
program for ``base`` rows says what the bits of a row are; rows that are missing are filled up. A program for more rows
is used where it gives every row, at each of its places, the same bits. Programs must be made without forms that are
chosen by the numbers they meet (HYBRID_SKIP_ZEROS=0): then an order of additions that differs shows in random numbers.
"""
from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from ..base.errors import HybridError

Arrays = Sequence[np.ndarray]
Call = Callable[[Arrays], "list[np.ndarray]"]
TRIALS = 3                       # sets of random rows that programs are compared on
NEAR = 1e-2                      # of a row's largest number: rows are the same but for rounding


def random_rows(tensors: Sequence[tuple[np.dtype, tuple[int, ...]]], count: int, seed: int) -> list[np.ndarray]:
    """Rows of inputs of these dtypes and shapes: floats around 0, integers 0 and 1."""
    rng = np.random.RandomState(seed)
    return [(rng.standard_normal((count, *shape)) if dtype.kind not in "iub" else
             rng.randint(0, 2, (count, *shape))).astype(dtype) for dtype, shape in tensors]


def same_bits(a: Arrays, b: Arrays) -> bool:
    """Whether arrays have the same shapes and bits."""
    return len(a) == len(b) and all(x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(a, b))


class Rows:
    """Computes rows by programs of ``sizes`` rows, the smallest of which is the base."""

    def __init__(self, call: Call, base: int):
        self.call, self.base, self.sizes = call, base, [base]

    def compute(self, arrays: Arrays) -> list[np.ndarray]:
        """The outputs of some rows, each with the bits that the base program gives it."""
        count, at, parts = len(arrays[0]), 0, []
        while at < count:
            size = max((s for s in self.sizes if s <= count - at), default=self.base)
            given = [a[at:at + size] for a in arrays]
            missing = size - len(given[0])
            if missing:
                given = [np.concatenate([a, np.repeat(a[-1:], missing, axis=0)]) for a in given]
            found = self.call(given)
            parts.append([f[:size - missing] for f in found] if missing else found)
            at += size
        return parts[0] if len(parts) == 1 else [np.concatenate(p) for p in zip(*parts)]

    def grow(self, most: int, tensors: Sequence[tuple[np.dtype, tuple[int, ...]]]) -> None:
        """Add programs of twice as many rows up to ``most``, while they give the same bits."""
        while 2 * self.sizes[-1] <= most and self._agrees(2 * self.sizes[-1], tensors):
            self.sizes.append(2 * self.sizes[-1])

    def why_not(self, tensors: Sequence[tuple[np.dtype, tuple[int, ...]]]) -> str:
        """Why rows cannot be computed apart from those they come with; nothing where they can."""
        count = max(self.base, 3)
        one, other = random_rows(tensors, count, 1), random_rows(tensors, count, 2)
        other = [np.concatenate([a[:1], b[1:]]) for a, b in zip(one, other)]
        try:
            found, changed = self.call(one), self.call(other)
            alone = self.compute(one)
        except HybridError as err:
            return f"programs of {count} and of {self.base} rows do not both work: {err}"
        if any(f.ndim == 0 or len(f) != count for f in found):
            return "an output has not one line for each row"
        if not same_bits([f[:1] for f in found], [f[:1] for f in changed]):
            return "a row's outputs depend on the rows beside it, or on chance"
        if not all(_near(f, a) for f, a in zip(found, alone)):
            return "a row's outputs depend on the rows beside it, or on its place"
        return "" if self.base == 1 or self._agrees(self.base, tensors) else (
            f"in the program of {self.base} rows a row's bits depend on its place")

    def _agrees(self, size: int, tensors: Sequence[tuple[np.dtype, tuple[int, ...]]]) -> bool:
        """Whether the program of so many rows gives each the bits that it has in the base program."""
        for seed in range(TRIALS):
            rows = random_rows(tensors, size, 10 + seed)
            alone = [self._alone([a[i:i + 1] for a in rows]) for i in range(size)]
            if not same_bits(self.call(rows), [np.concatenate(p) for p in zip(*alone)]):
                return False
        return True

    def _alone(self, row: Arrays) -> list[np.ndarray]:
        return [f[:1] for f in self.call([np.repeat(a, self.base, axis=0) for a in row])]


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    x, y = a.astype(np.float64), b.astype(np.float64)
    return bool(np.allclose(x, y, rtol=NEAR, atol=NEAR * float(np.nanmax(np.abs(x), initial=0)), equal_nan=True))
