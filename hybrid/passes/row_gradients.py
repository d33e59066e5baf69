"""Gradients that are zero outside of some rows, as pairs of row numbers and rows: what looking up rows of a table has
for a gradient.

A gradient that is a sum of ``scatter_add`` nodes along the first axis need not be made as a dense array: its parts are
as large as what was looked up, not as the table.
"""
from __future__ import annotations

from typing import Sequence

from ..base import dtype as dt
from .. import ir
from ..ir import Node

# numbers of rows, of any shape, and the rows: of that shape and the table's other axes
Pair = tuple[Node, Node]


def row_pairs(gradient: Node) -> list[Pair] | None:
    """The pairs that a gradient is the sum of, none for zeros; None where it is no such sum."""
    if gradient.prim == "scatter_add" and gradient.attrs["axis"] == 0:
        idx, rows = gradient.args
        return [(ir.cast(idx, dt.int64), rows)]
    if gradient.prim == "cast":
        found = row_pairs(gradient.args[0])
        return None if found is None else [(i, ir.cast(rows, gradient.dtype)) for i, rows in found]
    if gradient.fn == "add":
        parts = [row_pairs(a) for a in gradient.args]
        return None if any(p is None for p in parts) else [pair for p in parts for pair in p or ()]
    if gradient.prim == "const" and float(gradient.attrs["value"]) == 0:
        return []
    return row_pairs(gradient.args[0]) if gradient.prim == "expand" and gradient.args[0].prim == "const" else None


def with_rows(gradients: Sequence[Node], sparse: Sequence[bool]) -> tuple[list[Node], tuple[int | None, ...]]:
    """The gradients, those marked as sparse by their pairs where they have such; and how many pairs each takes (None:
    it is dense)."""
    flat: list[Node] = []
    layout: list[int | None] = []
    for g, wanted in zip(gradients, sparse):
        pairs = row_pairs(g) if wanted and g.shape else None
        layout.append(None if pairs is None else len(pairs))
        flat += [g] if pairs is None else [n for pair in pairs for n in pair]
    return flat, tuple(layout)
