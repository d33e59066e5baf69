"""Long sums of float32 in blocks: what a number of additions gave is added to a wider total, and the next block begins
at zero.

A running sum of equal numbers rounds in the same direction for long stretches, so that its error grows with the number
of additions; within a block of TERMS it stays below 1e-6 (Higham 1993, "The accuracy of floating point summation"). A
plain loop's total is a double. That of vectors is a vector, and where more than TERMS blocks are added to it a pair of
them: what was added and what its rounding lost (Kahan 1965).
"""
from __future__ import annotations

from typing import Iterable, Sequence

import numpy as np

from hybrid.ir.size import fixed, may_exceed
from hybrid.ir.index import Ix, Var
from hybrid.ir.stmt import COPIED, Assign, Do, For, Let, Literal, Name, Op, Stmt

from .block import loop

TERMS = 64                      # additions to one accumulator before it goes into the total


def in_blocks(op: str, d: np.dtype, additions: int) -> bool:
    """Whether a reduction keeps a total: a sum of float32 with so many additions to one accumulator."""
    return op == "sum" and d == np.float32 and may_exceed(additions, TERMS)


def compensated(additions: int) -> bool:
    """Whether so many additions are so many blocks that the total needs compensation."""
    return may_exceed(additions, TERMS * TERMS)


def vector_total(acc: Name, name: str, additions: int) -> tuple[list[Stmt], Stmt, Stmt]:
    """The total of an accumulator that is a vector: its declaration, the statement behind every block, and the one
    behind all of them, which leaves the sum in the accumulator."""
    end = COPIED if acc.endswith(COPIED) else ""
    total, lost = Name(f"{name}t{end}"), Name(f"{name}l{end}")
    zero = Literal("{0}")
    if compensated(additions):
        return ([Let("hy_v", total, zero), Let("hy_v", lost, zero)],
                Do(Op("HYV_FLUSH({0}, {1}, {2})", (acc, total, lost))),
                Assign(acc, Op("hyv_total({0}, {1}, {2})", (acc, total, lost))))
    return [Let("hy_v", total, zero)], Do(Op("HYV_ADD_BLOCK({0}, {1})", (acc, total))), Assign(acc, total, "+=")


def iterations(name: str, start: int, end: int, step: int, body: Iterable[Stmt], block: int, flush: Sequence[Stmt],
               pragma: str = "", index: str = "long") -> list[Stmt]:
    """A loop by steps from ``start`` to before ``end`` (a multiple of steps further); with ``flush``, which stands
    behind every block of so many steps."""
    body, size = tuple(body), block * step
    if not flush or fixed(end) and end - start <= size:
        return [For(name, Ix(start), Ix(end), body, step, pragma, index), *flush]
    first = Name(f"{name}_c")
    stop = Op(f"{{0}} + {size}", (first,))
    if not fixed(end) or (end - start) % size:
        stop = Op(f"({{0}} + {size} < {end} ? {{0}} + {size} : {end})", (first,))
    return [For(first, Ix(start), Ix(end), (For(name, first, stop, body, step, pragma, index), *flush), size, "",
                index)]


def nest(loops: Sequence[Var], before: Sequence[Sequence[Stmt]], additions: int, flush: Sequence[Stmt],
         pragma: str = "", index: str = "long", terms: int = TERMS) -> list[Stmt]:
    """Loops around statements, those of ``before[depth]`` before the loop within. additions: of one iteration of the
    innermost loop; flush: statements behind every block, none for sums that keep no total."""
    body: list[Stmt] = []
    for depth in reversed(range(len(loops))):
        v, body = loops[depth], [*before[depth], *body]
        own = pragma if depth == len(loops) - 1 else ""
        if flush and additions and may_exceed(additions * v.extent, terms):
            body = iterations(v.name, 0, v.extent, 1, body, max(1, terms // additions), flush, own, index)
            additions = 0
        else:
            body = [loop(v, body, own, index)]
            additions *= v.extent
    return body
