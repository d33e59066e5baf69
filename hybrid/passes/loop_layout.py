"""Matrices that are the same in every step of a loop, transposed once before it where its products read them faster
so."""
from __future__ import annotations

from typing import Callable

from .. import ir
from ..ir import Node, Program
from ..ir.build import make
from ..ir.scan import Body
from ..ir.size import hint
from .rewrite import over, rewrite

# product, which of its two matrices, steps: whether turning that before the steps pays (a backend's rule)
Turns = Callable[[Node, int, int], bool]


def loop_layout(program: Program, turns: Turns) -> Program:
    """The program with the matrices of its loops as ``turns`` wants them."""
    if not any(n.prim == "scan" for n in program.order()):
        return program
    return program.with_roots(rewrite(program.roots, {"scan": (lambda n: _laid_out(n, turns),)}, once=True))


def _laid_out(loop: Node, turns: Turns) -> Node:
    a = loop.attrs
    body, first = a["body"], a["carries"] + a["slices"]
    uses: dict[Node, list[Node]] = {leaf: [] for leaf in body.inputs[first:] if leaf.ndim == 2
                                    and leaf not in body.outputs}
    for n in body.order():
        for x in {*n.args} & uses.keys():
            uses[x].append(n)
    leaves, given, args = list(body.inputs), {}, list(loop.args)
    for i, w in enumerate(body.inputs):
        if uses.get(w) and all(_plain(n, w) and turns(n, n.args.index(w), hint(a["length"])) for n in uses[w]):
            leaves[i] = ir.input(i, w.shape[::-1], w.dtype)
            given[w] = ir.permute(leaves[i], (1, 0))
            args[i] = ir.permute(args[i], (1, 0))
    if not given:
        return loop
    made = Body(tuple(leaves), tuple(over(body.outputs, {**{leaf: leaf for leaf in body.inputs}, **given})))
    return make("scan", tuple(args), **{**a, "body": made})


def _plain(n: Node, w: Node) -> bool:
    """Whether a node is a product of something else with the matrix."""
    return (n.prim == "dot" and n.args[0] is not n.args[1] and n.attrs["batch"] == ((), ())
            and len(n.attrs["contract"][0]) == 1)
