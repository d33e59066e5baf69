"""What runs a program on NumPy without detours: universal functions called directly, and their warnings kept quiet."""
from __future__ import annotations

import sys
from collections import Counter
from functools import lru_cache
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ..base import dtype as dt
from .node import Node
from .primitives import PRIMS
from .scalar import SCALARS
from .small_windows import is_window

LEAST_REUSED = 1 << 12               # elements of a value whose memory the next one takes
_NUMBERS = frozenset({"const", "data", "iota"})


@lru_cache(4096)
def _gives(ufunc: np.ufunc, dtypes: tuple[np.dtype, ...], wanted: np.dtype) -> bool:
    """Whether a universal function of such arrays gives the dtype that is wanted."""
    try:
        return bool(ufunc(*(np.empty((0,), d) for d in dtypes)).dtype == wanted)
    except TypeError:
        return False


def ufunc_of(n: Node) -> np.ufunc | None:
    """NumPy's universal function that computes this elementwise node in one call, or None."""
    if n.prim != "map" or not n.ndim:
        return None
    found = getattr(np, SCALARS[n.attrs["fn"]].ufunc or " ", None)
    return found if isinstance(found, np.ufunc) and _gives(found, tuple(a.dtype for a in n.args), n.dtype) else None


def spread(n: Node) -> tuple[Node, ...]:
    """The arguments of a universal function, those that it can stretch itself as they are before that."""
    short = tuple(a.args[0] if a.prim == "expand" else a for a in n.args)
    return short if np.broadcast_shapes(*(a.shape for a in short)) == n.shape else n.args


_REDUCED = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def reduction_of(n: Node) -> Callable[[Any], np.ndarray] | None:
    """A function that computes this reduction in one call of NumPy's, into a new array; or None."""
    shape, dtype = n.shape, n.dtype
    if n.prim == "argreduce":
        place, axis = getattr(np.ndarray, n.attrs["op"]), n.attrs["axis"]
        return lambda x: place(x, axis, np.empty(shape, dtype))
    if n.prim != "reduce" or n.attrs["op"] not in _REDUCED or not n.args[0].size:
        return None
    op, axes, extreme = n.attrs["op"], n.attrs["axes"], n.attrs["op"] in ("max", "min")
    if extreme and is_window(n.args[0], axes) or not extreme and dt.is_half(dtype) or n.args[0].dtype != dtype:
        return None
    reduce: Any = _REDUCED[op].reduce
    return lambda x: reduce(x, axes, dtype, np.empty(shape, dtype))


_BOOLEAN_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "mod": np.remainder,
                       "floordiv": np.floor_divide}


def boolean_arithmetic(n: Node) -> "tuple[Callable[..., Any], tuple[Node, ...]] | None":
    """For a sum, a difference, a product, a quotient or a remainder of two booleans that are cast to wide integers: a
    function that computes it in int8 and casts the result, and the boolean operands. None for other nodes."""
    ufunc = _BOOLEAN_ARITHMETIC.get(n.attrs["fn"]) if n.prim == "map" and n.ndim and n.dtype.kind == "i" else None
    casts = [a.args[0] if a.prim == "expand" else a for a in n.args]
    if ufunc is None or n.dtype.itemsize == 1 or not all(c.prim == "cast" and c.args[0].dtype == bool for c in casts):
        return None
    if np.broadcast_shapes(*(c.shape for c in casts)) != n.shape:
        return None
    dtype = n.dtype
    return lambda a, b: ufunc(a.view(np.int8), b.view(np.int8)).astype(dtype), tuple(c.args[0] for c in casts)


def sums_of_products(order: Sequence[Node], roots: Iterable[Node]) -> dict[Node, tuple[Node, Node]]:
    """Sums of all elements of products that nobody else reads: by the sum, the two factors. BLAS has a function for
    them, which stores no product."""
    readers, found = Counter(a for n in order for a in n.args), {}
    readers.update(roots)
    for n in order:
        x = n.args[0] if n.prim == "reduce" and n.attrs["op"] == "sum" and len(n.attrs["axes"]) == n.args[0].ndim else n
        if x is n or x.prim != "map" or readers[x] > 1 or x.dtype not in (np.float32, np.float64):
            continue
        factors = x.args * 2 if x.attrs["fn"] == "square" else x.args if x.attrs["fn"] == "mul" else ()
        if factors and spread(x) == x.args:
            found[n] = (factors[0], factors[1])
    return found


def sum_of_products(a: Any, b: Any) -> Any:
    """The sum of all elements of the product of two arrays of one shape."""
    return np.asarray(np.dot(a.reshape(-1), b.reshape(-1)))


def constants(order: Iterable[Node]) -> dict[Node, Any]:
    """Evaluates the nodes that depend on scalar constants alone. Where a constant fills a shape, its value is a view of
    one element with strides of zero."""
    found: dict[Node, Any] = {}
    for n in order:
        if n.prim in _NUMBERS and n.size == 1:
            value = PRIMS[n.prim].eager(np, n)
        elif n.prim not in ("reshape", "expand", "map", "cast") or not n.size or any(a not in found for a in n.args):
            continue
        elif n.prim in ("reshape", "expand"):
            value = PRIMS[n.prim].eager(np, n, *(found[a] for a in n.args))
        else:
            ones = [found[a][(slice(0, 1),) * a.ndim].reshape(1) for a in n.args]
            with np.errstate(all="ignore"):
                value = np.broadcast_to(np.asarray(PRIMS[n.prim].eager(np, n, *ones)).reshape(()), n.shape)
        value.flags.writeable = False
        found[n] = value
    return found


def _holders(value: Any) -> int:
    return sys.getrefcount(value.base)


# what it is for memory that nobody else knows
_NOBODY = _holders(np.empty(4).reshape(2, 2))


def alone(value: Any) -> bool:
    """Whether a view is all of a NumPy array that nobody else holds: a copy in another shape, for one."""
    if type(value.base) is not np.ndarray or _holders(value) != _NOBODY:
        return False
    flags = value.flags
    return bool(flags.c_contiguous and flags.writeable and value.base.flags.owndata
                and value.base.nbytes == value.nbytes)


def own(value: Any, inputs: Iterable[Any], xp: Any) -> Any:
    """A new array in C order: what shares memory with an input, or with a number of the program, is copied."""
    if isinstance(value, np.generic):                       # NumPy gives numbers for arrays without axes
        return xp.asarray(value)
    for x in inputs:
        if value is x:
            return xp.array(value, order="C")
    if xp is np and not value.flags.writeable:
        if value.size and not any(value.strides):           # a number that was broadcast: filled, not copied
            return np.full(value.shape, value[(0,) * value.ndim], value.dtype)
        return xp.array(value, order="C")
    if value.base is not None:                              # of which parts and other shapes can be views
        return value if xp is np and alone(value) else xp.array(value, order="C")
    return value if value.flags.c_contiguous else xp.ascontiguousarray(value)


# ---- no warnings of numbers: what an ``np.errstate`` does takes as long as several small functions
def _by_context() -> "tuple[Any, Any] | None":
    """NumPy 2 keeps what it warns of in a context variable: that, and its value for no warnings; None where that is
    not so."""
    try:
        from numpy._core.umath import _extobj_contextvar as variable, _make_extobj as make  # noqa: PLC0415
        nothing = make(all="ignore")
        variable.reset(variable.set(nothing))
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
    return variable, nothing


def _by_state() -> Any:
    return np.seterr(all="ignore")


WARNINGS = _by_context()


def _ways() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    if WARNINGS is None:
        return _by_state, lambda old: np.seterr(**old) and None
    variable, nothing = WARNINGS
    return lambda: variable.set(nothing), variable.reset


quiet, quietly = _ways()
quiet.__doc__ = "Let NumPy warn of nothing; what it gives is for ``quietly``, which lets it warn as before."
