"""The rewrite engine: rules by primitive, applied bottom-up once over a graph."""
from __future__ import annotations

from typing import Callable, Iterable, Sequence

from .. import ir
from ..ir import Node
from ..ir.build import make
from ..ir.node import made_from
from ..ir.size import same

Rule = Callable[[Node], "Node | None"]


def rebuild(n: Node, args: Sequence[Node]) -> Node:
    """The same node over other arguments."""
    made_from(n)
    return n if all(a is b for a, b in zip(n.args, args)) else make(n.prim, tuple(args), **n.attrs)


# attributes with an entry for each axis, and the entry of one that is left alone (None: its whole length)
_OF_EACH: dict[str, dict[str, int | None]] = {"pad": {"lo": 0, "hi": 0},
                                             "slice": {"begin": 0, "size": None, "step": 1}}


def relaid(n: Node, args: Sequence[Node], to: Sequence[int]) -> Node:
    """The node over arguments that have the axes of its own at ``to``, perhaps of other lengths, and more axes, which
    are left alone. Of functions, borders, slices, windows, reductions and concatenations."""
    x, old, attrs = args[0], n.args[0].shape, dict(n.attrs)
    for key, neutral in _OF_EACH.get(n.prim, {}).items():
        new = list(x.shape) if neutral is None else [neutral] * x.ndim
        for a, v in enumerate(attrs[key]):
            if neutral is not None or not same(v, old[a]):
                new[to[a]] = v
        attrs[key] = tuple(new)
    if "axis" in attrs:
        attrs["axis"] = to[attrs["axis"]]
    if n.prim == "unwindow":
        given = {to[a]: n.shape[a] for a in attrs["axes"]}
        attrs["shape"] = tuple(given.get(a, d) for a, d in enumerate(x.shape[:x.ndim - len(given)]))
    if "axes" in attrs:
        moved = [to[a] for a in attrs["axes"]]
        attrs["axes"] = tuple(sorted(moved) if n.prim == "reduce" else moved)
    return make(n.prim, tuple(args), **attrs)


def rewrite(roots: Iterable[Node], rules: dict[str, Sequence[Rule]], once: bool = False) -> list[Node]:
    """Roots with every rule applied to every node, arguments first; a rule's result is tried again a few times, unless
    ``once``."""
    roots = list(roots)
    new: dict[Node, Node] = {}
    for n in ir.toposort(roots):
        m = rebuild(n, [new[a] for a in n.args])
        for _ in range(1 if once else 8):             # a chain of rules at one node ends long before this
            for rule in rules.get(m.prim, ()):
                better = rule(m)
                if better is not None and better is not m:
                    m = better
                    break
            else:
                break
        new[n] = m
    return [new[r] for r in roots]


def over(roots: Sequence[Node], given: dict[Node, Node]) -> list[Node]:
    """The roots with some nodes replaced."""
    new = dict(given)
    todo: list[tuple[Node, bool]] = [(r, False) for r in roots]
    while todo:
        n, done = todo.pop()
        if n in new:
            continue
        if done:
            new[n] = rebuild(n, [new[a] for a in n.args])
        else:
            todo.append((n, True))
            todo += [(a, False) for a in n.args if a not in new]
    return [new[r] for r in roots]


def applied(program: ir.Program, arguments: Sequence[Node]) -> list[Node]:
    """The roots of a program (outputs, then update values) over other nodes in place of its inputs."""
    return over(program.roots, dict(zip(program.inputs, arguments)))
