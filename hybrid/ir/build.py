"""Functions that make nodes: they normalise arguments, broadcast and promote, then infer and intern."""
from __future__ import annotations

import functools
import math
from typing import Any, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.errors import AttributeValueError, DTypeError, ShapeError
from .node import Node, intern
from .primitives import PRIMS
from .reductions import REDUCTIONS
from .roundable import may_round
from .scalar import BUILDER, SCALARS
from .size import Int, Size, at_least, ends, same

Shape = tuple[int, ...]
MOST_ELEMENTS = 1 << 60


def make(prim: str, args: tuple[Node, ...], **attrs: Any) -> Node:
    """The node of a primitive, with shape and dtype inferred."""
    shape, dtype = PRIMS[prim].infer(args, **attrs)
    if any(d < 0 for d in shape):
        raise ShapeError(f"shape {shape} has a negative size: sizes must be 0 or more")
    if Size not in map(type, shape) and (count := math.prod(shape)) >= MOST_ELEMENTS:
        raise ShapeError(f"shape {shape} has {count} elements; indices of 64 bits reach less than 2^60")
    return intern(prim, args, attrs, shape, dtype)


def ints(values: Any) -> Shape:
    """A tuple of Python integers, and sizes that are known at the call (ir/size.py)."""
    try:
        return tuple([v if type(v) is Size else int(v) for v in values])       # type: ignore[misc]
    except (TypeError, ValueError):
        raise AttributeValueError(f"a shape or axes are a tuple of integers, such as (2, 3), got {values!r}") from None


@functools.cache
def _dtype_name(d: np.dtype) -> str:
    return d.name                            # NumPy puts it together each time


# ---- leaves
def input(slot: int, shape: Sequence[int], dtype: Any) -> Node:  # noqa: A001  the field's word for it
    """Input number ``slot`` of a program."""
    return make("input", (), slot=int(slot), shape=ints(shape), dtype=_dtype_name(np.dtype(dtype)))


def const(value: Any, dtype: Any) -> Node:
    """A scalar constant, shape (); of a size that is known at the call, its value."""
    if type(value) is Size:
        return size_value(value, dtype)
    if isinstance(value, (float, np.floating)):
        return _const(Const(value), np.dtype(dtype))
    return (_const if type(value) in (int, bool) else _const.__wrapped__)(value, np.dtype(dtype))


@functools.lru_cache(4096, typed=True)
def _const(value: Any, d: np.dtype) -> Node:
    if dt.is_float(d):
        v: Any = float(np.asarray(value, np.float64).astype(d)) if dt.is_half(d) else float(value)
    elif d == np.dtype(bool):
        v = bool(value)
    else:
        v = _wrapped(int(value), d) if math.isfinite(value) else 0
    # -0.0 == 0.0 and nan != nan as dict keys: hex text keeps every float apart
    return make("const", (), value=Const(v) if isinstance(v, float) else v, dtype=_dtype_name(d))


def _wrapped(value: int, d: np.dtype) -> int:
    """An integer as its dtype holds it: around, as in C."""
    return int(np.array(value & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(d))


def _beyond(value: Any, d: np.dtype) -> bool:
    """Whether an integer is, or may be, outside of what an integer dtype holds."""
    if not isinstance(value, (int, np.integer, Size)) or d.kind not in "iu":
        return False
    least, most = ends(value) if isinstance(value, Size) else (value, value)
    return not np.iinfo(d).min <= least <= most <= np.iinfo(d).max


class Const(float):
    """A float of a program. Two of them are equal where their bits are, so that 0.0 and -0.0 intern apart and nan
    interns at all; with other numbers it compares as the number that it is."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return float.__eq__(self, other)             # type: ignore[arg-type]
        if math.copysign(1, self) != math.copysign(1, other):
            return False
        return float.__eq__(self, other) or math.isnan(self) and math.isnan(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 0 if math.isnan(self) else float.__hash__(self)

    def __lt__(self, other: object) -> bool:
        return repr(self) < repr(other) if isinstance(other, Const) else float.__lt__(self, other)   # type: ignore


def full(value: Any, shape: Sequence[int], dtype: Any) -> Node:
    """A constant of a shape."""
    return expand(const(value, dtype), shape)


def data(array: Any) -> Node:
    """A small constant array, embedded in the program."""
    a = np.ascontiguousarray(array)
    return make("data", (), value=a.tobytes(), shape=a.shape, dtype=_dtype_name(a.dtype))


def iota(n: int, dtype: Any = np.int64) -> Node:
    """0, 1, … n-1."""
    return make("iota", (), n=n if type(n) is Size else int(n), dtype=_dtype_name(np.dtype(dtype)))


# ---- elementwise
def _alike(shape: Shape, other: Shape) -> bool:
    """Whether two shapes are the same expressions; nothing is asked of sizes."""
    return len(shape) == len(other) and all(map(same, shape, other))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcasting rule; ShapeError where it does not apply."""
    out: Shape = ()
    for shape in shapes:
        if _alike(shape, out) or not shape:
            continue
        if not out:
            out = shape
            continue
        more = len(shape) - len(out)
        out, shape = (1,) * more + out, (1,) * -more + shape
        joined = [a if b == 1 else b for a, b in zip(out, shape)]
        if any(a != b and a != 1 for a, b in zip(out, joined)):
            raise ShapeError(f"shapes {' and '.join(map(str, shapes))} cannot be broadcast together")
        out = tuple(joined)
    return out


def _common(fn: str, rule: str, xs: Sequence[Any]) -> np.dtype:
    """The dtype at which arguments meet. Python scalars are weak: they follow the arrays."""
    nodes = [x for x in xs if isinstance(x, Node)]
    weak = [x for x in xs if not isinstance(x, Node)] if len(nodes) < len(xs) else []
    if not nodes:
        raise TypeError(f"{fn} needs at least one node")
    out = nodes[0].dtype
    if any(n.dtype is not out for n in nodes):
        out = dt.promote(*(n.dtype for n in nodes))
    if weak and any(isinstance(w, (float, np.floating)) for w in weak) and not dt.is_float(out):
        out = dt.float32
    elif weak and out == dt.bool_ and any(isinstance(w, (int, np.integer, Size)) and not isinstance(w, (bool, np.bool_))
                                          for w in weak):
        out = dt.int64
    elif weak and rule == "bool" and any(_beyond(w, out) for w in weak):        # unsigned > -1
        out = dt.int64
    if rule == "float" and not dt.is_float(out):
        out = dt.float32
    if rule == "same" and out == dt.bool_ and fn in ("add", "sub", "mul", "neg", "square", "pow", "mod", "floordiv"):
        out = dt.int64
    if rule == "int" and dt.is_float(out):
        raise DTypeError(f"{fn} takes integers, got {out}")
    return out


def map_(fn: str, *xs: Any) -> Node:
    """A scalar function of broadcast arguments (see the table in scalar.py)."""
    row = SCALARS[fn]
    if len(xs) != row.arity:
        raise TypeError(f"{fn} takes {row.arity} arguments, got {len(xs)}")
    values = xs[1:] if row.rule == "select" else xs
    if row.rule == "select" and not any(isinstance(v, Node) for v in values):
        dtype = dt.float32 if any(isinstance(v, float) for v in values) else dt.int64
    else:
        dtype = _common(fn, row.rule, values)
    args = [cast(x, dtype) if isinstance(x, Node) else const(x, dtype) for x in values]
    if row.rule == "select":
        args.insert(0, xs[0] if isinstance(xs[0], Node) else const(bool(xs[0]), bool))
    shape = broadcast_shapes(*(a.shape for a in args))
    return make("map", tuple(expand(a, shape) for a in args), fn=fn)


BUILDER["map"] = map_


def cast(x: Node, dtype: Any) -> Node:
    """x in another dtype."""
    d = np.dtype(dtype)
    if x.dtype == d:
        return x
    return const(x.attrs["value"], d) if x.prim == "const" else make("cast", (x,), dtype=_dtype_name(d))


def bitcast(x: Node, dtype: Any) -> Node:
    """The same bits read as another dtype of equal size."""
    return x if x.dtype == np.dtype(dtype) else make("bitcast", (x,), dtype=_dtype_name(np.dtype(dtype)))


def detach(x: Node, leaf: int = 0) -> Node:
    """x, through which no gradient flows. Nodes of different ``leaf`` are variables of their own where their values are
    equal."""
    return make("detach", (x,), leaf=leaf) if leaf else make("detach", (x,))


def block_grad(x: Node) -> Node:
    """x, through which no gradient flows but that of losses below, which count whatever comes from above."""
    return make("detach", (x,), losses=True)


def with_grad(value: Node, inputs: Sequence[Node], name: str, attrs: Any = ()) -> Node:
    """``value``, whose gradient to ``inputs`` is the function registered as ``name`` (vjp.register_grad)."""
    return make("with_grad", (value, *inputs), name=name, attrs=attrs)


# ---- movement
def reshape(x: Node, shape: Sequence[int]) -> Node:
    """x with its elements in the same order and another shape (one -1 allowed)."""
    shape = asked = ints(shape)
    if -1 in shape:
        rest = math.prod(d for d in shape if d != -1)
        shape = tuple((x.size // rest if rest else 0) if d == -1 else d for d in shape)
    if math.prod(shape) != x.size:
        raise ShapeError(f"cannot reshape {x.shape} ({x.size} elements) to {asked}"
                         + (f" ({math.prod(shape)} elements)" if asked == shape
                            else f": {rest} does not divide {x.size}"))
    if shape == x.shape:
        return x
    return reshape(x.args[0], shape) if x.prim == "reshape" else make("reshape", (x,), shape=shape)


def permute(x: Node, axes: Sequence[int]) -> Node:
    """x with its axes in another order: axis i of the result is axis ``axes[i]`` of x."""
    axes = tuple(int(a) % max(x.ndim, 1) for a in axes)
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError(f"axes {axes} are no permutation of the {x.ndim} axes of {x.shape}")
    if axes == tuple(range(x.ndim)):
        return x
    if x.prim == "permute":
        return permute(x.args[0], [x.attrs["axes"][a] for a in axes])
    return make("permute", (x,), axes=axes)


def expand(x: Node, shape: Sequence[int]) -> Node:
    """x broadcast to a shape (NumPy's broadcast_to)."""
    shape = ints(shape)
    if len(x.shape) < len(shape):
        x = reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
    return x if _alike(x.shape, shape) else make("expand", (x,), shape=shape)


def slice(x: Node, begin: Sequence[int], size: Sequence[int], step: Sequence[int] | None = None) -> Node:  # noqa: A001
    """out[i] = x[begin + i * step] on every axis; begin is not negative, step may be."""
    begin, size = ints(begin), ints(size)
    step = ints(step) if step is not None else (1,) * x.ndim
    if not len(begin) == len(size) == len(step) == x.ndim:
        raise ShapeError(f"slice of {x.shape}: begin {begin}, size {size}, step {step} need one entry an axis")
    for b, s, t, d in zip(begin, size, step, x.shape):
        if s and not (0 <= b < d and 0 <= b + (s - 1) * t < d):
            raise ShapeError(f"slice of {x.shape} from {begin}, size {size}, step {step} leaves the array")
    if all(map(same, (*begin, *size, *step), ((0,) * x.ndim) + x.shape + (1,) * x.ndim)):
        return x
    return make("slice", (x,), begin=begin, size=size, step=step)


def pad(x: Node, lo: Sequence[int], hi: Sequence[int], value: Any = 0) -> Node:
    """x with ``lo`` and ``hi`` elements of ``value`` around it."""
    lo, hi = ints(lo), ints(hi)
    if all(same(n, 0) for n in (*lo, *hi)):
        return x
    v = Const(value) if dt.is_float(x.dtype) else int(value)
    return make("pad", (x,), lo=lo, hi=hi, value=v)


def concat(xs: Sequence[Node], axis: int) -> Node:
    """xs one after another along an axis."""
    axis %= max(xs[0].ndim, 1)
    dtype = dt.promote(*(x.dtype for x in xs))
    xs = [cast(x, dtype) for x in xs]
    for x in xs:
        if x.shape[:axis] + x.shape[axis + 1:] != xs[0].shape[:axis] + xs[0].shape[axis + 1:]:
            raise ShapeError(f"cannot concatenate {[x.shape for x in xs]} along axis {axis}: the other axes must be "
                             f"equal")
    return xs[0] if len(xs) == 1 else make("concat", tuple(xs), axis=axis)


def window(x: Node, axes: Sequence[int], size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Node:
    """Sliding windows over ``axes``; the kernel axes come last."""
    return make("window", (x,), axes=ints(axes), size=ints(size), stride=ints(stride), dilation=ints(dilation))


def unwindow(y: Node, axes: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
             shape: Sequence[int]) -> Node:
    """Adjoint of window: windows added up where they came from."""
    return make("unwindow", (y,), axes=ints(axes), stride=ints(stride), dilation=ints(dilation), shape=ints(shape))


# ---- reductions, indexing, contraction
def reduce(op: str, x: Node, axes: Sequence[int], keepdims: bool = False) -> Node:
    """A reduction of the table (reductions.py) over axes: sum, prod, max, min, or a registered one."""
    if op not in REDUCTIONS:
        raise ValueError(f"unknown reduction {op!r}; known are {', '.join(REDUCTIONS)}")
    axes = tuple(sorted({int(a) % x.ndim for a in axes})) if x.ndim else ()
    if not axes:
        return x
    out = make("reduce", (x,), op=op, axes=axes)
    return reshape(out, tuple(1 if i in axes else d for i, d in enumerate(x.shape))) if keepdims else out


def argreduce(op: str, x: Node, axis: int) -> Node:
    """Index (int64) of the first maximum or minimum along an axis."""
    if x.shape[axis] == 0:
        raise ShapeError(f"{op} over axis {axis} of {x.shape}: the axis is empty")
    return make("argreduce", (x,), op=op, axis=int(axis) % x.ndim)


def argsort(x: Node, descending: bool = False) -> Node:
    """Indices (int64) that sort each row of the last axis; equal keys keep their order, nan is the largest."""
    if not x.ndim:
        raise ShapeError("a scalar has no axis to sort along")
    return make("argsort", (x,), descending=bool(descending))


def cumulate(x: Node, axis: int, reverse: bool = False) -> Node:
    """Sums of the first 1, 2, … elements along an axis; reverse: of the last ones. Integers wrap around, halves are
    added in float32."""
    if not x.ndim:
        raise ShapeError("a scalar has no axis to add along")
    return make("cumulate", (x,), axis=int(axis) % x.ndim, reverse=bool(reverse))


def rows(name: str, args: Sequence[Node], params: Sequence[Any] = ()) -> Node:
    """A row kernel (rowcall.py) on the last axes of its arguments, for every position of the leading ones."""
    return make("rows", tuple(args), name=name, params=tuple(Const(p) if isinstance(p, float) else p for p in params))


def gather(x: Node, idx: Node, axis: int = 0) -> Node:
    """np.take(x, idx, axis); every index must be in range."""
    return make("gather", (x, idx), axis=int(axis) % max(x.ndim, 1))


def scatter_add(idx: Node, upd: Node, axis: int, size: int) -> Node:
    """Adjoint of gather: zeros to which ``upd`` is added at ``idx`` along an axis of length ``size``."""
    return make("scatter_add", (idx, upd), axis=int(axis), size=size if type(size) is Size else int(size))


def dot(a: Node, b: Node, contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()), may_round_operands: bool = False) -> Node:
    """Contraction over pairs of axes; result axes: batch, free axes of a, free axes of b. may_round_operands: to
    bfloat16."""
    dtype = dt.promote(a.dtype, b.dtype)
    pair = tuple(tuple(i % x.ndim for i in ax) for x, ax in zip((a, b), contract))
    bat = tuple(tuple(i % x.ndim for i in ax) for x, ax in zip((a, b), batch))
    more = {"may_round_operands": True} if may_round_operands or not bat[0] and may_round(a, b) else {}
    return make("dot", (cast(a, dtype), cast(b, dtype)), contract=pair, batch=bat, **more)


def random_bits(key: Node, shape: Sequence[int], stream: int = 0) -> Node:
    """Random uint32 by Philox4x32-10 from key = (seed, call counter)."""
    return make("random_bits", (key,), shape=ints(shape), stream=int(stream))


def size_value(n: Int, dtype: Any) -> Node:
    """A size that is known at the call (ir/size.py) as a number: one more than the last of so many that are counted
    from 0."""
    if at_least(-n, 0):
        return map_("neg", cast(size_value(-n, np.int64), dtype))
    more = max(2 - ends(n)[0], 0)                     # n + more >= 2, so that the slice is neither empty nor element 0
    last = slice(iota(n + more, np.int64), (n + more - 1,), (1,))
    return cast(map_("add", reshape(last, ()), 1 - more), dtype)


def _binary(fn: str, swap: bool = False) -> Any:
    def method(self: Node, other: Any) -> Any:
        if not isinstance(other, (Node, int, float, bool, np.number, np.bool_, Size)):
            return NotImplemented
        return map_(fn, other, self) if swap else map_(fn, self, other)
    return method


for _name, _fn in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("floordiv", "floordiv"),
                   ("mod", "mod"), ("pow", "pow")):
    setattr(Node, f"__{_name}__", _binary(_fn))
    setattr(Node, f"__r{_name}__", _binary(_fn, swap=True))
setattr(Node, "__neg__", lambda self: map_("neg", self))
