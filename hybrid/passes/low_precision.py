"""Products of few bits: which products of float32 are those of narrower numbers, and how these are multiplied by words
of 32 bits.

A product of bfloat16 numbers with sums in float32 is said as one of float32, whose operands are casts; so is one of
8-bit integers. Where the processor has an instruction for it (``Blocking.words``), the layout pass takes the narrow
numbers themselves.
"""
from __future__ import annotations

import math

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..ir import Node, Program
from ..ir.access import MOVEMENT
from ..ir.low_precision import narrow, word_of
from .frozen import Lasting
from .rewrite import rebuild

LEAST_WORK = 1 << 14            # products below which nothing is rounded: they would not be packed (layout.py)
LEAST_FILTERS, LEAST_DEPTH = 16, 16


def in_bfloat16(program: Program, lasting: frozenset[int]) -> Program:
    """The program with operands of large products with parameters rounded to bfloat16; the sums stay float32. What is
    rounded for a product is rounded for every other use too, so that it is stored once. Inputs and results are as they
    were. lasting: slots of the parameters.
    """
    lasts = Lasting(program, lasting)
    rounded = {_source(a) for n in program.order() if _pays(n, lasts) for a in n.args}
    exact: dict[Node, Node] = {}
    new: dict[Node, Node] = {}
    for n in program.order():
        exact[n] = m = rebuild(n, [new[a] for a in n.args])
        new[n] = _rounded(m) if n in rounded else m
    changed = program.with_roots([exact[r] for r in program.roots])
    changed.memo.update((k, v) for k, v in program.memo.items() if k in ("origins", "name", "lasting"))
    return changed


def _rounded(x: Node) -> Node:
    return ir.cast(ir.cast(x, dt.as_dtype("bfloat16")), dt.float32)


def _source(x: Node) -> Node:
    """The value whose elements an operand is, moved."""
    while x.prim in MOVEMENT:
        x = x.args[0]
    return x


def _pays(n: Node, lasts: Lasting) -> bool:
    """Whether a product is one with a parameter that will be packed."""
    if n.prim != "dot" or n.dtype != np.float32 or n.attrs["batch"] != ((), ()):
        return False
    known = [lasts(a) for a in n.args]
    if known[0] == known[1]:
        return False
    w = n.args[known.index(True)]
    depth = math.prod(n.args[0].shape[a] for a in n.attrs["contract"][0])
    filters = w.size // max(depth, 1)
    return n.size * depth >= LEAST_WORK and filters >= LEAST_FILTERS and depth >= LEAST_DEPTH


def words(x: Node, w: Node, groups: int, known: frozenset[str]) -> "tuple[Node, Node, int] | None":
    """Data (N, *size, C) and weights (filters, C / groups, *kernel) in the types that they are casts of, channels
    rounded up to whole words, and numbers of a word; None where they are not multiplied so."""
    a, b = narrow(x), narrow(w)
    if a is None or b is None or a.dtype.name not in known:
        return None
    word = word_of(a.dtype, b.dtype)
    more = -b.shape[1] % word if word else 0
    if not word or groups > 1 and more:
        return None
    none = (0,) * (b.ndim - 2)
    return (ir.pad(a, (0,) * a.ndim, (0,) * (a.ndim - 1) + (more,)), ir.pad(b, (0,) * b.ndim, (0, more, *none)), word)
