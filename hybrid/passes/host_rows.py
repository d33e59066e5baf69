"""Decompositions of large or many matrices, which LAPACK does faster than the library's own kernels: between compiled
parts of the program NumPy is called for them."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..ir import Node, Program
from ..ir.host import HostCall, host
from ..ir.node import users
from ..ir.rowcall import faster_eagerly, part_of_rows, run_rows
from .rewrite import rewrite


def _called(n: Node, readers: Sequence[Node]) -> Node | None:
    """The node as a call of NumPy."""
    if not faster_eagerly(n):
        return None
    part = part_of_rows(n, readers)

    def run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [run_rows(xp, n, *arrays, part=part)]
    return host(HostCall(n.attrs["name"], run, ((n.shape, n.dtype),)), n.args)[0]


def on_host(program: Program) -> Program:
    """A program for the CPU whose large decompositions are calls of NumPy; those in loops stay as they are."""
    if not any(faster_eagerly(n) for n in program.order()):
        return program
    kept, readers = set(program.roots), users(program.order())
    return program.with_roots(rewrite(program.roots, {
        "rows": [lambda n: _called(n, () if n in kept else readers.get(n, ()))]}))
