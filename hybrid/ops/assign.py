"""Operators that write by index and give a new array: what ``x[key] = value`` becomes inside a program."""
from __future__ import annotations

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .indexing import _flat_index, _product
from .registry import Float, Shape, op
from .slicing import slice_ranges


def _put(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """lhs with the range replaced by rhs, which has the shape of the range."""
    start, size, step = slice_ranges(lhs.shape, a)
    if rhs.shape != tuple(size):
        raise ShapeError(f"a range of shape {tuple(size)} cannot be assigned a value of shape {rhs.shape}")
    if 0 in size:
        return lhs
    if any(t < 0 for t in step):                          # backwards: the same places forwards, the values turned round
        rhs = ir.slice(rhs, [n - 1 if t < 0 else 0 for n, t in zip(size, step)], size,
                       [-1 if t < 0 else 1 for t in step])
        start = [b + (n - 1) * t if t < 0 else b for b, n, t in zip(start, size, step)]
        step = [abs(t) for t in step]
    inside: Node | None = None
    for axis, (n, b, count, t) in enumerate(zip(lhs.shape, start, size, step)):
        if t > 1:                                         # spread out: one index a place, those between are not used
            at = np.minimum(np.maximum((np.arange(n) - b) // t, 0), count - 1)
            rhs = ir.gather(rhs, ir.data(at.astype(np.int64)), axis)
        if count == n and t == 1:
            continue
        place = ir.iota(n)
        here = ir.map("logical_and", ir.map("ge", place, b), ir.map("le", place, b + (count - 1) * t))
        if t > 1:
            here = ir.map("logical_and", here, ir.map("eq", ir.map("mod", place - b, t), 0))
        here = ir.reshape(here, tuple(n if k == axis else 1 for k in range(lhs.ndim)))
        inside = here if inside is None else ir.map("logical_and", inside, here)
    rhs = ir.cast(rhs, lhs.dtype)
    if inside is None:
        return rhs
    low = [0 if t > 1 else b for b, t in zip(start, step)]
    wide = ir.pad(rhs, low, [n - b - d for n, b, d in zip(lhs.shape, low, rhs.shape)])
    return ir.map("where", ir.expand(inside, lhs.shape), wide, lhs)


@op("_slice_assign", "lhs rhs", json=("_crop_assign", "_npi_slice_assign"), begin=Shape(none=True),
    end=Shape(none=True), step=Shape((), none=True))
def slice_assign(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """lhs with a range (see slice) replaced by rhs."""
    return _put(lhs, rhs, a)


@op("_slice_assign_scalar", "data", json=("_crop_assign_scalar", "_npi_slice_assign_scalar"), scalar=Float(0.0),
    begin=Shape(none=True), end=Shape(none=True),
    step=Shape((), none=True))
def slice_assign_scalar(data: Node, a: Attrs) -> Node:
    """data with a range (see slice) replaced by a number."""
    _, size, _ = slice_ranges(data.shape, a)
    return _put(data, ir.full(a.scalar if dt.is_float(data.dtype) else int(a.scalar), tuple(size), data.dtype), a)


@op("_scatter_set_nd", "lhs rhs indices", json=("_npi_scatter_set_nd",), shape=Shape(()))
def scatter_set_nd(lhs: Node, rhs: Node, indices: Node, a: Attrs) -> Node:
    """lhs with rhs put at [indices[0], indices[1], …]; where a place is named twice the last value stays, as in
    NumPy."""
    m = indices.shape[0] if indices.ndim else 0
    if not 0 < m <= lhs.ndim or rhs.shape != indices.shape[1:] + lhs.shape[m:]:
        raise ShapeError(f"values of shape {rhs.shape} cannot be put into {lhs.shape} at indices {indices.shape}")
    places = _product(lhs.shape[:m])
    flat = ir.reshape(_flat_index(indices, lhs.shape[:m]), (-1,))
    if not flat.size:
        return lhs
    order = ir.argsort(flat)                              # equal places next to each other, the last one at the end
    flat = ir.gather(flat, order)
    new = ir.gather(ir.reshape(ir.cast(rhs, lhs.dtype), (flat.size, -1)), order)
    last = ir.full(True, (1,), dt.bool_)
    if flat.size > 1:
        last = ir.concat([ir.map("ne", ir.slice(flat, (1,), (flat.size - 1,)), ir.slice(flat, (0,), (flat.size - 1,))),
                          last], 0)
    hit = ir.scatter_add(flat, ir.cast(last, dt.int32), 0, places)
    values = ir.scatter_add(flat, ir.map("where", ir.reshape(last, (flat.size, 1)), new, 0), 0, places)
    old = ir.reshape(lhs, values.shape)
    return ir.reshape(ir.map("where", ir.reshape(ir.map("gt", hit, 0), (places, 1)), values, old), lhs.shape)
