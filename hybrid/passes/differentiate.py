"""Reverse-mode differentiation of programs, node by node."""
from __future__ import annotations

from typing import Sequence

from ..base import dtype as dt
from .. import ir
from ..ir import VJP, Node, Program
from ..ir.access import beneath
from ..ir.node import GRADIENT, made_for_gradient
from ..ir.pattern import matched
from ..ir.vjp import LOSSES
from .row_gradients import with_rows


def cotangents(roots: Sequence[Node], seeds: Sequence[Node | None], wrt: Sequence[Node]) -> list[Node]:
    """Gradients of sum(root * seed) with respect to the nodes ``wrt``; zeros where nothing flows."""
    order = ir.toposort(roots)
    wanted = set(wrt)
    needed: set[Node] = set()
    for n in order:                                   # only nodes that depend on something wanted
        if n in wanted or any(a in needed for a in n.args):
            needed.add(n)
    grads: dict[Node, Node] = {}
    for root, seed in zip(roots, seeds):
        if seed is not None and dt.has_gradient(root.dtype):
            grads[root] = grads[root] + seed if root in grads else seed
    silent: set[Node] = set()                         # what only BlockGrad leads to: losses among it have gradients
    for n in reversed(order):
        if n not in needed or not n.args:
            continue
        if n not in grads or n.attrs.get("losses"):
            if n in silent and n.prim == "with_grad" and n.attrs["name"] in LOSSES:
                grads[n] = ir.full(0, n.shape, n.dtype)
            else:
                if n in silent or n in grads:
                    silent |= set(n.args)
                continue
        made_for_gradient(n)
        if (found := _softmax(n)) is not None and found[0] in needed:
            x, axes = found
            g = n * (grads[n] - ir.reduce("sum", grads[n] * n, axes, True))
            grads[x] = grads[x] + g if x in grads else g
            continue
        for a, g in _of_arguments(n, grads[n]).items():
            if a in needed:
                grads[a] = grads[a] + g if a in grads else g
    return [grads.get(w, ir.full(0, w.shape, w.dtype)) for w in wrt]


def _of_arguments(n: Node, grad: Node) -> dict[Node, Node]:
    """What a node adds to the cotangent of each argument. One that it has twice gets the sum: those of x - x cancel,
    and beside a large one small cotangents of other nodes would lose their digits."""
    own: dict[Node, Node] = {}
    for a, g in zip(n.args, VJP[n.prim](grad, n, *n.args)):
        if g is not None and dt.has_gradient(a.dtype):
            own[a] = own[a] + g if a in own else g
    return own


def _softmax(n: Node) -> tuple[Node, tuple[int, ...]] | None:
    """x and the axes of exp(x) / sum(exp(x)): its gradient p (g - sum(g p)) is made of its own value, not of two
    quotients'."""
    found = matched(n, ("div", {"e": ("exp", "x")}, ("sum", "e", "total")))
    return (found["x"], found["total"].attrs["axes"]) if found is not None else None


def vjp_program(program: Program, wrt: tuple[int, ...], heads: tuple[int, ...] | None = None) -> Program:
    """The backward program: inputs are the primal inputs and one cotangent per output (of those in ``heads``, if
    given: the others have none), outputs the gradients of the slots in ``wrt``.
    """
    return vjp_with_rows(program, wrt, (), heads)[0]


def vjp_with_rows(program: Program, wrt: tuple[int, ...], rows: tuple[int, ...],
                  heads: tuple[int, ...] | None = None) -> tuple[Program, tuple[int | None, ...]]:
    """``vjp_program`` whose gradients of the slots in ``rows`` are pairs of row numbers and rows where they can be; and
    the number of pairs of each gradient, None for dense ones.
    """
    heads = tuple(range(len(program.outputs))) if heads is None else heads
    key = ("vjp", wrt, rows, heads)
    if key not in program.memo:
        n = len(program.inputs)
        outputs = [program.outputs[i] for i in heads]
        seeds = [ir.input(n + i, o.shape, o.dtype) for i, o in enumerate(outputs)]
        grads = cotangents(outputs, seeds, [program.inputs[i] for i in wrt])
        flat, layout = with_rows(grads, [i in rows for i in wrt])
        made = Program(program.inputs + tuple(seeds), tuple(flat))
        made.memo["name"] = GRADIENT + program.memo.get("name", "a program")
        program.memo[key] = made, layout
    return program.memo[key]


def heads_read(program: Program, wrt: tuple[int, ...]) -> tuple[bool, ...]:
    """Whether the gradients of the slots in ``wrt`` depend on the cotangent of each output: on that of a loss such as
    SoftmaxOutput they do not."""
    key = ("heads read", wrt)
    if key not in program.memo:
        made = vjp_program(program, wrt)
        read = set(ir.toposort(made.outputs))
        program.memo[key] = tuple(seed in read for seed in made.inputs[len(program.inputs):])
    return program.memo[key]                                 # type: ignore[no-any-return]


def reaches(program: Program, slot: int) -> bool:
    """Whether any gradient flows into an input; into an index, for one, there is none."""
    key = ("reaches", slot)
    if key not in program.memo:
        found = beneath(vjp_program(program, (slot,)).outputs[0], ("expand", "reshape", "cast"))
        program.memo[key] = not (found.prim == "const" and float(found.attrs["value"]) == 0)
    return program.memo[key]
