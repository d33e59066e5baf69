"""Pooling in C, and the position of the first maximum in each window: windows of an image that is copied, with
its border, to a thread's stack first. A vector holds neighbouring results of a row; with a step of two, every second
element of two vectors is taken.
"""
from __future__ import annotations

import math

import numpy as np

from hybrid.ir import Node
from hybrid.ir.access import ELEMENTWISE
from hybrid.ir.index import Ix, Var, coefficient, substitute, text, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, may_exceed
from hybrid.ir.stmt import For, Name, Op, Scope, Stmt

from . import padded_operand
from hybrid.codegen.program import local
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.block import Level, nested
from hybrid.codegen.nest import Cut, count
from hybrid.codegen.schedule.tiling import Target, decode
from hybrid.codegen.dialect import OF_TEAM, ONE, TEAM, C
from hybrid.codegen.printers.anchored import Anchored
from .pixels_in_lanes import OWN_IMAGE
from hybrid.codegen.emit import identity
from hybrid.codegen.lane_reductions import better, vector_step
from hybrid.codegen.loops import PARALLEL_WORK, Printed, work_of
from hybrid.codegen.lanes import F32, Refused
from hybrid.codegen.vector import VectorEmitter

TAPS = 32                       # elements of a window up to which it is written out


def print_pool(k: Kernel, name: str, target: Target) -> Printed:
    """C of a kernel that reduces windows; Refused where it is none."""
    if k.extra or k.root.ndim < 2:
        raise Refused("several results, or no rows")
    reduce, value = one_reduction(k, target)
    if k.root is not reduce and k.root.prim not in ELEMENTWISE:
        raise Refused("what follows the reduction moves its results")
    return _Pool(k, reduce, value, name, target).print()


def one_reduction(k: Kernel, target: Target) -> tuple[Node, Node]:
    """The only reduction of a kernel whose other values are functions of it, element by element, and the float32 value
    that holds its results (of an argmax: the cast of its positions); Refused where there is none."""
    found = [n for n in k.members if n.prim in ("reduce", "argreduce")]
    if k.kind != "reduction" or k.root.dtype != F32 or k.sides or target.lanes(F32) < 4 or len(found) != 1:
        raise Refused("no reduction, or several, or a result of another type than float32")
    reduce, = found
    above = [n for n in k.members if reduce in n.args] if reduce.prim == "argreduce" else [reduce]
    if len(above) != 1 or above[0].dtype != F32 or above[0] is not reduce and above[0].prim != "cast":
        raise Refused("positions that are used in another way than as one array of float32")
    if reduce.shape != k.root.shape or any(u.idx != k.members[k.root][0].idx or u.inside for u in k.members[reduce]):
        raise Refused("the reduction's result is read at other indices than the kernel's")
    return reduce, above[0]


def reduced(n: Node) -> tuple[Node, tuple[int, ...]]:
    """The value that is reduced and the axes; of places in windows whose axes a reshape made one, those before it."""
    x, axes = n.args[0], n.attrs["axes"] if n.prim == "reduce" else (n.attrs["axis"],)
    if n.prim == "argreduce" and x.prim == "reshape" and axes == (x.ndim - 1,) and (
            x.args[0].ndim > axes[0] and x.args[0].shape[:axes[0]] == x.shape[:axes[0]]):
        return x.args[0], tuple(range(axes[0], x.args[0].ndim))
    return x, axes


class _Pool(Anchored):
    """reduce: the reduction. value: the same as float32."""

    def __init__(self, k: Kernel, reduce: Node, value: Node, name: str, target: Target):
        super().__init__(k, value, name, target)
        self.reduce = reduce
        self.loops = [Var(f"i{a}", d) for a, d in enumerate(k.root.shape)]
        self._windows()

    def _windows(self) -> None:
        """The image and the address of a window's element in it."""
        x, axes = reduced(self.reduce)
        sizes = [x.shape[a] for a in axes]
        chain, n = False, x
        while n not in self.reads and n.prim in ("window", "reshape", "permute"):
            chain, n = chain or n.prim == "window", n.args[0]
        if not chain or math.prod(sizes) > TAPS or axes != tuple(range(x.ndim - len(axes), x.ndim)):
            raise Refused("no windows, or large ones")
        if n.dtype != F32 or n not in self.reads and n.prim != "pad" and n.prim not in ELEMENTWISE:
            raise Refused("windows of a value that is computed, or of another type")
        self.taps = [Var(f"w{a}", d) for a, d in enumerate(sizes)]
        at = padded_operand.index_of(x, (*(var(v) for v in self.loops), *(var(v) for v in self.taps)), n)
        self.image = padded_operand.image(n, at, frozenset(self.loops[:-2] if len(self.loops) > 2 else self.loops[:-1]))
        self.address = self.image.address
        self.outer = [v for v in self.loops if v in self.image.around]
        self.inner = [v for v in self.loops if v not in self.outer and (v is self.loops[-1]
                                                                        or may_exceed(v.extent, 1))]
        if not all(map(fixed, [*sizes, *self.image.shape, *(v.extent for v in self.inner)])):
            raise Refused("sizes of an image that are known at a call only")
        self.step = coefficient(self.address, self.loops[-1])
        if (self.step not in (1, 2) or len(self.inner) > 2 or self.loops[-1] not in self.inner
            or self.image.nbytes > OWN_IMAGE):
            raise Refused("other steps than one and two, or a large picture")
        if any(coefficient(self.address, v) is None for v in [*self.inner, *self.taps]):
            raise Refused("steps that are no constants")

    def print(self) -> Printed:
        """The kernel."""
        images = math.prod(v.extent for v in self.outer)
        border, inside = padded_operand.fill(self.image, "image", self.reads, self.lanes, self.outer)
        own = local.array("float", "image", self.image.nbytes // 4)
        loop = For("g", Ix(), Ix(images), (*decode("g", self.outer), *inside, *self._lines()), 1, OF_TEAM)
        work = math.prod(v.extent for v in (*self.loops, *self.taps))
        team = where_it_pays(TEAM, work, work_of(self.k), PARALLEL_WORK) if may_exceed(images, 1) else ""
        return self.kernel([team or ONE, Scope((own, *border, loop))], vectors=True)

    def _lines(self) -> list[Stmt]:
        """All lines of an image's results."""
        x = self.loops[-1]
        q, first = Var("q_", min(x.extent, self.lanes)), Var("x0", max(x.extent, 2))
        tiles = Cut.overlapping(x.extent, q.extent)

        def along(body: list[Stmt]) -> list[Stmt]:
            return [count("xt", tiles.count, [f"const long x0 = {tiles.first('xt')};", *self._sum(first), *body])]
        lines = [v for v in self.inner if v is not x]
        levels: list[Level] = [(lines, lambda body: nested(lines, body)), ([], along)]
        place = tuple(substitute(var(v), {x: var(first) + var(q)}) for v in self.loops)
        sums = "acc" if self.reduce.prim == "reduce" else "__builtin_convertvector(at, hy_v)"
        return self.results(place, levels, q, sums, [*self.outer, first])

    def _sum(self, first: Var) -> list[str | Stmt]:
        """The reduced windows of one vector of results."""
        e, op = VectorEmitter(C, {}), self.reduce.attrs["op"]
        search = self.reduce.prim == "argreduce"
        step = "" if search else vector_step(op)
        acc = Name("acc")
        out: list[str | Stmt] = [f"hy_v acc = HYV_B({identity(e, op[3:] if search else op, F32)});"]
        if search:
            out.append("hy_vi at = {0};")
        for i, at in enumerate(np.ndindex(*(v.extent for v in self.taps))):
            names = {**{v: Ix(int(i)) for v, i in zip(self.taps, at)}, self.loops[-1]: var(first)}
            where = f"image + ({text(substitute(self.address, names))})"
            load = (f"HYV_LOAD({where})" if self.step == 1
                    else f"HYV_EVEN(HYV_LOAD({where}), HYV_LOAD({where} + {self.lanes}))")
            if search:
                out.append(f"acc = {load};" if not i else
                           better(self.reduce, acc, Name("at"), Op(load, ()), Op(f"HYV_IB({i})", ())))
            else:
                out.append(f"acc = {step.format('acc', load)};")
        return out
