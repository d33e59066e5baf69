"""NumPy's linear algebra beyond what decompose.py has: singular values, systems of equations, pseudo-inverses, general
eigenvalues.

``svd`` and ``eig`` are calls of the array library (ir/host.py), also from within a program; their gradients, and
everything else here, are made of operators, so every order is there.
"""
from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import DTypeError, ShapeError
from ..ir import HostCall, Node
from .attributes import Attribute, Attrs
from .decompose import _identity, eigh, inverse_of, matrix, product, solution, transposed
from .reduction import axes_of
from .registry import Axes, Bool, Enum, Float, Int, op
from .shape import normal_axis


def floating(x: Node, wide: np.dtype = dt.float32) -> Node:
    """A float type in place of integers; float16 is an error, as in NumPy."""
    if x.dtype == dt.float16:
        raise DTypeError(f"matrices of float32 or float64 are wanted, got {x.dtype.name}")
    return x if dt.is_float(x.dtype) else ir.cast(x, wide)


def _columns(x: Node, row: Node) -> Node:
    """Each column of matrices times a number."""
    return x * ir.reshape(row, (*row.shape[:-1], 1, row.shape[-1]))


# ---- singular values
def svd_run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
    u, s, v = xp.linalg.svd(arrays[0], full_matrices=False)
    # the sign of a pair is free: the largest component of a row of v is positive
    if u.shape[-1] and v.shape[-1]:
        sign = xp.copysign(v.dtype.type(1), _largest(xp, v))
        u, v = u * sign.swapaxes(-1, -2), v * sign
    return [xp.ascontiguousarray(x) for x in (u, s, v)]


def _singular_values(xp: Any, arrays: Sequence[Any]) -> list[Any]:
    return [xp.linalg.svd(arrays[0], compute_uv=False)]


def _largest(xp: Any, v: Any) -> Any:
    """For each row a number with the sign of the component of the largest size; of two such, of the first one."""
    found = v.max(-1, keepdims=True) + v.min(-1, keepdims=True)
    if found.all():
        return found
    return xp.take_along_axis(v, xp.abs(v).argmax(-1)[..., None], -1)


def _svd_vjp(g: Sequence[Node], n: Node) -> tuple[Node]:
    """Giles, "An extended collection of matrix derivative results" (2008), section 3.2, with the parts outside of the
    singular vectors' span; equal singular values share nothing."""
    gu, gs, gv = g
    u, s, v = (ir.make("host_item", (n,), index=i) for i in range(3))
    rows, columns, k = u.shape[-2], v.shape[-1], s.shape[-1]
    line = ir.reshape(s, (*s.shape[:-1], 1, k))
    square = line * line
    gap = square - transposed(square)
    same = ir.map("eq", gap, 0)
    factor = ir.map("where", same, 0.0, 1.0 / ir.map("where", same, 1.0, gap))
    inverse = 1.0 / s
    ut, vt = transposed(u), transposed(v)
    ku, kv = product(ut, gu), product(v, transposed(gv))
    fu, fv = factor * (ku - transposed(ku)), factor * (kv - transposed(kv))
    down = transposed(line)
    inner = fu * line + down * fv + _identity(k, fu) * ir.expand(ir.reshape(gs, line.shape), fu.shape)
    out = product(product(u, inner), v)
    if rows > k:
        rest = gu - product(u, ku)
        out = out + product(_columns(rest, inverse), v)
    if columns > k:
        rest = transposed(gv) - product(vt, kv)
        out = out + transposed(product(_columns(rest, inverse), ut))
    return (out,)


def svd_of(a: Node) -> list[Node]:
    """u (…, m, k), s (…, k) in descending order, v (…, k, n): a = u diag(s) v, k the smaller of m and n."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    k = min(m, n)
    outputs = tuple((s, a.dtype) for s in ((*lead, m, k), (*lead, k), (*lead, k, n)))
    return ir.host(HostCall("svd", svd_run, outputs, _svd_vjp, shows=False, alone={1: _singular_values}), [a])


@op("_npi_svd", "A", np=("linalg.svd",), outputs=lambda a: 3)
def svd(a: Node, at: Attrs) -> list[Node]:
    """Reduced singular value decomposition of (…, m, n): u, s and v with a = u diag(s) v. The largest component of each
    row of v is positive."""
    return svd_of(matrix(floating(a), square=False))


# ---- equations
@op("_npi_solve", "A B", np=("linalg.solve",))
def solve(a: Node, b: Node, at: Attrs) -> Node:
    """x with a x = b, for square matrices a (…, n, n) and b (…, n, k), or (n,) for one system."""
    a, b = (floating(x, dt.float64) for x in (a, b))                     # of integers MXNet's answer is float64
    a = matrix(a)
    vector = b.ndim == 1 or b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]
    right = ir.reshape(b, (*b.shape, 1)) if vector else b
    if right.shape[-2] != a.shape[-1]:
        raise ShapeError(f"solve: a has shape {a.shape}, so b needs {a.shape[-1]} rows, got {b.shape}")
    lead = ir.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    out = solution(ir.expand(a, lead + a.shape[-2:]), ir.expand(right, lead + right.shape[-2:]))
    return ir.reshape(out, out.shape[:-1]) if vector else out


@op("_npi_tensorinv", "a", np=("linalg.tensorinv",), ind=Int(2))
def tensorinv(a: Node, at: Attrs) -> Node:
    """The inverse of an array as a linear map from its last axes to its first ``ind`` ones."""
    a = floating(a)
    if at.ind <= 0:
        raise ShapeError(f"tensorinv: ind must be positive, got {at.ind}")
    first, last = a.shape[:at.ind], a.shape[at.ind:]
    if math.prod(first) != math.prod(last):
        raise ShapeError(f"tensorinv: the first {at.ind} axes of {a.shape} and the rest must have as many elements")
    return ir.reshape(inverse_of(matrix(ir.reshape(a, (math.prod(first), math.prod(last))))), last + first)


@op("_npi_tensorsolve", "a b", np=("linalg.tensorsolve",), a_axes=Axes(None))
def tensorsolve(a: Node, b: Node, at: Attrs) -> Node:
    """x with tensordot(a, x, x.ndim) = b; ``a_axes`` are moved to the end first."""
    a, b = (floating(x, dt.float64) for x in (a, b))
    if at.a_axes:
        moved = [i % a.ndim for i in ((at.a_axes,) if isinstance(at.a_axes, int) else at.a_axes)]
        a = ir.permute(a, [i for i in range(a.ndim) if i not in moved] + moved)
    shape = a.shape[b.ndim - a.ndim:]                          # all of a's where a has as many axes as b, as in NumPy
    if math.prod(shape) != b.size or a.size != b.size ** 2:
        raise ShapeError(f"tensorsolve: a {a.shape} must be square as a map to b {b.shape}")
    return ir.reshape(solution(matrix(ir.reshape(a, (b.size, b.size))), ir.reshape(b, (b.size, 1))), shape)


# ---- pseudo-inverse
def _pinv(a: Node, rcond: Node) -> Node:
    u, s, v = svd_of(matrix(floating(a), square=False))
    limit = ir.reduce("max", s, (s.ndim - 1,), True) * ir.reshape(ir.cast(rcond, s.dtype), (*rcond.shape, 1))
    keep = ir.map("gt", s, ir.detach(limit))
    weight = ir.map("where", keep, 1.0 / ir.map("where", keep, s, 1.0), 0.0)
    return product(_columns(transposed(v), weight), transposed(u))


@op("_npi_pinv", "A rcond", hermitian=Bool(False))
def pinv_array(a: Node, rcond: Node, at: Attrs) -> Node:
    """Pseudo-inverses (Moore and Penrose) of (…, m, n): singular values up to rcond times the largest count as 0."""
    return _pinv(a, rcond)


@op("_npi_pinv_scalar_rcond", "A", rcond=Float(1e-15), hermitian=Bool(False))
def pinv_number(a: Node, at: Attrs) -> Node:
    """Pseudo-inverses with one ``rcond``."""
    return _pinv(a, ir.full(at.rcond, (1,) * (a.ndim - 2), dt.float32))


# ---- eigenvalues
def _eig_run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
    w, v = xp.linalg.eig(arrays[0])
    if w.dtype.kind == "c":
        if (w.imag != 0).any():
            raise DTypeError("eig: an eigenvalue is complex, which no array here can hold; use numpy.linalg.eig on "
                             "x.asnumpy()")
        w, v = w.real, v.real
    return [xp.ascontiguousarray(w), xp.ascontiguousarray(v)]


def _eig_vjp(g: Sequence[Node], n: Node) -> tuple[Node]:
    """Giles (2008), section 3.1, for columns of length 1: what changes only their lengths is taken out."""
    gw, gv = g
    w, v = (ir.make("host_item", (n,), index=i) for i in range(2))
    line = ir.reshape(w, (*w.shape[:-1], 1, w.shape[-1]))
    gap = line - transposed(line)
    same = ir.map("eq", gap, 0)
    factor = ir.map("where", same, 0.0, 1.0 / ir.map("where", same, 1.0, gap))
    vt = transposed(v)
    along = ir.reduce("sum", v * gv, (v.ndim - 2,), True)
    inner = factor * product(vt, gv - v * along) + _identity(w.shape[-1],
                                                             v) * ir.expand(ir.reshape(gw, line.shape), v.shape)
    return (product(product(inverse_of(vt), inner), vt),)


def _eig(a: Node) -> list[Node]:
    a = matrix(floating(a))
    outputs = (a.shape[:-1], a.dtype), (a.shape, a.dtype)
    return ir.host(HostCall("eig", _eig_run, outputs, _eig_vjp, shows=False), [a])


@op("_npi_eig", "A", np=("linalg.eig",), outputs=lambda a: 2)
def eig(x: Node, a: Attrs) -> list[Node]:
    """Eigenvalues (..., n) and eigenvectors (..., n, n; in columns) of matrices whose eigenvalues are real."""
    return _eig(x)


@op("_npi_eigvals", "A", np=("linalg.eigvals",))
def eigvals(x: Node, a: Attrs) -> Node:
    """Eigenvalues (..., n) of matrices (..., n, n) whose eigenvalues are real."""
    return _eig(x)[0]


def _eigvalsh_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    """LAPACK's function that makes no vectors, for numbers that are finite."""
    x = arrays[0]
    square = x.ndim > 1 and x.shape[-1] == x.shape[-2] and x.size
    if xp is not np or not square or x.dtype.kind not in "fiub" or x.dtype == dt.float16:
        return None
    x = x if x.dtype.kind == "f" else x.astype(dt.float32)
    return [np.linalg.eigvalsh(x, a.UPLO)] if np.isfinite(x).all() else None


@op("_npi_eigvalsh", "A", eager=_eigvalsh_eager, np=("linalg.eigvalsh",), UPLO=Enum("L", "L", "U"))
def eigvalsh(a: Node, at: Attrs) -> Node:
    """Eigenvalues of symmetric matrices in ascending order; only the triangle ``UPLO`` is read."""
    return eigh(matrix(floating(a)), UPLO=at.UPLO)[0]


MATRIX_NORMS: dict[Any, Callable[[Node], Node]] = {
    2.0: lambda s: ir.reduce("max", s, (s.ndim - 1,)), -2.0: lambda s: ir.reduce("min", s, (s.ndim - 1,)),
    "nuc": lambda s: ir.reduce("sum", s, (s.ndim - 1,))}


def singular_norm(x: Node, order: Any, axes: Sequence[int], keepdims: bool) -> Node:
    """The norms of matrices in two axes that are made of singular values: 2, -2 and nuc."""
    rest = [i for i in range(x.ndim) if i not in axes]
    out = MATRIX_NORMS[order](svd_of(matrix(floating(ir.permute(x, [*rest, *axes])), square=False))[1])
    return ir.reshape(out, [1 if i in axes else d for i, d in enumerate(x.shape)]) if keepdims else out


class Order(Attribute):
    """The order of a norm: a number, inf, fro, or None."""
    kind = "order of a norm"

    def convert(self, value: Any) -> Any:
        return value if value in ("fro", "nuc") else float(value)


@op("_npi_norm", "data", np=("linalg.norm",), ord=Order(None), axis=Axes(None), keepdims=Bool(False), flag=Int(None))
def np_norm(data: Node, a: Attrs) -> Node:
    """NumPy's linalg.norm of vectors (orders 1, 2, inf, -inf, 0 and others) and matrices (fro, 1, inf, -1, -inf)."""
    x = data if dt.is_float(data.dtype) else ir.cast(data, dt.float32)
    axes = axes_of(x, a.axis)
    # MXNet's files say nuc by the flag
    if a.flag == 2 or a.ord == "nuc" or len(axes) == 2 and a.ord in (2, -2) and a.flag not in (-2, 1):
        if len(axes) != 2:
            raise ShapeError(f"norm: ord={a.ord} is a norm of matrices: give two axes, got {a.axis} of {x.shape}")
        pair = tuple(normal_axis(i, x.ndim) for i in a.axis) if isinstance(a.axis, tuple) else axes
        return singular_norm(x, "nuc" if a.flag == 2 else a.ord, pair, a.keepdims)
    # MXNet's notes: neither order nor axis was given, so all elements are one vector; Frobenius
    if a.flag in (-2, 1):
        return ir.map("sqrt", ir.reduce("sum", x * x, axes, a.keepdims))
    size = ir.map("abs", x)
    if a.ord is None or a.ord == "fro" or a.ord == 2 and len(axes) == 1:
        return ir.map("sqrt", ir.reduce("sum", x * x, axes, a.keepdims))
    if len(axes) == 2 and abs(a.ord) in (1, math.inf):
        i, j = (normal_axis(k, x.ndim) for k in (a.axis if isinstance(a.axis, tuple) else (0, 1)))
        first, second = (i, j) if abs(a.ord) == 1 else (j, i)
        out = ir.reduce("max" if a.ord > 0 else "min", ir.reduce("sum", size, (first,), True), (second,), True)
        return out if a.keepdims else ir.reshape(out, [d for k, d in enumerate(x.shape) if k not in axes])
    if len(axes) != 1:
        raise ShapeError(f"norm: ord={a.ord} over axes {axes} is not supported; for matrices use fro, 1, -1, inf or "
                         f"-inf")
    if abs(a.ord) == math.inf:
        return ir.reduce("max" if a.ord > 0 else "min", size, axes, a.keepdims)
    if a.ord == 0:
        return ir.reduce("sum", ir.cast(ir.map("ne", x, 0), x.dtype), axes, a.keepdims)
    if a.ord == 1:
        return ir.reduce("sum", size, axes, a.keepdims)
    return ir.map("pow", ir.reduce("sum", ir.map("pow", size, a.ord), axes, a.keepdims), 1.0 / a.ord)
