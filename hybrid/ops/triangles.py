"""Triangles of matrices as vectors and back, and the LQ factorization."""
from __future__ import annotations

import math

import numpy as np

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs, written
from .decompose import matrix, potrf, product, solve, transposed
from .registry import Bool, Int, op


def _places(n: int, offset: int, lower: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a triangle: above the diagonal for positive offsets, in order of columns; below for negative
    ones, in order of rows."""
    written(n * n, "places")
    if offset < 0 or offset == 0 and lower:
        return np.tril_indices(n, offset)
    columns, rows = np.tril_indices(n, -offset)
    return rows, columns


@op("_linalg_extracttrian", "A", mx=("linalg.extracttrian", "linalg_extracttrian"), json=("linalg_extracttrian",),
    offset=Int(0), lower=Bool(True))
def extracttrian(x: Node, a: Attrs) -> Node:
    """The entries of a triangle of the matrices (…, n, n), a lower one row by row, an upper one column by column: (…,
    entries)."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"square matrices are needed, got {x.shape}")
    n = x.shape[-1]
    rows, columns = _places(n, a.offset, a.lower)
    if not len(rows):
        raise ShapeError(f"offset={a.offset} leaves nothing of matrices of size {n}")
    return ir.gather(ir.reshape(x, (*x.shape[:-2], n * n)), ir.data((rows * n + columns).astype(np.int64)), x.ndim - 2)


@op("_linalg_maketrian", "A", mx=("linalg.maketrian", "linalg_maketrian"), json=("linalg_maketrian",), offset=Int(0),
    lower=Bool(True))
def maketrian(x: Node, a: Attrs) -> Node:
    """Matrices with the last axis as a triangle and zeros elsewhere; extracttrian turned round."""
    if not x.ndim:
        raise ShapeError("maketrian needs an axis")
    entries = x.shape[-1]
    side = (math.isqrt(8 * entries + 1) - 1) // 2
    if side * (side + 1) // 2 != entries or not entries:
        raise ShapeError(f"{entries} entries are no triangle: 1, 3, 6, 10, … are")
    n = side + abs(a.offset)
    rows, columns = _places(n, a.offset, a.lower)
    source = np.full(n * n, entries, np.int64)                 # the place past the end holds 0
    source[rows * n + columns] = np.arange(entries)
    padded = ir.pad(x, (0,) * x.ndim, (0,) * (x.ndim - 1) + (1,))
    return ir.reshape(ir.gather(padded, ir.data(source), x.ndim - 1), (*x.shape[:-1], n, n))


@op("_linalg_gelqf", "A", mx=("linalg.gelqf", "linalg_gelqf"), json=("linalg_gelqf",), outputs=lambda a: 2)
def gelqf(x: Node, a: Attrs) -> tuple[Node, Node]:
    """A = L Q with L lower triangular (positive diagonal) and Q of orthonormal rows, for matrices of full rank with no
    more rows than columns. Two rounds of Cholesky: Yamamoto et al., "Roundoff error analysis of the CholeskyQR2
    algorithm" (2015). Gives (Q, L)."""
    x = matrix(x, False)
    if x.shape[-2] > x.shape[-1]:
        raise ShapeError(f"no more rows than columns are allowed, got {x.shape}")
    first = potrf(product(x, transposed(x)))
    q = solve(first, x)
    second = potrf(product(q, transposed(q)))
    return solve(second, q), product(first, second)
