"""Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) for NumPy and CuPy.

Key (seed, 0x9E3779B9 ^ stream), counter (block low, block high, call counter, stream); element i is word i & 3 of block
i >> 2.
"""
from __future__ import annotations

import itertools
import math
from typing import Any, Callable, Sequence

import numpy as np

_M0, _M1, _W0, _W1, _MASK = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 0xFFFFFFFF
_CHUNK = 1 << 14
IN_C: list[Callable[..., None]] = []     # at most one; it fills a NumPy array: kernels/c/launcher_random.h


def philox4x32(xp: Any, counter: list[Any], key: tuple[Any, Any]) -> list[Any]:
    """Ten rounds on uint64 arrays that hold 32-bit words; the arrays are overwritten. key: two numbers, or arrays."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    shift, mask = xp.uint64(32), xp.uint64(_MASK)
    p0, p1 = xp.empty_like(c0), xp.empty_like(c0)
    for _ in range(10):
        xp.multiply(c0, xp.uint64(_M0), out=p0)
        xp.multiply(c2, xp.uint64(_M1), out=p1)
        xp.right_shift(p1, shift, out=c0)
        c0 ^= c1
        c0 ^= xp.uint64(k0)
        xp.right_shift(p0, shift, out=c2)
        c2 ^= c3
        c2 ^= xp.uint64(k1)
        xp.bitwise_and(p1, mask, out=c1)
        xp.bitwise_and(p0, mask, out=c3)
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    return counter


def _put(xp: Any, out: Any, block: Any, seed: Any, call: Any, stream: Any) -> None:
    """Writes the words of each block into a row of ``out``. seed, call, stream: numbers, or one for each block."""
    full = xp.zeros_like(block)
    counter = [block & xp.uint64(_MASK), block >> xp.uint64(32), full + xp.uint64(call), full + xp.uint64(stream)]
    for i, word in enumerate(philox4x32(xp, counter, (seed, _W0 ^ stream))):
        out[:, i] = word


def random_bits(xp: Any, key: Any, shape: tuple[int, ...], stream: int) -> Any:
    """uint32 array of a shape; key is a uint32 array (seed, call counter)."""
    seed, call = (key.get() if hasattr(key, "get") else key).tolist()
    if xp is np and IN_C:
        words = np.empty(shape, np.uint32)
        IN_C[0](words, seed, call, stream)
        return words
    n = int(np.prod(shape, dtype=np.int64))
    blocks = (n + 3) // 4
    out = xp.empty((blocks, 4), xp.uint32)
    # on the CPU the words of a chunk stay in the cache: ten times faster
    step = _CHUNK if xp is np else max(blocks, 1)
    for at in range(0, blocks, step):
        _put(xp, out[at:at + step], xp.arange(at, min(at + step, blocks), dtype=xp.uint64), seed, call, stream)
    return out.reshape(-1)[:n].reshape(shape)


class Draws:
    """Makes several small draws at once: with few elements, NumPy's functions take the same time for one as for all.
    Called with the key of each draw, it gives a list of arrays."""

    def __init__(self, draws: Sequence[tuple[tuple[int, ...], int]]):
        """draws: the shape and stream of each."""
        self._draws = draws
        sizes = [math.prod(shape) for shape, _ in draws]
        blocks = [(n + 3) // 4 for n in sizes]
        ends = list(itertools.accumulate(blocks))
        self._places = [(4 * (end - count), n) for end, count, n in zip(ends, blocks, sizes)]
        self._block = np.concatenate([np.arange(count, dtype=np.uint64) for count in blocks])
        self._draw = np.repeat(np.arange(len(draws)), blocks)
        self._stream = np.array([stream for _, stream in draws], np.uint64)[self._draw]

    def __call__(self, *keys: Any) -> list[Any]:
        if IN_C:
            return [random_bits(np, key, *draw) for key, draw in zip(keys, self._draws)]
        seed, call = np.array(keys, np.uint64).T[:, self._draw]
        out = np.empty((len(self._block), 4), np.uint32)
        for at in range(0, len(out), _CHUNK):
            part = slice(at, at + _CHUNK)
            _put(np, out[part], self._block[part], seed[part], call[part], self._stream[part])
        words = out.reshape(-1)
        return [words[at:at + n].reshape(shape) for (at, n), (shape, _) in zip(self._places, self._draws)]
