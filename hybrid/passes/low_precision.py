"""Products of few bits: which products of float32 are those of narrower numbers, and how these are multiplied by words
of 32 bits.

A product of bfloat16 numbers with sums in float32 is said as one of float32, whose operands are casts; so is one of
8-bit integers. Where the processor has an instruction for it (``Blocking.words``), the layout pass takes the narrow
numbers themselves.
"""
from __future__ import annotations

from .. import ir
from ..ir import Node
from ..ir.low_precision import narrow, word_of


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
