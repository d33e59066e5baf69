"""Work that NumPy's libraries do faster than the library's own kernels: decompositions of large or many matrices, by
LAPACK, and products of large matrices with themselves, of which BLAS computes half. Between compiled parts of the
program NumPy is called for them. If only one result of a call is read, it is computed alone where that is possible."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base import dtype as dt
from ..ir import PRIMS, Box, Node, Program, slice as sliced
from ..ir.host import HostCall, host
from ..ir.node import users
from ..ir.rowcall import ROW_KERNELS, by_numpy, faster_eagerly, parts_of, run_rows
from .rewrite import rebuild, rewrite


def _within(reader: Node, box: Box) -> bool:
    """Whether a node reads a row kernel's array in one part of each row alone. box: the part."""
    begin, size = box
    if reader.prim != "slice":
        return False
    ends = [(b, b + (count - 1) * step) for b, count, step in zip(
        reader.attrs["begin"], reader.attrs["size"], reader.attrs["step"])][reader.ndim - len(size):]
    return all(b <= min(reach) and max(reach) < b + d for b, d, reach in zip(begin, size, ends))


def _part_read(n: Node, reader: Node) -> int | None:
    """The number of the only part of a row kernel's results that a node reads; None where it reads more."""
    return next((i for i, box in enumerate(parts_of(n)) if _within(reader, box)), None)


def _call(n: Node, args: Sequence[Node], shapes: Sequence[tuple[int, ...]] | None) -> list[Node]:
    """A row kernel as a call of NumPy. shapes: of its parts, if those are the results; else one array holds them."""
    def whole(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        return [run_rows(xp, n, *(x.reshape(a.shape) for x, a in zip(arrays, n.args)))]
    name, outputs = n.attrs["name"], tuple((s, n.dtype) for s in shapes or [n.shape])
    given = [_source(a) for a in args]
    if shapes is None:
        return host(HostCall(name, whole, outputs, shows=False), given)
    alone = {i: by_numpy(n, shapes, i) for i in ROW_KERNELS[name].alone}
    return host(HostCall(name, by_numpy(n, shapes), outputs, shows=False, alone=alone), given)


def _source(a: Node) -> Node:
    """The value whose elements an argument has, perhaps in another shape."""
    while a.prim in ("reshape", "detach", "with_grad"):
        a = a.args[0]
    return a


class _Calls:
    """The rewriting of a program whose row kernels become calls of NumPy, where that is faster."""

    def __init__(self, program: Program, order: Sequence[Node]):
        self.roots, self.readers = set(program.roots), users(order)
        self.new: dict[Node, Node] = {}
        self.items: dict[Node, list[Node]] = {}             # the results of calls, by row kernel

    def _alone(self, nodes: Sequence[Node], prim: str) -> Node | None:
        """The only one of some readers, if it is of this primitive."""
        return nodes[0] if len(nodes) == 1 and nodes[0].prim == prim else None

    def _shape(self, n: Node, number: int) -> tuple[int, ...]:
        """The shape in which a part of the results is read, so that nothing has to reshape it."""
        lead = n.args[0].shape[:n.args[0].ndim - ROW_KERNELS[n.attrs["name"]].ranks[0]]
        shape = (*lead, *parts_of(n)[number][1])
        part = self._alone([r for r in self.readers[n] if _part_read(n, r) == number], "slice")
        if part is None or part in self.roots or part.shape != shape:
            return shape
        after = self._alone(self.readers[part], "reshape")
        return shape if after is None else after.shape

    def call(self, n: Node) -> Node:
        """A row kernel as a call. Its results are separate arrays if each reader reads only one of them."""
        args = [self.new[a] for a in n.args]
        if n in self.roots or any(_part_read(n, r) is None for r in self.readers[n]):
            return _call(n, args, None)[0]
        self.items[n] = _call(n, args, [self._shape(n, i) for i in range(len(parts_of(n)))])
        return self.items[n][0]

    def read(self, n: Node) -> Node:
        """A slice of a row kernel's results, read from the result that it lies in."""
        number = _part_read(n.args[0], n)
        assert number is not None
        item, (first, size) = self.items[n.args[0]][number], parts_of(n.args[0])[number]
        begin = [b - f for b, f in zip(n.attrs["begin"], (*(0,) * (n.ndim - len(size)), *first))]
        return item if item.shape != n.shape and item.size == n.size else sliced(
            item, begin, n.attrs["size"], n.attrs["step"])

    def other(self, n: Node) -> Node:
        """Any other node, over new arguments."""
        args = [self.new[a] for a in n.args]
        return args[0] if n.prim == "reshape" and args[0].shape == n.shape else rebuild(n, args)


def _product_with_itself(n: Node) -> bool:
    """Whether a node is a matrix times itself, transposed, so large that half of the product is faster by BLAS than all
    of it, as measured."""
    if n.prim != "dot" or n.args[0] is not n.args[1] or n.args[0].ndim != 2 or (
            n.ndim != 2 or any(n.attrs["batch"])):
        return False
    (i,), (j,) = n.attrs["contract"]
    size, depth = n.shape[0], n.args[0].shape[i]
    known = isinstance(size, int) and isinstance(depth, int)
    exact = n.dtype in (dt.float32, dt.float64) and not n.attrs.get("may_round_operands")
    return i == j and known and exact and size >= 128 and depth >= 192


def _product(n: Node, x: Node) -> Node:
    """A product as a call of NumPy."""
    def run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [PRIMS["dot"].eager(xp, n, *arrays)]
    return host(HostCall("product", run, ((n.shape, n.dtype),), shows=False), [x, x])[0]


def _with_calls(program: Program, order: Sequence[Node]) -> Program:
    """A program that calls NumPy for the work that NumPy does faster."""
    made = _Calls(program, order)
    for n in order:
        through = made.read if n.prim == "slice" and n.args[0] in made.items else made.other
        if not program.updates and _product_with_itself(n):       # steps of training are faster in one piece
            made.new[n] = _product(n, made.new[n.args[0]])
        else:
            made.new[n] = made.call(n) if faster_eagerly(n) else through(n)
    return program.with_roots([made.new[r] for r in program.roots])


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
    return host(HostCall(call.name, run, (call.outputs[n.attrs["index"]],),
                         lends=call.lends, shows=call.shows), made.args)[0]


def on_host(program: Program) -> Program:
    """A program for the CPU whose large decompositions are calls of NumPy, and whose calls compute only results that
    are read, where they can; those in loops stay as they are."""
    order = program.order()
    if any(faster_eagerly(n) or _product_with_itself(n) for n in order):
        program = _with_calls(program, order)
    alone = _read_alone(program.order())
    if not alone:
        return program
    return program.with_roots(rewrite(program.roots, {"host_item": [lambda n: _result_alone(n, alone)]}))
