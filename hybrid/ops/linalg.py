"""Products of matrices."""
from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence

import numpy as np

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .arrange import as_diagonal, diagonal_of, eager_diagonal, nested, triangle
from .attributes import Attribute, Attrs
from .registry import Axes, Bool, Enum, Float, Int, op
from .shape import normal_axis


@op("dot", "lhs rhs", transpose_a=Bool(False), transpose_b=Bool(False),
    forward_stype=Enum(None, "default", "csr", "row_sparse"))
def dot(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """Sum over the last axis of lhs and the first of rhs; a transposed side uses its first (last) axis."""
    if not lhs.ndim or not rhs.ndim:
        raise ShapeError(f"dot needs arrays of an axis at least, got {lhs.shape} and {rhs.shape}; use multiply for "
                         f"scalars")
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
        raise ShapeError(f"matrices {x.shape[-2:]}{'ᵀ' if tx else ''} and {y.shape[-2:]}{'ᵀ' if ty else ''} cannot be "
                         f"multiplied: the columns of the first, {x.shape[ca]}, must be as many as the rows of the "
                         f"second, {y.shape[cb]}")
    batch = tuple(range(n))
    return ir.dot(x, y, ((ca,), (cb,)), (batch, batch))


@op("batch_dot", "lhs rhs", npx=("batch_dot",), json=("_npx_batch_dot",), transpose_a=Bool(False),
    transpose_b=Bool(False))
def batch_dot(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """Products of the matrices in the last two axes."""
    if lhs.ndim < 3 or rhs.ndim != lhs.ndim:
        raise ShapeError(f"two arrays of equally many axes (3 or more) are needed, got {lhs.shape} and {rhs.shape}")
    if lhs.shape[:-2] != rhs.shape[:-2]:
        raise ShapeError(f"batch_dot: the leading axes of {lhs.shape} and {rhs.shape} must be equal (np.matmul "
                         f"broadcasts them)")
    return _batched(lhs, rhs, a.transpose_a, a.transpose_b)


def _rows_last(x: Node, axis: int) -> Node:
    """The matrix' rows, which stand at ``axis``, moved next to its columns, which are last."""
    order = [i for i in range(x.ndim) if i != normal_axis(axis, x.ndim)]
    return x if axis in (-2, x.ndim - 2) else ir.permute(x, order[:-1] + [axis % x.ndim] + order[-1:])


def _rows_back(x: Node, axis: int) -> Node:
    order = list(range(x.ndim - 2)) + [x.ndim - 1]
    order.insert(axis % x.ndim, x.ndim - 2)
    return ir.permute(x, order)


def _matrices(*xs: Node) -> None:
    for x in xs:
        if x.ndim < 2:
            raise ShapeError(f"matrices (2 axes or more) are needed, got {' and '.join(str(v.shape) for v in xs)}")


@op("_linalg_gemm2", "A B", mx=("linalg.gemm2", "linalg_gemm2"), json=("linalg_gemm2",), transpose_a=Bool(False),
    transpose_b=Bool(False),
    alpha=Float(1.0), axis=Int(-2))
def gemm2(x: Node, y: Node, a: Attrs) -> Node:
    """alpha * A B; the rows of the matrices are ``axis``, the columns the last axis."""
    _matrices(x, y)
    out = _batched(_rows_last(x, a.axis), _rows_last(y, a.axis), a.transpose_a, a.transpose_b)
    return _rows_back(out if a.alpha == 1 else out * a.alpha, a.axis)


@op("_linalg_gemm", "A B C", mx=("linalg.gemm", "linalg_gemm"), json=("linalg_gemm",), transpose_a=Bool(False),
    transpose_b=Bool(False),
    alpha=Float(1.0), beta=Float(1.0), axis=Int(-2))
def gemm(x: Node, y: Node, c: Node, a: Attrs) -> Node:
    """alpha * A B + beta * C."""
    out = gemm2(x, y, transpose_a=a.transpose_a, transpose_b=a.transpose_b, alpha=a.alpha, axis=a.axis)
    return out + (c if a.beta == 1 else c * a.beta)


@op("_linalg_syrk", "A", mx=("linalg.syrk", "linalg_syrk"), json=("linalg_syrk",), transpose=Bool(False),
    alpha=Float(1.0))
def syrk(x: Node, a: Attrs) -> Node:
    """alpha * A A^T, or alpha * A^T A."""
    _matrices(x)
    out = _batched(x, x, a.transpose, not a.transpose)
    return out if a.alpha == 1 else out * a.alpha


@op("_linalg_trmm", "A B", mx=("linalg.trmm", "linalg_trmm"), json=("linalg_trmm",), transpose=Bool(False),
    rightside=Bool(False), lower=Bool(True),
    alpha=Float(1.0))
def trmm(x: Node, y: Node, a: Attrs) -> Node:
    """alpha * A B (B A with rightside) for a triangular A, of which the other triangle is not read."""
    _matrices(x, y)
    t = triangle(x, 0, a.lower)
    out = _batched(y, t, False, a.transpose) if a.rightside else _batched(t, y, a.transpose, False)
    return out if a.alpha == 1 else out * a.alpha


@op("_linalg_sumlogdiag", "A", mx=("linalg.sumlogdiag", "linalg_sumlogdiag"), json=("linalg_sumlogdiag",))
def sumlogdiag(x: Node, a: Attrs) -> Node:
    """Sum of the logarithms of the diagonal: log(det) of a triangular matrix."""
    _matrices(x)
    d = ir.map("log", diagonal_of(x, 0, x.ndim - 2, x.ndim - 1))
    out = ir.reduce("sum", d, (d.ndim - 1,))
    return out if out.ndim else ir.reshape(out, (1,))


@op("_linalg_extractdiag", "A", mx=("linalg.extractdiag", "linalg_extractdiag"), json=("linalg_extractdiag",),
    offset=Int(0))
def extractdiag(x: Node, a: Attrs) -> Node:
    """The diagonal of the matrices in the last two axes."""
    _matrices(x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"extractdiag takes square matrices, got {x.shape}")
    return diagonal_of(x, a.offset, x.ndim - 2, x.ndim - 1)


@op("_linalg_makediag", "A", eager=lambda xp, arrays, a: [eager_diagonal(xp, arrays[0], a.offset)],
    mx=("linalg.makediag", "linalg_makediag"), json=("linalg_makediag",),
    offset=Int(0))
def makediag(x: Node, a: Attrs) -> Node:
    """Matrices with the last axis on a diagonal."""
    return as_diagonal(x, a.offset)


@op("khatri_rao", "*args", arity_attr="num_args", num_args=Int(None))
def khatri_rao(xs: list[Node], a: Attrs) -> Node:
    """Kronecker products of the columns."""
    out = xs[0]
    for x in xs[1:]:
        if x.ndim != 2 or out.ndim != 2 or x.shape[1] != out.shape[1]:
            raise ShapeError(f"khatri_rao needs matrices of equally many columns, got {[v.shape for v in xs]}")
        wide = ir.reshape(out, (out.shape[0], 1, out.shape[1])) * ir.reshape(x, (1, *x.shape))
        out = ir.reshape(wide, (out.shape[0] * x.shape[0], x.shape[1]))
    return out


def _summed_lengths(axes: Callable[[Any, Any, Attrs], Iterable[tuple[int, int]]]) -> Callable[[list, Attrs], list]:
    """What completes the shapes of a product's inputs: lengths of axes that are summed over are equal. axes: pairs of
    them, from the shapes."""
    def complete(shapes: list, a: Attrs) -> list:
        if any(s is None or not len(s) for s in shapes):
            return shapes
        x, y = map(list, shapes)
        for i, j in axes(x, y, a):
            x[i], y[j] = (y[j], y[j]) if x[i] <= 0 else (x[i], x[i] if y[j] <= 0 else y[j])
        return [tuple(x), tuple(y)]
    setattr(complete, "from_any", True)
    return complete


@op("_npi_matmul", "a b", np=("matmul",), json=("_np_matmul",),
    params=_summed_lengths(lambda x, y, a: [(-1, max(len(y) - 2, 0))]))
def matmul(x: Node, y: Node, a: Attrs) -> Node:
    """NumPy's matmul."""
    if not x.ndim or not y.ndim:
        raise ShapeError("matmul does not take scalars: use multiply")
    left = x if x.ndim > 1 else ir.reshape(x, (1, -1))
    right = y if y.ndim > 1 else ir.reshape(y, (-1, 1))
    out = _batched(left, right, False, False)
    shape = out.shape[:-2] + (out.shape[-2:-1] if x.ndim > 1 else ()) + (out.shape[-1:] if y.ndim > 1 else ())
    return ir.reshape(out, shape)


@op("_np_dot", "a b", np=("dot",), params=_summed_lengths(lambda x, y, a: [(-1, max(len(y) - 2, 0))]))
def np_dot(x: Node, y: Node, a: Attrs) -> Node:
    """NumPy's dot: the last axis of a with the last but one of b."""
    if not x.ndim or not y.ndim:
        return x * y
    return ir.dot(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),)))


class Summed(Attribute):
    """The axes of tensordot: a number, or two axes or tuples of axes."""
    kind = "number or pair of axes"

    def convert(self, value: Any) -> Any:
        if isinstance(value, str):
            value = nested(value)
        if isinstance(value, (int, np.integer)):
            return int(value)
        left, right = (tuple(map(int, v)) if isinstance(v, Sequence) else (int(v),) for v in value)
        return left, right


def _tensordot_axes(x: Any, y: Any, a: Attrs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that tensordot sums over, of inputs of these shapes."""
    if a.a_axes_summed is not None:
        left, right = ((v,) if isinstance(v, int) else v for v in (a.a_axes_summed, a.b_axes_summed or ()))
    elif isinstance(a.axes, int):
        if not 0 <= a.axes <= min(len(x), len(y)):
            raise ShapeError(f"axes={a.axes} does not fit inputs of {len(x)} and {len(y)} axes")
        left, right = tuple(range(len(x) - a.axes, len(x))), tuple(range(a.axes))
    else:
        left, right = a.axes
    return tuple(normal_axis(i, len(x)) for i in left), tuple(normal_axis(i, len(y)) for i in right)


@op("_npi_tensordot", "a b", np=("tensordot",), params=_summed_lengths(lambda x, y, a: zip(*_tensordot_axes(x, y, a))),
    axes=Summed(2), a_axes_summed=Axes(None), b_axes_summed=Axes(None))
def tensordot(x: Node, y: Node, a: Attrs) -> Node:
    """NumPy's tensordot."""
    left, right = _tensordot_axes(x.shape, y.shape, a)
    if [x.shape[i] for i in left] != [y.shape[i] for i in right]:
        raise ShapeError(f"the summed axes {left} of {x.shape} and {right} of {y.shape} differ in length")
    return ir.dot(x, y, (left, right))


@op("_npi_tensordot_int_axes", "a b", axes=Int(2))
def tensordot_int(x: Node, y: Node, a: Attrs) -> Node:
    """tensordot over the last axes of a and the first of b, as files name it."""
    return tensordot(x, y, axes=a.axes)


@op("_npi_outer", "a b", np=("outer",))
def outer(x: Node, y: Node, a: Attrs) -> Node:
    """Products of each element of a with each of b."""
    return ir.reshape(x, (x.size, 1)) * ir.reshape(y, (1, y.size))


@op("_npi_inner", "a b", np=("inner",))
def inner(x: Node, y: Node, a: Attrs) -> Node:
    """Sum over the last axes."""
    if not x.ndim or not y.ndim:
        return x * y
    return tensordot(x, y, axes=((-1,), (-1,)))


@op("_npi_vdot", "a b", np=("vdot",))
def vdot(x: Node, y: Node, a: Attrs) -> Node:
    """Sum of the products of all elements."""
    return tensordot(ir.reshape(x, (-1,)), ir.reshape(y, (-1,)), axes=1)


@op("_npi_kron", "a b", np=("kron",))
def kron(x: Node, y: Node, a: Attrs) -> Node:
    """Kronecker product."""
    n = max(x.ndim, y.ndim)
    p, q = (1,) * (n - x.ndim) + x.shape, (1,) * (n - y.ndim) + y.shape
    wide = ir.reshape(x, [v for d in p for v in (d, 1)]) * ir.reshape(y, [v for d in q for v in (1, d)])
    return ir.reshape(wide, [c * d for c, d in zip(p, q)])
