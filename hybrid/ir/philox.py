"""Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) for NumPy and CuPy.

Key (seed, 0x9E3779B9 ^ stream), counter (block low, block high, call counter, stream); element i is word i & 3 of block
i >> 2.
"""
from __future__ import annotations

from typing import Any

import numpy as np

_M0, _M1, _W0, _W1, _MASK = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 0xFFFFFFFF
_CHUNK = 1 << 14


def philox4x32(xp: Any, counter: list[Any], key: tuple[int, int]) -> list[Any]:
    """Ten rounds on uint64 arrays that hold 32-bit words; the arrays are overwritten."""
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


def random_bits(xp: Any, key: Any, shape: tuple[int, ...], stream: int) -> Any:
    """uint32 array of a shape; key is a uint32 array (seed, call counter)."""
    n = int(np.prod(shape, dtype=np.int64))
    seed, call = (int(v) for v in (key.get() if hasattr(key, "get") else key))
    blocks = (n + 3) // 4
    out = xp.empty((blocks, 4), xp.uint32)
    # on the CPU the words of a chunk stay in the cache: ten times faster
    step = _CHUNK if xp is np else max(blocks, 1)
    for at in range(0, blocks, step):
        block = xp.arange(at, min(at + step, blocks), dtype=xp.uint64)
        counter = [block & xp.uint64(_MASK), block >> xp.uint64(32), xp.full_like(block, call),
                   xp.full_like(block, stream)]
        for i, word in enumerate(philox4x32(xp, counter, (seed, (_W0 ^ stream) & _MASK))):
            out[at:at + step, i] = word
    return out.reshape(-1)[:n].reshape(shape)
