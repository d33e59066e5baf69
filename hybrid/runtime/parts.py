"""Parts of a program that prepares values: results that share no input, so that each can be computed alone."""
from __future__ import annotations

from ..ir import Node, Program, toposort
from ..ir import input as input_
from ..ir.text import to_text
from ..passes.pipeline import Planned
from ..passes.rewrite import rebuild
from . import cache, plans
from .recipe import Part, Recipe, Spec


def parts_of(planned: Planned) -> list[Part]:
    """The parts, in the order of their first results; none where a kernel computes values of several."""
    program = planned.source
    groups = _groups(program)
    apart = _apart(planned, {s: i for i, (inputs, _) in enumerate(groups) for s in inputs})
    return _named(program, groups) if apart else []


def recipe_of(program: Program) -> Recipe:
    """The recipe of a program that prepares values and has no kernels (by_primitives.py)."""
    first = len(program.inputs)
    specs: list[Spec] = [(n.shape, n.dtype) for n in program.outputs]
    return Recipe("", [(n.shape, n.dtype) for n in program.inputs], first, [], specs, 0,
                  [(first + k, shape) for k, (shape, _) in enumerate(specs)], [], [],
                  parts=_named(program, _groups(program)), program=to_text(program))


def _groups(program: Program) -> list[tuple[set[int], list[int]]]:
    """Inputs and results that depend on each other."""
    slots = [frozenset(n.attrs["slot"] for n in toposort([out]) if n.prim == "input") for out in program.outputs]
    groups: list[tuple[set[int], list[int]]] = []            # inputs and results
    for k, own in enumerate(slots):
        meet = [g for g in groups if g[0] & own]
        together: tuple[set[int], list[int]] = (set(own).union(*(g[0] for g in meet)),
                                                sorted([k, *(i for g in meet for i in g[1])]))
        groups = [*(g for g in groups if g not in meet), together]
    return sorted(groups, key=lambda g: g[1])


def _named(program: Program, groups: list[tuple[set[int], list[int]]]) -> list[Part]:
    try:
        return [(_name(program, inputs, results), tuple(sorted(inputs)), tuple(results)) for inputs, results in groups]
    except TypeError:                                        # holds what is no plain data
        return []


def one_part(program: Program) -> list[Part]:
    """All of a program's results as one part; no part where the program holds what is no plain data."""
    slots, results = set(range(len(program.inputs))), [*range(len(program.outputs))]
    try:
        return [(_name(program, slots, results), tuple(slots), tuple(results))]
    except TypeError:                                        # holds what is no plain data
        return []


def _apart(planned: Planned, part: dict[int, int]) -> bool:
    """Whether each kernel works for one part alone. part: of each input."""
    of: dict[Node, set[int]] = {}
    for k in planned.fused.kernels:
        found = set().union(*({part[n.attrs["slot"]]} if n.prim == "input" else of.get(n, set()) for n in k.reads))
        if len(found) > 1:
            return False
        of.update(dict.fromkeys(k.stores, found))
    return all(n in of or n.prim == "input" for n, _ in planned.fused.results)


def _name(program: Program, inputs: set[int], results: list[int]) -> str:
    outputs = [program.outputs[k] for k in results]
    new: dict[Node, Node] = {program.inputs[s]: input_(i, program.inputs[s].shape, program.inputs[s].dtype)
                             for i, s in enumerate(sorted(inputs))}
    for n in toposort(outputs):
        if n not in new:
            new[n] = rebuild(n, [new[a] for a in n.args])
    return cache.digest(plans.program_text(Program(tuple(new[program.inputs[s]] for s in sorted(inputs)),
                                                   tuple(new[o] for o in outputs))))
