"""Running a program node by node, each primitive by its NumPy or CuPy row."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .node import Node
from .primitives import PRIMS
from .program import Program


def _plan(program: Program) -> list[tuple[Any, Node, tuple[int, ...], int, tuple[int, ...]]]:
    """Steps (eager row, node, argument registers, result register, registers that die here)."""
    order = program.order()
    register = {n: i for i, n in enumerate(order)}
    last: dict[int, int] = {}
    for step, n in enumerate(order):
        for a in n.args:
            last[register[a]] = step
    keep = {register[r] for r in program.roots}
    dying: dict[int, list[int]] = {}
    for reg, step in last.items():
        if reg not in keep:
            dying.setdefault(step, []).append(reg)
    return [(PRIMS[n.prim].eager, n, tuple(register[a] for a in n.args), i, tuple(dying.get(i, ())))
            for i, n in enumerate(order) if n.prim != "input"]


def run(program: Program, arrays: Sequence[Any], xp: Any) -> tuple[list[Any], list[Any]]:
    """Outputs and update values of a program. Results may share memory with the inputs.

    arrays: one per input slot, of the module ``xp`` (numpy or cupy).
    """
    plan = program.memo.get("plan")
    if plan is None:
        register = {n: i for i, n in enumerate(program.order())}
        plan = program.memo["plan"] = (_plan(program), len(register),
                                       [(slot, register[leaf]) for slot,
                                        leaf in enumerate(program.inputs) if leaf in register],
                                       [register[n] for n in program.outputs],
                                       [register[n] for _, n in program.updates])
    steps, count, leaves, outputs, updates = plan
    values: list[Any] = [None] * count
    for slot, r in leaves:
        values[r] = arrays[slot]
    with np.errstate(all="ignore"):                        # once: it takes as long as a small function
        for eager, node, args, out, dead in steps:
            values[out] = eager(xp, node, *[values[a] for a in args])
            for d in dead:
                values[d] = None
    return [values[r] for r in outputs], [values[r] for r in updates]
