"""Convolutions of half types whose weights change from call to call, as those of a training step do, in float32: values
of the program are float32 numbers, rounded wherever a half would be, and every form of float32 has vectors for them.
What the program is given and what it returns stay halves.
"""
from __future__ import annotations

from typing import Sequence

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..ir import Node, Program
from ..ir.access import MOVEMENT, beneath
from ..ir.build import make
from ..ir.contraction import convolves
from ..ir.reductions import REDUCTIONS
from ..ir.scalar import SCALARS, half_rounded_to, rounding_to
from .frozen import Frozen
from .rewrite import rebuild

MOVED = MOVEMENT | {"concat", "gather"}
SUMS = frozenset({"dot", "unwindow", "cumulate"})


def near(x: Node, d: np.dtype) -> Node:
    """Float32 values rounded to those of a half type."""
    fn = rounding_to(d.name)
    return x if x.fn == fn else ir.map(fn, x)


class WideHalves:
    """One run over a program."""

    def __init__(self, program: Program):
        self.program = program
        self.new: dict[Node, Node] = {}          # values of the program in their types
        self.wide: dict[Node, Node] = {}         # those of half types in float32

    def run(self) -> list[Node]:
        """The roots, in their types."""
        for n in self.program.order():
            y = self._lowered(n) if any(dt.is_half(x.dtype) for x in (n, *n.args)) else None
            if y is None:
                self.new[n] = rebuild(n, [self._as_original_dtype(a) for a in n.args])
            elif dt.is_half(n.dtype):
                self.wide[n] = y
            else:
                self.new[n] = y
        return [self._as_original_dtype(r) for r in self.program.roots]

    def _as_original_dtype(self, n: Node) -> Node:
        """A value in the dtype that it has in the program."""
        if n not in self.new:
            self.new[n] = ir.cast(self.wide[n], n.dtype)
        return self.new[n]

    def _as_float32(self, n: Node) -> Node:
        """A value in float32 if it is of a half type, else in its own dtype."""
        if not dt.is_half(n.dtype):
            return self.new[n]
        if n not in self.wide:
            self.wide[n] = ir.cast(self.new[n], dt.float32)
        return self.wide[n]

    def _lowered(self, n: Node) -> Node | None:
        """A value computed from float32 operands; None where it is still computed in halves."""
        args = [self._as_float32(a) for a in n.args]
        if n.prim == "const":
            return ir.const(n.attrs["value"], dt.float32)
        if n.prim == "cast":
            return self._cast(n, args[0])
        if n.prim in MOVED:
            return _moved(n, args)
        if n.prim == "argreduce" or n.prim == "reduce" and n.attrs["op"] in ("max", "min"):
            return make(n.prim, tuple(args), **n.attrs)
        if n.prim == "map":
            y, exact = make("map", tuple(args), **n.attrs), SCALARS[n.fn].exact or not dt.is_half(n.dtype)
            return y if exact else near(y, n.dtype)
        if n.prim in SUMS or n.prim == "reduce" and REDUCTIONS[n.attrs["op"]].own:
            return near(make(n.prim, tuple(args), **n.attrs), n.dtype)
        return None

    def _cast(self, n: Node, x: Node) -> Node:
        if not dt.is_half(n.dtype):
            return x if n.dtype == dt.float32 else ir.cast(x, n.dtype)
        y = ir.cast(x, dt.float32)
        return y if n.args[0].dtype == bool else near(y, n.dtype)


def _moved(n: Node, args: Sequence[Node]) -> Node:
    """Movement of values. A permute or reshape of a product moves below its rounding, so that the pattern of a
    convolution, which is a product with permuted axes, still matches."""
    x = args[0]
    if n.prim in ("permute", "reshape") and half_rounded_to(x.fn) and beneath(
            x.args[0], ("permute", "reshape")).prim == "dot":
        return make("map", (make(n.prim, (x.args[0],), **n.attrs),), fn=x.fn)
    if n.prim == "pad":
        border = ir.const(float(n.attrs["value"]), n.dtype).attrs["value"]
        return ir.pad(x, n.attrs["lo"], n.attrs["hi"], float(border))
    return make(n.prim, tuple(args), **n.attrs)


def _changing(n: Node, lasts: Frozen) -> bool:
    """Whether a value is a convolution of halves, or a gradient of one, whose weights change."""
    return n.prim == "dot" and dt.is_half(n.dtype) and not any(map(lasts, n.args)) and convolves(n)


def wide_halves(program: Program, frozen: frozenset[int]) -> Program:
    """The program, if it has such convolutions, with its halves as float32. frozen: slots of the parameters."""
    if not any(dt.is_half(n.dtype) and n.prim == "dot" for n in program.order()):
        return program
    lasts = Frozen(program, frozen)
    if not any(_changing(n, lasts) for n in program.order()):
        return program
    return program.with_roots(WideHalves(program).run())
