"""Products over windows on NumPy, as convolutions and their gradients have them: the windows of a few images at a time
are copied, multiplied and forgotten while they are in the processor's caches.

Arrays here have their axes in a fixed order. Images: (group, image, channel, *place). Windows: (group, image, channel,
*kernel, *position). Weights: (group, filter, channel, *kernel). Values: (group, filter, image, *position).
"""
from __future__ import annotations

import math
from typing import Any, Iterator, Sequence

import numpy as np

_BLOCK = 1 << 20                     # bytes of windows that are copied at a time
_LONGEST = 1.5                       # how many times longer than its elements a run with gaps may be
_as_strided = np.lib.stride_tricks.as_strided


def _steps_with_gaps(sizes: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, ...] | None:
    """The steps, in elements, of positions that lie in one run of the images, with gaps between rows; None where they
    do not, or where the gaps are long."""
    steps = tuple(s // itemsize for s in strides)
    length = 1
    for size, step in zip(sizes[::-1], steps[::-1]):
        if step < length:
            return None
        length += (size - 1) * step
    return steps if steps[-1] == 1 and length <= _LONGEST * math.prod(sizes) else None


def _blocks(images: int, rows: int, row: int) -> Iterator[tuple[slice, slice]]:
    """Images, and rows of them, whose windows are copied at a time. row: bytes of the windows of a row."""
    if rows * row <= _BLOCK:
        each = max(_BLOCK // max(rows * row, 1), 1)
        for i in range(0, images, each):
            yield slice(i, min(i + each, images)), slice(0, rows)
        return
    each = max(_BLOCK // row, 1)
    for i in range(images):
        for j in range(0, rows, each):
            yield slice(i, i + 1), slice(j, min(j + each, rows))


class _Block:
    """Some images and rows of windows. Its matrix has a row for each channel and place in the kernel, and in it a run
    of ``length`` elements for each image: the positions are those at ``steps`` along each axis, others are gaps."""

    def __init__(self, windows: np.ndarray, axes: int, images: slice, rows: slice, gaps: bool,
                 buffers: dict[Any, np.ndarray]):
        kernel = windows.ndim - 3 - axes
        self.windows = x = windows[(slice(None), images, *[slice(None)] * (1 + kernel), rows)]
        self.places = slice(None), slice(None), images, rows
        self.sizes, self.kernel = x.shape[-axes:], x.shape[3:-axes]
        found = _steps_with_gaps(self.sizes, x.strides[-axes:], x.itemsize) if gaps else None
        self.gaps = found is not None
        self.steps = found or tuple(math.prod(self.sizes[i + 1:]) for i in range(axes))
        self.length = 1 + sum((d - 1) * s for d, s in zip(self.sizes, self.steps))
        self._buffers = buffers

    def buffer(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """An array for this block; the one that blocks of these sizes had before."""
        if (found := self._buffers.get((name, shape))) is None:
            found = self._buffers[name, shape] = np.empty(shape, self.windows.dtype)
        return found

    def positions(self, x: np.ndarray) -> np.ndarray:
        """A view of an array whose last axis is a run, without the gaps."""
        return _as_strided(x, (*x.shape[:-1], *self.sizes), (*x.strides[:-1], *(s * x.itemsize for s in self.steps)))

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The windows as they lie in the images and in the matrix, both (group, channel, *kernel, image, …), and the
        matrix of each group."""
        x, axes = self.windows, len(self.sizes)
        held = self.buffer("windows", (x.shape[0], x.shape[2], *self.kernel, x.shape[1], self.length))
        if self.gaps:
            x = _as_strided(x, (*x.shape[:-axes], self.length), (*x.strides[:-axes], x.itemsize))
        there = x.transpose(0, *range(2, 3 + len(self.kernel)), 1, *range(3 + len(self.kernel), x.ndim))
        here = held if self.gaps else self.positions(held)
        return there, here, held.reshape(x.shape[0], -1, x.shape[1] * self.length)

    def matrix(self) -> np.ndarray:
        """The windows, copied into the matrix of each group."""
        there, here, matrix = self.pairs()
        here[...] = there
        return matrix


def _in_blocks(windows: np.ndarray, axes: int, gaps: bool = False) -> Iterator[_Block]:
    """Windows whose positions have so many axes, a block at a time. gaps: whether matrices may hold more than
    windows."""
    images, rows = windows.shape[1], windows.shape[-axes]
    buffers: dict[Any, np.ndarray] = {}
    for some, part in _blocks(images, rows, windows.nbytes // max(images * rows, 1)):
        yield _Block(windows, axes, some, part, gaps, buffers)


def windows_of(images: np.ndarray, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
               sizes: Sequence[int]) -> np.ndarray:
    """The windows of images, as a view. sizes: positions along each axis."""
    steps = images.strides[3:]
    return _as_strided(images, (*images.shape[:3], *kernel, *sizes),
                       (*images.strides[:3], *(s * d for s, d in zip(steps, dilation)),
                        *(s * d for s, d in zip(steps, stride))))


def into_values(weights: np.ndarray, windows: np.ndarray, out: np.ndarray) -> None:
    """Write the products of weights and windows, summed over channels and kernel."""
    matrices = weights.reshape(*weights.shape[:2], -1)
    for block in _in_blocks(windows, out.ndim - 3, gaps=True):
        found = block.matrix()
        product = np.matmul(matrices, found, out=block.buffer("product", (*out.shape[:2], found.shape[-1])))
        to = out[block.places]
        to[...] = block.positions(product.reshape(*to.shape[:3], block.length))


def into_weights(values: np.ndarray, windows: np.ndarray, out: np.ndarray) -> None:
    """Write the products of values and windows, summed over images and positions."""
    total: Any = None
    for block in _in_blocks(windows, values.ndim - 3):
        product = np.matmul(_matrix_of(values[block.places]), block.matrix().swapaxes(-1, -2))
        total = product if total is None else np.add(total, product, out=total)
    out[...] = total.reshape(out.shape)


def _matrix_of(values: np.ndarray) -> np.ndarray:
    """Values as a matrix of each group: (group, filter, image and position)."""
    return values.reshape(*values.shape[:2], -1)


def into_images(weights: np.ndarray, values: np.ndarray, stride: Sequence[int], dilation: Sequence[int],
                out: np.ndarray) -> None:
    """Add the products of weights and values, summed over filters, to zeros: each at the place of the images that a
    window has it from."""
    if all(s == 1 for s in stride):
        _from_behind(weights, values, dilation, out)
        return
    matrices = weights.reshape(*weights.shape[:2], -1).swapaxes(-1, -2)
    # of a column and a row NumPy's product is slow
    multiply: Any = np.multiply if weights.shape[1] == 1 else np.matmul
    images = out.swapaxes(1, 2)
    for block in _in_blocks(windows_of(images, weights.shape[3:], stride, dilation, values.shape[3:]), values.ndim - 3):
        there, here, product = block.pairs()
        multiply(matrices, _matrix_of(values[block.places]), out=product)
        for place in np.ndindex(*block.kernel):
            there[(slice(None), slice(None), *place)] += here[(slice(None), slice(None), *place)]


def _from_behind(weights: np.ndarray, values: np.ndarray, dilation: Sequence[int], out: np.ndarray) -> None:
    """Where windows have step 1, a place of the images has the sum over windows of the values around it, times the
    weights from behind."""
    pad = [d * (k - 1) for k, d in zip(weights.shape[3:], dilation)]
    wide = np.zeros((*values.shape[:3], *(s + 2 * p for s, p in zip(values.shape[3:], pad))), values.dtype)
    wide[(..., *(slice(p, p + s) for p, s in zip(pad, values.shape[3:])))] = values
    sizes = [s + p for s, p in zip(values.shape[3:], pad)]
    windows = windows_of(wide.swapaxes(1, 2), weights.shape[3:], [1] * len(pad), dilation, sizes)
    back = weights[(..., *[slice(None, None, -1)] * len(pad))].swapaxes(1, 2)
    into_values(back, windows, out[(..., *(slice(s) for s in sizes))])
