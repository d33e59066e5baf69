"""Loops: ``scan`` runs a small program (its body) step after step; ``item`` is one of its results.

Arguments of a scan: what the body carries from step to step, arrays of which each step sees one slice along axis 0,
constants, and perhaps a count of steps. A scan node stands for all results together and has no value of its own.
foreach, while_loop and cond, recurrent layers and their gradients are all made of it.
"""
from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.errors import HybridError, ShapeError
from .build import input as leaf
from .build import make
from .evaluate import run
from .node import Node
from .primitives import PRIMS, Prim
from .program import Program
from .size import fixed
from .vjp import VJP

STEPS = -1                              # item number of the number of steps that were done


class Body(Program):
    """One step. inputs: leaves of the carried values, the slices, the constants. outputs: new carried values; with
    ``stops`` a bool, whether to go on after this step; then what is stacked. Equal bodies are equal values.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and (self.inputs, self.outputs) == (other.inputs, other.outputs)

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs))


def scan(body: Body, carries: Sequence[Node], slices: Sequence[Node], constants: Sequence[Node], length: int, *,
         count: Node | None = None,
         reverse: bool = False, stops: bool = False) -> Node:
    """A loop of at most ``length`` steps.

    count: int64 scalar, how many of them are done (0 to length; none given: all). reverse: the last one first. stops:
    the body says after each step whether to go on. Results (see ``item``): the last carried values, then the stacked
    values, with zeros where no step was done.
    """
    args = (*carries, *slices, *constants, *(() if count is None else (count,)))
    return make("scan", args, body=body, carries=len(carries), slices=len(slices),
                length=int(length) if fixed(length) else length, reverse=bool(reverse), stops=bool(stops))


def loop(step: Callable[..., tuple[Sequence[Node], Sequence[Node]]], carries: Sequence[Node],
         slices: Sequence[Node] = (), constants: Sequence[Node] = (), *,
         length: int | None = None, count: Node | None = None, reverse: bool = False) -> tuple[list[Node], list[Node]]:
    """``scan`` of a function: ``step(carries, slices, constants)`` gives new carried values and values to be stacked.

    Returns the last carried values and the stacked ones. length: that of the slices unless given.

    >>> x = input(0, (5, 3), "float32")
    >>> loop(lambda c, x, w: ([c[0] + x[0]], []), [full(0, (3,), "float32")], [x])[0][0]      # a sum over axis 0  # doctest: +SKIP
    """  # noqa: E501
    steps = slices[0].shape[0] if length is None else length
    shapes = [*((c.shape, c.dtype) for c in carries), *((x.shape[1:], x.dtype) for x in slices),
              *((w.shape, w.dtype) for w in constants)]
    leaves = tuple(leaf(i, shape, dtype) for i, (shape, dtype) in enumerate(shapes))
    n, m = len(carries), len(carries) + len(slices)
    new, out = step(leaves[:n], leaves[n:m], leaves[m:])
    made = scan(Body(leaves, (*new, *out)), carries, slices, constants, steps, count=count, reverse=reverse)
    return items(made, range(n)), items(made, range(n, n + len(out)))


def item(loop: Node, index: int) -> Node:
    """A result of a scan: carried values, then stacked values; ``STEPS`` is the number of steps done (int64)."""
    return make("item", (loop,), index=int(index))


def items(loop: Node, indices: Iterable[int]) -> list[Node]:
    """Several results."""
    return [item(loop, i) for i in indices]


def stacked(loop: Node) -> tuple[Node, ...]:
    """The body's outputs that are stacked."""
    return loop.attrs["body"].outputs[loop.attrs["carries"] + loop.attrs["stops"]:]


def count_of(loop: Node) -> Node | None:
    """The argument that says how many steps are done."""
    n = len(loop.attrs["body"].inputs)
    return loop.args[n] if len(loop.args) > n else None


def _infer_scan(args: tuple[Node, ...], body: Body, carries: int, slices: int, length: int, reverse: bool,
                stops: bool) -> tuple[tuple[int, ...], np.dtype]:
    n = len(body.inputs)
    if not n <= len(args) <= n + 1 or len(body.outputs) < carries + stops or body.updates:
        raise HybridError(f"a loop's body takes {n} inputs and has {len(body.outputs)} outputs, which does not fit "
                          f"{len(args)} arguments, {carries} carried")
    for i, (leaf, a) in enumerate(zip(body.inputs, args)):
        shape = (length, *leaf.shape) if carries <= i < carries + slices else leaf.shape
        if a.shape != shape or a.dtype != leaf.dtype:
            raise ShapeError(f"argument {i} of a loop is {a.dtype}{a.shape}, its body wants {leaf.dtype}{shape}")
    for i in range(carries):
        if body.outputs[i].shape != body.inputs[i].shape or body.outputs[i].dtype != body.inputs[i].dtype:
            raise ShapeError(f"carried value {i} of a loop begins as {body.inputs[i].dtype}{body.inputs[i].shape} and "
                             f"becomes "
                             f"{body.outputs[i].dtype}{body.outputs[i].shape}: shape and dtype must stay")
    flag = body.outputs[carries] if stops else None
    if flag is not None and (flag.shape != () or flag.dtype
                             != np.dtype(bool)) or len(args) > n and (args[n].shape != () or args[n].dtype != dt.int64):
        raise ShapeError("a loop's count must be an int64 scalar and its condition a bool scalar")
    return (), np.dtype(np.float32)                        # a float, so that gradients reach it


def _infer_item(args: tuple[Node, ...], index: int) -> tuple[tuple[int, ...], np.dtype]:
    loop, = args
    if index == STEPS:
        return (), np.dtype(np.int64)
    if index < loop.attrs["carries"]:
        return loop.args[index].shape, loop.args[index].dtype
    n = stacked(loop)[index - loop.attrs["carries"]]
    return (loop.attrs["length"], *n.shape), n.dtype


def _run_scan(xp: Any, n: Node, *arrays: Any) -> tuple[Any, ...]:
    """The loop in Python: a tuple of all results, the number of steps last."""
    a = n.attrs
    body, carries, slices, length = a["body"], a["carries"], a["slices"], a["length"]
    state, parts, rest = list(arrays[:carries]), arrays[carries:carries + slices], arrays[carries + slices:]
    count = length
    if len(arrays) > len(body.inputs):
        count, rest = min(max(int(rest[-1]), 0), length), rest[:-1]
    out = [xp.zeros((length, *y.shape), y.dtype) for y in stacked(n)]
    steps = 0
    for t in reversed(range(count)) if a["reverse"] else range(count):
        values, _ = run(body, [*state, *(p[t, ...] for p in parts), *rest], xp)
        state = values[:carries]
        for stack, value in zip(out, values[carries + a["stops"]:]):
            stack[t] = value
        steps += 1
        if a["stops"] and not bool(values[carries]):
            break
    return (*state, *out, xp.asarray(steps, np.int64))


PRIMS["scan"] = Prim("scan", _infer_scan, _run_scan)
PRIMS["item"] = Prim("item", _infer_item, lambda xp, n, loop: loop[n.attrs["index"]])


class Cotangents(dict[int, Node]):
    """Cotangents of a loop's results by item number; they are added up like those of other nodes."""

    def __add__(self, other: "Cotangents") -> "Cotangents":
        return Cotangents({i: self[i] + other[i] if i in self and i in other else (self if i in self else other)[i]
                           for i in {**self, **other}})


VJP["item"] = lambda g, n, loop: (None if n.attrs["index"] == STEPS else Cotangents({n.attrs["index"]: g}),)
