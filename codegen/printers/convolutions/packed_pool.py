"""Pooling of channels-last data (N, H, W, C) or (N, D, H, W, C) in C: a vector holds channels; what lies beyond the
border is read from a line of the padding value."""
from __future__ import annotations

import math

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.kernel import Kernel

from .anchored import Anchored
from .blocked import Packed
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.emit import Emitter, identity
from hybrid.codegen.lane_reductions import vector_step
from hybrid.codegen.loops import PARALLEL_WORK, Printed
from hybrid.codegen.lanes import F32, Refused

TAPS = 64                        # elements of a window that pointers are kept for
STEP = {"max": "s0 = HYV_MAXN(s0, {0});", "min": "s0 = HYV_MINN(s0, {0});", "sum": "s0 += {0};", "prod": "s0 *= {0};"}


class Pool(Packed):
    """Prints one kernel that reduces windows."""

    def __init__(self, k: Kernel, reduce: Node, name: str, target: Target):
        Anchored.__init__(self, k, reduce, name, target)
        self._windows(reduce)

    def _windows(self, reduce: Node) -> None:
        n = reduce.args[0]
        rank = reduce.ndim - 2
        if (n.prim == "slice" and not any(n.attrs["begin"]) and set(n.attrs["step"]) == {1}
            and n.attrs["size"][2 + rank:] == n.args[0].shape[2 + rank:]):
            n = n.args[0]
        spatial, inner = tuple(range(1, 1 + rank)), tuple(range(2 + rank, 2 + 2 * rank))
        if (n.prim != "window" or n.ndim != 2 + 2 * rank or n.attrs["axes"] != spatial or reduce.attrs["axes"] != inner
            or math.prod(n.shape[2 + rank:]) > TAPS):
            raise Refused("no windows of channels-last data")
        self.fill, pads, x = identity_of(reduce), (0,) * rank, n.args[0]
        if x.prim == "pad" and x not in self.names:
            if any(x.attrs[k][a] for k in ("lo", "hi") for a in (0, 1 + rank)):
                raise Refused("padded channels")
            pads, self.fill, x = x.attrs["lo"][1:1 + rank], C.literal(x.attrs["value"], x.dtype), x.args[0]
        if x not in self.reads or x.dtype != F32:
            raise Refused("windows of a value that is computed")
        self.x = self.reads[x]
        self._window(n.attrs["size"], n.attrs["stride"], n.attrs["dilation"], pads)
        self._sizes(x)

    def print(self) -> Printed:
        """The kernel."""
        self.prepare()
        line = -(-self.c // self.lanes) * self.lanes
        self.scratch = 4 * line + 64
        taps = self.kd * self.kh * self.kw
        omp = PARALLEL if self.dot.size * taps >= PARALLEL_WORK else ""
        row, deep, inside, plane = f"i / {self.kw}", "", "", "b"
        if self.volume:
            row, inside, plane = (f"i / {self.kw} % {self.kh}", f"z >= 0 && z < {self.layers} && ",
                                  f"(b / {self.planes} * {self.layers} + z)")
            deep = f", z = b % {self.planes} * {self.sz} - {self.pz} + i / {self.kw * self.kh} * {self.dz}"
        body = [f"  float *beyond = (float *)scratch; for (long i = 0; i < {line}; i++) beyond[i] = {self.fill};",
                *([omp] if omp else []),
                f"  for (long u = 0; u < {self.batch * self.oh * self.ow}; u++) {{",
                f"    const long ox = u % {self.ow}, oy = u / {self.ow} % {self.oh}, b = u / {self.ow * self.oh};",
                f"    const float *s[{taps}];",
                f"    for (long i = 0; i < {taps}; i++) {{",
                f"      const long y = oy * {self.sy} - {self.py} + {row} * {self.dy}, x = ox * {self.sx} - {self.px} "
                f"+ i % {self.kw} * {self.dx}{deep};",
                f"      s[i] = {inside}y >= 0 && y < {self.h} && x >= 0 && x < {self.wide} ? {self.x} + (({plane} * "
                f"{self.h} + y) * {self.wide} + x) * {self.c} : beyond;",
                "    }", f"    {self.name}_at(s, u, {self.passed});", "  }"]
        return self.printed([*self.micro(), self.head(), *body, "}"])

    def place(self, idx: Index) -> Index:
        """The root has the reduction's shape."""
        return idx

    def micro(self) -> list[str]:
        """All channels of one result."""
        op = self.dot.attrs["op"]
        vector_step(op)

        def block(load: str, partial: int) -> list[str]:
            out = [f"hy_v s0 = {load.format(0)};",
                   *(f"{{ const hy_v a = {load.format(i)}; {STEP[op].format('a')} }}"
                     for i in range(1, self.kd * self.kh * self.kw))]
            return [*out, *self.finished(0, [("px0_", "s0")], partial)]
        out = [f"static inline __attribute__((always_inline)) void {self.name}_at(const float *const *s, long px0_, "
               f"{self.pointers}) {{"]
        return [*out, *self.over_channels(block), "}"]


def identity_of(reduce: Node) -> str:
    """C text of what a reduction leaves out."""
    return identity(Emitter(C, {}), reduce.attrs["op"], reduce.dtype)


def print_pool(k: Kernel, name: str, target: Target) -> Printed:
    """C of a kernel that reduces windows of channels-last data; Refused where it is none."""
    if k.kind != "reduction" or k.root.dtype != F32 or k.sides or target.lanes(F32) < 4:
        raise Refused("no reduction of float32 with one result")
    found = [n for n in k.members if n.prim == "reduce"]
    if len(found) != 1 or found[0].ndim not in (4, 5) or found[0].size != k.root.size or found[0].dtype != F32:
        raise Refused("several reductions, or a result of other than 4 or 5 axes")
    if any(u.idx != k.members[k.root][0].idx or u.inside
           for u in k.members[found[0]]) or found[0].shape != k.root.shape:
        raise Refused("the reduction's result is read at other indices than the kernel's")
    return Pool(k, found[0], name, target).print()
