"""Factorisations and inverses of matrices, over the last two axes. Gradients are made of the same operators, so every
order is there. Their row kernels are in kernels/include/rows_linalg.h.
"""
from __future__ import annotations

import contextlib
from typing import Any, Sequence

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import DTypeError, ShapeError
from ..ir import Node, RowKernel
from .attributes import Attrs
from .registry import Bool, Enum, Float, op, promote

Shapes = Sequence[tuple[int, ...]]


def transposed(x: Node) -> Node:
    """The last two axes swapped."""
    return ir.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def product(a: Node, b: Node) -> Node:
    """Matrix products over the last two axes, leading axes alike."""
    n = a.ndim - 2
    lead = tuple(range(n))
    return ir.dot(a, b, ((n + 1,), (n,)), (lead, lead))


def lower_of(x: Node, diagonal: float = 1.0) -> Node:
    """The lower triangle, its diagonal times a number; zeros above."""
    n, m = x.shape[-2:]
    row, column = ir.reshape(ir.iota(n), (n, 1)), ir.reshape(ir.iota(m), (1, m))
    weight = ir.map("where", ir.map("gt", row, column), 1.0,
                    ir.map("where", ir.map("eq", row, column), ir.const(diagonal, x.dtype), 0.0))
    return x * ir.cast(weight, x.dtype)


def _columns_from(x: Node, size: int) -> Node:
    """The columns from ``size`` on."""
    return ir.slice(x, (0,) * (x.ndim - 1) + (size,), (*x.shape[:-1], x.shape[-1] - size))


def _symmetric(x: Node) -> Node:
    return (x + transposed(x)) * 0.5


@ir.register_grad("one triangle")
def _both_halves(g: Node, attrs: Any, value: Node, x: Node) -> tuple[Node]:
    """A symmetric matrix is given: both halves share the gradient."""
    return (g,)


def _of_one_triangle(x: Node, lower: bool) -> Node:
    """The symmetric matrices of which the lower (or upper) triangle is x's; the other one is not read."""
    n = x.shape[-1]
    i, j = ir.reshape(ir.iota(n), (n, 1)), ir.reshape(ir.iota(n), (1, n))
    own = ir.expand(ir.map("ge", i, j) if lower else ir.map("le", i, j), x.shape)
    return ir.with_grad(ir.map("where", own, x, transposed(x)), (x,), "one triangle", ())


def _identity(n: int, like: Node) -> Node:
    eye = ir.map("eq", ir.reshape(ir.iota(n), (n, 1)), ir.reshape(ir.iota(n), (1, n)))
    return ir.expand(ir.cast(eye, like.dtype), like.shape)


def matrix(x: Node, square: bool = True) -> Node:
    """x as matrices of float32 or float64; a clear error for anything else."""
    if x.ndim < 2 or square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{'square ' if square else ''}matrices are wanted, (…, n, {'n' if square else 'm'}), got "
                         f"{x.shape}")
    if not dt.is_float(x.dtype) or x.dtype.itemsize < 4:
        raise DTypeError(f"matrices of float32 or float64 are wanted, got {x.dtype.name}")
    return x


# ---- Cholesky
def _potrf_vjp(g: Node, n: Node, a: Node) -> tuple[Node]:
    """Murray, "Differentiation of the Cholesky decomposition" (2016), section 4; the input counts as symmetric."""
    inner = lower_of(product(transposed(n), lower_of(g)), 0.5)
    left = solve(n, inner, True)
    out = transposed(solve(n, transposed(left), True))
    return (_symmetric(out),)


def _of_each(xp: Any, run: Any, shape: tuple[int, ...], otherwise: float, *arrays: Any) -> Any:
    """``run`` on all matrices at once. Where NumPy raises LinAlgError, on one after the other, and the result of one
    that fails is filled with ``otherwise``. shape: of one result."""
    try:
        return run(*arrays)
    except np.linalg.LinAlgError:
        out = xp.full((len(arrays[0]), *shape), otherwise, arrays[0].dtype)
    for i, row in enumerate(zip(*arrays)):
        with contextlib.suppress(np.linalg.LinAlgError):
            out[i] = run(*row)
    return out


def _cholesky(xp: Any, arrays: Any, params: Any) -> Any:
    """nan where a matrix is not positive definite, as the compiled kernel gives."""
    return _of_each(xp, xp.linalg.cholesky, arrays[0].shape[1:], np.nan, arrays[0])


ir.register_rows(RowKernel("potrf", "rows_linalg.h", (2,), lambda s, p: s[0], lambda s, p: (s[0][0],), _cholesky,
                           _potrf_vjp, ((1, 192),)))


@op("_linalg_potrf", "A", mx=("linalg.potrf", "linalg_potrf"), np=("linalg.cholesky",),
    json=("linalg_potrf", "_npi_cholesky"), lower=Bool(True))
def potrf(a: Node, at: Attrs) -> Node:
    """The Cholesky factor L, lower, of positive definite matrices A = L Lᵀ (…, n, n), or Lᵀ with ``lower=False``; nan
    where A is not positive definite."""
    factor = ir.rows("potrf", (_of_one_triangle(matrix(a), at.lower),))
    return factor if at.lower else transposed(factor)


@op("_linalg_potri", "A", mx=("linalg.potri", "linalg_potri"), json=("linalg_potri",), lower=Bool(True))
def potri(a: Node, at: Attrs) -> Node:
    """The inverse of L Lᵀ from the lower factor L (…, n, n), or from Lᵀ with ``lower=False``."""
    x = matrix(a) if at.lower else transposed(matrix(a))
    inverse = solve(x, _identity(x.shape[-1], x))
    return product(transposed(inverse), inverse)


# ---- triangular systems
def _trsm_vjp(g: Node, n: Node, a: Node, b: Node) -> tuple[Node, Node]:
    lower, transpose = n.attrs["params"]
    to_b = ir.rows("trsm", (a, g), (lower, not transpose))
    to_a = -product(n, transposed(to_b)) if transpose else -product(to_b, transposed(n))
    return (lower_of(to_a) if lower else transposed(lower_of(transposed(to_a)))), to_b


def _solve_triangular(xp: Any, arrays: Any, params: Any) -> Any:
    a, b = arrays
    lower, transpose = params
    a = xp.tril(a) if lower else xp.triu(a)
    a = a.swapaxes(1, 2) if transpose else a
    up = lower != transpose
    n = a.shape[1]
    x = xp.zeros_like(b)
    with np.errstate(all="ignore"):
        for i in range(n) if up else range(n - 1, -1, -1):
            x[:, i] = (b[:, i] - xp.einsum("rk,rkm->rm", a[:, i], x)) / a[:, i, i][:, None]
    return x


ir.register_rows(RowKernel("trsm", "rows_linalg.h", (2, 2), lambda s, p: s[1], lambda s, p: (*s[1], *p),
                           _solve_triangular, _trsm_vjp, ((1, 512),)))


def solve(a: Node, b: Node, transpose: bool = False, lower: bool = True) -> Node:
    """x of a x = b (aᵀ x = b) for triangular a; the other triangle is not read."""
    return ir.rows("trsm", (a, b), (lower, transpose))


@op("_linalg_trsm", "A B", mx=("linalg.trsm", "linalg_trsm"), json=("linalg_trsm",), transpose=Bool(False),
    rightside=Bool(False), lower=Bool(True), alpha=Float(1.0))
def trsm(a: Node, b: Node, at: Attrs) -> Node:
    """X of A X = alpha B for triangular A (…, n, n); of X A = alpha B with rightside; of Aᵀ with transpose."""
    a, b = matrix(a), matrix(b, square=False)
    side = b.shape[-1] if at.rightside else b.shape[-2]
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != side:
        raise ShapeError(f"A {a.shape} does not fit B {b.shape}" + (" on the right" if at.rightside else ""))
    if at.rightside:
        return transposed(solve(a, transposed(b), not at.transpose, at.lower)) * at.alpha
    return solve(a, b, at.transpose, at.lower) * at.alpha


# ---- inverse, determinant
def _inverse_vjp(g: Node, n: Node, a: Node) -> tuple[Node]:
    right = transposed(_columns_from(n, a.shape[-1]))
    return (-product(product(right, _columns_from(g, a.shape[-1])), right),)


def _inverse_eager(xp: Any, arrays: Any, params: Any) -> Any:
    """Infinities where a matrix is singular."""
    return [_of_each(xp, xp.linalg.inv, arrays[0].shape[1:], np.inf, arrays[0])]


def _on_the_right(shapes: Shapes, params: Any) -> list[ir.Box]:
    """The result is to the right of the first n columns, which are working memory."""
    n, width = shapes[0][0], shapes[-1][1]
    return [((0, n), (n, width))]


ir.register_rows(RowKernel("inverse", "rows_linalg.h", (2,), lambda s, p: (s[0][0], 2 * s[0][1]),
                           lambda s, p: (s[0][0],), _inverse_eager, _inverse_vjp, ((1, 192),), _on_the_right))


def inverse_of(a: Node) -> Node:
    """The inverse of square matrices."""
    return _columns_from(ir.rows("inverse", (a,)), a.shape[-1])


# ---- systems of equations
def _gesv_eager(xp: Any, arrays: Any, params: Any) -> Any:
    return [_of_each(xp, xp.linalg.solve, arrays[1].shape[1:], np.inf, *arrays)]


def _gesv_vjp(g: Node, n: Node, a: Node, b: Node) -> tuple[Node, Node]:
    size = a.shape[-1]
    to_b = solution(transposed(a), _columns_from(g, size))
    return -product(to_b, transposed(_columns_from(n, size))), to_b


ir.register_rows(RowKernel("gesv", "rows_linalg.h", (2, 2), lambda s, p: (s[1][0], s[0][1] + s[1][1]),
                           lambda s, p: s[1], _gesv_eager, _gesv_vjp, ((1, 128),), _on_the_right))


def solution(a: Node, b: Node) -> Node:
    """x of a x = b for square a, leading axes alike; of the wider of both types."""
    wide = promote(a, b)
    return _columns_from(ir.rows("gesv", (ir.cast(a, wide), ir.cast(b, wide))), a.shape[-1])


@op("_linalg_inverse", "A", mx=("linalg.inverse", "linalg_inverse"), np=("linalg.inv",),
    json=("linalg_inverse", "_npi_inv"))
def inverse(a: Node, at: Attrs) -> Node:
    """The inverse of square matrices (…, n, n)."""
    return inverse_of(matrix(a))


def _slogdet_vjp(g: Node, n: Node, a: Node) -> tuple[Node]:
    log = ir.slice(g, (0,) * (g.ndim - 1) + (1,), (*g.shape[:-1], 1))
    return (transposed(inverse_of(a)) * ir.reshape(log, (*g.shape[:-1], 1, 1)),)


def _slogdet_eager(xp: Any, arrays: Any, params: Any) -> Any:
    with np.errstate(all="ignore"):
        return list(xp.linalg.slogdet(arrays[0]))


ir.register_rows(RowKernel("slogdet", "rows_linalg.h", (2,), lambda s, p: (2 + s[0][0] * s[0][0],),
                           lambda s, p: (s[0][0],), _slogdet_eager, _slogdet_vjp, ((1, 160),),
                           lambda s, p: [((0,), (1,)), ((1,), (1,))]))


def _sign_and_log(a: Node) -> tuple[Node, Node]:
    out = ir.rows("slogdet", (matrix(a),))
    shape = a.shape[:-2]
    sign, log = (ir.reshape(ir.slice(out, (0,) * len(shape) + (k,), (*shape, 1)), shape) for k in (0, 1))
    return ir.detach(sign), log


@op("_linalg_slogdet", "A", mx=("linalg.slogdet", "linalg_slogdet"), json=("linalg_slogdet",), outputs=lambda a: 2)
def slogdet(a: Node, at: Attrs) -> list[Node]:
    """Sign, and logarithm of the absolute value, of the determinants of (…, n, n)."""
    return [x if x.ndim else ir.reshape(x, (1,)) for x in _sign_and_log(a)]


@op("_linalg_det", "A", mx=("linalg.det", "linalg_det"), json=("linalg_det",))
def det(a: Node, at: Attrs) -> Node:
    """Determinants of square matrices (…, n, n)."""
    out = np_det.fn(a, at)
    return out if out.ndim else ir.reshape(out, (1,))


@op("_npi_slogdet", "a", np=("linalg.slogdet",), outputs=lambda a: 2)
def np_slogdet(a: Node, at: Attrs) -> tuple[Node, Node]:
    """Sign, and logarithm of the absolute value, of the determinants of (…, n, n); of one matrix they are numbers."""
    return _sign_and_log(a)


@op("_npi_det", "a", np=("linalg.det",))
def np_det(a: Node, at: Attrs) -> Node:
    """Determinants of square matrices (…, n, n); of one matrix a number."""
    sign, log = _sign_and_log(a)
    return sign * ir.map("exp", log)


# ---- eigenvalues
def _parts(n: Node, size: int) -> tuple[Node, Node]:
    """Eigenvectors as columns and eigenvalues as a row, of a packed result or its cotangent."""
    lead = (0,) * (n.ndim - 2)
    rows = ir.slice(n, (*lead, 0, 0), (*n.shape[:-2], size, size))
    return transposed(rows), ir.slice(n, (*lead, size, 0), (*n.shape[:-2], 1, size))


def _syevd_vjp(g: Node, n: Node, a: Node) -> tuple[Node]:
    """Giles, "An extended collection of matrix derivative results" (2008), section 3.1; equal eigenvalues share
    nothing."""
    size = a.shape[-1]
    v, w = _parts(n, size)
    gv, gw = _parts(g, size)
    gap = w - transposed(w)
    same = ir.map("eq", gap, 0)
    factor = ir.map("where", same, 0.0, 1.0 / ir.map("where", same, 1.0, gap))
    inner = factor * product(transposed(v), gv) + _identity(size, a) * ir.expand(gw, a.shape)
    return (_symmetric(product(product(v, inner), transposed(v))),)


def _vectors_and_values(xp: Any, arrays: Any, params: Any) -> list[Any]:
    """Eigenvectors as rows, and eigenvalues."""
    a, odd = _finite(xp, arrays[0], params[0])
    w, v = xp.linalg.eigh(a, "L" if params[0] else "U")
    u = v.swapaxes(1, 2)
    if not u.size:
        return [u, w]
    if odd is not None:
        u, w = u + odd[:, None, None], w + odd[:, None]
    length = xp.abs(u)
    # the first of the components that are the largest but for rounding is positive
    first = (length * (1 + 64 * np.finfo(u.dtype).eps) >= length.max(-1, keepdims=True)).argmax(-1)
    return [u * xp.where(xp.take_along_axis(u, first[..., None], -1) < 0, -1, 1), w]


def _values_alone(xp: Any, arrays: Any, params: Any) -> Any:
    a, odd = _finite(xp, arrays[0], params[0])
    w = xp.linalg.eigvalsh(a, "L" if params[0] else "U")
    return w if odd is None else w + odd[:, None]


def _finite(xp: Any, a: Any, lower: bool) -> tuple[Any, Any]:
    """The matrices, with zeros for those whose triangle that is read holds NaN or infinity: LAPACK raises an error or
    returns finite numbers for them. And what is added to the results: NaN for those, 0 for others; None where there are
    none."""
    if xp.isfinite(a).all():
        return a, None
    with np.errstate(invalid="ignore"):
        read = xp.tril(a) if lower else xp.triu(a)
        odd = (read - read).sum((1, 2))
    return xp.where(xp.isnan(odd)[:, None, None], xp.zeros((), a.dtype), a), odd


def _vectors_then_values(shapes: Shapes, params: Any) -> list[ir.Box]:
    n = shapes[0][0]
    return [((0, 0), (n, n)), ((n, 0), (1, n))]


ir.register_rows(RowKernel("syevd", "rows_linalg.h", (2,), lambda s, p: (2 * s[0][0] + 1, s[0][0]),
                           lambda s, p: (s[0][0], *p), _vectors_and_values, _syevd_vjp, ((1, 17), (8, 12), (32, 9)),
                           _vectors_then_values, {1: _values_alone}))


def _eigen(a: Node, lower: bool) -> tuple[Node, Node]:
    """Eigenvectors as columns, and eigenvalues, of the symmetric matrices of which one triangle is a's; only that one
    is read."""
    v, w = _parts(ir.rows("syevd", (a,), (lower,)), a.shape[-1])
    return v, ir.reshape(w, a.shape[:-1])


@op("_linalg_syevd", "A", mx=("linalg.syevd", "linalg_syevd"), json=("linalg_syevd",), outputs=lambda a: 2)
def syevd(a: Node, at: Attrs) -> tuple[Node, Node]:
    """U and L with A = Uᵀ diag(L) U of symmetric matrices (…, n, n): eigenvectors as rows, the largest component of
    each positive, and eigenvalues in ascending order."""
    v, w = _eigen(_symmetric(matrix(a)), True)
    return transposed(v), w


@ir.register_grad("symmetric of a triangle")
def _of_the_triangle(g: Node, attrs: tuple[bool], value: Node, x: Node) -> tuple[Node]:
    """An element off the diagonal stands for two, and gets the sum of their gradients."""
    both = g + transposed(g)
    return (lower_of(both, 0.5) if attrs[0] else transposed(lower_of(both, 0.5)),)


@op("_npi_eigh", "a", np=("linalg.eigh",), outputs=lambda a: 2, UPLO=Enum("L", "L", "U"))
def eigh(a: Node, at: Attrs) -> tuple[Node, Node]:
    """NumPy's eigh of symmetric matrices: eigenvalues in ascending order, eigenvectors as columns (see
    linalg.syevd)."""
    a, lower = matrix(a), at.UPLO == "L"
    v, w = _eigen(ir.with_grad(a, (a,), "symmetric of a triangle", (lower,)), lower)
    return w, v
