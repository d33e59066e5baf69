"""Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) for NumPy and CuPy.

Key (seed, 0x9E3779B9 ^ stream), counter (block low, block high, call counter, stream); element i is word i & 3 of block i >> 2.
"""
from __future__ import annotations

from typing import Any

import numpy as np

_M0, _M1, _W0, _W1, _MASK = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 0xFFFFFFFF


def philox4x32(xp: Any, counter: list[Any], key: list[int]) -> list[Any]:
    """Ten rounds on uint64 arrays that hold 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * xp.uint64(_M0), c2 * xp.uint64(_M1)
        hi0, lo0 = p0 >> xp.uint64(32), p0 & xp.uint64(_MASK)
        hi1, lo1 = p1 >> xp.uint64(32), p1 & xp.uint64(_MASK)
        c0, c1, c2, c3 = hi1 ^ c1 ^ xp.uint64(k0), lo1, hi0 ^ c3 ^ xp.uint64(k1), lo0
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    return [c0, c1, c2, c3]


def random_bits(xp: Any, key: Any, shape: tuple[int, ...], stream: int) -> Any:
    """uint32 array of a shape; key is a uint32 array (seed, call counter)."""
    n = int(np.prod(shape, dtype=np.int64))
    seed, call = (int(v) for v in (key.get() if hasattr(key, "get") else key))
    block = xp.arange((n + 3) // 4, dtype=xp.uint64)
    counter = [block & xp.uint64(_MASK), block >> xp.uint64(32), xp.full_like(block, call), xp.full_like(block, stream)]
    words = philox4x32(xp, counter, [seed, (_W0 ^ stream) & _MASK])
    return xp.stack(words, axis=-1).astype(xp.uint32).reshape(-1)[:n].reshape(shape)
