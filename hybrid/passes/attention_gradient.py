"""Gradients of attention, block by block: a loop over heads and blocks of queries computes the weights of a block again
and adds up what it gives to the gradients of keys and values, so that no matrix of all weights is stored, neither
forwards nor backwards (Dao et al., FlashAttention, 2022). Its body are products and rows of a size that stays near.

Found in a graph that has both directions: the products that read what lies between the two products of attention.
Whatever stands there (a scale, masks, a function of the weights) is computed for the block by the same nodes over
slices.
"""
from __future__ import annotations

import math
from typing import Sequence

from .. import ir
from ..ir.size import hint
from ..ir import Node
from ..ir.access import ELEMENTWISE
from ..ir.build import make
from ..ir.node import users as users_of
from ..ir.scan import Body
from .attention import Attention, escapes, match
from .axis_orders import axis_below, axis_in
from .rewrite import over, rewrite

LEAST = 1 << 18                 # bytes of the scores of a head, from which it pays (256 queries and keys)
BLOCK = 1 << 18                 # bytes of a block of scores
LEAST_ROWS = 16                 # queries of a block
MOST_NAMES = 1000
KEEPS = ELEMENTWISE | {"reshape", "permute", "expand", "reduce"}


Region = dict[Node, list["int | None"]]         # values, and where each has the axes that loops go along


class _No(Exception):
    """This cannot be cut into blocks."""


def in_blocks(roots: Sequence[Node]) -> list[Node]:
    """Roots with gradients of attention computed so."""
    if not any(n.prim == "dot" and _of_a_head(n) >= LEAST for n in ir.toposort(roots)):
        return list(roots)
    out = was = rewrite(roots, {"detach": [lambda n: n.args[0]]})          # what is not differentiated is known by now
    # of each product of queries and keys: the product with the fewest steps between
    first: dict[Node, tuple[Attention, Node]] = {}
    for dot in ir.toposort(out):
        found = match(dot)
        if found is not None and _of_a_head(found.scores) >= LEAST and (found.scores not in first
                                                                        or len(found.inner) < len(
                first[found.scores][0].inner)):
            first[found.scores] = found, dot
    for found, dot in first.values():
        users = users_of(ir.toposort(out))
        if dot in users and escapes(found, dot, users, set(out)):
            out = _changed(out, found, dot, users) or out
    return list(roots) if out is was else out


def _of_a_head(n: Node) -> int:
    """Bytes along the last two axes."""
    return hint(math.prod(n.shape[-2:])) * n.dtype.itemsize


def _changed(roots: list[Node], found: Attention, dot: Node, users: dict[Node, list[Node]]) -> list[Node] | None:
    """The roots without what else reads the weights of one attention; None where that stays."""
    levels = _levels(found)
    try:
        region = _region(found, users)
        exits = [n for n in users if n.prim in ("dot", "reduce") and n is not dot and n not in region
                 and any(a in region for a in n.args)]
        plain = [_region_first(n, region) for n in exits]
        places = [[axis_in(n, 0, a) for a in region[n.args[0]] if a is not None] for n in plain]
        new = _cut(plain, places, [size for _, size in levels], region, found.scores.size) if exits else []
    except _No:
        return None
    changed = over(roots, {n: ir.permute(y, _order(n)) if p is not n else y for n, p, y in zip(exits, plain, new)})
    after = users_of(ir.toposort(changed))
    return changed if dot in after and not escapes(found, dot, after, set(changed)) else None


# ---- which axes are cut
def _levels(found: Attention) -> list[tuple[int, int]]:
    """Axes of the scores that loops go along, with the size of a block: those of the batch, then the queries."""
    shape = found.scores.shape
    rows = len(shape) - 2 + found.query
    keys = 2 * len(shape) - 3 - rows
    room = max(BLOCK // found.scores.dtype.itemsize // shape[keys], 1)
    out: list[tuple[int, int]] = []
    heads = room // shape[rows]
    for a in reversed(range(len(shape) - 2)):
        out.insert(0, (a, _divisor(shape[a], max(heads, 1))))
        heads //= shape[a]
    block = _divisor(shape[rows], room) if room < shape[rows] else shape[rows]
    return [*out, (rows, block if block >= LEAST_ROWS else shape[rows])]


def _divisor(n: int, most: int) -> int:
    """The greatest divisor that is not greater than ``most``."""
    return next(d for d in range(max(min(n, most), 1), 0, -1) if n % d == 0)


def _region(found: Attention, users: dict[Node, list[Node]]) -> Region:
    """What is made of the scores up to the next products, with the axes of the levels."""
    where: Region = {found.scores: [a for a, _ in _levels(found)]}
    for n in users:                                          # arguments first
        if n in where or n.prim not in KEEPS:
            continue
        for i, a in enumerate(n.args):
            if a in where:
                at = [None if axis is None else axis_in(n, i, axis) for axis in where[a]]
                if None in at and n.attrs.get("op") != "sum" or where.get(n, at) != at:
                    raise _No
                if None not in at:                           # else a sum over blocks, which leaves the region
                    where[n] = at
    return where


def _region_first(n: Node, region: Region) -> Node:
    """A product with what is of the region as its first argument: the sums over queries then lie as keys do."""
    if n.args[0] in region:
        return n
    return make("dot", n.args[::-1], contract=n.attrs["contract"][::-1], batch=n.attrs["batch"][::-1])


def _order(n: Node) -> tuple[int, ...]:
    """The axes of a product whose arguments were exchanged, in its own order."""
    batch = len(n.attrs["batch"][0])
    first = batch + n.args[1].ndim - batch - len(n.attrs["contract"][1])
    return (*range(batch), *range(first, n.ndim), *range(batch, first))


# ---- the loops
def _cut(exits: Sequence[Node], places: Sequence[list[int | None]], sizes: Sequence[int],
         region: Region, scores: int) -> list[Node]:
    """The same values, computed by a loop along the first level, in which loops go along the others."""
    if not sizes:
        return list(exits)
    parts = _Parts(sizes[0], len(sizes), region, scores)
    inner = [parts.exit(n, at[0]) for n, at in zip(exits, places)]
    if parts.steps == 1:
        return _cut(exits, [at[1:] for at in places], sizes[1:], region, scores)
    inner = _cut(inner, [at[1:] for at in places], sizes[1:], {**region, **parts.region}, scores // parts.steps)
    return parts.loop(exits, [at[0] for at in places], inner)


class _Parts:
    """Values of one step of a loop: a block of ``size`` along an axis of each. region: what has to be computed within
    the step."""

    def __init__(self, size: int, level: int, region: Region, scores: int):
        self.size, self.level, self.outside, self.scores = size, level, region, scores
        self.steps = 0
        self.region: Region = {}       # the region's nodes in the step
        self.memo: dict[tuple[Node, int], Node] = {}
        self.slices: dict[tuple[Node, int], Node] = {}
        self.constants: dict[Node, Node] = {}

    def exit(self, n: Node, at: int | None) -> Node:
        """A product or sum that leaves the region, of the step. at: its axis that is cut; None: it sums over that."""
        if at is not None:
            return self._made(n, at)
        cut = self.outside[n.args[0]][-self.level]
        assert cut is not None
        if n.prim == "reduce":
            return make("reduce", (self._part(n.args[0], cut),), **n.attrs)
        axes = n.attrs["contract"]
        args = [self._operand(x, axes[i][axes[0].index(cut)]) for i, x in enumerate(n.args)]
        return make("dot", tuple(args), **n.attrs)

    def _operand(self, x: Node, axis: int) -> Node:
        return self._part(x, axis) if x in self.outside else self._slice(x, axis)

    def _part(self, n: Node, axis: int) -> Node:
        if n not in self.outside and (n.size < self.scores or n.prim in ("input", "data", "item")):
            return self._slice(n, axis)
        key = n, axis
        if key not in self.memo:
            self.memo[key] = made = self._made(n, axis)
            if n in self.outside:
                self.region[made] = self.outside[n]
        return self.memo[key]

    def _made(self, n: Node, axis: int) -> Node:
        if n.prim not in KEEPS and n.prim != "dot":
            raise _No
        own = self._operand if n.prim == "dot" else self._part
        below = [axis_below(n, i, axis) for i in range(len(n.args))]
        if n.prim == "reshape" and below[0] is None:
            raise _No
        args = [self._whole(x) if at is None else own(x, at) for x, at in zip(n.args, below)]
        if n.prim in ("reshape", "expand"):
            return getattr(ir, n.prim)(args[0], tuple(self.size if i == axis else d for i, d in enumerate(n.shape)))
        return make(n.prim, tuple(args), **n.attrs)

    def _count(self, extent: int) -> None:
        if extent % self.size or self.steps not in (0, extent // self.size):
            raise _No
        self.steps = extent // self.size

    def _slice(self, n: Node, axis: int) -> Node:
        """A value from before the loop, of which each step sees a block."""
        key = n, axis
        self._count(n.shape[axis])
        if key not in self.slices:
            self.slices[key] = self._leaf(tuple(self.size if i == axis else d for i, d in enumerate(n.shape)), n)
        return self.slices[key]

    def _whole(self, n: Node) -> Node:
        """A value from before the loop."""
        if n in self.outside:
            raise _No
        if n.prim == "const" or n.prim == "reshape" and n.args[0].prim == "const":
            return n
        if n not in self.constants:
            self.constants[n] = self._leaf(n.shape, n)
        return self.constants[n]

    def _leaf(self, shape: tuple[int, ...], n: Node) -> Node:
        """A name for now, another one in each level; ``loop`` gives the numbers."""
        return ir.input(-1 - len(self.slices) - len(self.constants) - MOST_NAMES * self.level, shape, n.dtype)

    def loop(self, exits: Sequence[Node], places: Sequence[int | None], inner: Sequence[Node]) -> list[Node]:
        """The loop, and what stands for the exits: sums over all steps, or what the steps give side by side."""
        sums = [i for i, at in enumerate(places) if at is None]
        leaves = [ir.input(k, exits[i].shape, exits[i].dtype) for k, i in enumerate(sums)]
        outputs = [*(leaf + inner[i] for leaf, i in zip(leaves, sums)),
                   *(y for y, at in zip(inner, places) if at is not None)]
        names = [*self.slices.values(), *self.constants.values()]
        numbered = [ir.input(len(sums) + k, n.shape, n.dtype) for k, n in enumerate(names)]
        outputs = over(outputs, {**dict(zip(names, numbered)), **{leaf: leaf for leaf in leaves}})
        args = [*(ir.full(0, exits[i].shape, exits[i].dtype) for i in sums),
                *(self._split(n, axis) for n, axis in self.slices), *self.constants]
        made = make("scan", tuple(args), body=Body((*leaves, *numbered), tuple(outputs)), carries=len(sums),
                    slices=len(self.slices),
                    length=self.steps, reverse=False, stops=False)
        results: list[Node] = []
        number = len(sums)
        for i, (n, at) in enumerate(zip(exits, places)):
            if at is None:
                results.append(ir.item(made, sums.index(i)))
            else:
                results.append(_joined(ir.item(made, number), n.shape, at))
                number += 1
        return results

    def _split(self, n: Node, axis: int) -> Node:
        """Blocks along an axis, one a step."""
        shape = (*n.shape[:axis], self.steps, self.size, *n.shape[axis + 1:])
        return ir.permute(ir.reshape(n, shape), (axis, *(a for a in range(len(shape)) if a != axis)))


def _joined(y: Node, shape: tuple[int, ...], axis: int) -> Node:
    """What the steps gave, put together along an axis."""
    return ir.reshape(ir.permute(y, (*range(1, axis + 1), 0, *range(axis + 1, y.ndim))), shape)
