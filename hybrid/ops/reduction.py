"""Reductions."""
from __future__ import annotations

import math
from typing import Any, Callable

from .. import dtype as dt
from .. import ir
from ..errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Axes, Bool, DType, Float, Int, op
from .shape import normal_axis


def axes_of(x: Node, axis: Any, exclude: bool = False) -> tuple[int, ...]:
    """Normalised axes: all for None or (), the others with ``exclude``."""
    if axis is None or axis == ():
        return () if exclude else tuple(range(x.ndim))
    given = {normal_axis(i, x.ndim) for i in ((axis,) if isinstance(axis, int) else axis)}
    return tuple(i for i in range(x.ndim) if (i in given) != exclude)


def summed(x: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    """Sum, bool counted in int64."""
    return ir.reduce("sum", ir.cast(x, dt.int64) if x.dtype == dt.bool_ else x, axes, keepdims)


def mean_of(x: Node, axes: tuple[int, ...], keepdims: bool = False) -> Node:
    """Mean; integers in float32."""
    f = x if dt.is_float(x.dtype) else ir.cast(x, dt.float32)
    return ir.reduce("sum", f, axes, keepdims) / max(math.prod(x.shape[i] for i in axes), 1)


def _nan_to(value: float) -> Callable[[Node], Node]:
    return lambda x: ir.map("where", ir.map("isnan", x), value, x)


REDUCERS: dict[str, Callable[[Node, tuple[int, ...], bool], Node]] = {
    "sum": summed, "mean": mean_of,
    "prod": lambda x, axes, keep: ir.reduce("prod", x, axes, keep),
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
        out = REDUCERS[name](data, axes, a.keepdims)
        return out if out.ndim or a.keepdims else ir.reshape(out, (1,))      # MXNet's arrays have an axis at least
    lower.__doc__ = f"{name} over axes (all for none; all others with exclude)."
    op(name, "data", mx=MX_ALIASES.get(name, ()), json=MX_ALIASES.get(name, ()), axis=Axes(None), keepdims=Bool(False), exclude=Bool(False))(lower)


def _np_reduction(name: str) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        x = ir.cast(data, dt.as_dtype(a.dtype)) if a.dtype else data
        axes = axes_of(x, a.axis)
        _check(x, name, axes)
        out = REDUCERS[name](x, axes, a.keepdims)
        return out if a.initial is None else ir.map({"max": "maximum", "min": "minimum", "prod": "mul"}.get(name, "add"), out, a.initial)
    lower.__doc__ = f"NumPy's {name}."
    first, second = ("_npi_", "_np_") if name == "mean" else ("_np_", "_npi_")           # as MXNet happens to write them
    op(first + name, "a", np=(name, *({"max": ("amax",), "min": ("amin",)}.get(name, ()))), json=(second + name,),
       axis=Axes(None), dtype=DType(None), keepdims=Bool(False), initial=Float(None))(lower)


for _name in REDUCERS:
    _reduction(_name)
    _np_reduction(_name)


def _np_bool(name: str, how: str) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        test = data if data.dtype == dt.bool_ else ir.map("ne", data, 0)
        return ir.reduce(how, test, axes_of(data, a.axis), a.keepdims)
    lower.__doc__ = f"NumPy's {name}."
    op(f"_np_{name}", "data", np=(name,), axis=Axes(None), keepdims=Bool(False))(lower)


_np_bool("all", "min")
_np_bool("any", "max")


def _moment(data: Node, a: Attrs) -> Node:
    axes = axes_of(data, a.axis)
    x = data if dt.is_float(data.dtype) else ir.cast(data, dt.float32)
    c = x - ir.expand(mean_of(x, axes, True), x.shape)
    return ir.reduce("sum", c * c, axes, a.keepdims) / max(math.prod(x.shape[i] for i in axes) - a.ddof, 1)


op("_npi_var", "a", np=("var",), axis=Axes(None), ddof=Int(0), keepdims=Bool(False), dtype=DType(None))(_moment)
op("_npi_std", "a", np=("std",), axis=Axes(None), ddof=Int(0), keepdims=Bool(False), dtype=DType(None))(lambda x, a: ir.map("sqrt", _moment(x, a)))


@op("norm", "data", npx=("norm",), ord=Int(2), axis=Axes(None), keepdims=Bool(False), out_dtype=DType(None))
def norm(data: Node, a: Attrs) -> Node:
    """1- or 2-norm over axes."""
    axes = axes_of(data, a.axis)
    x = ir.cast(data, dt.as_dtype(a.out_dtype)) if a.out_dtype else data
    if a.ord == 1:
        out = ir.reduce("sum", ir.map("abs", x), axes, a.keepdims)
    elif a.ord == 2:
        out = ir.map("sqrt", ir.reduce("sum", x * x, axes, a.keepdims))
    else:
        raise ShapeError(f"norm: ord={a.ord} is not supported; use 1 or 2")
    return out if out.ndim or a.keepdims else ir.reshape(out, (1,))


def _arg(data: Node, name: str, axis: Any, keepdims: bool) -> Node:
    x = ir.reshape(data, (-1,)) if axis is None else data
    at = 0 if axis is None else normal_axis(axis, x.ndim)
    out = ir.argreduce(name, x, at)
    if not keepdims:
        return out
    return ir.reshape(out, (1,) * data.ndim if axis is None else tuple(1 if i == at else d for i, d in enumerate(x.shape)))


def _arg_op(name: str) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        out = ir.cast(_arg(data, name, a.axis, a.keepdims), data.dtype if data.dtype.kind in "iu" else dt.float32)
        return out if out.ndim else ir.reshape(out, (1,))

    def lower_np(data: Node, a: Attrs) -> Node:
        return _arg(data, name, a.axis, a.keepdims)
    lower.__doc__ = f"{name} along an axis as float32 (integers keep their dtype), as MXNet's; the first of equal values."
    lower_np.__doc__ = f"NumPy's {name}: int64."
    op(name, "data", axis=Int(None), keepdims=Bool(False))(lower)
    op(f"_npi_{name}", "data", np=(name,), axis=Int(None), keepdims=Bool(False))(lower_np)


_arg_op("argmax")
_arg_op("argmin")


@op("argmax_channel", "data")
def argmax_channel(data: Node, a: Attrs) -> Node:
    """argmax along axis 1 as float32."""
    return ir.cast(ir.argreduce("argmax", data, 1), dt.float32)
