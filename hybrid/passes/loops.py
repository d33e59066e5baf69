"""Passes over loops: what nobody reads is dropped, loops over the same steps are joined."""
from __future__ import annotations

from typing import Any, Iterable, Sequence

from .. import ir
from ..ir import Node, Program
from ..ir.build import make
from ..ir.scan import STEPS, Body, count_of, stacked
from .rewrite import over, rebuild


def reached(roots: Iterable[Node]) -> set[Node]:
    """All nodes below some nodes, themselves included."""
    return set(ir.toposort(roots))


def tidy(program: Program) -> Program:
    """The program with every loop reduced to what is read of it."""
    order = program.order()
    if not any(n.prim == "scan" for n in order):
        return program
    return program.with_roots(tidied(program.roots))


def tidied(roots: Sequence[Node]) -> list[Node]:
    """The same for some roots."""
    order = ir.toposort(roots)
    seen: dict[Node, Node] = {}
    key = {n: key_of(n, seen) for n in order if n.prim == "scan"}
    groups: dict[Any, _Group] = {}
    for n in order:
        if n.prim == "item":
            groups.setdefault(key[n.args[0]], _Group(n.args[0], seen)).read(n)
    new: dict[Node, Node] = {}
    for n in order:
        if n.prim == "scan":
            continue                                       # only its items are wanted
        new[n] = groups[key[n.args[0]]].result(n, new) if n.prim == "item" else rebuild(n, [new[a] for a in n.args])
    return [new[r] for r in roots]


def key_of(loop: Node, seen: dict[Node, Node]) -> Any:
    """Equal for loops over the same values that may differ in what they stack, within them too. seen: see
    ``canonical``."""
    a = loop.attrs
    body = a["body"]
    return (tuple(canonical(loop.args, seen)), a["carries"], a["slices"], a["length"], a["reverse"], a["stops"],
            body.inputs,
            tuple(canonical(body.outputs[:a["carries"] + a["stops"]], seen)))


def canonical(roots: Sequence[Node], seen: dict[Node, Node]) -> list[Node]:
    """The roots with each result of a loop taken from a loop that stacks nothing else. seen: results so far, of any
    call."""
    for n in ir.toposort([r for r in roots if r not in seen]):
        if n in seen or n.prim == "scan":
            continue
        if n.prim != "item":
            seen[n] = rebuild(n, [seen[a] for a in n.args])
            continue
        loop, index = n.args[0], n.attrs["index"]
        a, body = loop.attrs, loop.attrs["body"]
        outputs = body.outputs[:a["carries"] + a["stops"]]
        if index >= a["carries"]:
            outputs, index = (*outputs, stacked(loop)[index - a["carries"]]), a["carries"]
        bare = make("scan", tuple(canonical(loop.args, seen)),
                    **{**a, "body": Body(body.inputs, tuple(canonical(outputs, seen)))})
        seen[n] = ir.item(bare, index)
    return [seen[r] for r in roots]


class _Group:
    """Loops that are one, and what is read of them."""

    def __init__(self, loop: Node, seen: dict[Node, Node]):
        self.loop, self.body, self.seen = loop, loop.attrs["body"], seen
        self.carries: set[int] = set()
        self.stacks: dict[Node, Node] = {}                  # by their canonical form
        self.made: Node | None = None
        self.place: dict[int, int] = {}

    def read(self, n: Node) -> None:
        """Note an item that somebody reads."""
        index, carries = n.attrs["index"], self.loop.attrs["carries"]
        if index == STEPS:
            return
        if index < carries:
            self.carries.add(index)
        else:
            y = stacked(n.args[0])[index - carries]
            self.stacks.setdefault(canonical([y], self.seen)[0], y)

    def result(self, n: Node, new: dict[Node, Node]) -> Node:
        """What stands for an item. new: what stands for the loop's arguments."""
        index, carries = n.attrs["index"], self.loop.attrs["carries"]
        if 0 <= index < carries and self._fixed(index):
            return new[self.loop.args[index]]
        if self.made is None:
            self.made = self._make(new)
        if index == STEPS:
            return ir.item(self.made, STEPS)
        if index < carries:
            return ir.item(self.made, self.place[index])
        y, = canonical([stacked(n.args[0])[index - carries]], self.seen)
        return ir.item(self.made, self.made.attrs["carries"] + list(self.stacks).index(y))

    def _fixed(self, i: int) -> bool:
        return self.body.outputs[i] is self.body.inputs[i]

    def _live(self) -> tuple[list[int], set[Node]]:
        """Carried values that are wanted, and the nodes below all that is wanted."""
        a = self.loop.attrs
        carried = {leaf: i for i, leaf in enumerate(self.body.inputs[:a["carries"]]) if not self._fixed(i)}
        live = {i for i in self.carries if not self._fixed(i)}
        flag = self.body.outputs[a["carries"]:a["carries"] + a["stops"]]
        while True:
            below = reached([*(self.body.outputs[i] for i in live), *flag, *self.stacks.values()])
            more = {i for leaf, i in carried.items() if leaf in below} - live
            if not more:
                return sorted(live), below
            live |= more

    def _make(self, new: dict[Node, Node]) -> Node:
        a, body = self.loop.attrs, self.body
        carries, slices = a["carries"], a["slices"]
        live, below = self._live()
        parts = [i for i in range(carries, carries + slices) if body.inputs[i] in below]
        rest = [i for i, leaf in enumerate(body.inputs) if leaf in below
                and (i >= carries + slices or i < carries and i not in live)]
        numbers = [*live, *parts, *rest]
        self.place = {i: k for k, i in enumerate(live)}
        leaves = [ir.input(k, body.inputs[i].shape, body.inputs[i].dtype) for k, i in enumerate(numbers)]
        outputs = over([*(body.outputs[i] for i in live), *body.outputs[carries:carries + a["stops"]],
                        *self.stacks.values()],
                       {body.inputs[i]: leaf for i, leaf in zip(numbers, leaves)})
        args = [new[self.loop.args[i]] for i in numbers]
        count = count_of(self.loop)
        args += [new[count]] if count is not None else []
        return make("scan", tuple(args), body=Body(tuple(leaves), tuple(outputs)), carries=len(live),
                    slices=len(parts), length=a["length"], reverse=a["reverse"], stops=a["stops"])
