"""A smaller program that still differs."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from hybrid.debug import reduction

from .oracle import fault
from .program import Program


def smaller(program: Program, tries: int = 150) -> Program:
    """Takes out statements, results, inputs and layers, and halves sizes, as long as the program differs."""
    kind = _kind(fault(program))

    def fails(candidate: Program) -> bool:
        found = fault(candidate)
        return bool(found) and _kind(found) == kind
    return reduction.smaller(program, _candidates, fails, tries)


def _kind(found: str) -> str:
    return found.split(":")[0].split(" ")[0]


def _candidates(program: Program) -> Iterator[Program]:
    change = dataclasses.replace
    if len(program.rows) > 1:
        yield change(program, rows=(None,))
        yield from (change(program, rows=(*program.rows[:k], *program.rows[k + 1:])) for k in range(len(program.rows)))
    for name in program.results if len(program.results) > 1 else ():
        yield change(program, results=(name,))
    if not program.setup:
        for at in reversed(range(len(program.statements))):
            rest = (*program.statements[:at], *program.statements[at + 1:])
            made = [line.split(" = ")[0] for line in rest if line.split(" = ")[0].isidentifier()]
            yield change(program, statements=rest,
                         results=tuple(r for r in program.results if r in made) or tuple(made[-1:])
                         or (program.inputs[0].name,))
    else:
        for at, line in enumerate(program.setup):
            if line.startswith("net.add("):
                yield change(program, setup=(*program.setup[:at], *program.setup[at + 1:]))
    text = " ".join((*program.statements, *program.results))
    if len(program.inputs) > 1:
        for one in program.inputs:
            if one.name not in text:
                yield change(program, inputs=tuple(i for i in program.inputs if i is not one))
    lengths = sorted({n for i in program.inputs for n in i.shape if n > 1}, reverse=True)
    for n in lengths:
        for less in {1, n // 2, n - 1} - {0, n}:
            yield change(program, inputs=tuple(change(i, shape=tuple(less if k == n else k for k in i.shape))
                                               for i in program.inputs))
    for i, one in enumerate(program.inputs):
        if one.kind != "ties":
            yield change(program, inputs=(*program.inputs[:i], change(one, kind="ties"), *program.inputs[i + 1:]))
