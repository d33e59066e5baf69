"""Products of matrices."""
from __future__ import annotations

from .. import ir
from ..errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Axes, Bool, Enum, Float, Int, op


@op("dot", "lhs rhs", transpose_a=Bool(False), transpose_b=Bool(False), forward_stype=Enum(None, "default", "csr", "row_sparse"))
def dot(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """Sum over the last axis of lhs and the first of rhs; a transposed side uses its first (last) axis."""
    ca, cb = (0 if a.transpose_a else lhs.ndim - 1), (rhs.ndim - 1 if a.transpose_b else 0)
    if lhs.shape[ca] != rhs.shape[cb]:
        raise ShapeError(f"the contracted axes differ: axis {ca} of {lhs.shape} and axis {cb} of {rhs.shape}")
    out = ir.dot(lhs, rhs, ((ca,), (cb,)))
    return out if out.ndim else ir.reshape(out, (1,))


def _batched(x: Node, y: Node, tx: bool, ty: bool) -> Node:
    lead = ir.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = ir.expand(x, lead + x.shape[-2:]), ir.expand(y, lead + y.shape[-2:])
    n = len(lead)
    ca, cb = (n if tx else n + 1), (n + 1 if ty else n)
    if x.shape[ca] != y.shape[cb]:
        raise ShapeError(f"matrices {x.shape[-2:]}{'ᵀ' if tx else ''} and {y.shape[-2:]}{'ᵀ' if ty else ''} do not fit")
    batch = tuple(range(n))
    return ir.dot(x, y, ((ca,), (cb,)), (batch, batch))


@op("batch_dot", "lhs rhs", npx=("batch_dot",), json=("_npx_batch_dot",), transpose_a=Bool(False), transpose_b=Bool(False))
def batch_dot(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """Products of the matrices in the last two axes."""
    if lhs.ndim < 3 or rhs.ndim != lhs.ndim:
        raise ShapeError(f"two arrays of equally many axes (3 or more) are needed, got {lhs.shape} and {rhs.shape}")
    return _batched(lhs, rhs, a.transpose_a, a.transpose_b)


@op("_linalg_gemm2", "A B", mx=("linalg.gemm2", "linalg_gemm2"), transpose_a=Bool(False), transpose_b=Bool(False), alpha=Float(1.0), axis=Int(-2))
def gemm2(x: Node, y: Node, a: Attrs) -> Node:
    """alpha * A B over the last two axes."""
    out = _batched(x, y, a.transpose_a, a.transpose_b)
    return out if a.alpha == 1 else out * a.alpha


@op("_npi_matmul", "a b", np=("matmul",), json=("_np_matmul",))
def matmul(x: Node, y: Node, a: Attrs) -> Node:
    """NumPy's matmul."""
    if not x.ndim or not y.ndim:
        raise ShapeError("matmul does not take scalars: use multiply")
    left = x if x.ndim > 1 else ir.reshape(x, (1, -1))
    right = y if y.ndim > 1 else ir.reshape(y, (-1, 1))
    out = _batched(left, right, False, False)
    shape = out.shape[:-2] + (out.shape[-2:-1] if x.ndim > 1 else ()) + (out.shape[-1:] if y.ndim > 1 else ())
    return ir.reshape(out, shape)


@op("_np_dot", "a b", np=("dot",))
def np_dot(x: Node, y: Node, a: Attrs) -> Node:
    """NumPy's dot: the last axis of a with the last but one of b."""
    if not x.ndim or not y.ndim:
        return x * y
    return ir.dot(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),)))


@op("_npi_tensordot", "a b", np=("tensordot",), a_axes_summed=Axes(None), b_axes_summed=Axes(None), axes=Int(2))
def tensordot(x: Node, y: Node, a: Attrs) -> Node:
    """NumPy's tensordot."""
    if a.a_axes_summed is not None:
        return ir.dot(x, y, (a.a_axes_summed, a.b_axes_summed))
    return ir.dot(x, y, (tuple(range(x.ndim - a.axes, x.ndim)), tuple(range(a.axes))))
