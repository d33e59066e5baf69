"""The primitives: one row each, saying the shape and dtype of the result and how NumPy or CuPy compute it.

Gradients stand in ``vjp.py``, code generation in ``passes/schedule.py``; both are total over this table (tests check
it).
"""
from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from ..base import dtype as dt
from ..base.records import dataclass
from ..base.errors import DTypeError, ShapeError
from . import philox
from .node import Node
from .reductions import REDUCTIONS, reduce_identity
from .rowcall import infer_rows, run_rows
from .scalar import SCALARS
from .small_windows import extremes, is_window
from .sorting_keys import stable_order

Infer = Callable[..., "tuple[tuple[int, ...], np.dtype]"]


@dataclass(frozen=True)
class Prim:
    """``infer(args, **attrs) -> (shape, dtype)``; ``eager(xp, node, *arrays) -> array``."""
    name: str
    infer: Infer
    eager: Callable[..., Any]


PRIMS: dict[str, Prim] = {}


def _prim(name: str, infer: Infer, eager: Callable[..., Any]) -> None:
    PRIMS[name] = Prim(name, infer, eager)


# ---- leaves
_prim("input", lambda args, slot, shape, dtype: (shape, np.dtype(dtype)), lambda xp, n: None)
_prim("const", lambda args, value, dtype: ((), np.dtype(dtype)),
      lambda xp, n: xp.asarray(n.attrs["value"], dtype=n.dtype))
_prim("data", lambda args, value, shape, dtype: (shape, np.dtype(dtype)),
      lambda xp, n: xp.asarray(np.frombuffer(n.attrs["value"], n.dtype).reshape(n.shape)))
_prim("iota", lambda args, n, dtype: ((n,), np.dtype(dtype)),
      lambda xp, n: xp.arange(n.attrs["n"], dtype=n.dtype if n.dtype.kind in "iu"
                              else None).astype(n.dtype, copy=False))


# ---- elementwise
def _map_infer(args: tuple[Node, ...], fn: str) -> tuple[tuple[int, ...], np.dtype]:
    row = SCALARS[fn]
    if len(args) != row.arity:
        raise ShapeError(f"{fn} takes {row.arity} arguments, got {len(args)}")
    shape = args[0].shape
    for a in args:
        if a.shape != shape:
            raise ShapeError(f"{fn}: shapes differ: {[a.shape for a in args]}")
    return shape, dt.bool_ if row.rule == "bool" else args[-1].dtype


def _map_eager(xp: Any, n: Node, *xs: Any) -> Any:
    out = SCALARS[n.attrs["fn"]].np(xp, *xs)
    return out if out.dtype == n.dtype else out.astype(n.dtype)


_ONE_OF_HALVES = np.float16(1).view(np.uint16)
_HALF_OVERFLOWS = 65520              # numbers from this one on round to an infinite float16


def _cast_eager(xp: Any, n: Node, x: Any) -> Any:
    if xp is np and seen_as_bytes(n):
        return x.view(n.dtype)
    return _half_of(x) if xp is np and n.dtype == np.float16 else x.astype(n.dtype)


def seen_as_bytes(n: Node) -> bool:
    """Whether a node gives truth values as integers of a byte: the same memory."""
    return n.prim == "cast" and n.args[0].dtype == bool and n.dtype.kind in "iu" and n.dtype.itemsize == 1


def _half_of(x: np.ndarray) -> np.ndarray:
    """Numbers as float16. NumPy takes some 5 ns for a truth value, and 60 for a number that becomes infinite."""
    if x.dtype == bool:
        return np.multiply(x, _ONE_OF_HALVES, dtype=np.uint16).view(np.float16)
    if x.dtype.kind == "f" and x.size > 1 << 10 and (far := np.abs(x) >= _HALF_OVERFLOWS).any():
        x = np.where(far, np.copysign(x.dtype.type(np.inf), x), x)
    return x.astype(np.float16)


_prim("map", _map_infer, _map_eager)
_prim("cast", lambda args, dtype: (args[0].shape, np.dtype(dtype)), _cast_eager)
_prim("bitcast", lambda args, dtype: (args[0].shape, np.dtype(dtype)), lambda xp, n, x: x.view(n.dtype))
_prim("detach", lambda args, leaf=0, losses=False: (args[0].shape, args[0].dtype), lambda xp, n, x: x)
_prim("with_grad", lambda args, name, attrs: (args[0].shape, args[0].dtype), lambda xp, n, x, *rest: x)


# ---- movement
def _expand_infer(args: tuple[Node, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], np.dtype]:
    x = args[0]
    if len(x.shape) != len(shape):
        raise ShapeError(f"cannot broadcast {x.shape} to {shape}")
    for a, b in zip(x.shape, shape):
        if a != 1 and a != b:
            raise ShapeError(f"cannot broadcast {x.shape} to {shape}")
    return shape, x.dtype


def _slice_eager(xp: Any, n: Node, x: Any) -> Any:
    key = []
    for b, size, step in zip(n.attrs["begin"], n.attrs["size"], n.attrs["step"]):
        end = b + size * step
        key.append(slice(b, None if end < 0 else end, step) if size else slice(0, 0))
    return x[tuple(key)]


def _pad_infer(args: tuple[Node, ...], lo: tuple[int, ...], hi: tuple[int, ...],
               value: float) -> tuple[tuple[int, ...], np.dtype]:
    return tuple(d + a + b for d, a, b in zip(args[0].shape, lo, hi)), args[0].dtype


def _pad_eager(xp: Any, n: Node, x: Any) -> Any:
    out = xp.full(n.shape, n.attrs["value"], dtype=n.dtype)
    out[tuple(slice(a, a + d) for a, d in zip(n.attrs["lo"], x.shape))] = x
    return out


def _concat_infer(args: tuple[Node, ...], axis: int) -> tuple[tuple[int, ...], np.dtype]:
    first = args[0].shape
    return first[:axis] + (sum(a.shape[axis] for a in args),) + first[axis + 1:], args[0].dtype


def positions(n: int, size: int, stride: int, dilation: int) -> int:
    """How many windows of ``size`` fit into ``n``."""
    return max((n - dilation * (size - 1) - 1) // stride + 1, 0)


def _window_infer(args: tuple[Node, ...], axes: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...],
                  dilation: tuple[int, ...]) -> tuple[tuple[int, ...], np.dtype]:
    shape = list(args[0].shape)
    for ax, k, s, d in zip(axes, size, stride, dilation):
        shape[ax] = positions(shape[ax], k, s, d)
    return tuple(shape) + size, args[0].dtype


def _window_eager(xp: Any, n: Node, x: Any) -> Any:
    strides, extra = list(x.strides), []
    for ax, s, d in zip(n.attrs["axes"], n.attrs["stride"], n.attrs["dilation"]):
        extra.append(x.strides[ax] * d)
        strides[ax] = x.strides[ax] * s
    steps = (s if d > 1 else 0 for s, d in zip((*strides, *extra), n.shape))  # where nothing is stepped it may be huge
    return xp.lib.stride_tricks.as_strided(x, n.shape, tuple(steps))


def _unwindow_infer(args: tuple[Node, ...], axes: Any, stride: Any, dilation: Any, shape: tuple[int, ...]) -> Any:
    return shape, args[0].dtype


def _unwindow_eager(xp: Any, n: Node, y: Any) -> Any:
    """Adjoint of window: add every window back where it was taken from, one slice a kernel offset."""
    axes, stride, dilation = n.attrs["axes"], n.attrs["stride"], n.attrs["dilation"]
    out = xp.zeros(n.shape, dtype=n.dtype)
    rank = len(n.shape)
    # samples together whose windows, of which each offset reads every so many-th number, stay in a processor's cache
    some = max(1, (1 << 18) * y.shape[0] // max(y.size, 1)) if xp is np and rank > len(axes) and 0 not in axes else None
    for first in range(0, n.shape[0], some) if some else (0,):
        here = slice(first, first + some) if some else slice(None)
        for offset in np.ndindex(*y.shape[rank:]):
            key: list[Any] = [here, *[slice(None)] * (rank - 1)]
            for ax, o, s, d in zip(axes, offset, stride, dilation):
                key[ax] = slice(o * d, o * d + s * (y.shape[ax] - 1) + 1, s) if y.shape[ax] else slice(0, 0)
            out[tuple(key)] += y[here][(Ellipsis, *offset)]
    return out


_prim("reshape", lambda args, shape: (shape, args[0].dtype), lambda xp, n, x: x.reshape(n.shape))
_prim("permute", lambda args, axes: (tuple(args[0].shape[a] for a in axes), args[0].dtype),
      lambda xp, n, x: x.transpose(n.attrs["axes"]))
_prim("expand", _expand_infer, lambda xp, n, x: xp.broadcast_to(x, n.shape))
_prim("slice", lambda args, begin, size, step: (size, args[0].dtype), _slice_eager)
_prim("pad", _pad_infer, _pad_eager)
_prim("concat", _concat_infer, lambda xp, n, *xs: xp.concatenate(xs, axis=n.attrs["axis"]))
_prim("window", _window_infer, _window_eager)
_prim("unwindow", _unwindow_infer, _unwindow_eager)

# ---- reductions
def _drop(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _reduce_eager(xp: Any, n: Node, x: Any) -> Any:
    op, axes = n.attrs["op"], n.attrs["axes"]
    if not REDUCTIONS[op].own:
        return xp.asarray(REDUCTIONS[op].numpy(xp, x, axes), dtype=n.dtype)
    if dt.is_half(n.dtype) and op in ("sum", "prod"):
        return getattr(x.astype(np.float32), op)(axis=axes).astype(n.dtype)      # half sums are kept in float32
    if op in ("max", "min"):
        if xp is np and is_window(x, axes):
            return extremes(op, x, len(axes))
        # CuPy's max and min take no initial value
        out = getattr(xp, op)(x, axis=axes) if x.size else xp.full(n.shape, reduce_identity(op, n.dtype), n.dtype)
    else:
        out = getattr(xp, op)(x, axis=axes, dtype=n.dtype)
    return xp.asarray(out, dtype=n.dtype)


_prim("reduce", lambda args, op, axes: (_drop(args[0].shape, axes), args[0].dtype), _reduce_eager)
_prim("argreduce", lambda args, op, axis: (_drop(args[0].shape, (axis,)), np.dtype(np.int64)),
      lambda xp, n, x: xp.asarray(getattr(xp, n.attrs["op"])(x, axis=n.attrs["axis"]), dtype=np.int64))


def _argsort_eager(xp: Any, n: Node, x: Any) -> Any:
    if xp is np:
        return stable_order(x, n.attrs["descending"])
    if dt.is_half(x.dtype):
        x = x.astype(np.float32)
    if not n.attrs["descending"]:
        return xp.argsort(x, axis=-1, kind="stable").astype(np.int64, copy=False)
    # backwards, and backwards again: equal keys keep their order
    back = xp.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return (x.shape[-1] - 1 - back).astype(np.int64, copy=False)


_prim("argsort", lambda args, descending: (args[0].shape, np.dtype(np.int64)), _argsort_eager)



def _cumulate_eager(xp: Any, n: Node, x: Any) -> Any:
    wide = np.float32 if dt.is_half(x.dtype) else n.dtype
    axis, back = n.attrs["axis"], (*[slice(None)] * n.attrs["axis"], slice(None, None, -1))
    if xp is np and dt.is_half(x.dtype):
        x = x.astype(wide)
    out = xp.cumsum(x[back], axis=axis, dtype=wide)[back] if n.attrs["reverse"] else xp.cumsum(x, axis=axis, dtype=wide)
    return _half_of(out) if xp is np and n.dtype == np.float16 else out.astype(n.dtype, copy=False)


_prim("cumulate", lambda args, axis, reverse: (args[0].shape, args[0].dtype), _cumulate_eager)

_prim("rows", infer_rows, run_rows)


# ---- indexing
def _gather_infer(args: tuple[Node, ...], axis: int) -> tuple[tuple[int, ...], np.dtype]:
    x, idx = args
    if not dt.is_int(idx.dtype):
        raise DTypeError(f"gather wants integer indices, got {idx.dtype}")
    if not x.shape[axis] and 0 not in idx.shape:
        raise ShapeError(f"nothing can be taken from axis {axis} of an array of shape {x.shape}: it has length 0")
    return x.shape[:axis] + idx.shape + x.shape[axis + 1:], x.dtype


def _scatter_infer(args: tuple[Node, ...], axis: int, size: int) -> tuple[tuple[int, ...], np.dtype]:
    idx, upd = args
    if not size and 0 not in upd.shape:
        raise ShapeError(f"nothing can be put into axis {axis} of the result: it has length 0")
    return upd.shape[:axis] + (size,) + upd.shape[axis + idx.ndim:], upd.dtype


def _scatter_eager(xp: Any, n: Node, idx: Any, upd: Any) -> Any:
    axis = n.attrs["axis"]
    out = xp.zeros(n.shape, dtype=n.dtype)
    rows = xp.moveaxis(out, axis, 0)
    flat = xp.moveaxis(upd.reshape(upd.shape[:axis] + (idx.size,) + upd.shape[axis + idx.ndim:]), axis, 0)
    if xp is np:
        np.add.at(rows, idx.reshape(-1), flat)
        return out
    # CuPy adds at places in a few types only: 64-bit integers as unsigned ones, the rest in a wider type
    d = n.dtype
    wide = np.dtype(np.float32) if dt.is_half(d) else np.dtype(np.uint64) if d == np.int64 else np.dtype(np.int32)
    if d in (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32), np.dtype(np.uint32), np.dtype(np.uint64)):
        wide = d
    total = xp.zeros(rows.shape, dtype=wide)
    xp.add.at(total, idx.reshape(-1), flat.astype(wide))
    rows[...] = total.astype(d)
    return out


_prim("gather", _gather_infer, lambda xp, n, x, idx: xp.take(x, idx, axis=n.attrs["axis"]))
_prim("scatter_add", _scatter_infer, _scatter_eager)


# ---- contraction
def _free(shape: tuple[int, ...], used: tuple[int, ...]) -> list[int]:
    return [i for i in range(len(shape)) if i not in used]


def _dot_infer(args: tuple[Node, ...], contract: Any, batch: Any,
               may_round_operands: bool = False) -> tuple[tuple[int, ...], np.dtype]:
    # may_round_operands: whether the operands, or for a Winograd form the transformed ones, may be rounded to bfloat16
    a, b = args
    (ca, cb), (ba, bb) = contract, batch
    if [a.shape[i] for i in ca] != [b.shape[i] for i in cb] or [a.shape[i] for i in ba] != [b.shape[i] for i in bb]:
        i, j = next((i, j) for i, j in zip((*ca, *ba), (*cb, *bb)) if a.shape[i] != b.shape[j])
        raise ShapeError(f"shapes {a.shape} and {b.shape} cannot be multiplied: axis {i} of the first has length "
                         f"{a.shape[i]}, axis {j} of the second {b.shape[j]}, and they must be equal")
    shape = [a.shape[i] for i in ba] + [a.shape[i]
                                        for i in _free(a.shape,
                                                       ca + ba)] + [b.shape[i] for i in _free(b.shape, cb + bb)]
    return tuple(shape), a.dtype


def _run(x: Any) -> int:
    """Elements that lie one after the other in memory, at the end of an array."""
    n, step = 1, x.dtype.itemsize
    for size, stride in zip(x.shape[::-1], x.strides[::-1]):
        if size == 1:
            continue
        if stride != step:
            break
        n, step = n * size, step * size
    return n


def _matrices(x: Any, batch: Any, rows: Any, columns: Any) -> Any:
    """Axes as batches, rows and columns. What has to be copied is copied in the order of its memory: a product takes
    transposed matrices as well."""
    def size(axes: Any) -> int:
        return math.prod(x.shape[i] for i in axes)
    head = tuple(x.shape[i] for i in batch)
    there, back = x.transpose((*batch, *rows, *columns)), x.transpose((*batch, *columns, *rows))
    if _run(back) > _run(there):
        return back.reshape((*head, size(columns), size(rows))).swapaxes(-1, -2)
    return there.reshape((*head, size(rows), size(columns)))


def _fits_floats(a: Any, b: Any) -> bool:
    """Whether products of large matrices of integers, and their sums, are exact in float64."""
    if min(a.size, b.size) < 1 << 10 or a.shape[-2] < 4 or b.shape[-1] < 4:
        return False
    largest = [max(abs(int(x.min())), abs(int(x.max()))) for x in (a, b)]
    return largest[0] * largest[1] * a.shape[-1] < 1 << 53


_PART = 1 << 21                      # bytes of windows that are copied at a time: they stay in cache until multiplied


def _span(x: np.ndarray) -> int:
    """Bytes from the first to the last element: fewer than those of all elements where windows lie over each other."""
    return x.itemsize + sum((d - 1) * abs(s) for d, s in zip(x.shape, x.strides))


def _parts(n: Node, a: Any, b: Any) -> int:
    """In how many parts of the first pair of summed axes a product of floats is computed: as many as keep the copies of
    windows small."""
    ca, _ = n.attrs["contract"]
    if not ca or n.dtype not in (np.float32, np.float64):
        return 1
    copied = max(x.nbytes if x.nbytes > _span(x) else 0 for x in (a, b))
    return 1 if copied <= 2 * _PART else min(a.shape[ca[0]], -(-copied // _PART)) or 1


def _dot_eager(xp: Any, n: Node, a: Any, b: Any) -> Any:
    if xp is not np or (parts := _parts(n, a, b)) == 1:
        return _product(xp, n, a, b)
    (i, *_), (j, *_) = n.attrs["contract"]
    each = -(-a.shape[i] // parts)
    total: Any = None
    for start in range(0, a.shape[i], each):
        key = slice(start, start + each)
        found = _product(xp, n, a[(slice(None),) * i + (key,)], b[(slice(None),) * j + (key,)])
        total = found if total is None else np.add(total, found, out=total)
    return total


def _product(xp: Any, n: Node, a: Any, b: Any) -> Any:
    (ca, cb), (ba, bb) = n.attrs["contract"], n.attrs["batch"]
    if xp is np and n.dtype == bool and a.ndim == b.ndim == len(ca) == 1:    # it ends where the result is known
        return np.asarray(np.dot(a, b))
    fa, fb = _free(a.shape, ca + ba), _free(b.shape, cb + bb)
    wide = np.dtype(np.float32) if dt.is_half(n.dtype) else n.dtype

    if a.ndim == b.ndim == 2 and len(ca) == 1 and not ba:               # matrices as they are
        left, right = a if ca == (1,) else a.T, b if cb == (0,) else b.T
    else:
        left, right = _matrices(a, ba, fa, ca), _matrices(b, bb, cb, fb)
    left, right = left.astype(wide, copy=False), right.astype(wide, copy=False)
    if xp is np and n.dtype.kind in "iu" and _fits_floats(left, right):  # BLAS has no products of integers
        out = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
        return out.reshape(n.shape).astype(n.dtype, copy=False)
    if xp is np and n.dtype.kind in "iu" and not (fa or fb):             # NumPy's products of integers know no rows
        return np.einsum("...k,...k", left.reshape(*left.shape[:-2], -1), right.reshape(*right.shape[:-2], -1),
                         dtype=n.dtype).reshape(n.shape)
    # of a column and a row NumPy's product is slow
    out = left * right if left.shape[-1] == 1 and n.dtype.kind in "fiub" else xp.matmul(left, right)
    return out.reshape(n.shape).astype(n.dtype, copy=False)


_prim("dot", _dot_infer, _dot_eager)
_prim("random_bits", lambda args, shape, stream: (shape, np.dtype(np.uint32)),
      lambda xp, n, key: philox.random_bits(xp, key, n.shape, n.attrs["stream"]))
