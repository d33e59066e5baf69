"""The gradient of a loop is a loop that goes the other way.

The forward loop stacks what its gradient wants of each step (chosen as for any recorded program, see partition.py).
Sums over all steps, which the gradients of constants are, are taken out of the loop where they can be: a product a step
becomes one product over all steps.
"""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ..base import dtype as dt
from .. import ir
from ..ir import VJP, Node
from ..ir.build import make
from ..ir.pattern import constant
from ..ir.scan import STEPS, Body, Cotangents, count_of, stacked
from ..ir.size import hint
from .differentiate import cotangents
from .loops import key_of, reached
from .partition import LEAVES, choose
from .rewrite import over, rebuild

Find = Callable[[Node], Node]
Total = Callable[[Find, Find], Node]             # from what gives a value in all steps, and what gives its sum


def _gradient(g: Cotangents, loop: Node, *args: Node) -> tuple[Any, ...]:
    """Cotangents of a loop's arguments from those of its results."""
    floats = {i: c for i, c in g.items() if dt.is_float(c.dtype)}           # counters and indices have none
    return _Gradient(floats, loop).cotangents() if floats else (None,) * len(args)


class _Gradient:
    def __init__(self, g: Mapping[int, Node], loop: Node):
        self.g, self.loop, self.body = g, loop, loop.attrs["body"]
        self.carries, self.slices = loop.attrs["carries"], loop.attrs["slices"]
        self.leaves = self.body.inputs
        self.float = {leaf for leaf in self.leaves if dt.is_float(leaf.dtype)}
        ys = stacked(loop)
        self.given = {i: ys[i - self.carries] for i in g if i >= self.carries}       # stacked results with a cotangent
        self.moving = self._moving()
        self.seed_of = {i: ir.input(len(self.leaves) + k, n.shape, n.dtype) for k, (i, n) in enumerate(
            [*((i, self.leaves[i]) for i in self.moving), *self.given.items()])}
        outputs = [*(self.body.outputs[i] for i in self.moving), *self.given.values()]
        wanted = [leaf for leaf in self.leaves if leaf in self.float]
        self.grads = dict(zip(wanted, cotangents(outputs, list(self.seed_of.values()), wanted)))
        self._stack()

    def _moving(self) -> list[int]:
        """Carried values through which gradients flow."""
        found = {i for i in self.g if 0 <= i < self.carries}
        while True:
            below = reached([*self.given.values(), *(self.body.outputs[i] for i in found)])
            more = {i for i in range(self.carries) if self.leaves[i] in below and self.leaves[i] in self.float} - found
            if not more:
                return sorted(found)
            found |= more

    def _stack(self) -> None:
        """The forward loop with what the gradient wants of each step stacked, and where each of it is found."""
        grads = list(self.grads.values())
        kept = [n for n in choose(grads, self._forward(grads), set()) if n.prim not in LEAVES]
        own = set(kept)
        used = set(ir.reached(grads, lambda n: n not in own))
        kept += [leaf for leaf in self.leaves[:self.carries] if leaf in used]
        ys = list(stacked(self.loop))
        fresh = [n for n in kept if n not in ys]
        a = self.loop.attrs
        body = Body(self.leaves, (*self.body.outputs, *fresh))
        self.forward = make("scan", self.loop.args, **{**a, "body": body}) if fresh else self.loop
        place = {n: self.carries + k for k, n in reversed(list(enumerate([*ys, *fresh])))}
        # by node of the body: its values in all steps
        self.rows = {n: ir.item(self.forward, place[n]) for n in kept}
        for i in range(self.carries, self.carries + self.slices):
            if self.leaves[i] in used:
                self.rows[self.leaves[i]] = self.loop.args[i]
        self.constants = {leaf: arg for leaf, arg in zip(self.leaves[self.carries + self.slices:],
                                                         self.loop.args[self.carries + self.slices:]) if leaf in used}
        for i in self.given:
            self.rows[self.seed_of[i]] = self._of_steps(self.g[i])

    def _forward(self, grads: Sequence[Node]) -> set[Node]:
        """What a step computes anyway: the body, and loops in it that only stack more."""
        own = set(self.body.order())
        seen: dict[Node, Node] = {}
        keys = {key_of(n, seen) for n in own if n.prim == "scan"}
        more = {n for n in ir.toposort(grads) if n.prim == "scan" and key_of(n, seen) in keys} if keys else set()
        return own | more | {n for n in ir.toposort(grads) if n.prim == "item" and n.args[0] in more}

    def _of_steps(self, g: Node) -> Node:
        """A stacked cotangent, zero where no step was done."""
        if not self._dynamic():
            return g
        done = ir.map("lt", ir.iota(g.shape[0]), ir.item(self.forward, STEPS))
        return ir.map("where", ir.reshape(done, (g.shape[0],) + (1,) * (g.ndim - 1)), g, 0)

    def _dynamic(self) -> bool:
        return self.loop.attrs["stops"] or count_of(self.loop) is not None

    def cotangents(self) -> tuple[Any, ...]:
        """One cotangent (or None) an argument."""
        totals = Totals(set(self.rows))
        weights = [leaf for leaf in self.leaves[self.carries + self.slices:] if leaf in self.float
                   and not _zero(self.grads[leaf])]
        # products first: sums may share what they stack
        weights.sort(key=lambda leaf: not _is_product(self.grads[leaf]))
        sums = {leaf: totals.of(self.grads[leaf]) for leaf in weights}
        parts = [leaf for leaf in self.leaves[self.carries:self.carries + self.slices] if leaf in self.float
                 and not _zero(self.grads[leaf])]
        back = self._backward(totals, [self.grads[leaf] for leaf in parts])
        carried = len(self.moving) + len(totals.sums)
        first = carried + len(parts)

        def in_all(n: Node) -> Node:
            return self.rows[n] if n in self.rows else ir.item(back, first + totals.stacks.index(n))

        def summed(n: Node) -> Node:
            return ir.item(back, len(self.moving) + totals.sums.index(n))
        out: dict[Node, Node] = {self.leaves[i]: ir.item(back, k) for k, i in enumerate(self.moving)}
        out.update({leaf: ir.item(back, carried + k) for k, leaf in enumerate(parts)})
        out.update({leaf: make_total(in_all, summed) for leaf, make_total in sums.items()})
        return tuple(out.get(leaf) for leaf in self.leaves) + (None,) * (len(self.loop.args) - len(self.leaves))

    def _backward(self, totals: "Totals", parts: Sequence[Node]) -> Node:
        begin = [self.g[i] if i in self.g else ir.full(0, self.leaves[i].shape, self.leaves[i].dtype)
                 for i in self.moving]
        begin += [ir.full(0, n.shape, n.dtype) for n in totals.sums]
        args = [*begin, *self.rows.values(), *self.constants.values()]
        shapes = [*((n.shape, n.dtype) for n in begin), *((n.shape, n.dtype) for n in (*self.rows, *self.constants))]
        leaves = [ir.input(k, shape, dtype) for k, (shape, dtype) in enumerate(shapes)]
        new = dict(zip((self.seed_of[i] for i in self.moving), leaves))
        new.update(zip((*self.rows, *self.constants), leaves[len(begin):]))
        so_far = leaves[len(self.moving):len(begin)]
        found = over([*(self.grads[self.leaves[i]] for i in self.moving), *totals.sums, *parts, *totals.stacks], new)
        n = len(self.moving)
        outputs = [*found[:n], *(a + b for a, b in zip(so_far, found[n:len(begin)])), *found[len(begin):]]
        a = self.loop.attrs
        count = (ir.item(self.forward, STEPS),) if self._dynamic() else ()
        return make("scan", (*args, *count), body=Body(tuple(leaves), tuple(outputs)), carries=len(begin),
                    slices=len(self.rows),
                    length=a["length"], reverse=not a["reverse"], stops=False)


class Totals:
    """Sums of a body's values over all steps. ``rows``: values that are stacked already; ``stacks``: those to be
    stacked for a product over all steps; ``sums``: those that are added up step by step.
    """

    def __init__(self, rows: set[Node]):
        self.rows = rows
        self.stacks: list[Node] = []
        self.sums: list[Node] = []

    def of(self, n: Node) -> Total:
        """How the sum is made of what ``rows``, ``stacks`` and ``sums`` are."""
        if self._there(n):
            return lambda rows, sums: ir.reduce("sum", rows(n), (0,))
        if (n.prim in ("reshape", "permute", "cast") or n.fn == "neg") and _is_product(n.args[0]):
            inner = self.of(n.args[0])
            return lambda rows, sums: rebuild(n, [inner(rows, sums)])
        if n.fn in ("add", "sub"):
            pair = [self.of(a) for a in n.args]
            return lambda rows, sums: rebuild(n, [p(rows, sums) for p in pair])
        if n.prim == "reduce" and n.attrs["op"] == "sum" and self._there(n.args[0]):
            axes = (0, *(a + 1 for a in n.attrs["axes"]))
            return lambda rows, sums: ir.reduce("sum", rows(n.args[0]), axes)
        if n.prim == "dot" and self._worth(n):
            return self._product(n)
        if n.prim == "scatter_add" and n.attrs["axis"] == 0:
            self._take(n.args)
            return lambda rows, sums: ir.scatter_add(rows(n.args[0]), rows(n.args[1]), 0, n.attrs["size"])
        if n not in self.sums:
            self.sums.append(n)
        return lambda rows, sums: sums(n)

    def _there(self, n: Node) -> bool:
        return n in self.rows or n in self.stacks

    def _take(self, nodes: Sequence[Node]) -> None:
        self.stacks += [a for a in dict.fromkeys(nodes) if not self._there(a)]

    def _worth(self, n: Node) -> bool:
        """Stacking the factors takes little more memory than the sum itself in a few steps."""
        return sum(hint(a.size) for a in set(n.args) if not self._there(a)) <= 8 * hint(n.size)

    def _product(self, n: Node) -> Total:
        self._take(n.args)
        (ca, cb), (ba, bb) = n.attrs["contract"], n.attrs["batch"]
        contract = tuple((0, *(i + 1 for i in axes)) for axes in (ca, cb))
        batch = tuple(tuple(i + 1 for i in axes) for axes in (ba, bb))
        x, y = n.args
        return lambda rows, sums: ir.dot(rows(x), rows(y), contract, batch)             # type: ignore[arg-type]


def _is_product(n: Node) -> bool:
    while n.prim in ("reshape", "permute", "cast") or n.fn == "neg":
        n = n.args[0]
    return n.prim in ("dot", "scatter_add") or n.fn in ("add", "sub") and any(map(_is_product, n.args))


def _zero(n: Node) -> bool:
    return constant(n) == 0


VJP["scan"] = _gradient
