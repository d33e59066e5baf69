"""Indices: what may stand in brackets, and what it means for arrays and for traced values."""
from __future__ import annotations

from typing import Any

import numpy as np

from .errors import KeyKindError, ShapeError

BASIC: tuple[type, ...] = (int, np.integer, slice, type(None), type(Ellipsis))


def also_basic(cls: type) -> None:
    """Have numbers of another class be indices (symbolic sizes)."""
    global BASIC
    BASIC = (*BASIC, cls)


def slice_range(begin: Any, end: Any, step: int | None, n: Any) -> tuple[Any, int, Any]:
    """Start, step and number of elements of a slice along an axis of n elements, any of which may be a symbolic
    size."""
    if isinstance(n, int) and all(x is None or isinstance(x, (int, np.integer)) for x in (begin, end)):
        start, stop, stride = slice(begin, end, step).indices(n)
        return start, stride, len(range(start, stop, stride))
    stride = 1 if step is None else int(step)
    first, last = (0, n) if stride > 0 else (-1, n - 1)

    def within(x: Any) -> Any:
        x = x + n if x < 0 else x
        return first if x < first else last if x > last else x
    start = (first if stride > 0 else last) if begin is None else within(begin)
    stop = (last if stride > 0 else first) if end is None else within(end)
    distance = stop - start if stride > 0 else start - stop
    return start, stride, (distance - 1) // abs(stride) + 1 if distance > 0 else 0


_PLAIN = frozenset({int, slice, type(None), type(Ellipsis)})


def is_basic(key: Any) -> bool:
    """Integers, slices, None and Ellipsis alone: the result is a view."""
    for p in key if isinstance(key, tuple) else (key,):
        if type(p) not in _PLAIN and (not isinstance(p, BASIC) or isinstance(p, (bool, np.bool_))):
            return False
    return True


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
            out.append(slice_range(p.start, p.stop, p.step, n)[2])
            ranges.append((p.start, p.stop, p.step))
            continue
        i = int(p) if isinstance(p, (int, np.integer)) or isinstance(n, int) else p
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range for axis {axis - 1} with length {n}")
        i = i + n if i < 0 else i
        ranges.append((i, i + 1, None))
    return ranges, out


def one_range(key: Any, shape: tuple[int, ...]) -> bool:
    """Whether a basic key names one range of memory, which arrays share with what is read from it."""
    if not all(isinstance(d, int) for d in shape):
        return _one_range_of(key, shape)
    strides = tuple(int(np.prod(shape[i + 1:], dtype=np.int64)) for i in range(len(shape)))
    # strides alone: its elements are never read
    layout = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), shape, strides)
    return bool(np.ndim(layout[key]) == 0 or layout[key].flags.c_contiguous)


def _one_range_of(key: Any, shape: tuple[Any, ...]) -> bool:
    """``one_range`` where sizes are symbols."""
    parts = [p for p in expand_key(key, len(shape)) if p is not None]
    behind: list[tuple[Any, Any]] = []                   # of the axes behind this one, how many are read, of how many
    for p, n in reversed(list(zip(parts, shape))):
        _, step, count = slice_range(p.start, p.stop, p.step, n) if isinstance(p, slice) else (p, 1, 1)
        if count > 1 and (step != 1 or not all(c == m for c, m in behind)):
            return False
        behind.append((count, n))
    return True


def check_traced(key: Any, shape: Any) -> None:
    """A traced value needs a known shape to be indexed."""
    if shape is None:
        raise ShapeError(f"x[{key!r}]: the shape of x is not known here, so it cannot be indexed; give the variable a "
                         f"shape")
