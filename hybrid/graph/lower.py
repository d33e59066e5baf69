"""From the operator graph to a program of primitives."""
from __future__ import annotations

from typing import Any, Collection, Iterable, Sequence

import numpy as np

from ..base import collector
from .. import ir
from ..base import dtype as dt
from ..base.errors import AttributeValueError, ShapeError
from ..ir import Node, Program
from ..ir.size import fixed
from ..ir.node import made_for, noting
from .symnode import DETACHED, SymNode, effective, in_order, known


@collector.waits
def lower(symbol: Any, inputs: Sequence[SymNode], train: bool, also: Sequence[SymNode] = ()) -> tuple[Program, int]:
    """A program whose inputs are the variables ``inputs`` in order, then (if operators draw random numbers) the random
    key. Returns it with the number of draws. Shapes and dtypes of the variables must be known. also: operators that
    change states or draw random numbers, as they do in eager calls, although no output may need them.
    """
    leaves = []
    for i, n in enumerate(inputs):
        shape, dtype = n.info[0]
        if not known(shape):
            raise ShapeError(f"the shape of variable {n.name!r} is not known: {shape}")
        leaves.append(ir.input(i, shape, dtype or dt.float32))
    value: dict[Any, Node] = {(id(n), 0): leaf for n, leaf in zip(inputs, leaves)}
    order = _ordered(symbol.entries, also, value)
    missing = next((n for n in order if n.opdef is None and (id(n), 0) not in value), None)
    if missing is not None:
        reader = next((n for n in order if n.at and any(m is missing for m, _ in n.inputs)), None)
        if reader is not None and not reader.opdef.variadic:             # type: ignore[union-attr]
            k = next(i for i, (m, _) in enumerate(reader.inputs) if m is missing)
            names = reader.opdef.inputs                                  # type: ignore[union-attr]
            raise AttributeValueError(f"{reader.at}: operator {reader.opdef.name} needs the "  # type: ignore[union-attr]
                                      f"input {names[k]!r}, which was not given (inputs: {', '.join(names)})")
        raise AttributeValueError(f"the graph's variable {missing.name!r} is none of the inputs: "
                                  f"{', '.join(m.name for m in inputs)}")
    first, draws = draws_of({id(n): n for n in [*order, *also]}.values(), train)
    key = ir.input(len(leaves), (2,), np.uint32) if draws else None
    with noting({}) as origins:
        found = lower_nodes(order, value, train, key, first, {id(n) for n in inputs})
    slots = {id(n): i for i, n in enumerate(inputs)}
    outputs = tuple(value[(id(n), k)] for n, k in symbol.entries)
    program = Program(tuple(leaves) + ((key,) if key is not None else ()), outputs,
                      tuple((slots[i], n) for i, n in found.items()))
    program.memo["origins"] = origins
    return program, draws


def unless_refused(program: Program, told: Node, updates: dict[int, Node]) -> dict[int, Node]:
    """Updates that leave the inputs as they are where one of a program's demands is not met. told: their outcome
    (autograd/demands.py)."""
    wrong = ir.reduce("max", ir.slice(told, (0,), (told.size // 2,), (2,)), (0,))
    met = ir.map("eq", wrong, 0.0)
    return {slot: ir.map("where", met, new, program.inputs[slot]) for slot, new in updates.items()}


def _ordered(entries: Sequence[tuple[SymNode, int]], also: Sequence[SymNode], given: Collection[Any]) -> list[SymNode]:
    """The nodes below the outputs, and those of ``also`` with states that depend on given variables alone. Where
    several operators read one state (a BatchNorm called twice), in the order in which they were made, so that it
    changes as in eager calls.
    """
    order = in_order(entries)
    reached = {id(n) for n in order}
    left = [(n, 0) for n in also if id(n) not in reached
            and n.opdef.aux]                            # type: ignore[union-attr]
    left = [e for e in left if all(n.opdef is not None or (id(n), 0) in given for n in in_order([e]))]
    order = in_order([*entries, *left]) if left else order
    states = {id(n.inputs[i][0]) for n in order if n.opdef is not None
              for i in n.opdef.states(n.attrs, len(n.inputs))}      # type: ignore[arg-type]
    reads = [id(m) for n in order for m in {id(m): m for m, _ in n.inputs}.values()
             if id(m) in states] if states else []
    return sorted(order, key=lambda n: n.serial) if len(reads) > len(states) else order


def draws_of(order: Iterable[SymNode], train: bool) -> tuple[dict[int, int], int]:
    """The number of each drawing operator's first draw, by id, in the order in which the operators were made; and how
    many there are."""
    first, count = {}, 0
    for n in sorted((n for n in order if n.opdef is not None), key=lambda n: n.serial):
        own = n.opdef.random(n.attrs, mode_of(n, train))       # type: ignore[union-attr, arg-type]
        if own:
            first[id(n)] = count
            count += own
    return first, count


def lower_nodes(order: Sequence[SymNode], value: dict[Any, Node], train: bool, key: Node | None, first: dict[int, int],
                states: Collection[int]) -> dict[int, Node]:
    """Put the values of operators into ``value``, by (id, output number), where those of all variables are.

    key, first: the random key and the number of each operator's first draw. states: ids of the variables that operators
    may update; returns their new values.
    """
    updates: dict[int, Node] = {}
    for n in order:
        if n.opdef is None:
            continue
        nodes: list[Any] = [value[(id(m), k)] for m, k in n.inputs]
        if not n.opdef.variadic:
            nodes += [None] * (len(n.opdef.inputs) - len(nodes))
        made_for((n.opdef.name, n.at) if n.at else None)
        own = drawn(key, first[id(n)]) if id(n) in first else None
        low = n.opdef.lower(nodes, effective(n), mode_of(n, train), own)
        outputs = [ir.detach(nodes[0])] if DETACHED in n.extra else low.outputs
        for k, out in enumerate(outputs):
            value[(id(n), k)] = out
        for name, out in low.updates.items():
            target = n.inputs[name if isinstance(name, int) else n.opdef.inputs.index(name)][0]
            if id(target) in states:
                value[(id(target), 0)] = updates[id(target)] = out
    return updates


def mode_of(n: SymNode, train: bool) -> bool:
    """Whether a node runs in training mode: as its code was traced, else as the whole graph."""
    return train if n.train is None else n.train


def drawn(key: Node | None, i: int) -> Node:
    """The key of draw number i, which is a symbolic size behind a loop over any number of steps."""
    assert key is not None
    if i == 0:
        return key
    more = (ir.data(np.array([0, i], np.uint32)) if fixed(i) else
            ir.map("mul", ir.data(np.array([0, 1], np.uint32)), ir.const(i, np.uint32)))
    return ir.map("add", key, more)
