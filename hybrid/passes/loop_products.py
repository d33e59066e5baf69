"""Products in loops with the same matrix in every step. On the CPU a matrix of parameters is packed once, before the
loop; products of what is known of all steps beforehand (inputs of recurrent cells) are one product over all steps
where a step has few rows.
"""
from __future__ import annotations

import math

import numpy as np

from .. import ir
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.build import make
from ..ir.contraction import Dense, dense
from ..ir.packed import pack, product
from ..ir.scan import Body, count_of
from ..ir.size import fixed, may_exceed
from .layout import MANY_ROWS, MOST_BYTES, Blocking
from .loops import reached, tidied
from .rewrite import over, rebuild, rewrite

LEAST_DEPTH = 4                         # of a product
# rows up to which a step's product reads its matrix for too little work: all steps are done at once
FEW = 4


def loop_products(program: Program, frozen: frozenset[int], blocking: Blocking) -> tuple[Program, dict[Node, str]]:
    """The program with packed products in its loops, and what was packed, each with a line for the report. frozen: see
    ``layout``."""
    packs: dict[Node, str] = {}
    if not any(n.prim == "scan" for n in program.order()):
        return program, packs
    kept = {leaf for i, leaf in enumerate(program.inputs) if i in frozen}
    roots = rewrite(program.roots, {"scan": (lambda n: _Loop(n, kept, blocking, packs).changed(),)}, once=True)
    return program.with_roots(tidied(roots)), packs       # without slices and constants that no step reads any more


class _Loop:
    """One loop."""

    def __init__(self, loop: Node, kept: set[Node], blocking: Blocking, packs: dict[Node, str]):
        self.loop, self.kept, self.blocking, self.packs = loop, kept, blocking, packs
        a = loop.attrs
        self.body, self.length, self.first = a["body"], a["length"], a["carries"] + a["slices"]
        self.slices = dict(zip(self.body.inputs[a["carries"]:self.first], loop.args[a["carries"]:self.first]))
        self.constants = dict(zip(self.body.inputs[self.first:], loop.args[self.first:]))
        self.fixed: dict[Node, bool] = {}              # whether a value is the same in every step
        for n in self.body.order():
            self.fixed[n] = (n in self.constants if n.prim == "input" else n.prim != "random_bits"
                             and all(self.fixed[b] for b in n.args))
        self.ahead: dict[Node, Node] = {}              # product -> those of all steps
        self.packed: dict[Node, Node] = {}             # product -> its packed matrix

    def changed(self) -> Node:
        """The loop with its products packed or taken out."""
        for n in self.body.order():
            d = dense(n)
            if d is not None and n.dtype == np.float32 and self.fixed[d.w] and not self.fixed[d.x]:
                self._product(n, d)
        return self._made() if self.ahead or self.packed else self.loop

    def _outside(self, n: Node) -> Node:
        """A value that is the same in every step, computed before the loop."""
        return over([n], dict(self.constants))[0]

    def _product(self, n: Node, d: Dense) -> None:
        source, filters, depth = beneath(d.x, ("reshape",)), d.filters, d.depth
        if source in self.slices and not self.loop.attrs["stops"] and not may_exceed(d.rows, FEW):
            every = ir.reshape(self.slices[source], (self.length, *d.x.shape))
            self.ahead[n] = ir.dot(every, self._outside(d.w), ((d.x.ndim,), (d.summed,)))
            return
        if filters < self.blocking.lanes or depth < LEAST_DEPTH or not d.rows or d.w.nbytes > MOST_BYTES:
            return
        outside = self._outside(d.w)
        if not all(m in self.kept for m in reached([outside]) if m.prim == "input"):
            return
        width = self.blocking.panel("direct", filters, d.rows if fixed(d.rows) else MANY_ROWS)
        self.packed[n] = packed = pack(ir.reshape(d.by_filter(outside), (filters, depth, 1, 1)), "direct", width)
        self.packs[packed] = f"weights {[filters, depth]} of a loop packed as {list(packed.shape)}"

    def _made(self) -> Node:
        a, body = self.loop.attrs, self.body
        carries = a["carries"]
        more = [*dict.fromkeys(self.ahead.values())]
        matrices = [*dict.fromkeys(self.packed.values())]
        args = [*self.loop.args[:self.first], *more, *self.constants.values(), *matrices]
        moving = len(more) + self.first
        leaves = [ir.input(k, arg.shape[1:] if carries <= k < moving else arg.shape, arg.dtype)
                  for k, arg in enumerate(args)]
        given: dict[Node, Node] = dict(zip(body.inputs[:self.first], leaves))
        given.update(zip(self.constants, leaves[moving:]))
        slot = {n: leaves[self.first + k] for k, n in enumerate(more)}
        slot.update({n: leaves[moving + len(self.constants) + k] for k, n in enumerate(matrices)})
        for n in body.order():
            if n in self.ahead:
                given[n] = slot[self.ahead[n]]
            elif n in self.packed:
                given[n] = self._conv(n, given[n.args[0]], slot[self.packed[n]])
            elif n not in given:
                given[n] = rebuild(n, [given[b] for b in n.args])
        made, count = Body(tuple(leaves), tuple(given[r] for r in body.outputs)), count_of(self.loop)
        return make("scan", (*args, *(() if count is None else (count,))),
                    **{**a, "body": made, "slices": moving - carries})

    def _conv(self, n: Node, x: Node, w: Node) -> Node:
        """A product as a convolution of its rows with a packed matrix."""
        rows = ir.reshape(x, (1, 1, math.prod(x.shape[:-1]), x.shape[-1]))
        return ir.reshape(product(rows, w, n.shape[-1]), n.shape)
