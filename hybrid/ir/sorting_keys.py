"""Stable orders of NumPy arrays: an element and its place as one 64-bit number, which NumPy sorts several times faster
than it finds a stable order. Numbers of that kind all differ, so any way to sort them gives the same order.
"""
from __future__ import annotations

import numpy as np

from ..base import dtype as dt

_PLACE = np.int64(0xFFFFFFFF)


def _ranks(x: np.ndarray) -> np.ndarray | None:
    """Numbers of 32 bits in the order of the elements, as int64: equal ones for equal elements, the greatest for nan.
    None where the elements have more bits than that."""
    if x.dtype == np.float32:
        bits = (x + np.float32(0)).view(np.int32)                    # -0 becomes 0
        ranks = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)
        ranks[np.isnan(x)] = np.iinfo(np.int32).max
        return ranks
    if x.dtype.kind in "iub" and x.dtype.itemsize <= 4:
        return x.astype(np.int64) - (1 << 31 if x.dtype == np.uint32 else 0)
    if x.dtype == np.int64 and x.size:
        least = int(x.min())
        return x - least - (1 << 31) if int(x.max()) - least < 1 << 32 else None
    return None


def _keys(x: np.ndarray, descending: bool) -> np.ndarray | None:
    """Rank and place of every element along the last axis as one number."""
    if x.shape[-1] >= 1 << 32 or (ranks := _ranks(np.ascontiguousarray(x))) is None:
        return None
    if descending:
        ranks = ~ranks
    ranks <<= 32
    ranks |= np.arange(x.shape[-1])
    return ranks


# rows of at least so many elements are sorted without keeping the order of equal ones, which is then restored
_LEAST_REPAIRED = 1 << 8


def _repaired(x: np.ndarray, order: np.ndarray, descending: bool) -> np.ndarray:
    """Makes an argsort stable. order: ascending, with equal elements in any order; they are sorted by their index."""
    ranked = np.sort(x, axis=-1)                     # sorting again is faster than gathering x by ``order``
    other = ranked[..., 1:] != ranked[..., :-1]
    if x.dtype.kind == "f":
        other &= (ranked == ranked)[..., :-1]                        # all nan are one element, the last
    if other.all():
        return (order[..., ::-1] if descending else order).astype(np.int64)
    keys = np.zeros(x.shape, np.int64)
    np.cumsum(other, axis=-1, out=keys[..., 1:])
    if descending:
        keys = keys[..., -1:] - keys
    keys <<= 32
    keys |= order
    keys.sort(axis=-1)
    keys &= _PLACE
    return keys


_FEW = 1 << 8                        # elements that are sorted before their keys are made


def stable_order(x: np.ndarray, descending: bool = False) -> np.ndarray:
    """Places along the last axis in the order of the elements, equal ones as they stand; nan is the greatest."""
    if dt.is_half(x.dtype):
        x = x.astype(np.float32)
    if x.ndim and x.size <= _FEW and not descending:
        return x.argsort(-1, "stable").astype(np.int64, copy=False)
    keys = _keys(x, descending)
    if keys is not None:
        keys.sort(axis=-1)
        keys &= _PLACE
        return keys
    if x.ndim and x.shape[-1] >= _LEAST_REPAIRED and x.dtype.kind in "fiu":
        return _repaired(x, np.argsort(x, axis=-1), descending)
    if not descending:
        return np.argsort(x, axis=-1, kind="stable").astype(np.int64, copy=False)
    # backwards, and backwards again: equal keys keep their order
    back = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return (x.shape[-1] - 1 - back).astype(np.int64, copy=False)


def _one_by_one(x: np.ndarray, k: int, descending: bool) -> np.ndarray | None:
    """The first k of ``stable_order``, each by a look at all elements, of which those found are struck out; None where
    an element is no other than what strikes out."""
    rows = x.reshape(-1, x.shape[-1]).copy()
    least, greatest = (-np.inf, np.inf) if x.dtype.kind == "f" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    last = least if descending else greatest
    find, places, row = np.argmax if descending else np.argmin, np.empty((len(rows), k), np.int64), np.arange(len(rows))
    for i in range(k):
        places[:, i] = at = find(rows, axis=1)
        value = rows[row, at]
        # NumPy's least is nan where there is one
        if (value == last).any() or not descending and (value != value).any():
            return None
        rows[row, at] = last
    return places.reshape(*x.shape[:-1], k)


# as many looks at all elements take as long as one partition of keys
_LOOKS = 24


def first_of_order(x: np.ndarray, k: int, descending: bool) -> np.ndarray:
    """The first k of ``stable_order``."""
    if dt.is_half(x.dtype):
        x = x.astype(np.float32)
    if 0 < k <= _LOOKS and x.shape[-1] >= 8 * k and x.size and x.dtype.kind in "fiu":
        found = _one_by_one(x, k, descending)
        if found is not None:
            return found
    keys = _keys(x, descending) if 0 < k < x.shape[-1] // 4 else None
    if keys is None:
        return stable_order(x, descending)[..., :k]
    keys.partition(k - 1, axis=-1)
    found = np.sort(keys[..., :k], axis=-1)
    found &= _PLACE
    return found
