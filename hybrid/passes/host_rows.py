"""Decompositions of large or many matrices, which LAPACK does faster than the library's own kernels: between compiled
parts of the program NumPy is called for them. If only one result of a call is read, it is
computed alone where that is possible."""
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


def _read_alone(order: Sequence[Node]) -> dict[HostCall, int]:
    """The calls of which only one result is read, if a function computes it alone; for each the result's number."""
    read: dict[HostCall, set[int]] = {}
    for n in order:
        if n.prim == "host_item":
            read.setdefault(n.args[0].attrs["call"], set()).add(n.attrs["index"])
    return {call: index for call, (index, *others) in read.items() if not others and index in call.alone}


def _result_alone(n: Node, alone: dict[HostCall, int]) -> Node | None:
    """Another call that computes this result alone; None where there is none. n: the result of a call."""
    made, call = n.args[0], n.args[0].attrs["call"]
    if call not in alone:
        return None
    run = call.alone[n.attrs["index"]]
    return host(HostCall(call.name, lambda xp, arrays: [run(xp, arrays)], (call.outputs[n.attrs["index"]],),
                         lends=call.lends, shows=call.shows), made.args)[0]


def on_host(program: Program) -> Program:
    """A program for the CPU whose large decompositions are calls of NumPy, and whose calls compute only results that
    are read, where they can; those in loops stay as they are."""
    order, kept = program.order(), set(program.roots)
    alone = _read_alone(order)
    if not alone and not any(faster_eagerly(n) for n in order):
        return program
    readers = users(order)
    return program.with_roots(rewrite(program.roots, {
        "rows": [lambda n: _called(n, () if n in kept else readers.get(n, ()))],
        "host_item": [lambda n: _result_alone(n, alone)]}))
