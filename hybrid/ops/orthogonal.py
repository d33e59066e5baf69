"""QR factorizations: orthonormal columns times an upper triangle, with NumPy's signs."""
from __future__ import annotations

from typing import Any, Sequence

from .. import ir
from ..ir import HostCall, Node
from .attributes import Attrs
from .decompose import inverse_of, lower_of, matrix, product, transposed
from .np_linalg import floating
from .registry import op


def _run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
    return [xp.ascontiguousarray(x) for x in xp.linalg.qr(arrays[0])]


def _columns(x: Node, start: int, stop: int) -> Node:
    return ir.slice(x, (0,) * (x.ndim - 1) + (start,), (*x.shape[:-1], stop - start))


def _tall(q: Node, r: Node, gq: Node, gr: Node) -> Node:
    """Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2012), for at least as many rows
    as columns."""
    m = product(r, transposed(gr)) - product(transposed(gq), q)
    symmetric = lower_of(m) + transposed(lower_of(m, 0.0))
    return product(gq + product(q, symmetric), inverse_of(transposed(r)))


def _vjp(g: Sequence[Node], n: Node) -> tuple[Node]:
    gq, gr = g
    q, r = (ir.make("host_item", (n,), index=i) for i in range(2))
    k, columns = r.shape[-2:]
    if columns == k:
        return (_tall(q, r, gq, gr),)
    rest = _columns(gr, k, columns)                     # of the columns beyond the square: those are q times r's
    beyond = product(q, _columns(r, k, columns))
    first = _tall(q, _columns(r, 0, k), gq + product(beyond, transposed(rest)), _columns(gr, 0, k))
    return (ir.concat([first, product(q, rest)], q.ndim - 1),)


@op("_npi_qr", "a", np=("linalg.qr",), outputs=lambda a: 2)
def qr(a: Node, at: Attrs) -> list[Node]:
    """q (…, m, k) with orthonormal columns and r (…, k, n), upper triangular, with a = q r; k is the smaller of m and
    n."""
    a = matrix(floating(a), square=False)
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    k = min(m, n)
    return ir.host(HostCall("qr", _run, (((*lead, m, k), a.dtype), ((*lead, k, n), a.dtype)), _vjp, shows=False), [a])
