"""From the operator graph to a program of primitives."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from . import dtype as dt
from . import ir
from .errors import AttributeValueError, ShapeError
from .ir import Node, Program
from .symnode import SymNode, known


def lower(symbol: Any, inputs: Sequence[SymNode], train: bool) -> tuple[Program, int]:
    """A program whose inputs are the variables ``inputs`` in order, then (if operators draw random numbers) the random key.
    Returns it with the number of draws. Shapes and dtypes of the variables must be known.
    """
    leaves = []
    for i, n in enumerate(inputs):
        shape, dtype = n.info[0]
        if not known(shape):
            raise ShapeError(f"the shape of variable {n.name!r} is not known: {shape}")
        leaves.append(ir.input(i, shape, dtype or dt.float32))
    value: dict[Any, Node] = {(id(n), 0): leaf for n, leaf in zip(inputs, leaves)}
    order = symbol.nodes()
    drawing = [n for n in order if n.opdef is not None and n.opdef.random(n.attrs, _mode(n, train))]            # type: ignore[arg-type]
    draws = {id(n): i for i, n in enumerate(sorted(drawing, key=lambda n: n.serial))}
    key = ir.input(len(leaves), (2,), np.uint32) if draws else None
    updates: dict[int, Node] = {}
    slots = {id(n): i for i, n in enumerate(inputs)}
    for n in order:
        if n.opdef is None:
            if (id(n), 0) not in value:
                raise AttributeValueError(f"the graph's variable {n.name!r} is none of the inputs: {', '.join(m.name for m in inputs)}")
            continue
        nodes: list[Any] = [value[(id(m), k)] for m, k in n.inputs]
        if not n.opdef.variadic:
            nodes += [None] * (len(n.opdef.inputs) - len(nodes))
        own = None
        if id(n) in draws:
            own = _key(key, draws[id(n)])
        low = n.opdef.lower(nodes, n.attrs, _mode(n, train), own)                   # type: ignore[arg-type]
        for k, out in enumerate(low.outputs):
            value[(id(n), k)] = out
        for name, out in low.updates.items():
            target = n.inputs[n.opdef.inputs.index(name)][0]
            if id(target) in slots:
                value[(id(target), 0)] = out
                updates[slots[id(target)]] = out
    outputs = tuple(value[(id(n), k)] for n, k in symbol.entries)
    program = Program(tuple(leaves) + ((key,) if key is not None else ()), outputs, tuple(updates.items()))
    return program, len(draws)


def _mode(n: SymNode, train: bool) -> bool:
    return train if n.train is None else n.train


def _key(key: Node | None, i: int) -> Node:
    assert key is not None
    return key if i == 0 else ir.map("add", key, ir.data(np.array([0, i], np.uint32)))
