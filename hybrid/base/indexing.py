"""Indices: what may stand in brackets, and what it means for arrays and for traced values."""
from __future__ import annotations

from typing import Any

import numpy as np

from .errors import KeyKindError, ShapeError

BASIC = (int, np.integer, slice, type(None), type(Ellipsis))


def is_basic(key: Any) -> bool:
    """Integers, slices, None and Ellipsis alone: the result is a view."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(isinstance(p, BASIC) and not isinstance(p, (bool, np.bool_)) for p in parts)


def plain_key(key: Any) -> Any:
    """The key with our arrays replaced by raw ones; float indices become integers, as in MXNet."""
    if isinstance(key, tuple):
        return tuple(plain_key(k) for k in key)
    if isinstance(key, list):
        return [plain_key(k) for k in key]
    raw = getattr(key, "_data", key)
    if hasattr(raw, "dtype") and getattr(raw, "dtype").kind == "f":
        return raw.astype(np.int64)
    return raw


def check_key(key: Any, shape: Any) -> Any:
    """The key, with lists in place of tuples within a tuple; IndexError for what is no index: text, floats, objects."""
    if isinstance(key, tuple):
        key = tuple(list(k) if isinstance(k, tuple) else k for k in key)
    for part in key if isinstance(key, tuple) else (key,):
        fits = isinstance(part, (*BASIC, bool, np.bool_, list, range,
                                 np.ndarray)) or hasattr(part, "_data") or hasattr(part, "entries")
        if not fits and not (hasattr(part, "__index__") or hasattr(part, "__array__") and np.ndim(part)):
            raise KeyKindError(f"{part!r:.60} ({type(part).__name__}) is no index of an array of shape "
                               f"{tuple(shape or ())}: "
                             "use integers, slices, ..., None, or arrays of integers or bools")
    return key


def expand_key(key: Any, ndim: int) -> list[Any]:
    """One entry per axis (None for new ones), the Ellipsis spelled out. IndexError when there are too many."""
    parts = list(key) if isinstance(key, tuple) else [key]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if used > ndim:
        raise IndexError(f"too many indices: {used} for an array of {ndim} axes")
    if sum(p is Ellipsis for p in parts) > 1:
        raise IndexError("an index can have one Ellipsis (...)")
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    return parts[:at] + [slice(None)] * (ndim - used) + parts[at + 1:]


def basic_ranges(key: Any, shape: tuple[int, ...]) -> tuple[list[tuple[int | None, int | None, int | None]], list[int]]:
    """A basic key as (begin, end, step) per axis and the shape of the result."""
    ranges: list[tuple[int | None, int | None, int | None]] = []
    out: list[int] = []
    axis = 0
    for p in expand_key(key, len(shape)):
        if p is None:
            out.append(1)
            continue
        n = shape[axis]
        axis += 1
        if isinstance(p, slice):
            begin, end, step = p.indices(n)
            count = len(range(begin, end, step))
            out.append(count)
            ranges.append((p.start, p.stop, p.step))
            continue
        i = int(p)
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range for axis {axis - 1} with length {n}")
        i %= n
        ranges.append((i, i + 1, None))
    return ranges, out


def one_range(key: Any, shape: tuple[int, ...]) -> bool:
    """Whether a basic key names one range of memory, which arrays share with what is read from it."""
    strides = tuple(int(np.prod(shape[i + 1:], dtype=np.int64)) for i in range(len(shape)))
    # strides alone: its elements are never read
    layout = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), shape, strides)
    return bool(np.ndim(layout[key]) == 0 or layout[key].flags.c_contiguous)


def check_traced(key: Any, shape: Any) -> None:
    """A traced value needs a known shape to be indexed."""
    if shape is None:
        raise ShapeError(f"x[{key!r}]: the shape of x is not known here, so it cannot be indexed; give the variable a "
                         f"shape")
