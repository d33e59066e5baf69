"""How ONNX's QuantizeLinear and DequantizeLinear are read: 8-bit networks in the form that says both around every
operator of real numbers."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph.symbol import Symbol
from .reader import Known, OnnxNode, reads


BROADCAST = {"div": "broadcast_div", "mul": "broadcast_mul", "plus": "broadcast_add", "minus": "broadcast_sub"}


def _with(n: OnnxNode, op: str, y: Symbol, k: int, what: str) -> Symbol:
    """A value with a scale or a zero point, which is one number or one for each index of an axis."""
    if not n.has(k):
        return y
    given: Any = n.values[k]
    if isinstance(given, Known):
        if what == "zero point" and not given.any():
            return y
        if given.size == 1:
            return n.op(f"_{op}_scalar", y, scalar=float(given.astype(np.float32).reshape(())))
        shape = _along(n, what, given.shape)
        return n.op(BROADCAST[op], y, n.constant(what.replace(" ", "_"), given.astype(np.float32).reshape(shape)))
    wide = n.op("Cast", n.op("Reshape", given, shape=_along(n, what, n.shape_of(given))), dtype="float32")
    return n.op(BROADCAST[op], y, wide)


def _along(n: OnnxNode, what: str, given: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in which a scale or zero point is broadcast over the data."""
    rank = len(n.shape())
    if math.prod(given) == 1:
        return (1,) * max(rank, 1)
    axis = n.attr("axis", 1) % rank
    if len(given) != 1 or n.attr("block_size", 0) or given[0] != n.shape()[axis]:
        raise n.fail(f"a {what} of shape {given} is neither one number nor one for each index of axis {axis}, where "
                     f"the data has shape {n.shape()}")
    return tuple(-1 if i == axis else 1 for i in range(rank))


@reads("QuantizeLinear")
def quantize(n: OnnxNode) -> Symbol:
    """round(x / scale) + zero point, within the type of the zero point."""
    zero = n.values[2] if n.has(2) else None
    dtype = np.dtype(np.uint8) if zero is None else np.dtype(zero.dtype)
    if dtype not in (np.uint8, np.int8):
        raise n.fail(f"numbers of {dtype} are not known here, only those of 8 bits")
    y = _with(n, "plus", n.op("_npi_rint", _with(n, "div", n[0], 1, "scale")), 2, "zero point")
    ends = np.iinfo(dtype)
    y = n.op("_maximum_scalar", n.op("_minimum_scalar", y, scalar=float(ends.max)), scalar=float(ends.min))
    return n.op("Cast", y, dtype=dtype.name)


@reads("DequantizeLinear")
def dequantize(n: OnnxNode) -> Symbol:
    """(x - zero point) scale."""
    y = _with(n, "minus", n.op("Cast", n[0], dtype="float32"), 2, "zero point")
    return _with(n, "mul", y, 1, "scale")
