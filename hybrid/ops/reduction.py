"""Reductions."""
from __future__ import annotations

import math
from typing import Any, Callable

from ..base import dtype as dt
from .. import ir
from ..ir.size import fixed
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .copying import recast
from .registry import Axes, Bool, DType, Float, Int, op
from .shape import normal_axis


def axes_of(x: Node, axis: Any, exclude: bool = False) -> tuple[int, ...]:
    """Normalised axes: all for None or (), also with ``exclude``, which otherwise means the others; an axis named twice
    is an error."""
    if axis is None or axis == ():
        return tuple(range(x.ndim))
    named = [normal_axis(i, x.ndim) for i in ((axis,) if isinstance(axis, int) else axis)]
    given = set(named)
    if len(given) < len(named):
        raise ShapeError(f"axis={axis} names an axis twice")
    return tuple(i for i in range(x.ndim) if (i in given) != exclude)


def np_axes(x: Node, axis: Any) -> tuple[int, ...]:
    """Axes as NumPy reads them: all for None, none for (), none as well for the axis 0 or -1 of an array without
    axes."""
    return () if axis == () or not x.ndim and axis in (0, -1, (0,), (-1,)) else axes_of(x, axis)


def summed(x: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    """Sum, bool counted in int64."""
    return ir.reduce("sum", ir.cast(x, dt.int64) if x.dtype == dt.bool_ else x, axes, keepdims)


def mean_of(x: Node, axes: tuple[int, ...], keepdims: bool = False) -> Node:
    """Mean; integers in float32. Half types are added up in float32 and rounded once: their sum may be larger than what
    they hold."""
    f = x if dt.is_float(x.dtype) else ir.cast(x, dt.float32)
    count, total = math.prod(x.shape[i] for i in axes), ir.reduce("sum", wide_half(f), axes, keepdims)
    return ir.cast(total / (max(count, 1) if fixed(count) else ir.size_value(count, total.dtype)), f.dtype)


def _mean_or_nan(x: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    """Mean that is not a number where there are no numbers, as MXNet's is; MXNet's ``np.mean`` gives 0 there."""
    out = mean_of(x, axes, keepdims)
    return out if all(x.shape[i] for i in axes) else ir.cast(out + float("nan"), out.dtype)


def wide_half(x: Node) -> Node:
    """Half types in float32, other values as they are."""
    return ir.cast(x, dt.float32) if dt.is_half(x.dtype) else x


def as_half(out: Node, x: Node) -> Node:
    """What was computed of ``wide_half(x)`` in the half type of x, if that is one."""
    return ir.cast(out, x.dtype) if dt.is_half(x.dtype) else out


def _nan_to(value: float) -> Callable[[Node], Node]:
    def replaced(x: Node) -> Node:
        if dt.is_float(x.dtype):
            return ir.map("where", ir.map("isnan", x), value, x)
        return ir.cast(x, dt.int64) if x.dtype == dt.bool_ else x
    return replaced


REDUCERS: dict[str, Callable[[Node, tuple[int, ...], bool], Node]] = {
    "sum": summed, "mean": mean_of,
    "prod": lambda x, axes, keep: ir.reduce("prod", ir.cast(x, dt.int64) if x.dtype == dt.bool_ else x, axes, keep),
    "max": lambda x, axes, keep: ir.reduce("max", x, axes, keep),
    "min": lambda x, axes, keep: ir.reduce("min", x, axes, keep),
    "nansum": lambda x, axes, keep: ir.reduce("sum", _nan_to(0)(x), axes, keep),
    "nanprod": lambda x, axes, keep: ir.reduce("prod", _nan_to(1)(x), axes, keep),
}
MX_ALIASES = {"sum": ("sum_axis",), "max": ("max_axis",), "min": ("min_axis",)}


def _check(x: Node, name: str, axes: tuple[int, ...]) -> None:
    if name in ("max", "min") and x.size == 0 and any(x.shape[i] == 0 for i in axes):
        raise ShapeError(f"{name} of an empty array {x.shape} has no value")


def _reduction(name: str) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        axes = axes_of(data, a.axis, a.exclude)
        _check(data, name, axes)
        out = (_mean_or_nan if name == "mean" else REDUCERS[name])(data, axes, a.keepdims)
        return out if out.ndim or a.keepdims else ir.reshape(out, (1,))      # MXNet's arrays have an axis at least
    lower.__doc__ = f"{name} over axes (all for none; all others with exclude)."
    op(name, "data", mx=MX_ALIASES.get(name, ()), json=MX_ALIASES.get(name, ()), axis=Axes(None), keepdims=Bool(False),
       exclude=Bool(False))(lower)


def _narrower(given: Any, a: Attrs) -> bool:
    """Whether the dtype asked for is a float narrower than the one given: then what is reduced is rounded once, at the
    end, as in MXNet, not every element."""
    asked = dt.as_dtype(a.dtype) if a.dtype else given
    return dt.is_float(asked) and dt.is_float(given) and asked.itemsize < given.itemsize


def _np_reduction(name: str) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        x = recast(data, dt.as_dtype(a.dtype)) if a.dtype and not _narrower(data.dtype, a) else data
        axes = np_axes(x, a.axis)
        _check(x, name, axes)
        out = REDUCERS[name](x, axes, a.keepdims)
        out = recast(out, dt.as_dtype(a.dtype)) if a.dtype else out              # the mean of integers as integers
        return out if a.initial is None else ir.map({"max": "maximum", "min": "minimum",
                                                     "prod": "mul"}.get(name, "add"), out, a.initial)
    lower.__doc__ = f"NumPy's {name}."
    # as MXNet happens to write them
    first, second = ("_npi_", "_np_") if name == "mean" else ("_np_", "_npi_")
    op(first + name, "a", np=(name, *({"max": ("amax",), "min": ("amin",), "prod": ("product",)}.get(name, ()))),
       json=(second + name,),
       axis=Axes(None), dtype=DType(None), keepdims=Bool(False), initial=Float(None))(lower)


for _name in REDUCERS:
    _reduction(_name)
    _np_reduction(_name)


def _np_bool(name: str, how: str, *names: str) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        test = data if data.dtype == dt.bool_ else ir.map("ne", data, 0)
        return ir.reduce(how, test, np_axes(data, a.axis), a.keepdims)
    lower.__doc__ = f"NumPy's {name}."
    op(f"_np_{name}", "data", np=(name, *names), axis=Axes(None), keepdims=Bool(False))(lower)


_np_bool("all", "min", "alltrue")
_np_bool("any", "max", "sometrue")


def _moment(data: Node, a: Attrs) -> Node:
    axes = np_axes(data, a.axis)
    x = data if dt.is_float(data.dtype) else ir.cast(data, dt.float32)
    if a.dtype and dt.is_float(dt.as_dtype(a.dtype)) and not _narrower(x.dtype, a):
        x = ir.cast(x, dt.as_dtype(a.dtype))
    c = x - ir.expand(mean_of(x, axes, True), x.shape)
    count = math.prod(x.shape[i] for i in axes)
    if fixed(count):
        less: Any = float(max(count - a.ddof, 0))
    else:
        less = ir.map("maximum", ir.size_value(count, c.dtype) - a.ddof, 0)
    return ir.reduce("sum", c * c, axes, a.keepdims) / less      # nan of 0 / 0, as NumPy


def _of_dtype(found: Node, a: Attrs) -> Node:
    return recast(found, dt.as_dtype(a.dtype)) if a.dtype else found


op("_npi_var", "a", np=("var",), axis=Axes(None), ddof=Int(0), keepdims=Bool(False),
   dtype=DType(None), doc="The variance over axes: the sum of (x - mean)² divided by their number less ddof.")(
    lambda x, a: _of_dtype(_moment(x, a), a))
op("_npi_std", "a", np=("std",), axis=Axes(None), ddof=Int(0), keepdims=Bool(False), dtype=DType(None),
   doc="The standard deviation over axes: the square root of the variance.")(
    lambda x, a: _of_dtype(ir.map("sqrt", _moment(x, a)), a))


@op("norm", "data", npx=("norm",), ord=Int(2), axis=Axes(None), keepdims=Bool(False), out_dtype=DType(None))
def norm(data: Node, a: Attrs) -> Node:
    """1- or 2-norm over axes; of half types computed in float32."""
    axes = axes_of(data, a.axis)
    given = ir.cast(data, dt.as_dtype(a.out_dtype)) if a.out_dtype else data
    x = wide_half(given)
    if a.ord == 1:
        out = ir.reduce("sum", ir.map("abs", x), axes, a.keepdims)
    elif a.ord == 2:
        out = ir.map("sqrt", ir.reduce("sum", x * x, axes, a.keepdims))
    else:
        raise ShapeError(f"norm: ord={a.ord} is not supported; use 1 or 2")
    out = as_half(out, given)
    return out if out.ndim or a.keepdims else ir.reshape(out, (1,))


def _arg(data: Node, name: str, axis: Any, keepdims: bool) -> Node:
    x = ir.reshape(data, (-1,)) if axis is None else data
    if not x.ndim:                                         # NumPy takes the axis 0 of an array without axes
        x, axis = ir.reshape(x, (1,)), None
    at = 0 if axis is None else normal_axis(axis, x.ndim)
    out = ir.argreduce(name, x, at)
    if not keepdims:
        return out
    return ir.reshape(out, (1,) * data.ndim if axis is None
                      else tuple(1 if i == at else d for i, d in enumerate(x.shape)))


def _arg_op(name: str) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        out = ir.cast(_arg(data, name, a.axis, a.keepdims), data.dtype if data.dtype != dt.bool_ else dt.float32)
        return out if out.ndim else ir.reshape(out, (1,))

    def lower_np(data: Node, a: Attrs) -> Node:
        return _arg(data, name, a.axis, a.keepdims)
    lower.__doc__ = f"{name} along an axis in the dtype of data, as MXNet's; the first of equal values."
    lower_np.__doc__ = f"NumPy's {name}: int64."
    op(name, "data", axis=Int(None), keepdims=Bool(False))(lower)
    op(f"_npi_{name}", "data", np=(name,), axis=Int(None), keepdims=Bool(False))(lower_np)


_arg_op("argmax")
_arg_op("argmin")


@op("argmax_channel", "data")
def argmax_channel(data: Node, a: Attrs) -> Node:
    """argmax along axis 1, in the dtype of data."""
    return ir.cast(ir.argreduce("argmax", data, 1), data.dtype if data.dtype != dt.bool_ else dt.float32)


@op("moments", "data", outputs=lambda a: 2, axes=Axes(None), keepdims=Bool(False))
def moments(data: Node, a: Attrs) -> tuple[Node, Node]:
    """Mean and variance over axes."""
    axes = axes_of(data, a.axes)
    x = data if dt.is_float(data.dtype) else ir.cast(data, dt.float32)
    mean = mean_of(x, axes, True)
    c = x - ir.expand(mean, x.shape)
    var = mean_of(c * c, axes, True)
    if a.keepdims:
        return mean, var
    shape = tuple(d for i, d in enumerate(x.shape) if i not in axes) or (1,)
    return ir.reshape(mean, shape), ir.reshape(var, shape)


@op("_square_sum", "data", axis=Axes(None), keepdims=Bool(False), exclude=Bool(False))
def square_sum(data: Node, a: Attrs) -> Node:
    """Sum of squares over axes."""
    out = ir.reduce("sum", data * data, axes_of(data, a.axis, a.exclude), a.keepdims)
    return out if out.ndim or a.keepdims else ir.reshape(out, (1,))


@op("cumsum", "a", np=("cumsum",), json=("_np_cumsum",), axis=Int(None), dtype=DType(None))
def cumsum(data: Node, a: Attrs) -> Node:
    """Running sums along an axis (over the flattened array when none is given)."""
    x = ir.cast(data, dt.as_dtype(a.dtype, dt.int64 if data.dtype == dt.bool_ else data.dtype))
    x = ir.reshape(x, (-1,)) if a.axis is None else x
    return ir.cumulate(x, normal_axis(a.axis or 0, x.ndim)) if x.size else x


@op("_npi_average", "a weights?", np=("average",), axis=Axes(None), returned=Bool(False), weighted=Bool(True))
def average(data: Node, weights: Node | None, a: Attrs) -> Node:
    """Mean, weighted where weights are given (of the array's shape, or one for each position along the axis)."""
    axes = axes_of(data, a.axis)
    if weights is None:
        return mean_of(data, axes)
    if weights.shape != data.shape:
        if len(axes) != 1 or weights.shape != (data.shape[axes[0]],):
            raise ShapeError(f"weights {weights.shape} must have the shape {data.shape}, or be one for each position "
                             f"along one axis")
        weights = ir.reshape(weights, [d if i == axes[0] else 1 for i, d in enumerate(data.shape)])
    wide = ir.expand(weights, data.shape)
    return ir.reduce("sum", data * wide, axes) / ir.reduce("sum", wide, axes)
