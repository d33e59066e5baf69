"""Decompositions of large matrices, which LAPACK does faster than the library's own kernels: NumPy is called for them,
between compiled parts of the program."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..ir import Node, Program
from ..ir.host import HostCall, host
from ..ir.rowcall import run_rows
from .rewrite import rewrite

# rows of a matrix from which on NumPy's function is faster, by the kernel's name
FROM = {"syevd": 22, "inverse": 64, "slogdet": 88, "potrf": 176, "trsm": 256}


def _large(n: Node) -> bool:
    return n.prim == "rows" and n.args[0].shape[-1] >= FROM.get(n.attrs["name"], n.args[0].shape[-1] + 1)


def _called(n: Node) -> Node | None:
    """The node as a call of NumPy."""
    if not _large(n):
        return None

    def run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [run_rows(xp, n, *arrays)]
    return host(HostCall(n.attrs["name"], run, ((n.shape, n.dtype),)), n.args)[0]


def on_host(program: Program) -> Program:
    """A program for the CPU whose large decompositions are calls of NumPy; those in loops stay as they are."""
    if not any(_large(n) for n in program.order()):
        return program
    return program.with_roots(rewrite(program.roots, {"rows": [_called]}))
