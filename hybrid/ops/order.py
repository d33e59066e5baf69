"""Sorting, the largest elements, and random order: all from one primitive, the order of keys along an axis."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from ..ir.sorting_keys import first_of_order
from .attributes import Attrs
from .registry import Bool, DType, Enum, Int, op
from .shape import cut, normal_axis


def _rows(data: Node, axis: int | None) -> tuple[Node, int | None]:
    """Data with the axis last (flattened for None), and where the axis was."""
    if axis is None or not data.ndim:
        return ir.reshape(data, (data.size,)), None
    at = normal_axis(axis, data.ndim)
    return ir.permute(data, [i for i in range(data.ndim) if i != at] + [at]), at


def _back(x: Node, at: int | None) -> Node:
    """The last axis where it was."""
    if at is None:
        return x
    order = list(range(x.ndim - 1))
    order.insert(at, x.ndim - 1)
    return ir.permute(x, order)


def along(x: Node, order: Node) -> Node:
    """x at indices along the last axis, row by row."""
    rows, n = math.prod(x.shape[:-1]), x.shape[-1]
    flat = ir.reshape(order, (rows, order.shape[-1])) + ir.reshape(ir.iota(rows) * n, (rows, 1))
    return ir.reshape(ir.gather(ir.reshape(x, (x.size,)), flat, 0), order.shape)


def _topk_eager(xp: Any, arrays: list[Any], a: Attrs) -> list[Any] | None:
    """Few of many elements are found without all of them being sorted."""
    x = arrays[0]
    if xp is not np or a.ret_typ == "mask" or not x.size or a.axis is not None and not -x.ndim <= a.axis < x.ndim:
        return None
    rows = np.moveaxis(x, a.axis, -1) if a.axis is not None and x.ndim else x.reshape(-1)
    k = a.k if a.k >= 1 else rows.shape[-1]
    if k > rows.shape[-1]:
        return None
    places = first_of_order(rows, k, not a.is_ascend)

    def back(found: Any) -> Any:
        return np.moveaxis(found, -1, a.axis) if a.axis is not None and x.ndim else found
    value = back(np.take_along_axis(rows, places, -1)) if a.ret_typ != "indices" else None
    index = back(places).astype(dt.as_dtype(a.dtype)) if a.ret_typ != "value" else None
    return [found for found in (value, index) if found is not None]


def _sort_eager(xp: Any, arrays: list[Any], a: Attrs) -> list[Any] | None:
    """NumPy sorts the elements themselves; of halves of the kind that it does not know the order is found."""
    x = arrays[0]
    if xp is not np or x.dtype.kind not in "fiub" or not x.ndim:
        return None
    if a.axis is not None and not -x.ndim <= a.axis < x.ndim:
        return None
    axis = -1 if a.axis is None else a.axis
    out = x.flatten() if a.axis is None else x.copy()
    out.sort(axis)
    return [out if a.is_ascend else np.flip(out, axis)]


@op("topk", "data", eager=_topk_eager, npx=("topk",), json=("_npx_topk",),
    outputs=lambda a: 2 if a.ret_typ == "both" else 1,
    axis=Int(-1, none=True), k=Int(1), ret_typ=Enum("indices", "value", "indices", "mask", "both"),
    is_ascend=Bool(False), dtype=DType("float32"))
def topk(data: Node, a: Attrs) -> Node | list[Node]:
    """The k largest (smallest with is_ascend) elements along an axis, in order; equal ones in the order they stand in.

    ret_typ: their ``indices`` in ``dtype``, their ``value``, ``both``, or a ``mask`` of ones in the data's shape. k < 1
    means all; axis=None the flattened array.
    """
    x, at = _rows(data, a.axis)
    n = x.shape[-1]
    k = n if a.k < 1 else a.k
    if k > n:
        raise ShapeError(f"topk: k={a.k} is more than the {n} elements along axis {a.axis} of {data.shape}")
    order = cut(ir.argsort(ir.detach(x), not a.is_ascend), x.ndim - 1, 0, k)
    if a.ret_typ == "mask":
        return _mask(order, x, at, data)
    index = ir.cast(_back(order, at), dt.as_dtype(a.dtype))
    if a.ret_typ == "indices":
        return index
    value = _back(along(x, order), at)
    return value if a.ret_typ == "value" else [value, index]


def _mask(order: Node, x: Node, at: int | None, data: Node) -> Node:
    rows, n = math.prod(x.shape[:-1]), x.shape[-1]
    flat = ir.reshape(order, (rows, order.shape[-1])) + ir.reshape(ir.iota(rows) * n, (rows, 1))
    hits = ir.scatter_add(flat, ir.full(1, flat.shape, data.dtype), 0, x.size)
    return ir.reshape(_back(ir.reshape(hits, x.shape), at), data.shape)


def _sorted(data: Node, a: Attrs) -> Node:
    x, at = _rows(data, a.axis)
    return _back(along(x, ir.argsort(ir.detach(x), not a.is_ascend)), at)


def _order(data: Node, a: Attrs) -> Node:
    x, at = _rows(data, a.axis)
    return ir.cast(_back(ir.argsort(x, not a.is_ascend), at), dt.as_dtype(a.dtype))


@op("sort", "data", eager=_sort_eager, np=("sort",), json=("_npi_sort",), axis=Int(-1, none=True), is_ascend=Bool(True))
def sort(data: Node, a: Attrs) -> Node:
    """Elements in order along an axis (of the flattened array for None). nan is the largest."""
    return _sorted(data, a)


@op("argsort", "data", axis=Int(-1, none=True), is_ascend=Bool(True), dtype=DType("float32"))
def argsort(data: Node, a: Attrs) -> Node:
    """Indices that sort along an axis, in ``dtype``; equal elements in the order they stand in."""
    return _order(data, a)


@op("_npi_argsort", "data", np=("argsort",), axis=Int(-1, none=True), is_ascend=Bool(True), dtype=DType("int64"))
def np_argsort(data: Node, a: Attrs) -> Node:
    """NumPy's argsort, stable: int64."""
    return _order(data, a)


@op("_shuffle", "data", mx=("shuffle", "random.shuffle", "random_shuffle"), json=("shuffle",), needs=("key",))
def shuffle(data: Node, a: Attrs) -> Node:
    """The array with its first axis in random order."""
    if not data.ndim:
        raise ShapeError("a scalar has no axis to shuffle")
    return ir.gather(data, ir.argsort(ir.random_bits(a.key, data.shape[:1], 0)), 0)
