"""What runs a program on NumPy without detours: universal functions called directly."""
from __future__ import annotations

import sys
from collections import Counter
from functools import lru_cache
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ..base import dtype as dt
from .node import Node
from .primitives import PRIMS, seen_as_bytes
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


def passed_on(a: Node) -> Node:
    """The value of an argument without the nodes around it that matter for gradients alone."""
    while a.prim in ("detach", "with_grad"):
        a = a.args[0]
    return a


def spread(n: Node) -> tuple[Node, ...]:
    """The arguments of a universal function, those that it can stretch itself as they are before that."""
    short = tuple(a.args[0] if a.prim == "expand" else a for a in n.args)
    return short if np.broadcast_shapes(*(a.shape for a in short)) == n.shape else n.args


_WIDE = np.dtype(np.float32)         # the dtype of sums and products of halves
_REDUCED = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def reduction_of(n: Node, kept: tuple[int, ...] | None = None) -> Callable[[Any], np.ndarray] | None:
    """A function that computes this reduction by one call of NumPy, into a new array; or None. kept: the shape of the
    result if reduced axes stay in it, with one element each; None if they do not."""
    shape, dtype = n.shape, n.dtype
    if n.prim == "argreduce" and kept is None:
        place, axis = getattr(np.ndarray, n.attrs["op"]), n.attrs["axis"]
        return lambda x: place(x, axis, np.empty(shape, dtype))
    if n.prim != "reduce" or n.attrs["op"] not in _REDUCED or not n.args[0].size:
        return None
    op, axes, extreme = n.attrs["op"], n.attrs["axes"], n.attrs["op"] in ("max", "min")
    if extreme and is_window(n.args[0], axes) or n.args[0].dtype != dtype:
        return None
    reduce: Any = _REDUCED[op].reduce
    shape, keep = (shape, False) if kept is None else (kept, True)
    if not extreme and dt.is_half(dtype):
        return lambda x: reduce(x.astype(_WIDE), axes, _WIDE, np.empty(shape, _WIDE), keep).astype(dtype)
    return lambda x: reduce(x, axes, dtype, np.empty(shape, dtype), keep)


def kept_reductions(order: Sequence[Node], roots: Iterable[Node]) -> dict[Node, Callable[[Any], np.ndarray]]:
    """For each reshape that gives a reduction its axes back, with one element each: a function that does both at once.
    Only where nothing else reads the reduction."""
    readers, found = Counter(a for n in order for a in n.args), {}
    readers.update(roots)
    for n in order:
        r = n.args[0] if n.prim == "reshape" else n
        if r.prim != "reduce" or r is n or readers[r] > 1:
            continue
        axes = r.attrs["axes"]
        if n.shape == tuple(1 if i in axes else d for i, d in enumerate(r.args[0].shape)):
            call = reduction_of(r, n.shape)
            if call is not None:
                found[n] = call
    return found


def movement_of(n: Node) -> Callable[[Any], np.ndarray] | None:
    """NumPy's method that gives another shape, order of axes or dtype and nothing else, where there is one."""
    shape, dtype = n.shape, n.dtype
    if n.prim == "reshape":
        return lambda x: x.reshape(shape)
    if n.prim == "permute":
        axes = n.attrs["axes"]
        return lambda x: x.transpose(axes)
    if n.prim == "cast" and dtype != np.float16 and not seen_as_bytes(n):
        return lambda x: x.astype(dtype)
    return None


def sequence_of(n: Node) -> Callable[..., np.ndarray] | None:
    """NumPy's function that joins arrays, or adds up along an axis, where it does all that a node does."""
    axis: Any = n.attrs.get("axis")
    dtype = n.dtype
    if n.prim == "concat":
        return lambda *xs: np.concatenate(xs, axis)
    if n.prim == "cumulate" and not n.attrs["reverse"] and n.args[0].dtype == dtype:
        if dt.is_half(dtype):
            return None if n.size > _FEW_HALVES else lambda x: np.add.accumulate(x.astype(_WIDE), axis).astype(dtype)
        return lambda x: np.add.accumulate(x, axis, dtype)
    return None


_FEW_HALVES = 1 << 10                # elements; larger results are searched for infinities (primitives.py)
_FEW = 1 << 18                       # elements: of larger ones copies are counted (primitives.py)
_FEW_INTEGERS = 1 << 12              # elements: larger arrays of integers are multiplied as floats, by BLAS


def _widened(product: Any, dtype: np.dtype) -> Callable[[Any, Any], Any]:
    """The function that casts two arrays of a half type to float32, multiplies them, and casts the product back."""
    return lambda x, y: product(x.astype(_WIDE), y.astype(_WIDE)).astype(dtype)


def product_of(n: Node) -> Callable[[Any, Any], np.ndarray] | None:
    """What computes a ``dot`` by np.matmul or np.multiply; None for other nodes, and for large arrays. It may be a
    product of two matrices or of two stacks of them (of floats, or of integers where there are few), of a column and a
    row, or of each row of an array with the same row of another one."""
    half = dt.is_half(n.dtype)
    few = _FEW_HALVES if half else _FEW if n.dtype in (np.float32, np.float64) else (
        _FEW_INTEGERS if n.dtype.kind in "iub" else -1)
    matmul, times = (_widened(f, n.dtype) if half else f for f in (np.matmul, np.multiply))
    if n.prim != "dot" or n.args[1].dtype != n.dtype or max(a.size for a in n.args) > few:
        return None
    (a, b), (ca, cb), batch = n.args, n.attrs["contract"], tuple(range(n.ndim - 2))
    rows = (tuple(range(n.ndim)),) * 2                       # einsum may pair axes in another order
    if (n.dtype.kind == "f" and a.ndim == n.ndim + 1 > 1 and a.shape == b.shape and (ca, cb) == ((n.ndim,),) * 2
            and n.attrs["batch"] == rows):
        return lambda x, y: matmul(x[..., None, :], y[..., None])[..., 0, 0]
    if a.ndim == b.ndim == 1 and not ca and not n.attrs["batch"][0]:
        return lambda x, y: times(x[:, None], y)
    if not (a.ndim == b.ndim == n.ndim >= 2 and n.attrs["batch"] == (batch, batch) and len(ca) == 1):
        return None
    turned = (ca[0] == n.ndim - 2, cb[0] == n.ndim - 1)
    multiply: Any = times if a.shape[ca[0]] == 1 else matmul                 # of a column and a row matmul is slow
    return {(False, False): multiply,
            (True, False): lambda x, y: multiply(x.swapaxes(-1, -2), y),
            (False, True): lambda x, y: multiply(x, y.swapaxes(-1, -2)),
            (True, True): lambda x, y: multiply(x.swapaxes(-1, -2), y.swapaxes(-1, -2))}[turned]


BOOLEAN_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "mod": np.remainder,
                       "floordiv": np.floor_divide}


def boolean_arithmetic(n: Node) -> "tuple[Callable[..., Any], tuple[Node, ...]] | None":
    """For a sum, a difference, a product, a quotient or a remainder of two booleans that are cast to wide integers: a
    function that computes it in int8 and casts the result, and the boolean operands. None for other nodes."""
    ufunc = BOOLEAN_ARITHMETIC.get(n.attrs["fn"]) if n.prim == "map" and n.ndim and n.dtype.kind == "i" else None
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
    if xp is np and value.base is None and value.flags.carray:
        return value
    if xp is np and not value.flags.writeable:
        if value.size and not any(value.strides):           # a number that was broadcast: filled, not copied
            return np.full(value.shape, value[(0,) * value.ndim], value.dtype)
        return xp.array(value, order="C")
    if value.base is not None:                              # of which parts and other shapes can be views
        return value if xp is np and alone(value) else xp.array(value, order="C")
    return value if value.flags.c_contiguous else xp.ascontiguousarray(value)
