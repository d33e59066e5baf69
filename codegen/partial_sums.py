"""Long sums of float32 in blocks: what a number of additions gave is added to a wider total, and the next block begins
at zero.

A running sum of equal numbers rounds in the same direction for long stretches, so that its error grows with the number
of additions; within a block of TERMS it stays below 1e-6 (Higham 1993, "The accuracy of floating point summation"). A
plain loop's total is a double. That of vectors is a vector, and where more than TERMS blocks are added to it a pair of
them: what was added and what its rounding lost (Kahan 1965).
"""
from __future__ import annotations

from typing import Sequence

import numpy as np

from hybrid.ir.index import Var

from .block import loop_nest

TERMS = 64                      # additions to one accumulator before it goes into the total
FEW = 4                         # blocks up to which a total is not worth its time


def in_blocks(op: str, d: np.dtype, additions: int) -> bool:
    """Whether a reduction keeps a total: a sum of float32 with so many additions to one accumulator."""
    return op == "sum" and d == np.float32 and additions > FEW * TERMS


def compensated(additions: int) -> bool:
    """Whether so many additions are so many blocks that the total needs compensation."""
    return additions > TERMS * TERMS


def vector_total(acc: str, name: str, additions: int) -> tuple[str, str, str]:
    """The total of an accumulator that is a vector: its declaration, the statement behind every block, and the one
    behind all of them, which leaves the sum in the accumulator."""
    if compensated(additions):
        pair = f"{name}t@, {name}l@" if acc.endswith("@") else f"{name}t, {name}l"
        return (f"hy_v {pair.replace(',', ' = {0},')} = {{0}};", f"HYV_FLUSH({acc}, {pair});",
                f"{acc} = hyv_total({acc}, {pair});")
    total = f"{name}t@" if acc.endswith("@") else f"{name}t"
    return f"hy_v {total} = {{0}};", f"HYV_ADD_BLOCK({acc}, {total});", f"{acc} += {total};"


def turns(name: str, start: int, end: int, step: int, lines: Sequence[str], block: int, flush: Sequence[str],
          pragma: str = "", index: str = "long") -> list[str]:
    """A loop by steps from ``start`` to before ``end`` (a multiple of steps further); with ``flush``, which stands
    behind every block of so many steps."""
    def loop(first: str, last: str) -> list[str]:
        return [*([pragma] if pragma else []),
                f"for ({index} {name} = {first}; {name} < {last}; {name} += {step}) {{",
                *("  " + s for s in lines), "}"]
    size = block * step
    if not flush:
        return loop(str(start), str(end))
    if end - start <= size:
        return [*loop(str(start), str(end)), *flush]
    stop = f"{name}_c + {size}"
    if (end - start) % size:
        stop = f"({stop} < {end} ? {stop} : {end})"
    return [f"for ({index} {name}_c = {start}; {name}_c < {end}; {name}_c += {size}) {{",
            *("  " + s for s in [*loop(f"{name}_c", stop), *flush]), "}"]


def nest(loops: Sequence[Var], lines: Sequence[Sequence[str]], additions: int, flush: Sequence[str], pragma: str = "",
         index: str = "long", terms: int = TERMS) -> list[str]:
    """Loops around statements, those of ``lines[depth]`` before the loop within. additions: of one turn of the
    innermost loop; flush: statements behind every block, none for sums that keep no total."""
    body: list[str] = []
    for depth in reversed(range(len(loops))):
        v, body = loops[depth], [*lines[depth], *body]
        own = pragma if depth == len(loops) - 1 else ""
        if flush and additions and additions * v.extent > terms:
            body = turns(v.name, 0, v.extent, 1, body, max(1, terms // additions), flush, own, index)
            additions = 0
        else:
            body = loop_nest([v], body, own, index)
            additions *= v.extent
    return body
