"""Products and sums over scores that no kernel stores: the gradients of attention, each in one kernel that computes the
scores again, tile by tile (Dao et al., FlashAttention, 2022).

Scores are products of queries and keys, and what elementwise functions make of them and of values of a row or a column
(the softmax, its gradient, masks). What reads them are sums along rows (the maximum and the total of a softmax, the
rows' part of its gradient) and products with a narrow array (gradients of queries, keys and values). If nothing else
does, the scores need not be in memory: each of these becomes a kernel with the inner products of its own.
"""
from __future__ import annotations

import math
from typing import Callable, Container, Iterable, Sequence

from ..base.records import dataclass
from ..ir import Node, reached, toposort
from ..ir.access import ELEMENTWISE, MOVEMENT, Index, free_axes
from ..ir.index import Var, var, variables
from ..ir.node import users as users_of
from ..ir.size import fixed, hint, same
from .attention import CHAIN, Refused, inner_product, ways
from .bits import compared
from .rewrite import rewrite

LEAST = 1 << 14                 # scores of a head, from which they are computed again (128 queries and keys)


@dataclass(frozen=True)
class OverScores:
    """A product with, or a sum of, an elementwise function of scores.

    ``value``: the function's result, at ``at`` in ``batch``, ``row`` (which the result has) and ``place`` (which is
    summed over); ``side``: which argument of a product it is. ``products``: the inner products, each with its index
    and which of its arguments has rows. ``inner``: all nodes from them to ``value``, operands first.
    """
    value: Node
    side: int
    batch: tuple[Var, ...]
    row: Var
    place: Var
    at: Index
    products: tuple[tuple[Node, Index, int], ...]
    inner: tuple[Node, ...]


# which of the kernels over scores a backend has
ReadsScores = Callable[[OverScores, Node], bool] | None


def without_scores(order: Sequence[Node], users: dict[Node, list[Node]], stored: set[Node], once: Container[Node],
                   takes: Callable[[OverScores, Node], bool]) -> dict[Node, OverScores]:
    """What reads the scores of softmaxes that need not be stored. order: a graph, operands first; stored: its results;
    once: what must be computed in one place; takes: of what the backend has kernels."""
    found: dict[Node, OverScores] = {}
    for n in order:
        if n.prim == "dot" and _of_a_head(n) >= LEAST and not any(n in r.inner for r in found.values()):
            readers = over_scores(n, order, users, stored)
            again = {x for r in readers.values() for x in r.inner}
            softmax = any(x.fn == "exp" for x in again)
            if softmax and not any(x in once for x in again) and all(takes(r, reader) for reader, r in readers.items()):
                found.update(readers)
    return found


def not_kept(roots: Sequence[Node]) -> tuple[list[Node], set[Node]]:
    """Roots of a graph with gradients in the form in which the scores of softmaxes are found, and what of it is
    computed again for the backward pass: the scores, and masks of their size."""
    if not any(n.prim == "dot" and _of_a_head(n) >= LEAST for n in toposort(roots)):
        return list(roots), set()
    found = rewrite(roots, {"detach": [lambda n: n.args[0]]})              # what is not differentiated is known by now
    order = toposort(found)
    users = users_of(order)
    readers = without_scores(order, users, set(found), compared(order), lambda r, n: True)
    again = {n for r in readers.values() for n in r.inner}
    sizes = {r.value.size for r in readers.values()}
    for n in reversed(order):                               # users first
        if n.size in sizes and n.prim in ELEMENTWISE | MOVEMENT and any(u in again for u in users.get(n, ())):
            again.add(n)
    return found, again


def _of_a_head(n: Node) -> int:
    """Elements along the last two axes."""
    return int(hint(math.prod(n.shape[-2:])))


def over_scores(scores: Node, order: Sequence[Node], users: dict[Node, list[Node]],
                stored: set[Node]) -> dict[Node, OverScores]:
    """What reads the scores that some product gives, each as a kernel of its own; nothing where anything else reads
    them. order: the graph, operands first; stored: what has to be in memory."""
    if not inner_product(scores) or not all(fixed(d) for d in scores.shape):
        return {}
    region = _region(scores, order)
    try:
        if any(n in stored for n in region):
            raise Refused
        readers = dict.fromkeys(u for n in region for u in users.get(n, ()) if u not in region)
        return {u: _reader(u, region) for u in readers}
    except Refused:
        return {}


def _region(scores: Node, order: Iterable[Node]) -> set[Node]:
    """Scores, what functions make of them, and the other inner products that they meet there."""
    order = list(order)
    products = {scores}
    while True:
        region = set(products)
        for n in order:
            if n.prim in CHAIN and same(n.size, scores.size) and any(a in region for a in n.args):
                region.add(n)
        met = {d for n in region for a in n.args if n not in products and a not in region
               for d in _products_below(a, scores.size)}
        if met <= products:
            return region
        products |= met


def _products_below(n: Node, size: object) -> set[Node]:
    """The inner products that elementwise functions lead to from a value of the scores' size."""
    below = reached([n], lambda x: x.prim in CHAIN and same(x.size, size))
    return {x for x in below if x.prim == "dot" and same(x.size, size) and inner_product(x)}


def _reader(n: Node, region: set[Node]) -> OverScores:
    """A product or a sum that reads scores once."""
    inside = [i for i, a in enumerate(n.args) if a in region]
    if len(inside) != 1:
        raise Refused
    x, (side,) = n.args[inside[0]], inside
    if inner_product(n):
        batch, (place,) = n.attrs["batch"][side], n.attrs["contract"][side]
        (row,) = free_axes(n)[side]
    elif n.prim == "reduce" and n.attrs["op"] in ("sum", "max") and len(n.attrs["axes"]) == 1 and n.ndim:
        (place,) = n.attrs["axes"]
        own = [a for a in range(x.ndim) if a != place]
        row, batch = own[-1], tuple(own[:-1])
    else:
        raise Refused
    names = {**{a: Var(f"b{i}", x.shape[a]) for i, a in enumerate(batch)}, row: Var("row", x.shape[row]),
             place: Var("key", x.shape[place])}
    at = tuple(var(names[a]) for a in range(x.ndim))
    where, inner = ways(x, at, {d for d in region if d.prim == "dot"})
    products = tuple((d, idx, _side_of(idx, names[row], names[place])) for d, idx in where.items())
    return OverScores(x, side, tuple(names[a] for a in batch), names[row], names[place], at, products, tuple(inner))


def _side_of(at: Index, row: Var, place: Var) -> int:
    """Which argument of an inner product has the rows."""
    others = {v for i in at[:-2] for v in variables(i)}
    if at[-2:] not in ((var(row), var(place)), (var(place), var(row))) or others & {row, place}:
        raise Refused
    return 0 if at[-2] == var(row) else 1
