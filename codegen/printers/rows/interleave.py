"""Kernels in C whose results come in blocks: the gradient of pooling, an image made larger. An axis whose index is
divided by a constant becomes a loop over blocks, written out inside; of the innermost axis, neighbouring pairs are read
and written as two vectors, one of their first elements and one of their second. An innermost axis that is not divided,
channels, is vectors as it is.
"""
from __future__ import annotations

import math
from dataclasses import field
from typing import Sequence

import numpy as np

from hybrid.base.records import dataclass
from hybrid.ir.size import fixed
from hybrid.ir import Node
from hybrid.ir.access import ELEMENTWISE, Guard, Index, pull
from hybrid.ir.index import Ix, Quot, Rem, Var, coefficient, linear, var, variables
from hybrid.ir.kernel import Kernel
from hybrid.ir.stmt import MASK, Expr, For, Let, Literal, Load, Name, Op, Scope, Stmt, Store

from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.block import Block, level, within_levels
from hybrid.codegen.loops import PARALLEL_WORK, TEAM, KernelPrinter, Printed, work_of
from hybrid.codegen.lane_reductions import TAPS, vector_step
from hybrid.codegen.lanes import F32, Refused, copies, iterations, masked
from hybrid.codegen.reductions import written_out
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.vector import VectorEmitter

# what joins two vectors
SHORT = 3                      # turns of a loop over the elements of a block
WRITTEN_OUT = 8                # elements of a block up to which it is written out


@dataclass
class PairEmitter(VectorEmitter):
    """Vectors of every second element: both vectors of a pair are read together."""
    pairs: dict[tuple[Node, Ix, Guard], tuple[Name, Name]] = field(default_factory=dict)
    masks: dict[tuple[int, Guard], Name] = field(default_factory=dict)

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        lane, at = self.lane(idx, guard), linear(n.shape, idx)
        if lane is not None and n.dtype == F32 and coefficient(at, lane) == 1 and self.lane((), guard) is not None:
            where = Op(f"{self.stored[n]} + ({{0}})", (at,))
            return self.bind(block, "v", Op("HYV_LOADM({0}, {1})", (self._inside(guard, lane, block), where)))
        if lane is None or coefficient(at, lane) != 2:
            return super()._load(n, idx, guard, block)
        if n.dtype != F32 or n.shape[-1] % 2 or guard or any(c % 2 for _, c in at.terms):
            raise Refused("pairs that are not whole, within a border, or that begin anywhere")
        odd = at.const % 2
        key = (n, at + -odd, guard)
        if key not in self.pairs:
            first, last = (self.bind(block, "v", Load(Name(self.stored[n]), key[1], f"PAIR_{end}"))
                           for end in ("FIRST", "LAST"))
            self.pairs[key] = first, last
        return self.bind(block, "v", Op("HYV_ODD({0}, {1})" if odd else "HYV_EVEN({0}, {1})", self.pairs[key]))

    def _inside(self, guard: Guard, lane: Var, block: Block) -> Name:
        """The mask of lanes within the loop and the part without padding, where either ends inside a vector."""
        key = (id(block), guard)
        if key not in self.masks:
            ends: list[Expr] = [Op("HYV_RANGE(0, {0})", (var(lane) * -1 + lane.extent,))]
            for kind, x, n in guard:
                step = coefficient(x, lane)
                if step == 0:
                    ends.append(Op("HYV_RANGE(0, ({0}) ? HYV_LANES : 0)", (self.condition(((kind, x, n),)),)))
                elif step == 1 and kind in ("ge", "lt"):
                    form = "HYV_RANGE({0}, HYV_LANES)" if kind == "ge" else "HYV_RANGE(0, {0})"
                    ends.append(Op(form, (x * -1 + n,)))
                else:
                    raise Refused("a border within pairs")
            every = " & ".join(f"{{{i}}}" for i in range(len(ends)))
            self.masks[key] = self.bind(block, "m", Op(f"(hy_m)({every})", tuple(ends)))
        return self.masks[key]

    def _pad(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        inner, own = pull(n, idx)
        lane = self.lane((), own)
        if lane is None or n.dtype != F32 or any(x.is_const for _, x, _ in own):
            return super()._pad(n, idx, guard, block)
        value = self.floats(self.value(n.args[0], inner, block, guard + tuple(g for g in own if g not in guard)))
        other = self.floats(self.d.literal(n.attrs["value"], n.dtype))
        return self.bind(block, "v", Op("HYV_SELECT({0}, {1}, {2})", (self._inside(own, lane, block), value, other)))

    def _compute(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        if n.prim == "pad" and self.lane((), guard) is not None:
            return self._pad(n, idx, guard, block)
        if self.lane(idx) is None and _counted(n):
            return super()._compute(n, idx, (), block)
        if n.prim != "reduce" or self.lane(idx, guard) is None or n.dtype != F32:
            return super()._compute(n, idx, guard, block)
        return self._written_out(n, idx, guard, block)

    def _written_out(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        """A reduction of a few elements, each read where its pair is."""
        x, count = n.args[0], math.prod(n.args[0].shape[a] for a in n.attrs["axes"])
        if count > TAPS or not count:
            raise Refused("a long reduction")
        total: Expr = Literal("")
        for at in written_out(n, idx):
            value = self.floats(self.value(x, at, block, guard))
            total = self.bind(block, "v", Op(vector_step(n.attrs["op"]), (total, value))) if total else value
        return str(total)


def _counted(n: Node) -> bool:
    """Whether a value is computed from constants and positions alone: it reads no memory, and needs no check of
    bounds."""
    return n.prim in ("iota", "const") or n.prim in ELEMENTWISE and all(map(_counted, n.args))


def print_pairs(k: Kernel, name: str, target: Target) -> Printed:
    """C of a kernel whose results come in blocks; Refused where they do not."""
    width = target.lanes(F32)
    if k.kind not in ("reduction", "elementwise", "row") or any(n.prim != "argreduce" for n in k.hoisted):
        raise Refused("reductions of rows")
    if k.root.dtype != F32 or k.extra or k.sides or width < 4 or not k.root.shape:
        raise Refused("not one result of float32")
    return _Blocks(k, name, width).print(target.team)


class _Blocks(KernelPrinter):
    def __init__(self, k: Kernel, name: str, width: int):
        super().__init__(k, name)
        self.width = width
        self.sizes = [self._size(v) for v in k.loops]
        self.loops = [Var(f"i{a}", v.extent // s) for a, (v, s) in enumerate(zip(k.loops, self.sizes))]
        # the axis whose elements lie in lanes; all after it are written out
        self.across = len(k.loops) - 1
        if self.across and self.loops[-1].extent == 1:
            self.across -= 1
        across = math.prod(self.sizes[self.across:]) if k.loops else 0
        self.paired = across == 2 and self.sizes[-1] == 2
        if (across != 1 and not self.paired or not 1 < math.prod(self.sizes) <= WRITTEN_OUT
            or self.loops[self.across].extent < (2 if self.paired else width)):
            raise Refused("no blocks, large ones, or other ones than pairs")

    def _size(self, v: Var) -> int:
        """By how much the index of a loop is divided everywhere, or all of a short loop around a search; 1 where
        neither is."""
        if fixed(v.extent) and 1 < v.extent <= SHORT and any(n.prim == "argreduce"
                                         and all(v not in variables(i) for u in uses for i in u.idx)
                                                             for n, uses in self.k.members.items()):
            return v.extent
        found: set[int] = set()
        stack = [i for uses in self.k.members.values() for u in uses for i in u.idx]
        while stack:
            for a, _ in stack.pop().terms:
                if isinstance(a, (Quot, Rem)):
                    if coefficient(a.x, v) == 1:
                        found.add(a.d)
                    stack.append(a.x)
        if not found:
            return 1
        size = min(found)
        if any(d % size for d in found) or v.extent % size:
            raise Refused("blocks that do not fit")
        return size

    def print(self, team: bool) -> Printed:
        """The kernel; Refused where it cannot be."""
        k, root, loops = self.k, self.k.root, self.loops
        lane = loops[self.across]
        e = PairEmitter(C, self.reads, width=self.width, lanes={lane}, allow_halves=not self.paired)
        around = loops[:self.across]
        parallel = next((v for v in around if v.extent > 1), None)
        if team and parallel is None:
            raise Refused("one line, which one of several threads does")

        def pairs(block: Block) -> None:
            for at in np.ndindex(*self.sizes[:-1]):
                first, second = (tuple(var(v) * s + int(i) for v, s, i in zip(loops, self.sizes, (*at, last)))
                                 for last in (0, 1))
                pair = tuple(e.floats(e.value(root, idx, block)) for idx in (first, second))
                block.body.append(Store(Name(self.names[root]), linear(root.shape, first), Op("{0}, {1}", pair),
                                        "PAIR_STORE"))

        def neighbours(block: Block) -> None:
            for at in np.ndindex(*self.sizes):
                idx = tuple(var(v) * s + int(i) for v, s, i in zip(loops, self.sizes, at))
                e.put(self.names[root], root, idx, block)
        threads = TEAM if team else PARALLEL if work_of(k) >= PARALLEL_WORK else ""
        levels = [level(v, threads if v is parallel else "") if v.extent > 1 else ([v], list) for v in around]
        lanes = (lambda body: self._lanes(lane, body)) if self.paired else (
            lambda body: iterations(lane, body, self.width, 1))
        body = within_levels((), [*levels, ([lane], lanes)], pairs if self.paired else neighbours)
        return self.kernel(body, vectors=True)

    def _lanes(self, v: Var, body: Sequence[Stmt]) -> list[Stmt]:
        """All pairs of a row: whole vectors, then what is left."""
        whole = v.extent // self.width * self.width
        out: list[Stmt] = []
        if whole:
            out.append(For(v.name, Ix(), Ix(whole), tuple(copies(body, 0)), self.width))
        rest = v.extent - whole
        if rest:
            masks = {MASK: rest, f"{MASK}_a": min(2 * rest, self.width), f"{MASK}_b": max(2 * rest - self.width, 0)}
            out.append(Scope((Let("long", Name(v.name), Ix(whole), True),
                              *(Let("hy_m", Name(m), Op(f"HYV_FIRST({n})", ()), True) for m, n in masks.items()),
                              *masked(body))))
        return out
