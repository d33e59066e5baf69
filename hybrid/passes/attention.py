"""Attention: softmax(f(Q Kᵀ)) V, found in the graph so that one kernel computes it, tile by tile, without the whole
matrix of weights.

f is any elementwise chain (a scale, an added or chosen mask); between softmax and the product with V, weights may be
multiplied or replaced by zero (a mask of lengths, dropout). Reshapes in between are followed by their index.
"""
from __future__ import annotations

from typing import Callable, Container

import numpy as np

from ..base.records import dataclass
from ..ir.size import fixed, same
from ..base.dtype import is_half
from ..ir import Node
from ..ir.access import ELEMENTWISE, Index, depth_of, free_axes, pull
from ..ir.pattern import SOFTMAX, constant, matched
from ..ir.index import Var, var, variables

MOST_DEPTH = 1024               # elements of a query, key or value: their tiles lie on the stack


@dataclass(frozen=True)
class Attention:
    """``scores``: the product Q Kᵀ; ``logits``: what softmax is of; ``weights``: the softmax; ``given``: what V is
    multiplied by.

    ``query``: which argument of ``scores`` Q is. ``…_at``: their indices in ``batch``, ``row`` (the query) and
    ``place`` (the key); logits have that of weights. ``inner``: every node from ``scores`` to ``given``, operands
    first.
    """
    scores: Node
    logits: Node
    weights: Node
    given: Node
    query: int
    batch: tuple[Var, ...]
    row: Var
    place: Var
    given_at: Index
    weights_at: Index
    scores_at: Index
    inner: tuple[Node, ...]


# of which attentions, with their last products, a backend has kernels
Attends = Callable[[Attention, Node], bool] | None


class Refused(Exception):
    """This is something else."""


def _weights(n: Node, at: Index) -> tuple[Node, Index]:
    """The softmax below multiplications and zeros, with its index."""
    if n.prim in ("reshape", "permute"):
        return _weights(n.args[0], pull(n, at)[0])
    if n.prim == "cast" and is_half(n.dtype):              # softmax of halves is computed in float32
        return _weights(n.args[0], at)
    if n.fn == "div":
        return n, at
    if n.fn == "mul":
        for a in n.args:
            try:
                return _weights(a, at)
            except Refused:
                pass
    if n.fn == "where" and (other := constant(n.args[2])) is not None and float(other) == 0:
        return _weights(n.args[1], at)
    raise Refused


def inner_product(n: Node) -> bool:
    """A product with one free axis of each argument, summed over one axis."""
    return n.prim == "dot" and all(len(axes) == 1 for axes in (n.attrs["contract"][0], *free_axes(n)))


def _scores(n: Node, at: Index, row: Var, place: Var, dtype: np.dtype,
            seen: "dict[Node, Index]") -> tuple[Node, Index] | None:
    """The product below elementwise functions whose elements are queries times keys."""
    if n in seen:
        return None
    seen[n] = at
    if n.prim == "dot":
        ends, rest = at[-2:], {v for i in at[:-2] for v in variables(i)}
        return (n, at) if inner_product(n) and n.dtype == dtype and ends in ((var(row), var(place)),
                                            (var(place), var(row))) and not rest & {row, place} else None
    if n.prim not in ELEMENTWISE and n.prim not in ("reshape", "permute"):
        return None
    inner = pull(n, at)[0]
    return next((found for a in n.args if same(a.size, n.size)
                 and (found := _scores(a, inner, row, place, dtype, seen)) is not None), None)


def ways(top: Node, at: Index, bottoms: Container[Node]) -> tuple[dict[Node, Index], dict[Node, None]]:
    """The index at which elementwise functions and movement below a value read each of some others, and the nodes on
    the ways to these, operands first. Refused where one is read at two indices."""
    where: dict[Node, Index] = {}
    inner: dict[Node, None] = {}
    seen: set[tuple[Node, Index]] = set()
    todo = [(top, at, False)]
    while todo:
        n, idx, ready = todo.pop()
        if n in bottoms:
            inner[n] = None
            if where.setdefault(n, idx) != idx:
                raise Refused
        elif ready:
            if any(a in inner for a in n.args):
                inner[n] = None
        elif n.prim in CHAIN and (n, idx) not in seen:
            seen.add((n, idx))
            below = pull(n, idx)[0]
            todo += [(n, idx, True), *((a, below, False) for a in n.args)]
    return where, inner


CHAIN = ELEMENTWISE | {"reshape", "permute"}


def match(dot: Node, halves: bool = False) -> Attention | None:
    """The attention of float32 (or, if asked for, of a half type) whose last product ``dot`` is, if it is one that a
    kernel is printed for."""
    if dot.prim != "dot" or not (dot.dtype == np.float32 or halves and is_half(dot.dtype)) or not dot.size:
        return None
    try:
        return _match(dot)
    except Refused:
        return None


def _match(dot: Node) -> Attention:
    a, b = dot.args
    (ca, _), (ba, _), (free, other) = dot.attrs["contract"], dot.attrs["batch"], free_axes(dot)
    if len(ca) != 1 or len(free) != 1 or len(other) != 1 or a.shape[ca[0]] < 2 or not fixed(
            b.shape[other[0]]) or b.shape[other[0]] > MOST_DEPTH:
        raise Refused
    batch = tuple(Var(f"b{i}", a.shape[x]) for i, x in enumerate(ba))
    row, place = Var("row", a.shape[free[0]]), Var("key", a.shape[ca[0]])
    names = {**dict(zip(ba, batch)), free[0]: row, ca[0]: place}
    at: Index = tuple(var(names[x]) for x in range(a.ndim))
    weights, weights_at = _weights(a, at)
    parts, axes = matched(weights, SOFTMAX), (_axis(weights_at, place),)
    if parts is None or any(parts[r].attrs["axes"] != axes for r in ("total", "greatest")):
        raise Refused
    logits = parts["x"]
    found = _scores(logits, weights_at, row, place, dot.dtype, {})
    if found is None:
        raise Refused
    scores, scores_at = found
    query = 0 if scores_at[-2] == var(row) else 1
    if not fixed(depth_of(scores)) or not 1 <= depth_of(scores) <= MOST_DEPTH:
        raise Refused
    inner = {**ways(logits, weights_at, {scores})[1], **dict.fromkeys(_softmax(logits, weights)),
             **ways(a, at, {weights})[1]}
    return Attention(scores, logits, weights, a, query, batch, row, place, at, weights_at, scores_at, tuple(inner))


def _softmax(logits: Node, weights: Node) -> list[Node]:
    """The nodes of a softmax, without the movement that spreads its reductions."""
    exp, total = weights.args
    shifted = exp.args[0]
    out: list[Node] = []
    for part, value in ((shifted.args[1], shifted), (total, exp)):
        below = [part]
        while below[-1].prim != "reduce":
            below.append(below[-1].args[0])
        out += [*([shifted, exp] if value is exp else []), *below[::-1]]
    return [*out, weights]


def _axis(at: Index, place: Var) -> int:
    """The axis that keys lie along."""
    hits = [i for i, x in enumerate(at) if place in variables(x)]
    if len(hits) != 1 or at[hits[0]] != var(place):
        raise Refused
    return hits[0]


def escapes(found: Attention, dot: Node, users: "dict[Node, list[Node]]", results: "set[Node]") -> bool:
    """Whether something else reads what lies between the two products."""
    inside = {*found.inner, dot}
    return any(n in results or any(u not in inside for u in users.get(n, ())) for n in found.inner)
