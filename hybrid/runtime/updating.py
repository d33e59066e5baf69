"""Runs a program that updates its inputs on NumPy arrays, node by node. A new value is written into its input as soon
as no later node reads the old one: it is still in the processor's caches then, and its memory is free for the nodes of
the next update.
"""
from __future__ import annotations

from collections import Counter
from typing import Any, Sequence

import numpy as np

from ..buffers import derived
from ..buffers.extents import extent
from ..ir.evaluate import Plan, plan
from ..ir.program import Program
from ..ir.quiet import quiet, quietly

Value = tuple[int, Any]                  # the slot of an input, and its new value
_Write = tuple[int, int, bool]           # slot, the register of the new value, whether nobody reads that later


def run(program: Program, arrays: Sequence[Any]) -> tuple[list[Any], list[Value]]:
    """Outputs of a program, and those new values that the caller has to write, as they could not be written early. Both
    may share memory with the inputs."""
    made = plan(program, np)
    if "soon" not in program.memo:
        program.memo["soon"] = _soon(made, [slot for slot, _ in program.updates])
    soon: dict[int, list[_Write]] = program.memo["soon"]         # type: ignore[assignment]
    alone = _alone(arrays) if soon else set()
    token, written = quiet(), set()
    try:
        values = made.start.copy()
        for slot, r in made.leaves:
            values[r] = arrays[slot]
        for i, (call, args, out, dead, into, _) in enumerate(made.steps):
            given = [values[a] for a in args]
            values[out] = call(*given) if into < 0 else call(*given, out=values[into])
            for d in dead:
                values[d] = None
            for slot, r, last in soon.get(i, ()):
                if slot in alone:
                    arrays[slot][...] = values[r]
                    written.add(slot)
                    if last:
                        values[r] = None
    except BaseException:
        for slot in written:                                 # what was prepared from these is of old values
            derived.written(arrays[slot])
        raise
    finally:
        quietly(token)
    return [values[r] for r in made.outputs], [(slot, values[r]) for (slot, _), r in zip(program.updates, made.updates)
                                               if slot not in written]


def _soon(made: Plan, slots: Sequence[int]) -> dict[int, list[_Write]]:
    """By the number of a step, the new values that can be written after it: those of inputs of which no step makes a
    view, and which are neither outputs nor new values of others. slots: the updated inputs."""
    leaves, roots = dict(made.leaves), Counter([*made.outputs, *made.updates])
    computed = {step.out: i for i, step in enumerate(made.steps)}
    last: dict[int, int] = {}
    shown = set(roots)
    for i, step in enumerate(made.steps):
        last.update(dict.fromkeys(step.args, i))
        if step.out not in made.apart:
            shown.update(step.args)
    found: dict[int, list[_Write]] = {}
    for slot, r in zip(slots, made.updates):
        leaf = leaves.get(slot, -1)
        if r in computed and leaf not in shown:
            at = max(computed[r], last.get(leaf, -1))
            found.setdefault(at, []).append((slot, r, roots[r] == 1 and last.get(r, -1) <= at))
    return found


def _alone(arrays: Sequence[Any]) -> set[int]:
    """The indices of the arrays that share memory with no other one of them."""
    found = set(range(len(arrays)))
    farthest, holder = 0, -1                                 # the last address so far, and whose array ends there
    for (start, stop), i in sorted((extent(a), i) for i, a in enumerate(arrays) if a.size):
        if start < farthest:
            found -= {i, holder}
        if stop > farthest:
            farthest, holder = stop, i
    return found
