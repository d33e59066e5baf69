"""Running a program node by node, each primitive by its NumPy or CuPy row.

What NumPy's own functions do alike is not done beside them: an elementwise function stretches its arguments itself,
numbers of a program are made once, and a value that is not needed again gives its memory to the next one.
"""
from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from ..base import collector
from .direct import (LEAST_REUSED, boolean_arithmetic, constants, kept_reductions, movement_of, own, passed_on,
                     product_of, reduction_of, sequence_of, spread, sum_of_products, sums_of_products, ufunc_of)
from .node import Node
from .philox import Draws
from .primitives import PRIMS, seen_as_bytes
from .program import Program
from .quiet import quiet, quietly
from .written import SHOWN, written

# steps whose results never share memory with their arguments
_FRESH = frozenset({"cast", "reduce", "argreduce", "dot", "pad", "concat", "cumulate", "argsort"})
# steps that show an input in another way
_VIEWS = frozenset({"reshape", "permute", "slice", "expand"})

SMALL_DRAW = 4096                # most elements of a draw that is made together with others
KEY_SIZE = 8                     # most elements of values from which the key of such a draw is computed


class Step(NamedTuple):
    """One node: what computes it, its arguments' registers, its own, those that die here, the argument whose memory
    the result takes (-1: none), and whether the result is a new array that nobody else knows, or (SHOWN) a view of an
    input."""
    call: Callable[..., Any]
    args: tuple[int, ...]
    out: int
    dead: tuple[int, ...]
    into: int
    fresh: bool | str


class Plan(NamedTuple):
    """The steps of a program, the values that are known before it runs, and where its inputs and results are."""
    steps: tuple[Step, ...]
    start: list[Any]
    leaves: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]
    updates: tuple[int, ...]
    apart: frozenset[int]                # registers of values that are new arrays, and so no views of an input


def _call(xp: Any, n: Node) -> Callable[..., Any]:
    found = (reduction_of(n) or movement_of(n) or product_of(n) or sequence_of(n)) if xp is np else None
    if found is not None:
        return found
    row = PRIMS[n.prim].eager
    return lambda *arrays: row(xp, n, *arrays)


def _makes_new(n: Node, new: set[Node], readers: Mapping[Node, list[Node]], roots: set[Node]) -> bool:
    """Whether a node that is no function of NumPy's gives a new array, which nobody else has: also a new one in another
    shape."""
    if n.prim == "reshape":
        return n.args[0] in new and len(readers[n.args[0]]) == 1 and n.args[0] not in roots
    return reduction_of(n) is not None or n.prim in _FRESH and n.ndim > 0 and not seen_as_bytes(n)


def _live(roots: Sequence[Node], args: dict[Node, tuple[Node, ...]], order: Sequence[Node]) -> list[Node]:
    """Nodes that somebody reads, arguments first."""
    wanted = set(roots)
    for n in reversed(order):
        if n in wanted:
            wanted.update(args[n])
    return [n for n in order if n in wanted]


def _draws_together(order: list[Node]) -> tuple[list[Node], list[Node]]:
    """The small draws that can be made together, since their keys are computed from inputs by small operations alone;
    and an order of the nodes in which the keys come first."""
    first: set[Node] = set()
    draws = []
    for n in order:
        if n.prim == "random_bits":
            if n.args[0] in first and n.size <= SMALL_DRAW:
                draws.append(n)
        elif n.prim == "input" or (n.prim in _VIEWS or n.size <= KEY_SIZE) and all(a in first for a in n.args):
            first.add(n)
    if len(draws) < 2:
        return [], order
    keys = {n.args[0] for n in draws}
    for n in reversed(order):
        if n in keys:
            keys.update(n.args)
    return draws, [*(n for n in order if n in keys), *(n for n in order if n not in keys)]


def _with_draws(steps: Sequence[Step], draws: Sequence[Node], register: Mapping[Node, int]) -> tuple[Step, ...]:
    """The steps, and before the first of some draws one more, which makes all of these: it puts a list of arrays into
    the last register, from which each draw's own step takes one."""
    numbers, every = {register[n]: k for k, n in enumerate(draws)}, len(register)
    found: list[Step] = []
    for step in steps:
        k = numbers.get(step.out)
        if k == 0:
            found.append(Step(Draws([(n.shape, n.attrs["stream"]) for n in draws]),
                              tuple(register[n.args[0]] for n in draws), every, (), -1, False))
        found.append(step if k is None else step._replace(call=itemgetter(k), args=(every,)))
    return tuple(found)


def plan(program: Program, xp: Any) -> Plan:
    """How a program runs on arrays of a module. Made once."""
    key = ("plan", xp is np)
    if key not in program.memo:
        program.memo[key] = _plan(program, xp)
    return program.memo[key]                              # type: ignore[no-any-return]


@collector.waits
def _plan(program: Program, xp: Any) -> Plan:
    order, host = program.order(), xp is np
    ufuncs = {n: u for n in order if host and (u := ufunc_of(n)) is not None}
    dots = sums_of_products(order, program.roots) if host else {}
    truths = {n: found for n in order if host and (found := boolean_arithmetic(n)) is not None}
    kept = kept_reductions(order, program.roots) if host else {}
    ufuncs = {n: u for n, u in ufuncs.items() if n not in truths}
    args = {n: truths[n][1] if n in truths else spread(n) if n in ufuncs else n.args[0].args if n in kept else
            dots.get(n, n.args) for n in order}
    args = {n: tuple(map(passed_on, given)) for n, given in args.items()}
    order = _live(program.roots, args, order)
    readers: dict[Node, list[Node]] = {n: [] for n in order}
    for n in order:
        for a in args[n]:
            readers[a].append(n)
    roots = set(program.roots)
    known = constants(n for n in order if n not in roots) if host else {}
    args.update({n: () for n in known})
    order = _live(program.roots, args, order)
    known = {n: known[n] for n in order if n in known}
    draws, order = _draws_together(order) if host else ([], order)
    register = {n: i for i, n in enumerate(order)}
    last = {register[a]: i for i, n in enumerate(order) for a in args[n]}
    lasting = {register[r] for r in roots} | {register[n] for n in known}
    # whose memory nobody else sees
    alone = {n for n in ufuncs if n in register
             and all(r in ufuncs or r.prim in _FRESH and not (host and seen_as_bytes(r)) for r in readers[n])}
    new: set[Node] = set()
    shown: set[Node] = set()
    steps = []
    for i, n in enumerate(order):
        if n.prim == "input" or n in known:
            continue
        dead = tuple(sorted({r for a in args[n] if last[r := register[a]] == i and r not in lasting}))
        into = next((register[a] for a in args[n] if n in ufuncs and a in alone and register[a] in dead
                     and a.shape == n.shape and a.dtype == n.dtype and n.size >= LEAST_REUSED), -1)
        if host and (n in dots or n in truths or n in ufuncs or n in kept or _makes_new(n, new, readers, roots)):
            new.add(n)
        elif n.prim in _VIEWS and n.args[0].prim == "input":
            shown.add(n)
        call = sum_of_products if n in dots else (
            ufuncs.get(n) or kept.get(n) or truths.get(n, (None,))[0] or _call(xp, n))
        steps.append(Step(call, tuple(register[a] for a in args[n]), i, dead, into,
                          n in new or (SHOWN if n in shown else False)))
    return Plan(_with_draws(steps, draws, register), [*(known.get(n) for n in order), None],
                tuple((slot, register[leaf]) for slot, leaf in enumerate(program.inputs) if leaf in register),
                tuple(register[n] for n in program.outputs), tuple(register[n] for _, n in program.updates),
                frozenset(register[n] for n in order if n in new or n.prim == "map" and n.fn == "where"))


def run(program: Program, arrays: Sequence[Any], xp: Any) -> tuple[list[Any], list[Any]]:
    """Outputs and update values of a program. Results may share memory with the inputs.

    arrays: one per input slot, of the module ``xp`` (numpy or cupy).
    """
    made = plan(program, xp)
    token = quiet()
    try:
        values = _followed(made, arrays)
    finally:
        quietly(token)
    return [values[r] for r in made.outputs], [values[r] for r in made.updates]


def _followed(made: Plan, arrays: Sequence[Any]) -> list[Any]:
    """The values of all registers when the steps of a plan are done in order."""
    values = made.start.copy()
    for slot, r in made.leaves:
        values[r] = arrays[slot]
    for call, args, out, dead, into, _ in made.steps:
        given = [values[a] for a in args]
        values[out] = call(*given) if into < 0 else call(*given, out=values[into])
        for d in dead:
            values[d] = None
    return values


def straight(program: Program) -> Callable[..., Any] | None:
    """A function of the input arrays, which are NumPy's, for a program of one result and no updates; None for others.
    Its result is a new array. It finds its plan made: for small arrays looking that up takes as long as the steps."""
    made = plan(program, np)
    if made.updates or len(made.outputs) != 1:
        return None
    result, = made.outputs
    if (found := _of_number(made, result)) is not None:
        return found
    return (written(made.steps, made.start, made.leaves, len(program.inputs), result)
            or (lambda *raws: own(_followed(made, raws)[result], raws, np)))


def _of_number(made: Plan, result: int) -> Callable[..., Any] | None:
    """A function that makes an array of one number, where a program gives that whatever its inputs are."""
    value = made.start[result]
    step = made.steps[0] if len(made.steps) == 1 and made.steps[0].args else None
    if value is None and step is not None and all(made.start[r] is not None for r in step.args):
        value = step.call(*(made.start[r] for r in step.args))
    if value is None or not value.size or any(value.strides):
        return None
    number = value[(0,) * value.ndim]
    if not any(number.tobytes()):
        return partial(_zeros, value.shape, value.dtype)                     # memory that is written when it is used
    return partial(_filled, value.shape, value.dtype, number)


def _zeros(shape: tuple[int, ...], dtype: np.dtype, *_: Any) -> np.ndarray:
    return np.zeros(shape, dtype)


def _filled(shape: tuple[int, ...], dtype: np.dtype, number: Any, *_: Any) -> np.ndarray:
    """An array of one number, whatever the arguments are."""
    out = np.empty(shape, dtype)
    out.fill(number)
    return out


def single(program: Program) -> Callable[..., Any] | None:
    """A function of the input arrays, which are NumPy's, for a program of one step; None for others. Its result is a
    new array, or a number. Made once."""
    if "single" not in program.memo:
        program.memo["single"] = _single(program)
    return program.memo["single"]                         # type: ignore[no-any-return]


def _single(program: Program) -> Callable[..., Any] | None:
    steps, start, leaves, outputs, updates, _ = plan(program, np)
    if len(steps) != 1 or updates or outputs != (steps[0].out,):
        return None
    if (found := _of_number(plan(program, np), outputs[0])) is not None:
        return found
    slots = {register: slot for slot, register in leaves}
    in_order = [slots.get(r) for r in steps[0].args] == list(range(len(program.inputs)))
    if in_order and steps[0].fresh is True:
        return steps[0].call
    return written(steps, start, leaves, len(program.inputs), outputs[0])
