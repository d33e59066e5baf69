"""Sums at places that an array names, in C: zeros, then every update added in order: the same result each time. Rows of
half types are added as vectors."""
from __future__ import annotations

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, linear, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.stmt import Expr, For, Let, Literal, Load, Name, Op, Stmt, Store

from hybrid.codegen.dialect import C
from hybrid.codegen.block import Block, chain
from hybrid.codegen.emit import Emitter
from hybrid.codegen.lanes import F32, HALF_LANES, Refused, half, iterations
from hybrid.codegen.loops import KernelPrinter, Printed, close
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.vector import VectorEmitter


def print_scatter(k: Kernel, name: str, target: Target) -> Printed:
    """C of a kernel."""
    return _Scatter(k, name, target).print()


class _Scatter(KernelPrinter):
    """loops: over the updates; axis: the result's axis that is indexed; count: number of axes of the index array."""

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, name)
        self.lanes = target.lanes(F32)
        self.root, (self.places, self.updates) = k.root, k.root.args
        self.axis, self.count = self.root.attrs["axis"], self.places.ndim
        self.loops = [Var(f"s{a}", d) for a, d in enumerate(self.updates.shape)]
        self.idx = tuple(var(v) for v in self.loops)

    def print(self) -> Printed:
        """The kernel."""
        z, vectors = Var("z", max(self.root.size, 2)), self._in_vectors()
        nothing = Store(Name(self.names[self.root]), var(z), Literal("0"))
        zero = For(z.name, Ix(), Ix(max(self.root.size, 1)), (nothing,), 1, "#pragma omp simd")
        return self.kernel([zero, *(vectors or self._one_by_one())], bool(vectors))

    def _target(self, e: Emitter, block: Block) -> Index:
        """Where an update is added, its place read in a block."""
        axis, count = self.axis, self.count
        at = e.value(self.places, self.idx[axis:axis + count], block)
        slot = Var(e.name("g"), self.root.shape[axis])
        clamped = Op(f"hy_clamp({{0}}, {self.root.shape[axis] - 1})", (at,))
        block.body.append(Let("long", Name(slot.name), clamped))
        return self.idx[:axis] + (Ix(0, ((slot, 1),)),) + self.idx[axis + count:]

    def _one_by_one(self) -> list[Stmt]:
        e, blocks = Emitter(C, self.reads), chain(self.loops)
        value = e.value(self.updates, self.idx, blocks[-1])
        target = self._target(e, blocks[-1])
        blocks[-1].body.append(accumulate(e, self.names[self.root], self.root, target, value))
        return close(blocks, self.loops, lambda depth, body: "")

    def _in_vectors(self) -> list[Stmt]:
        """The loops, with vectors along the last axis of a half type; an empty list where it can't be vectorized."""
        if not is_half(self.root.dtype) or self.lanes < HALF_LANES or self.axis + self.count >= self.updates.ndim:
            return []
        *outer, lane = self.loops
        e = VectorEmitter(C, self.reads, width=self.lanes, lanes={lane}, allow_halves=True)
        blocks = chain(self.loops)
        try:
            value = e.value(self.updates, self.idx, blocks[-1])
        except Refused:
            return []
        at, end = linear(self.root.shape, self._target(e, blocks[-2])), half(self.root.dtype)
        total = e.bind(blocks[-1], "v", Op("{0} + {1}", (Load(Name(self.names[self.root]), at, f"LOAD{end}"),
                                                         e.floats(value))))
        row = iterations(lane, [*blocks[-1].body, Store(Name(self.names[self.root]), at, total, f"STORE{end}")],
                         self.lanes, 1)
        blocks[-2].body += row
        return close(blocks[:-1], outer, lambda depth, body: "")


def accumulate(e: Emitter, pointer: str, n: Node, idx: Index, value: Expr) -> Stmt:
    """A statement that adds to an element in memory."""
    cell: Expr = Load(Name(pointer), e.offset(n.shape, idx))
    if is_half(n.dtype):
        cell = Op(e.d.half_load[n.dtype.name], (cell,))
    return e.store(pointer, n, idx, Op("{0} + {1}", (cell, value)))
