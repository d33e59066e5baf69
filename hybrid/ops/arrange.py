"""Operators that arrange elements: diagonals, triangles, rolled, turned and stacked arrays, NumPy's pad."""
from __future__ import annotations

import ast
from typing import Any, Sequence

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import MAX_TEXT, Attribute, Attrs, written
from .padding import pad_edge, pad_reflect
from .registry import Axes, Bool, Enum, Float, Int, op
from .shape import concat, cut, normal_axis, np_concatenate, reverse


def nested(text: str) -> Any:
    """Numbers in nested tuples, from an attribute's text."""
    if len(text) > MAX_TEXT or text.count("(") + text.count("[") > 64:
        raise ValueError("too long")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("not a tuple of integers") from None


# ---- diagonals and triangles
def diagonal_of(x: Node, k: int, axis1: int, axis2: int) -> Node:
    """The k-th diagonal of the matrices in two axes, as the last axis."""
    i, j = normal_axis(axis1, x.ndim), normal_axis(axis2, x.ndim)
    if i == j:
        raise ShapeError(f"a diagonal needs two different axes, got {axis1} and {axis2}")
    x = ir.permute(x, [d for d in range(x.ndim) if d not in (i, j)] + [i, j])
    rows, columns = x.shape[-2:]
    n = max(min(rows, columns - k) if k >= 0 else min(rows + k, columns), 0)
    flat = ir.reshape(x, x.shape[:-2] + (rows * columns,))
    begin = (k if k >= 0 else -k * columns) if n else 0
    lead = (1,) * (flat.ndim - 1)
    return ir.slice(flat, (0,) * len(lead) + (begin,), flat.shape[:-1] + (n,), lead + (columns + 1,))


def as_diagonal(x: Node, k: int) -> Node:
    """Matrices that have the last axis of x on their k-th diagonal and zeros elsewhere."""
    lead = (0,) * (x.ndim - 1)
    rows = ir.pad(x, (*lead, max(-k, 0)), (*lead, max(k, 0)))                # row i of the result holds rows[i]
    n = rows.shape[-1]
    hit = ir.map("eq", ir.iota(n), ir.reshape(ir.iota(n), (n, 1)) + k)
    return ir.map("where", hit, ir.reshape(rows, (*rows.shape, 1)), 0)


def eager_diagonal(xp: Any, x: Any, k: int) -> Any:
    """``as_diagonal`` of an array: zeros, and the diagonal put into them."""
    n = x.shape[-1]
    out = xp.zeros((*x.shape[:-1], n + abs(k), n + abs(k)), dt.int64 if x.dtype == dt.bool_ else x.dtype)
    at = xp.arange(n)
    out[..., at + max(-k, 0), at + max(k, 0)] = x
    return out


def _diag_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    return [eager_diagonal(xp, arrays[0], a.k)] if arrays[0].ndim == 1 else None


def triangle(x: Node, k: int, lower: bool) -> Node:
    """The matrices in the last two axes with zeros above (below) the k-th diagonal."""
    if not x.ndim:
        raise ShapeError("an array with axes is needed")
    if x.ndim == 1:                                                          # as NumPy: the same row in every line
        x = ir.expand(ir.reshape(x, (1, x.size)), (x.size, x.size))
    rows, columns = x.shape[-2:]
    keep = ir.map("le" if lower else "ge", ir.iota(columns), ir.reshape(ir.iota(rows), (rows, 1)) + k)
    if x.dtype == np.bool_:
        return ir.map("logical_and", ir.expand(keep, x.shape), x)
    return ir.map("where", keep, x, 0)


@op("diag", "data", eager=_diag_eager, same_bits="", k=Int(0), axis1=Int(0), axis2=Int(1))
def diag(data: Node, a: Attrs) -> Node:
    """A diagonal of an array; of a vector, the matrix that has it as its diagonal."""
    if data.ndim == 1:
        return as_diagonal(data, a.k)
    rows, columns = (data.shape[normal_axis(i, data.ndim)] for i in (a.axis1, a.axis2))
    if not -rows <= a.k <= columns:                            # at these limits themselves it is empty, as in MXNet
        raise ShapeError(f"diag: {data.shape} has no diagonal k={a.k} in the axes {a.axis1} and {a.axis2} (np.diag "
                         f"gives an empty one)")
    return diagonal_of(data, a.k, a.axis1, a.axis2)


@op("_np_diag", "data", eager=_diag_eager, same_bits="", np=("diag",), k=Int(0))
def np_diag(data: Node, a: Attrs) -> Node:
    """NumPy's diag."""
    if not 1 <= data.ndim <= 2:
        raise ShapeError(f"diag takes a vector or a matrix, got {data.shape}; np.diagonal takes more axes")
    return as_diagonal(data, a.k) if data.ndim == 1 else diagonal_of(data, a.k, 0, 1)


@op("_np_diagonal", "data", np=("diagonal",), offset=Int(0), axis1=Int(0), axis2=Int(1))
def diagonal(data: Node, a: Attrs) -> Node:
    """A diagonal of the matrices in two axes."""
    return diagonal_of(data, a.offset, a.axis1, a.axis2)


@op("_np_trace", "data", np=("trace",), offset=Int(0), axis1=Int(0), axis2=Int(1))
def trace(data: Node, a: Attrs) -> Node:
    """Sum of a diagonal."""
    d = diagonal_of(data, a.offset, a.axis1, a.axis2)
    return ir.reduce("sum", ir.cast(d, dt.int64) if d.dtype == dt.bool_ else d, (d.ndim - 1,))


def _np_triangle(name: str, low: bool) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        return ir.cast(triangle(data, a.k, low), data.dtype)

    def eager(xp: Any, arrays: Any, a: Attrs) -> Any:
        return [getattr(np, name)(arrays[0], a.k)] if xp is np and arrays[0].ndim else None
    op(f"_npi_{name}", "data", eager=eager, np=(name,), k=Int(0), doc="The elements of the last two axes on diagonal k "
       f"and {'below' if low else 'above'} it; zeros elsewhere.")(lower)


_np_triangle("tril", True)
_np_triangle("triu", False)


# ---- rolled and turned
@op("_np_roll", "data", np=("roll",), shift=Axes(), axis=Axes(None))
def roll(data: Node, a: Attrs) -> Node:
    """Elements shifted along axes (the flattened array when none is given); what leaves at the end comes in at the
    start."""
    if a.axis is None:
        return ir.reshape(_rolled(ir.reshape(data, (-1,)), sum(_several(a.shift)), 0), data.shape)
    shifts, axes = _several(a.shift), _several(a.axis)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: shift={a.shift} and axis={a.axis} must be equally many")
    for shift, axis in zip(shifts, axes):
        data = _rolled(data, shift, normal_axis(axis, data.ndim))
    return data


def _several(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


def _rolled(x: Node, shift: int, axis: int) -> Node:
    n = x.shape[axis]
    at = shift % n if n else 0
    return ir.concat([cut(x, axis, n - at, at), cut(x, axis, 0, n - at)], axis) if at else x


@op("_npi_rot90", "data", np=("rot90",), k=Int(1), axes=Axes((0, 1)))
def rot90(data: Node, a: Attrs) -> Node:
    """A quarter turn in the plane of two axes, k times."""
    i, j = (normal_axis(d, data.ndim) for d in a.axes)
    order = list(range(data.ndim))
    order[i], order[j] = order[j], order[i]
    turns = a.k % 4
    if turns == 0:
        return data
    if turns == 2:
        return reverse(data, axis=(i, j))
    return ir.permute(reverse(data, axis=j), order) if turns == 1 else reverse(ir.permute(data, order), axis=j)


@op("_npi_rollaxis", "data", np=("rollaxis",), axis=Int(), start=Int(0))
def rollaxis(data: Node, a: Attrs) -> Node:
    """An axis moved before another."""
    axis, start = normal_axis(a.axis, data.ndim), normal_axis(a.start, data.ndim + 1)
    order = [d for d in range(data.ndim) if d != axis]
    order.insert(start - (start > axis), axis)
    return ir.permute(data, order)


@op("_npi_diff", "data", np=("diff",), n=Int(1), axis=Int(-1))
def diff(data: Node, a: Attrs) -> Node:
    """Differences of neighbours along an axis, n times."""
    axis = normal_axis(a.axis, data.ndim)
    for _ in range(written(min(a.n, data.shape[axis]), "rounds of differences", 4096)):
        m = max(data.shape[axis] - 1, 0)
        data = cut(data, axis, 1, m) - cut(data, axis, 0, m)
    return data


# ---- stacked
def _grown(x: Node, ndim: int) -> Node:
    """At least so many axes, as NumPy adds them."""
    if x.ndim >= ndim:
        return x
    if ndim == 3:
        return ir.reshape(x, (1, *x.shape, 1) if x.ndim == 1 else (*x.shape, 1) if x.ndim else (1, 1, 1))
    return ir.reshape(x, (1,) * (ndim - x.ndim) + x.shape)


for _n in (1, 2, 3):
    op(f"_np_atleast_{_n}d", "*arys", np=(f"atleast_{_n}d",), arity_attr="num_args", num_args=Int(None),
       outputs=lambda a: a.num_args or 1, doc=f"Arrays with axes of length 1 added until they have {_n} axes or more.")(
        (lambda n: lambda xs, a: [_grown(x, n) for x in xs])(_n))


@op("_npi_vstack", "*data", np=("vstack", "row_stack"), arity_attr="num_args", num_args=Int(None))
def vstack(xs: list[Node], a: Attrs) -> Node:
    """Arrays on top of one another."""
    return concat(*[_grown(x, 2) for x in xs], dim=0)


@op("_npi_hstack", "*data", np=("hstack",), arity_attr="num_args", num_args=Int(None))
def hstack(xs: list[Node], a: Attrs) -> Node:
    """Arrays side by side."""
    xs = [_grown(x, 1) for x in xs]
    return np_concatenate(*xs, axis=0 if xs[0].ndim == 1 else 1)


@op("_npi_dstack", "*data", np=("dstack",), arity_attr="num_args", num_args=Int(None))
def dstack(xs: list[Node], a: Attrs) -> Node:
    """Arrays behind one another."""
    return concat(*[_grown(x, 3) for x in xs], dim=2)


@op("_npi_column_stack", "*data", np=("column_stack",), arity_attr="num_args", num_args=Int(None))
def column_stack(xs: list[Node], a: Attrs) -> Node:
    """Vectors as columns, beside matrices."""
    return concat(*[x if x.ndim > 1 else ir.reshape(x, (x.size, 1)) for x in xs], dim=1)


@op("_npi_meshgrid", "*xi", np=("meshgrid",), arity_attr="num_args", outputs=lambda a: a.num_args or 1,
    num_args=Int(None), indexing=Enum("xy", "xy", "ij"),
    sparse=Bool(False))
def meshgrid(xs: list[Node], a: Attrs) -> list[Node]:
    """Coordinates of a grid, one array for each vector."""
    order = list(range(len(xs)))
    if a.indexing == "xy" and len(xs) > 1:
        order[:2] = [1, 0]
    shape = [0] * len(xs)
    for x, at in zip(xs, order):
        shape[at] = x.size
    thin = [ir.reshape(x, [x.size if d == at else 1 for d in range(len(xs))]) for x, at in zip(xs, order)]
    return thin if a.sparse else [ir.expand(t, shape) for t in thin]


# ---- NumPy's pad
class PadWidth(Attribute):
    """A number, a pair (before, after) for all axes, or a pair for each axis."""
    kind = "pad width"

    def convert(self, value: Any) -> Any:
        value = nested(value) if isinstance(value, str) else value
        if isinstance(value, (int, np.integer)):
            return int(value)
        if not isinstance(value, Sequence) or not value:
            raise TypeError("not a number, a pair, or a pair for each axis")
        return tuple(self.convert(v) for v in value)


def _pairs(width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(width, int):
        return [(width, width)] * ndim
    if all(isinstance(w, int) for w in width):
        width = (width * 2 if len(width) == 1 else width,)
    pairs = [w * 2 if len(w) == 1 else w for w in (width * ndim if len(width) == 1 else width)]
    if len(pairs) != ndim or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise ShapeError(f"pad_width {width} must be a number, a pair, or a pair for each of the {ndim} axes, none "
                         f"negative")
    return pairs


def _pad_symmetric(x: Node, axis: int, before: int, after: int) -> Node:
    """The mirror image, the edge repeated."""
    n = x.shape[axis]
    if max(before, after) > n:
        raise ShapeError(f"symmetric padding of {max(before, after)} needs an axis at least as long; axis {axis} has "
                         f"{n}")
    first = [reverse(cut(x, axis, 0, before), axis=axis)] if before else []
    last = [reverse(cut(x, axis, n - after, after), axis=axis)] if after else []
    return ir.concat([*first, x, *last], axis)


def _pad_repeated(x: Node, axis: int, before: int, after: int, mode: str) -> Node:
    """Mirror images of mirror images where more is asked for than the axis holds, as NumPy does."""
    edge = mode == "reflect"                                   # the edge itself is not repeated
    if x.shape[axis] == 1 and edge:
        return pad_edge(x, axis, before, after)
    padder = pad_reflect if edge else _pad_symmetric
    while x.shape[axis] and max(before, after) > (most := x.shape[axis] - edge):
        first, last = (most if n > most else 0 for n in (before, after))
        x, before, after = padder(x, axis, first, last), before - first, after - last
    return padder(x, axis, before, after)


@op("_npi_pad", "data", np=("pad",), pad_width=PadWidth(),
    mode=Enum("constant", "constant", "edge", "reflect", "symmetric"), constant_value=Float(0.0),
    reflect_type=Enum("even", "even"))
def np_pad(data: Node, a: Attrs) -> Node:
    """NumPy's pad."""
    pairs = _pairs(a.pad_width, data.ndim)
    if a.mode == "constant":
        return ir.pad(data, [p[0] for p in pairs], [p[1] for p in pairs], a.constant_value)
    for axis, (before, after) in enumerate(pairs):
        data = (pad_edge(data, axis, before, after) if a.mode == "edge"
                else _pad_repeated(data, axis, before, after, a.mode))
    return data
