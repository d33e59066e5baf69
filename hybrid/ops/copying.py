"""Operators that copy, convert, repeat or fill: casts, broadcasts, arrays of ones."""
from __future__ import annotations

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, DType, Enum, Int, Number, Shape, Str, op
from .shape import normal_axis


@op("Cast", "data", mx=("cast",), npx=("cast",), json=("cast", "_npi_cast", "_npx_cast"), dtype=DType())
def cast(data: Node, a: Attrs) -> Node:
    """The array in another dtype. Gradients pass, also between integers and floats, as in MXNet."""
    return recast(data, dt.as_dtype(a.dtype))


def recast(data: Node, dtype: np.dtype) -> Node:
    """A cast that the user asked for."""
    out = ir.cast(data, dtype)
    mixed = dt.is_float(data.dtype) != dt.is_float(dtype) and dt.has_gradient(data.dtype) and dt.has_gradient(dtype)
    return ir.with_grad(out, (data,), "straight_through") if mixed else out


@op("amp_cast", "data", dtype=DType())
def amp_cast(data: Node, a: Attrs) -> Node:
    """Halves and float32 in another dtype; other arrays as they are."""
    return ir.cast(data, dt.as_dtype(a.dtype)) if dt.is_float(data.dtype) and data.dtype != dt.float64 else data


@op("amp_multicast", "*data", arity_attr="num_outputs", outputs=lambda a: a.num_outputs, num_outputs=Int(),
    cast_narrow=Bool(False))
def amp_multicast(data: list[Node], a: Attrs) -> list[Node]:
    """Floats in the widest (narrowest) dtype among them."""
    floats = [x.dtype for x in data if dt.is_float(x.dtype)]
    if not floats:
        return data
    target = min(floats, key=lambda d: d.itemsize) if a.cast_narrow else dt.promote(*floats)
    return [ir.cast(x, target) if dt.is_float(x.dtype) else x for x in data]


@op("_copy", "data", mx=("identity",), np=("copy",), json=("_np_copy", "identity"))
def copy(data: Node, a: Attrs) -> Node:
    """A copy."""
    return data


@op("BlockGrad", "data", mx=("stop_gradient",), npx=("stop_gradient",), json=("stop_gradient",))
def block_grad(data: Node, a: Attrs) -> Node:
    """The input, through which no gradient flows but that of losses in it (make_loss, SoftmaxOutput), which count
    whatever comes from above."""
    return ir.block_grad(data)


@op("zeros_like", "data", json=("_np_zeros_like",))
def zeros_like(data: Node, a: Attrs) -> Node:
    """Zeros of the input's shape and dtype."""
    return ir.full(0, data.shape, data.dtype)


@op("ones_like", "data", json=("_np_ones_like",))
def ones_like(data: Node, a: Attrs) -> Node:
    """Ones of the input's shape and dtype."""
    return ir.full(1, data.shape, data.dtype)


@op("_npi_full_like", "data", np=("full_like",), json=("_full_like",), mx=("full_like",), fill_value=Number(),
    dtype=DType(None), ctx=Str(None))
def full_like(data: Node, a: Attrs) -> Node:
    """A number in the input's shape."""
    return ir.full(a.fill_value, data.shape, dt.as_dtype(a.dtype, data.dtype))


@op("cast_storage", "data", stype=Enum("default", "default", "csr", "row_sparse"))
def cast_storage(data: Node, a: Attrs) -> Node:
    """data itself: in a graph all values are dense, whatever storage MXNet gives them. Of arrays ``nd.cast_storage``
    changes the storage (``nd.sparse``)."""
    return data


@op("_contrib_gradientmultiplier", "data", mx=("contrib.gradientmultiplier",), scalar=Number(1.0), is_int=Bool(True))
def gradient_multiplier(data: Node, a: Attrs) -> Node:
    """data itself; its gradient is multiplied by scalar (-1 reverses it: Ganin and Lempitsky, 2015)."""
    return ir.detach(data) + (data - ir.detach(data)) * a.scalar


@op("_npi_broadcast_to", "array", np=("broadcast_to",), json=("_np_broadcast_to",), shape=Shape())
def np_broadcast_to(array: Node, a: Attrs) -> Node:
    """NumPy's broadcast_to: 0 is a length, and -2 keeps an axis."""
    lead = len(a.shape) - array.ndim
    if lead < 0:
        raise ShapeError(f"cannot broadcast {array.shape} to {a.shape}: it has fewer axes")
    return ir.expand(array, [d if s == -2 and i >= lead else s
                             for i, (s, d) in enumerate(zip(a.shape, (0,) * lead + array.shape))])


@op("broadcast_to", "data", shape=Shape())
def broadcast_to(data: Node, a: Attrs) -> Node:
    """The array repeated along axes of length 1; 0 in shape keeps an axis."""
    lead = len(a.shape) - data.ndim
    if lead < 0:
        raise ShapeError(f"cannot broadcast {data.shape} to {a.shape}: it has fewer axes")
    return ir.expand(data, [d if s == 0 and i >= lead else s
                            for i, (s, d) in enumerate(zip(a.shape, (0,) * lead + data.shape))])


@op("broadcast_like", "lhs rhs", npx=("broadcast_like",), lhs_axes=Shape(None), rhs_axes=Shape(None))
def broadcast_like(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """lhs broadcast to the shape of rhs, or to some axes of it."""
    if a.lhs_axes is None:
        return ir.expand(lhs, rhs.shape)
    if a.rhs_axes is None or len(a.rhs_axes) != len(a.lhs_axes):
        raise ShapeError(f"lhs_axes={a.lhs_axes} and rhs_axes={a.rhs_axes} must be given together and be equally many")
    shape = list(lhs.shape)
    for i, j in zip(a.lhs_axes, a.rhs_axes):
        shape[normal_axis(i, lhs.ndim)] = rhs.shape[normal_axis(j, rhs.ndim)]
    return ir.expand(lhs, shape)


@op("broadcast_axis", "data", mx=("broadcast_axes",), json=("broadcast_axes",), axis=Shape(()), size=Shape(()))
def broadcast_axis(data: Node, a: Attrs) -> Node:
    """Axes of length 1 broadcast to the given sizes."""
    if len(a.axis) != len(a.size):
        raise ShapeError(f"axis={a.axis} and size={a.size} must be equally many")
    shape = list(data.shape)
    for i, n in zip(a.axis, a.size):
        shape[normal_axis(i, data.ndim)] = n
    return ir.expand(data, shape)
