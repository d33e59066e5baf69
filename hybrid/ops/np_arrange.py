"""NumPy's operators that put elements together: insert, delete, diagflat, differences, values of polynomials, order
statistics."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import DTypeError, ShapeError
from ..ir import Node
from .arrange import as_diagonal, eager_diagonal
from .attributes import Attrs, written
from .order import along
from .reduction import axes_of
from .registry import Any_, Axes, Bool, Enum, Float, Int, Number, Str, op
from .shape import normal_axis


# ---- insert and delete
def _insert(arr: Node, values: Node, places: Node, axis: int, one: bool, number: bool = False) -> Node:
    """values before the places (int64, of one axis) of arr along an axis. one: a single place, which takes all of them;
    number: it was given as a number, for which NumPy takes the first axis of the values for this one."""
    n = arr.shape[axis]
    dtype = arr.dtype
    if one:
        values = ir.reshape(values, (1,) * (arr.ndim
                                            - values.ndim) + values.shape) if values.ndim < arr.ndim else values
        order = list(range(1, values.ndim)) if number else list(range(values.ndim))
        if number:
            order.insert(axis, 0)
        values = ir.permute(values, order)
        many = values.shape[axis]
        places = ir.expand(places, (many,))
    many = places.shape[0]
    values = ir.cast(ir.expand(values, [many if i == axis else d for i, d in enumerate(arr.shape)]), dtype)
    places = ir.map("where", ir.map("lt", places, 0), places + n, places)
    keys = ir.concat([places * 2, ir.iota(n) * 2 + 1], 0)
    return ir.gather(ir.concat([values, arr], axis), ir.argsort(keys), axis)


def _target(arr: Node, axis: int | None) -> tuple[Node, int]:
    return (ir.reshape(arr, (-1,)), 0) if axis is None else (arr, normal_axis(axis, arr.ndim))


def _value(values: Node | None, a: Attrs, arr: Node) -> Node:
    return ir.cast(ir.const(a.val, arr.dtype), arr.dtype) if values is None else values


def _in_range(places: list[int], n: int, what: str, last: int) -> None:
    wrong = next((p for p in places if not -n <= p <= last), None)
    if wrong is not None:
        raise ShapeError(f"{what}: index {wrong} is out of range for an axis of length {n}")


@op("_npi_insert_scalar", "arr values?", val=Number(None), int_ind=Int(), axis=Int(None))
def insert_at(arr: Node, values: Node | None, a: Attrs) -> Node:
    """values before one place along an axis (of the flattened array for None)."""
    arr, axis = _target(arr, a.axis)
    _in_range([a.int_ind], arr.shape[axis], "insert", arr.shape[axis])
    return _insert(arr, _value(values, a, arr), ir.data(np.array([a.int_ind])), axis, True, True)


@op("_npi_insert_slice", "arr values?", val=Number(None), start=Int(None), stop=Int(None), step=Int(None),
    axis=Int(None))
def insert_slice(arr: Node, values: Node | None, a: Attrs) -> Node:
    """values before the places of a slice."""
    arr, axis = _target(arr, a.axis)
    places = np.arange(*slice(a.start, a.stop, a.step).indices(written(arr.shape[axis], "places")))
    return _insert(arr, _value(values, a, arr), ir.data(places), axis, len(places) == 1) if len(places) else arr


def _insert_tensor(arr: Node, values: Node, obj: Node, a: Attrs) -> Node:
    arr, axis = _target(arr, a.axis)
    if obj.ndim > 1:
        raise ShapeError(f"insert: places must be a number or one axis of numbers, got {obj.shape}")
    return _insert(arr, values, ir.reshape(ir.cast(obj, dt.int64), (-1,)), axis, obj.size == 1, not obj.ndim)


@op("_npi_insert_tensor", "arr values obj?", val=Number(None), axis=Int(None))
def insert_tensor(arr: Node, values: Node, obj: Node | None, a: Attrs) -> Node:
    """values before the places in obj; with a number ``val`` the second input is obj."""
    return _insert_tensor(arr, values, obj,
                          a) if obj is not None else _insert_tensor(arr, _value(None, a, arr), values, a)


@op("_npi_delete", "arr obj?", start=Int(None), stop=Int(None), step=Int(None), int_ind=Int(None), axis=Int(None),
    places=Any_(None))
def delete(arr: Node, obj: Node | None, a: Attrs) -> Node:
    """arr without the positions of a number or a slice along an axis (of the flattened array for None)."""
    if obj is not None:
        raise ShapeError("delete: which positions go must be known: the shape of the result depends on them")
    arr, axis = _target(arr, a.axis)
    n = written(arr.shape[axis], "places")
    if a.places is not None:
        gone = list(a.places)
    else:
        gone = [a.int_ind] if a.int_ind is not None else list(range(*slice(a.start, a.stop, a.step).indices(n)))
    _in_range(gone, n, "delete", n - 1)
    left = np.delete(np.arange(n), gone)
    return (ir.gather(arr, ir.data(left), axis) if len(left)
            else ir.full(0, [0 if i == axis else d for i, d in enumerate(arr.shape)], arr.dtype))


# ---- small ones
@op("_np_diagflat", "data", eager=lambda xp, arrays, a: [eager_diagonal(xp, arrays[0].reshape(-1), a.k)],
    np=("diagflat",), k=Int(0))
def diagflat(data: Node, a: Attrs) -> Node:
    """The matrix with all elements on its k-th diagonal."""
    return as_diagonal(ir.reshape(data, (-1,)), a.k)


@op("_npi_diag_indices_from", "data")
def diag_indices_from(data: Node, a: Attrs) -> Node:
    """Indices of the main diagonal, one row an axis: int64."""
    if data.ndim < 2 or len(set(data.shape)) > 1:
        raise ShapeError(f"diag_indices_from: all axes must be equally long, and two at least, got {data.shape}")
    return ir.expand(ir.iota(data.shape[0]), (data.ndim, data.shape[0]))


@op("_npi_ediff1d", "ary to_end? to_begin?", to_begin_scalar=Float(None), to_end_scalar=Float(None),
    to_begin_arr_given=Bool(False), to_end_arr_given=Bool(False))
def ediff1d(ary: Node, first: Node | None, second: Node | None, a: Attrs) -> Node:
    """Differences of neighbours of the flattened array, with numbers or arrays before and after them."""
    x = ir.reshape(ary, (-1,))
    m = max(x.size - 1, 0)
    given = [y for y in (first, second) if y is not None]
    before = given.pop() if a.to_begin_arr_given else None
    after = given.pop() if a.to_end_arr_given else None
    parts = [ir.slice(x, (1,), (m,)) - ir.slice(x, (0,), (m,))] if m else [ir.slice(x, (0,), (0,))]
    for at, array, number in ((0, before, a.to_begin_scalar), (len(parts), after, a.to_end_scalar)):
        if array is not None:
            parts.insert(at if at == 0 else len(parts), ir.cast(ir.reshape(array, (-1,)), x.dtype))
        elif number is not None:
            parts.insert(at if at == 0 else len(parts), ir.full(number, (1,), x.dtype))
    return ir.concat(parts, 0)


@op("_npi_polyval", "p x")
def polyval(p: Node, x: Node, a: Attrs) -> Node:
    """The polynomial with coefficients p, the highest power first, at x (Horner's rule)."""
    if p.ndim != 1:
        raise ShapeError(f"polyval: coefficients must have one axis, got {p.shape}")
    out = ir.full(0, x.shape, dt.promote(p.dtype, x.dtype))
    for i in range(written(p.size, "coefficients", 4096)):
        out = out * x + ir.reshape(ir.slice(p, (i,), (1,)), ())
    return out


@op("_npi_share_memory", "a b")
def share_memory(a: Node, b: Node, at: Attrs) -> Node:
    """False: the values of a program share nothing that could be seen."""
    return ir.full(False, (1,), np.bool_)


# ---- order statistics
@op("_npi_percentile", "a q?", axis=Axes(None), interpolation=Enum("linear", "linear", "lower", "higher", "midpoint",
                                                                   "nearest"), keepdims=Bool(False),
    q_scalar=Float(None))
def percentile(x: Node, q: Node | None, a: Attrs) -> Node:
    """Percentiles q (from 0 to 100; a number or an array, whose axes come first) over axes. Where q falls between two
    elements:
    linear, lower, higher, midpoint or nearest. nan where an element is nan."""
    x = x if dt.is_float(x.dtype) else ir.cast(x, dt.float32)
    axes = axes_of(x, a.axis)
    rest = [i for i in range(x.ndim) if i not in axes]
    n = math.prod(x.shape[i] for i in axes)
    if not n:
        raise ShapeError(f"percentile of no elements: {x.shape} over axes {axes}")
    line = ir.reshape(ir.permute(x, [*rest, *axes]), [*(x.shape[i] for i in rest), n])
    line = along(line, ir.argsort(ir.detach(line)))
    q = ir.full(a.q_scalar, (), dt.float64) if q is None else ir.cast(ir.detach(q), dt.float64)
    at = ir.reshape(q, (-1,)) * (ir.const(n - 1, dt.float64) / 100.0)
    low = ir.map("maximum", ir.map("minimum", ir.cast(ir.map("floor", at), dt.int64), n - 1), 0)
    high = ir.map("minimum", low + 1, n - 1)
    share = ir.cast(_share(at, low, a.interpolation), x.dtype)
    first, second = (ir.gather(line, i, line.ndim - 1) for i in (low, high))
    out = first + (second - first) * share
    last = ir.gather(line, ir.full(n - 1, (1,), dt.int64), line.ndim - 1)          # nan comes last in order
    out = ir.map("where", ir.map("isnan", ir.detach(last)), last, out)
    out = ir.permute(out, [out.ndim - 1, *range(out.ndim - 1)])
    kept = [1 if i in axes else d for i, d in enumerate(x.shape)] if a.keepdims else list(out.shape[1:])
    return ir.reshape(out, [*q.shape, *kept])


def _share(at: Node, low: Node, how: str) -> Node:
    """How much of the higher neighbour there is."""
    part = at - low
    if how == "lower":
        return part * 0
    if how == "higher":
        return ir.map("where", ir.map("gt", part, 0), 1.0, 0.0)
    if how == "midpoint":
        return ir.map("where", ir.map("gt", part, 0), 0.5, 0.0)
    return ir.map("rint", at) - low if how == "nearest" else part


# ---- windows
def _window(name: str, weights: tuple[float, ...]) -> None:
    def lower(a: Attrs) -> Node:
        m = max(a.M, 0)
        if m < 2:
            return ir.full(1, (m,), dt.as_dtype(a.dtype))
        angle = ir.cast(ir.iota(m), dt.float64) * (2 * math.pi / (m - 1))
        out: Any = ir.full(weights[0], (m,), dt.float64)
        for k, w in enumerate(weights[1:], 1):
            out = out + ir.map("cos", angle * k) * w
        return ir.cast(out, dt.as_dtype(a.dtype))
    lower.__doc__ = f"The {name} window of M points."
    op(f"_npi_{name}", "", M=Int(), ctx=Str(""), dtype=Str("float32"))(lower)


_window("hanning", (0.5, -0.5))
_window("hamming", (0.54, -0.46))
_window("blackman", (0.42, -0.5, 0.08))


# ---- integers
def _lcm_of(x1: Node, x2: Node) -> Node:
    shape, dtype = ir.broadcast_shapes(x1.shape, x2.shape), dt.promote(x1.dtype, x2.dtype)
    if dtype.kind not in "iu":
        raise DTypeError(f"lcm takes integers, got {x1.dtype.name} and {x2.dtype.name}")
    call = ir.HostCall("lcm", lambda xp, arrays: [xp.asarray(xp.lcm(*arrays)).astype(dtype)], ((shape, dtype),))
    return ir.host(call, [x1, x2])[0]


@op("_npi_lcm", "x1 x2", np=("lcm",))
def lcm(x1: Node, x2: Node, a: Attrs) -> Node:
    """The least common multiples of integers."""
    return _lcm_of(x1, x2)


@op("_npi_lcm_scalar", "data", scalar=Int(), is_int=Bool(True))
def lcm_scalar(data: Node, a: Attrs) -> Node:
    """The least common multiples of integers and a number; booleans are int64 beside it, as in NumPy."""
    data = ir.cast(data, dt.int64) if data.dtype == dt.bool_ else data
    return _lcm_of(data, ir.full(a.scalar, (), data.dtype))
