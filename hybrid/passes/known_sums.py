"""Sums that follow from others. The sum over some axes of a value times factors that are the same along them, plus
differences from means over these axes, is the value's own sum times the factors: the differences add up to zero.
BatchNorm's gradients have such sums, of as many elements as an activation, which is then neither stored nor read for
them. A sum without such differences stays as it is: taken times the factors at last, it might overflow on the way.
"""
from __future__ import annotations

import math
from collections import deque
from typing import Iterator

from .. import ir
from ..base import dtype as dt
from ..base.records import dataclass
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.pattern import constant
from ..ir.size import fixed
from .rewrite import rebuild

NEAR = 64                       # nodes that are searched, below the factors, for the value of a difference


@dataclass(frozen=True)
class Term:
    """A value times factors that are the same along the axes of a sum."""
    value: Node
    negative: bool = False
    factors: tuple[Node, ...] = ()


def known_sums(program: Program) -> Program:
    """The program without sums that follow from others."""
    order = program.order()
    found = {n: t for n in order if (t := _followed(n)) is not None}
    if not found:
        return program
    new: dict[Node, Node] = {}
    for n in order:
        new[n] = rebuild(n, [new[a] for a in n.args]) if n not in found else _product(n, found[n], new)
    return program.with_roots([new[r] for r in program.roots])


def _followed(n: Node) -> Term | None:
    """The term whose value's sum, times its factors, is what a node gives; None for other nodes."""
    if n.prim != "reduce" or n.attrs["op"] != "sum" or not dt.is_float(n.dtype) or dt.is_half(n.dtype):
        return None
    x, axes = n.args[0], n.attrs["axes"]
    if not all(map(fixed, x.shape)):
        return None
    terms = [(t, _centred(t.value, axes)) for t in _terms(Term(x), axes)]
    left, of = [t for t, centred in terms if centred is None], {c for _, c in terms if c is not None}
    if len(left) != 1 or not of:
        return None
    # nan and infinity, whose differences have no sum of zero, must reach the result by way of a factor
    return left[0] if all(_near(left[0].factors, c) for c in of) else None


def _terms(t: Term, axes: tuple[int, ...]) -> Iterator[Term]:
    """The terms whose sum a term is."""
    v = t.value
    if v.fn == "neg":
        yield from _terms(Term(v.args[0], not t.negative, t.factors), axes)
    elif v.fn in ("add", "sub") and _centred(v, axes) is None:
        yield from _terms(Term(v.args[0], t.negative, t.factors), axes)
        yield from _terms(Term(v.args[1], t.negative != (v.fn == "sub"), t.factors), axes)
    elif v.fn == "mul" and _same_along(v.args[1], axes):
        yield from _terms(Term(v.args[0], t.negative, (*t.factors, v.args[1])), axes)
    elif v.fn == "mul" and _same_along(v.args[0], axes):
        yield from _terms(Term(v.args[1], t.negative, (*t.factors, v.args[0])), axes)
    else:
        yield t


def _same_along(v: Node, axes: tuple[int, ...]) -> bool:
    """Whether a value is the same at all places along some axes."""
    return v.prim == "expand" and v.args[0].ndim == v.ndim and all(v.args[0].shape[a] == 1 for a in axes)


def _centred(v: Node, axes: tuple[int, ...]) -> Node | None:
    """What a value is the difference of from its own mean over some axes; None for others."""
    if v.fn != "sub" or not _same_along(v.args[1], axes):
        return None
    x = v.args[0]
    mean = beneath(v.args[1], ("expand", "reshape"))
    by = constant(mean.args[1]) if mean.fn in ("div", "mul") else None
    if by is None:
        return None
    total, count = beneath(mean.args[0], ("reshape",)), math.prod(x.shape[a] for a in axes)
    same = total.prim == "reduce" and total.attrs == {"op": "sum", "axes": axes} and total.args[0] is x
    return x if same and math.isclose(by, count if mean.fn == "div" else 1 / count, rel_tol=1e-6) else None


def _near(factors: tuple[Node, ...], x: Node) -> bool:
    """Whether one of some factors is computed from a value, not far away."""
    todo, seen = deque(factors), set(factors)
    while todo and len(seen) < NEAR:
        n = todo.popleft()
        if n is x:
            return True
        fresh = [a for a in n.args if a not in seen]
        seen.update(fresh)
        todo += fresh
    return x in seen


def _product(n: Node, t: Term, new: dict[Node, Node]) -> Node:
    """A sum from that of its term."""
    one = ir.reduce("sum", new[t.value], n.attrs["axes"])
    for f in t.factors:
        few = new[f.args[0]]                             # of one element along the axes; perhaps along others, too
        shape = tuple(s for i, s in enumerate(few.shape) if i not in n.attrs["axes"])
        one = ir.map("mul", one, ir.expand(ir.reshape(few, shape), n.shape))
    return ir.map("neg", one) if t.negative else one
