"""Operators without inputs."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from ..ir.size import Specialised, fixed
from .attributes import Attrs
from .registry import Bool, DType, Float, Int, Number, Shape, Str, op


def _checked(shape: tuple[int, ...]) -> tuple[int, ...]:
    if any(d < 0 for d in shape):
        raise ShapeError(f"shape {shape} has a negative size: sizes must be 0 or more")
    return shape


@op("_zeros", "", eager=lambda xp, arrays, a: [xp.zeros(a.shape, dt.as_dtype(a.dtype))], json=("_npi_zeros",),
    shape=Shape(()), ctx=Str(""), dtype=DType("float32"))
def zeros(a: Attrs) -> Node:
    """Zeros."""
    return ir.full(0, _checked(a.shape), dt.as_dtype(a.dtype))


@op("_ones", "", json=("_npi_ones",), shape=Shape(()), ctx=Str(""), dtype=DType("float32"))
def ones(a: Attrs) -> Node:
    """Ones."""
    return ir.full(1, _checked(a.shape), dt.as_dtype(a.dtype))


@op("_full", "", json=("_npi_full",), shape=Shape(()), value=Number(), ctx=Str(""), dtype=DType("float32"))
def full(a: Attrs) -> Node:
    """A number in a shape."""
    return ir.full(a.value, _checked(a.shape), dt.as_dtype(a.dtype))


@op("_arange", "", json=("_npi_arange",), start=Number(), stop=Number(None), step=Number(1.0), repeat=Int(1),
    infer_range=Bool(False),
    ctx=Str(""), dtype=DType("float32"))
def arange(a: Attrs) -> Node:
    """start, start + step, … below stop, each ``repeat`` times."""
    start, stop = (0, a.start) if a.stop is None else (a.start, a.stop)
    if not a.step:
        raise ShapeError(f"arange from {start} to {stop}: step must not be 0")
    if a.repeat < 1:
        raise ShapeError(f"arange: repeat must be at least 1, got {a.repeat}")
    d = dt.as_dtype(a.dtype)
    if fixed(start) and fixed(stop):
        n = max(math.ceil((stop - start) / a.step), 0)
        out = ir.cast(_counted(n, start, a.step, d), d)
    else:
        out = ir.cast(_counted_sizes(start, stop, a.step), d)
        n = out.shape[0]
    return ir.reshape(ir.expand(ir.reshape(out, (n, 1)), (n, a.repeat)), (-1,)) if a.repeat > 1 and n else out


def _counted(n: int, start: float, step: float, d: np.dtype) -> Node:
    """start + i * step: of integers, which start and step are made (as MXNet does); else in float64, or in int32 where
    that rounds nothing."""
    whole = all(float(x).is_integer() and abs(x) < 2 ** 31 for x in (start, step, start + step * n))
    if dt.is_float(d) and not whole:
        return ir.cast(ir.iota(n), dt.float64) * step + start
    count, start, step = ir.iota(n, np.int32 if dt.is_float(d) else np.int64), int(start), int(step)
    count = count if step == 1 else count * step
    return count + start if start else count


def _counted_sizes(*ends: Any) -> Node:
    """start, start + step, … below stop, of integers some of which are symbolic sizes."""
    start, stop, step = (x if not fixed(x) else int(x) for x in ends)
    if step < 1 or any(fixed(x) and x != y for x, y in zip(ends, (start, stop, step))):
        raise Specialised(f"arange from {start} to {stop} by {step}")
    n = (stop - start - 1) // step + 1 if stop > start else 0
    count = ir.iota(n) if step == 1 else ir.iota(n) * step
    return count + (start if fixed(start) else ir.size_value(start, np.int64))


def _linspace_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    """The same numbers in fewer passes."""
    if xp is not np:
        return None
    line = np.arange(float(a.num))
    line *= (a.stop - a.start) / max(a.num - (1 if a.endpoint else 0), 1)
    line += a.start
    return [line.astype(dt.as_dtype(a.dtype), copy=False)]


@op("_linspace", "", eager=_linspace_eager, json=("_npi_linspace",), start=Float(), stop=Float(), num=Int(50),
    endpoint=Bool(True), ctx=Str(""), dtype=DType("float32"))
def linspace(a: Attrs) -> Node:
    """num numbers from start to stop."""
    steps = a.num - int(a.endpoint)
    step = (a.stop - a.start) / (max(steps, 1) if fixed(steps) else ir.size_value(steps, dt.float64))
    return ir.cast(ir.cast(ir.iota(a.num), dt.float64) * step + a.start, dt.as_dtype(a.dtype))


@op("_eye", "", eager=lambda xp, arrays, a: [xp.eye(a.N, a.M or a.N, a.k, dt.as_dtype(a.dtype))], json=("_npi_eye",),
    N=Int(), M=Int(None), k=Int(0), ctx=Str(""), dtype=DType("float32"))
def eye(a: Attrs) -> Node:
    """Ones on the k-th diagonal."""
    rows, columns = a.N, a.M or a.N
    hit = ir.map("eq", ir.reshape(ir.iota(rows), (rows, 1)) + a.k, ir.iota(columns))
    return ir.cast(hit, dt.as_dtype(a.dtype))


@op("_contrib_arange_like", "data", mx=("contrib.arange_like",), npx=("arange_like",), json=("_npx_arange_like",),
    start=Float(0.0), step=Float(1.0), repeat=Int(1),
    ctx=Str(""), axis=Int(None))
def arange_like(data: Node, a: Attrs) -> Node:
    """A range as long as an axis of data, or in its whole shape."""
    n = data.size if a.axis is None else data.shape[a.axis]
    step, start = (a.step, a.start) if data.dtype.kind == "f" else (int(a.step), int(a.start))
    out = ir.cast(ir.cast(ir.map("floordiv", ir.iota(n), a.repeat), data.dtype) * step + start, data.dtype)
    return ir.reshape(out, data.shape) if a.axis is None else out


@op("_npi_identity", "", shape=Shape(()), ctx=Str(""), dtype=DType("float32"))
def identity(a: Attrs) -> Node:
    """The identity matrix."""
    n, m = _checked(a.shape if len(a.shape) == 2 else a.shape * 2)
    return eye(N=n, M=m, dtype=a.dtype)


@op("_npi_indices", "", np=("indices",),
    eager=lambda xp, arrays, a: [xp.indices(a.dimensions, dt.as_dtype(a.dtype))],
    dimensions=Shape(), dtype=DType("int32"), ctx=Str(""))
def indices(a: Attrs) -> Node:
    """The coordinates of every place of a grid, one grid for each axis."""
    shape = _checked(a.dimensions)
    axes = [ir.reshape(ir.iota(n), tuple(n if i == k else 1 for i in range(len(shape)))) for k, n in enumerate(shape)]
    return ir.cast(ir.concat([ir.expand(ir.reshape(x, (1, *x.shape)), (1, *shape)) for x in axes], 0),
                   dt.as_dtype(a.dtype))


@op("_npi_logspace", "", np=("logspace",), start=Float(), stop=Float(), num=Int(50), endpoint=Bool(True),
    base=Float(10.0), ctx=Str(""), dtype=DType("float32"))
def logspace(a: Attrs) -> Node:
    """Numbers from base^start to base^stop whose exponents have equal distances."""
    exponents = linspace(start=a.start, stop=a.stop, num=a.num, endpoint=a.endpoint, dtype="float64")
    return ir.cast(ir.map("pow", a.base, exponents), dt.as_dtype(a.dtype))
