"""Operators that hold graphs: ``_foreach``, ``_while_loop`` and ``_cond``. They become loops of primitives
(ir/scan.py)."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.records import dataclass
from .. import ir
from ..base.errors import AttributeValueError, ShapeError
from .inference import key_of, shapes_of
from ..ir import Body, Node
from ..ir.scan import items, scan
from .lower import draws_of, drawn, lower_nodes
from ..ops.attributes import Attribute, Attrs
from ..ops.registry import REQUIRED, Int, Lowered, OpDef
from ..passes.rewrite import over
from .symnode import SymNode, in_order

Entry = tuple[SymNode, int]


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A graph that ends at ``cuts``: outputs ``roots``, and for each cut the input of the operator that stands for
    it."""
    roots: tuple[Entry, ...]
    cuts: tuple[Entry, ...]
    inputs: tuple[int, ...]

    def order(self) -> list[SymNode]:
        """Its operators and variables, inputs before users; none below the cuts."""
        return in_order(self.roots, self.cuts)

    def lower(self, given: Sequence[Node], train: bool, key: Node | None) -> tuple[list[Node], dict[int, Node]]:
        """Outputs for the operator's inputs, and new values of those that operators inside update, by number of the
        input."""
        value = {(id(n), k): given[i] for (n, k), i in zip(self.cuts, self.inputs)}
        order = self.order()
        first, _ = draws_of(order, train)
        number = {id(n): i for (n, k), i in zip(self.cuts, self.inputs) if n.opdef is None}
        updates = lower_nodes(order, value, train, key, first, set(number))
        return [value[(id(n), k)] for n, k in self.roots], {number[i]: n for i, n in updates.items()}

    def shapes(self, given: Sequence[Any]) -> dict[int, Any]:
        """Shapes of the operator's inputs, by number, that are known or follow inside the graph from those that are."""
        known = {key_of(n, k): given[i] for (n, k), i in zip(self.cuts, self.inputs)}
        order = [n for n in self.order() if n.opdef is not None]
        found = shapes_of(order, {}, known)
        return {i: found.get(key_of(n, k)) for (n, k), i in zip(self.cuts, self.inputs)}

    def draws(self, train: bool) -> int:
        """How many random draws a run of it makes."""
        return draws_of(self.order(), train)[1]


class Numbers(Attribute):
    """A list of integers, printed as MXNet prints it: ``[0, 1]``."""
    kind = "list of integers"

    def convert(self, value: Any) -> tuple[int, ...]:
        if isinstance(value, str):
            value = [int(v) for v in value.strip("[]() ").split(",") if v.strip()]
        return tuple(int(v) for v in value)


class GraphOp(OpDef):
    """An operator with subgraphs. ``parts``: what they are."""
    parts: tuple[str, ...] = ()

    def __init__(self, *graphs: Subgraph) -> None:
        raise NotImplementedError

    def _set(self, name: str, graphs: Sequence[Subgraph], attrs: dict[str, Attribute]) -> None:
        OpDef.__init__(self, name, self._lowered, ("data",), frozenset(), True, (), attrs, {},
                       needs=("train", "key"),
                         outputs=lambda a: a.num_outputs, draws=self._draws,  # type: ignore[arg-type]
                         params=self._complete)                  # type: ignore[arg-type]
        self.graphs = tuple(graphs)

    def _complete(self, shapes: list[Any], a: Attrs) -> list[Any]:
        """Shapes of parameters that only the graphs use."""
        slices = self.sliced(a)
        seen = [s[1:] if i < slices and s else s for i, s in enumerate(shapes)]
        for graph in self.graphs:
            for i, shape in graph.shapes(seen).items():
                if i >= slices and shape is not None:
                    seen[i] = shape
        return [*shapes[:slices], *seen[slices:]]

    def sliced(self, a: Attrs) -> int:
        """How many of the first inputs the graphs see slice by slice."""
        return 0

    def _lowered(self, nodes: list[Node], a: Attrs) -> Lowered:
        raise NotImplementedError

    def _draws(self, a: Attrs, train: bool) -> int:
        raise NotImplementedError

    @classmethod
    def places(cls, a: Attrs) -> list[dict[int, int]]:
        """For each subgraph the operator's input that each of its variables stands for."""
        raise NotImplementedError

    def check(self, a: Attrs) -> None:
        """AttributeValueError where the attributes do not fit the subgraphs."""
        if a.num_outputs != len(self.graphs[-1].roots):
            raise AttributeValueError(f"num_outputs={a.num_outputs}, but the subgraph {self.parts[-1]!r} has "
                                      f"{len(self.graphs[-1].roots)} outputs")


def _key_of_step(key: Node, t: Node, draws: int) -> Node:
    """The key of step t: every step has draws of its own."""
    return key + ir.data(np.array([0, 1], np.uint32)) * ir.cast(t * draws, np.uint32)


class Loop:
    """Puts a loop together: a body over the operator's inputs, some of which are carried or seen slice by slice."""

    def __init__(self, nodes: Sequence[Node], carried: Sequence[int], sliced: Sequence[int], length: int,
                 key: Node | None, draws: int):
        self.nodes, self.carried, self.length = nodes, list(carried), length
        self.sliced = list(sliced)
        self.key, self.draws = key, draws

    def leaves(self) -> list[Node]:
        """What the body sees in place of the operator's inputs."""
        shapes = [n.shape[1:] if i in self.sliced else n.shape for i, n in enumerate(self.nodes)]
        return [ir.input(i, s, n.dtype) for i, (s, n) in enumerate(zip(shapes, self.nodes))]

    def extra(self) -> tuple[Node | None, Node]:
        """Leaves of the random key and of the number of the step."""
        n = len(self.nodes)
        t = ir.input(n, (), dt.int64)
        return (_key_of_step(ir.input(n + 1, (2,), np.uint32), t, self.draws) if self.key is not None else None), t

    def run(self, new: Sequence[Node], stacks: Sequence[Node], updates: dict[int, Node], count: Node | None = None,
            flag: Node | None = None) -> tuple[list[Node], list[Node], dict[int, Node]]:
        """The last carried values, the stacked ones, and the last values of updated inputs."""
        n = len(self.nodes)
        updated = [i for i in updates if i not in self.carried and i not in self.sliced]
        carried = [*self.carried, *updated]
        sliced = [*self.sliced, n]
        rest = [i for i in range(n) if i not in carried
                and i not in self.sliced] + ([n + 1] if self.key is not None else [])
        args = [*self.nodes, ir.iota(self.length), *([self.key] if self.key is not None else [])]
        leaves = [*self.leaves(), ir.input(n, (), dt.int64),
                  *([ir.input(n + 1, (2,), np.uint32)] if self.key is not None else [])]
        order = [*carried, *sliced, *rest]
        own = [ir.input(k, leaves[i].shape, leaves[i].dtype) for k, i in enumerate(order)]
        outputs = over([*new, *(updates[i] for i in updated), *([flag] if flag is not None else []), *stacks],
                       {leaves[i]: leaf for i, leaf in zip(order, own)})
        loop = scan(Body(tuple(own), tuple(outputs)), [args[i] for i in carried], [args[i] for i in sliced],
                    [args[i] for i in rest], self.length,
                    count=count, stops=flag is not None)
        c = len(self.carried)
        last = items(loop, range(len(carried) + len(stacks)))
        return last[:c], last[len(carried):], {i: last[c + k] for k, i in enumerate(updated)}


def _same(what: str, old: Sequence[Node], new: Sequence[Node]) -> list[Node]:
    """New carried values, of the shapes and dtypes of the first ones."""
    for i, (a, b) in enumerate(zip(old, new)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ShapeError(f"{what} {i} is {a.dtype}{a.shape} before a step and {b.dtype}{b.shape} after it; shape "
                             f"and dtype must stay the same "
                             "(cast or reshape it in the body, or begin with another one)")
    return list(new)


class Foreach(GraphOp):
    """``_foreach``: the graph for each slice of the data; inputs are data, states, then what else the graph uses."""
    parts = ("body",)

    @classmethod
    def places(cls, a: Attrs) -> list[dict[int, int]]:
        order = [*a.in_data_locs, *a.in_state_locs, *a.remain_locs]
        return [{k: i for i, k in enumerate(order)}]

    def sliced(self, a: Attrs) -> int:
        return len(a.in_data_locs)

    def check(self, a: Attrs) -> None:
        super().check(a)
        if (not 0 <= a.num_out_data <= a.num_outputs or len(a.in_state_locs) != a.num_outputs - a.num_out_data
            or not a.in_data_locs):
            raise AttributeValueError(f"num_outputs={a.num_outputs} and num_out_data={a.num_out_data} do not fit "
                                      f"{len(a.in_state_locs)} states "
                                      f"and {len(a.in_data_locs)} arrays of data")

    def __init__(self, graph: Subgraph):
        attrs = {"num_args": Int(), "num_outputs": Int(), "num_out_data": Int(), "in_state_locs": Numbers(REQUIRED),
                 "in_data_locs": Numbers(REQUIRED),
                 "remain_locs": Numbers(REQUIRED)}
        self._set("_foreach", [graph], attrs)

    def _lowered(self, nodes: list[Node], a: Attrs) -> Lowered:
        graph, = self.graphs
        slices, states = len(a.in_data_locs), a.num_outputs - a.num_out_data
        lengths = {n.shape[:1] for n in nodes[:slices]}
        if len(lengths) != 1 or lengths == {()}:
            raise ShapeError(f"foreach goes over axis 0 of its data, which must have the same length; got "
                             f"{[n.shape for n in nodes[:slices]]}")
        (length,), = lengths
        self.steps = max(self.steps, length)
        loop = Loop(nodes, range(slices, slices + states), range(slices), length, a.key, graph.draws(a.train))
        leaves = loop.leaves()
        roots, updates = graph.lower(leaves, a.train, loop.extra()[0])
        new = _same("foreach: state", leaves[slices:slices + states], roots[a.num_out_data:])
        last, stacks, updated = loop.run(new, roots[:a.num_out_data], updates)
        return Lowered((*stacks, *last), updated)

    def _draws(self, a: Attrs, train: bool) -> int:
        return self.steps * self.graphs[0].draws(train)

    steps = 1                                    # as far as seen: draws are counted before shapes are looked at


class While(GraphOp):
    """``_while_loop``: steps as long as a condition holds, at most ``max_iterations``."""
    parts = ("cond", "func")
    variables: tuple[int, ...] = ()              # inputs that are the loop's variables

    @classmethod
    def places(cls, a: Attrs) -> list[dict[int, int]]:
        return [dict(enumerate(a.cond_input_locs)), dict(enumerate(a.func_input_locs))]

    def check(self, a: Attrs) -> None:
        super().check(a)
        if not all(0 <= k < len(a.func_input_locs)
                   for k in a.func_var_locs) or len(a.func_var_locs) != a.num_outputs - a.num_out_data or a.num_out_data < 0:  # noqa: E501
            raise AttributeValueError(f"func_var_locs={a.func_var_locs} does not fit num_outputs={a.num_outputs}, "
                                      f"num_out_data={a.num_out_data}")
        if not 0 <= a.max_iterations <= MOST_STEPS:
            raise AttributeValueError(f"max_iterations={a.max_iterations} must be from 0 to {MOST_STEPS}")
        self.variables = tuple(a.func_input_locs[k] for k in a.func_var_locs)

    def __init__(self, cond: Subgraph, body: Subgraph):
        attrs = {"num_args": Int(), "num_outputs": Int(), "num_out_data": Int(), "max_iterations": Int(),
                 "cond_input_locs": Numbers(REQUIRED),
                 "func_input_locs": Numbers(REQUIRED), "func_var_locs": Numbers(REQUIRED)}
        self._set("_while_loop", [cond, body], attrs)

    def _lowered(self, nodes: list[Node], a: Attrs) -> Lowered:
        cond, body = self.graphs
        per_step = body.draws(a.train) + cond.draws(a.train)
        loop = Loop(nodes, self.variables, (), a.max_iterations, a.key, per_step)
        leaves = loop.leaves()
        key, _ = loop.extra()
        (go,), _ = cond.lower(nodes, a.train, a.key)
        roots, updates = body.lower(leaves, a.train, drawn(key, cond.draws(a.train)) if key is not None else None)
        new = _same("while_loop: variable", [leaves[i] for i in self.variables], roots[a.num_out_data:])
        changed = {**dict(enumerate(leaves)), **updates, **dict(zip(self.variables, new))}
        (again,), _ = cond.lower([changed[i] for i in range(len(nodes))], a.train,
                                 drawn(key, per_step) if key is not None else None)
        count = ir.map("where", _truth(go, "while_loop: the condition"), ir.const(a.max_iterations, dt.int64),
                       ir.const(0, dt.int64))
        last, stacks, updated = loop.run(new, roots[:a.num_out_data], updates, count,
                                         _truth(again, "while_loop: the condition"))
        return Lowered((*stacks, *last), updated)

    def _draws(self, a: Attrs, train: bool) -> int:
        per_step = sum(g.draws(train) for g in self.graphs)
        return per_step * a.max_iterations + self.graphs[0].draws(train)


class Cond(GraphOp):
    """``_cond``: one of two graphs, by a condition; the other one is not run."""
    parts = ("pred", "then", "else")

    @classmethod
    def places(cls, a: Attrs) -> list[dict[int, int]]:
        return [dict(enumerate(locs)) for locs in (a.cond_input_locs, a.then_input_locs, a.else_input_locs)]

    def __init__(self, pred: Subgraph, then: Subgraph, otherwise: Subgraph):
        attrs = {"num_args": Int(), "num_outputs": Int(), "cond_input_locs": Numbers(REQUIRED),
                 "then_input_locs": Numbers(REQUIRED),
                 "else_input_locs": Numbers(REQUIRED)}
        self._set("_cond", [pred, then, otherwise], attrs)

    def _lowered(self, nodes: list[Node], a: Attrs) -> Lowered:
        pred, *branches = self.graphs
        nodes = list(nodes)
        (go,), _ = pred.lower(nodes, a.train, a.key)
        holds = _truth(go, "cond: pred")
        first = len(nodes)
        results: list[Node] = []
        changed: dict[int, Node] = {}
        for graph, taken in zip(branches, (holds, ir.map("logical_not", holds))):
            loop = Loop([*nodes, *(results or [holds] * a.num_outputs)], range(first, first + a.num_outputs), (), 1,
                        a.key, 0)
            key, _ = loop.extra()
            roots, updates = graph.lower(loop.leaves()[:first], a.train,
                                         drawn(key, pred.draws(a.train)) if key is not None else None)
            self._check(results, roots)
            loop.nodes = [*nodes, *(results or [ir.full(0, n.shape, n.dtype) for n in roots])]
            results, _, updated = loop.run(roots, [], updates, ir.cast(taken, dt.int64))
            changed.update(updated)
            nodes = [changed.get(i, n) for i, n in enumerate(nodes)]
        return Lowered(tuple(results), changed)

    def _check(self, first: Sequence[Node], second: Sequence[Node]) -> None:
        for i, (x, y) in enumerate(zip(first, second)):
            if x.shape != y.shape or x.dtype != y.dtype:
                raise ShapeError(f"cond: output {i} is {x.dtype}{x.shape} of then_func and {y.dtype}{y.shape} of "
                                 f"else_func; both must be alike")

    def _draws(self, a: Attrs, train: bool) -> int:
        pred, *branches = (g.draws(train) for g in self.graphs)
        return pred + max(branches)


setattr(GraphOp._complete, "from_any", True)          # any input may tell the others' shape
GRAPH_OPS: dict[str, type[GraphOp]] = {"_foreach": Foreach, "_while_loop": While, "_cond": Cond}
MOST_STEPS = 1 << 24                     # of a loop in a file


def _truth(n: Node, what: str) -> Node:
    """A scalar bool from an array of one element."""
    if n.size != 1:
        raise ShapeError(f"{what} must be one number, got shape {n.shape}")
    n = ir.reshape(n, ())
    return n if n.dtype == np.dtype(bool) else ir.map("ne", n, 0)
