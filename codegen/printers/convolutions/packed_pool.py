"""Pooling of channels-last data (N, H, W, C) or (N, D, H, W, C) in C: a vector holds channels; what lies beyond the
border is read from a line of the padding value."""
from __future__ import annotations

import math
from typing import Sequence

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import hint
from hybrid.ir.stmt import Let, Name, Op, Scope, Stmt

from hybrid.codegen.printers.anchored import Anchored
from hybrid.codegen.program.size_parameters import where_it_pays
from .packed_windows import Windows
from .pool import one_reduction, reduced
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.emit import Emitter, identity
from hybrid.codegen.lane_reductions import better, vector_step
from hybrid.codegen.loops import PARALLEL_WORK, Printed
from hybrid.codegen.lanes import F32, Refused
from hybrid.codegen.nest import A

TAPS = 64                        # elements of a window that pointers are kept for
STEP = {"max": "s0 = HYV_MAXN(s0, a);", "min": "s0 = HYV_MINN(s0, a);", "sum": "s0 += a;", "prod": "s0 *= a;"}


class Pool(Windows):
    """Prints one kernel that reduces windows, or finds the position of their greatest or least element. value: the
    float32 node that holds the result (of positions: their cast)."""

    def __init__(self, k: Kernel, reduce: Node, value: Node, name: str, target: Target):
        Anchored.__init__(self, k, value, name, target)
        self.reduce = reduce
        self._windows(reduce)

    def _windows(self, reduce: Node) -> None:
        n, axes = reduced(reduce)
        rank = reduce.ndim - 2
        if (n.prim == "slice" and not any(n.attrs["begin"]) and set(n.attrs["step"]) == {1}
            and n.attrs["size"][2 + rank:] == n.args[0].shape[2 + rank:]):
            n = n.args[0]
        spatial, inner = tuple(range(1, 1 + rank)), tuple(range(2 + rank, 2 + 2 * rank))
        if (n.prim != "window" or n.ndim != 2 + 2 * rank or n.attrs["axes"] != spatial or axes != inner
            or math.prod(n.shape[2 + rank:]) > TAPS):
            raise Refused("no windows of channels-last data")
        self.beyond, pads, x = identity_of(reduce), (0,) * rank, n.args[0]
        if x.prim == "pad" and x not in self.names:
            if any(x.attrs[k][a] for k in ("lo", "hi") for a in (0, 1 + rank)):
                raise Refused("padded channels")
            pads, self.beyond, x = x.attrs["lo"][1:1 + rank], C.literal(x.attrs["value"], x.dtype), x.args[0]
        if x not in self.reads or x.dtype != F32:
            raise Refused("windows of a value that is computed")
        self.x = self.reads[x]
        self._window(n.attrs["size"], n.attrs["stride"], n.attrs["dilation"], pads)
        self._sizes(x)

    def print(self) -> Printed:
        """The kernel."""
        work = self.dot.size * self.kd * self.kh * self.kw
        return self.windows(self.of_channels, "always_inline", where_it_pays(PARALLEL, work, hint(work),
                                                                             PARALLEL_WORK))

    def place(self, idx: Index) -> Index:
        """The root has the reduction's shape."""
        return idx

    def of_channels(self, load: str, partial: int) -> Sequence[Stmt]:
        """The reduction of a window."""
        op, taps = self.reduce.attrs["op"], range(1, self.kd * self.kh * self.kw)
        if self.reduce.prim == "argreduce":
            best, at = Name("s0"), Name("at")
            return [Let("hy_v", best, load.format(0)), "hy_vi at = {0};",
                    *(better(self.reduce, best, at, Op(load.format(i), ()), Op(f"HYV_IB({i})", ())) for i in taps),
                    self.finished(0, [("px0_", "__builtin_convertvector(at, hy_v)")], partial)]
        vector_step(op)
        steps = [Scope((Let("hy_v", A, load.format(i), True), STEP[op])) for i in taps]
        return [Let("hy_v", Name("s0"), load.format(0)), *steps, self.finished(0, [("px0_", "s0")], partial)]


def identity_of(reduce: Node) -> str:
    """C text of what a reduction leaves out."""
    op = reduce.attrs["op"]
    return identity(Emitter(C, {}), op[3:] if reduce.prim == "argreduce" else op, F32)


def print_pool(k: Kernel, name: str, target: Target) -> Printed:
    """C of a kernel that reduces windows of channels-last data; Refused where it is none."""
    reduce, value = one_reduction(k, target)
    if reduce.ndim not in (4, 5):
        raise Refused("a result of other than 4 or 5 axes")
    return Pool(k, reduce, value, name, target).print()
