"""How ONNX's QuantizeLinear and DequantizeLinear are read: 8-bit networks in the form that says both around every
operator of real numbers."""
from __future__ import annotations

import numpy as np

from ...graph.symbol import Symbol
from .reader import OnnxNode, reads


def _with(n: OnnxNode, op: str, y: Symbol, k: int, what: str) -> Symbol:
    """A value with a scale or a zero point, which is one number or one for each place of an axis."""
    given = n.known(k, what)
    if given is None or (what == "zero point" and not np.any(given)):
        return y
    if np.size(given) == 1:
        return n.op(f"_{op}_scalar", y, scalar=float(np.asarray(given, np.float32).reshape(())))
    axis, shape = n.attr("axis", 1) % len(n.shape()), [1] * len(n.shape())
    if np.ndim(given) != 1 or n.attr("block_size", 0) or np.size(given) != n.shape()[axis]:
        raise n.fail(f"a {what} of shape {np.shape(given)} is neither one number nor one for each place of axis "
                     f"{axis}, where the data has {n.shape()}")
    shape[axis] = -1
    wide = n.constant(what.replace(" ", "_"), np.asarray(given, np.float32).reshape(shape))
    return n.op({"div": "broadcast_div", "mul": "broadcast_mul", "plus": "broadcast_add", "minus": "broadcast_sub"}[op],
                y, wide)


@reads("QuantizeLinear")
def quantize(n: OnnxNode) -> Symbol:
    """round(x / scale) + zero point, within the type of the zero point."""
    zero = n.known(2, "zero point")
    dtype = np.dtype(np.uint8) if zero is None else np.asarray(zero).dtype
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
