"""Element types: NumPy's names, MXNet's numbers, and promotion."""
from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .errors import DTypeError

try:                                            # bfloat16 is optional: NumPy has none of its own
    from ml_dtypes import bfloat16 as _bf16
    bfloat16: np.dtype | None = np.dtype(_bf16)
except ImportError:                             # pragma: no cover - depends on the environment
    bfloat16 = None

float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint32, uint64, bool_ = np.dtype("uint8"), np.dtype("uint32"), np.dtype("uint64"), np.dtype("bool")

# The numbers that MXNet 1.9.1 writes into its files (mshadow/base.h).
MX_CODES: dict[int, np.dtype] = {0: float32, 1: float64, 2: float16, 3: uint8, 4: int32, 5: int8, 6: int64, 7: bool_}
if bfloat16 is not None:
    MX_CODES[12] = bfloat16
CODE_OF = {dt: code for code, dt in MX_CODES.items()}
SUPPORTED = tuple(CODE_OF) + (int16, uint32, uint64)


def as_dtype(given: Any, default: Any = float32) -> np.dtype:
    """The NumPy dtype meant by a name, a type, a dtype, an array (its dtype) or None (the default).

    >>> as_dtype("float32")
    dtype('float32')
    """
    if given is None:
        return np.dtype(default)
    if isinstance(given, str) and given == "bfloat16":
        if bfloat16 is None:
            raise DTypeError("bfloat16 needs the package ml_dtypes: pip install ml_dtypes")
        return bfloat16
    if not isinstance(given, (str, type, np.dtype)):
        given = getattr(given, "dtype", given)
    try:
        found = np.dtype(given)
    except (TypeError, ValueError):
        raise DTypeError(f"{given!r} names no dtype; known: {', '.join(map(name, SUPPORTED))}") from None
    if found not in SUPPORTED:
        way = f"; np.array(x, dtype='{found}') makes a complex array of x" if found.kind == "c" else ""
        raise DTypeError(f"dtype {found} is not supported; known: {', '.join(map(name, SUPPORTED))}{way}")
    return found


def or_float32(given: Any) -> Any:
    """What was given for a dtype, ``float32`` for None; ``given or "float32"`` would ask an array for its truth."""
    return "float32" if given is None else given


def name(dt: Any) -> str:
    """``float32``, ``bfloat16``, … without NumPy's quoting."""
    return _name(np.dtype(dt))


@lru_cache
def _name(dt: np.dtype) -> str:
    return dt.name


def is_float(dt: np.dtype) -> bool:
    """Whether dt is a floating type (bfloat16 included)."""
    return dt.kind == "f" or dt == bfloat16


@lru_cache
def is_half(dt: np.dtype) -> bool:
    """Whether dt is float16 or bfloat16."""
    return dt.itemsize == 2 and is_float(dt)


def is_int(dt: np.dtype) -> bool:
    """Whether dt is an integer type (bool is not)."""
    return dt.kind in "iu"


def has_gradient(dt: np.dtype) -> bool:
    """Whether arrays of dt have gradients: floats, and integers as MXNet has them; truth values have none."""
    return dt.kind in "fiu" or dt == bfloat16


@lru_cache
def holds_all(wide: np.dtype, narrow: np.dtype) -> bool:
    """Whether every value of ``narrow`` is a value of ``wide``, so that a cast there and back changes nothing.

    >>> holds_all(np.dtype("float32"), np.dtype("int64")), holds_all(np.dtype("float64"), np.dtype("int32"))
    (False, True)
    """
    if wide == narrow or narrow == bool_:
        return True
    if is_float(narrow):
        digits, ends = _float_reach(narrow), _float_reach(wide) if is_float(wide) else (0, 0)
        return digits[0] <= ends[0] and digits[1] <= ends[1]
    if is_float(wide):
        return int(np.iinfo(narrow).bits) - (narrow.kind == "i") <= _float_reach(wide)[0]
    if wide == bool_:
        return False
    inner, outer = np.iinfo(narrow), np.iinfo(wide)
    return bool(outer.min <= inner.min and inner.max <= outer.max)


def _float_reach(d: np.dtype) -> tuple[int, int]:
    """Binary digits of a floating type's numbers, and of its exponents."""
    return {"float16": (11, 5), "bfloat16": (8, 8), "float32": (24, 8), "float64": (53, 11)}[d.name]


def powers_of_two(d: np.dtype) -> tuple[int, int]:
    """The exponents of a floating type's least and largest power of two that is neither subnormal nor infinite.

    >>> powers_of_two(np.dtype("float32"))
    (-126, 127)
    """
    largest = 2 ** (_float_reach(d)[1] - 1) - 1
    return 1 - largest, largest


def promote(*dts: np.dtype) -> np.dtype:
    """The common type of arrays: NumPy's rule, but integers never pull a float up to float64.

    >>> promote(np.dtype("float32"), np.dtype("int64"))
    dtype('float32')
    """
    floats = [d for d in dts if is_float(d)]
    pool = floats or list(dts)
    out = pool[0]
    for d in pool[1:]:
        if d == out:
            continue
        if bfloat16 is not None and bfloat16 in (d, out):
            other = out if d == bfloat16 else d
            out = float32 if other == float16 else other
        else:
            out = np.promote_types(out, d)
    return np.dtype(out)


def between(d: Any) -> np.dtype:
    """The dtype of numbers that lie between elements (medians, edges of bins): the elements' own if it is a float type,
    else float32.

    >>> between(np.int8)
    dtype('float32')
    """
    d = np.dtype(d)
    return d if is_float(d) else float32


def ordered(d: Any) -> np.dtype:
    """The dtype in which NumPy's percentiles are given elements: uint8 for truth values, float32 for float16."""
    d = np.dtype(d)
    return uint8 if d == bool_ else float32 if d == float16 else d
