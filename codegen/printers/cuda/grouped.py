"""Convolutions of small groups in CUDA, and the gradients of their filters, channels last: threads own a few
neighbouring channels, which they read as one, and sums in registers. Tiles would be mostly empty.

With a group for each channel, neighbours are groups, and the sums of each are its own. Otherwise they are the filters
of a group (and, of filters' gradients, its channels), and a thread has the sums of all of them.
"""
from __future__ import annotations

import math
from typing import Sequence

from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.contraction import convolves
from hybrid.ir.index import Ix, Quot, Rem, Val, Var, coefficient, substitute, var, variables, text
from hybrid.ir.kernel import Kernel

from .flat import thread_number
from .epilogue import result
from .mma import why_not_mma
from .pieces import PROCESSORS, THREADS, PrintedCuda, emitter, indented, unrolled
from .product import Product
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.lanes import Refused
from hybrid.codegen.printers.products.operand import Operand
from hybrid.codegen.schedule.tiling import counted, decode

BYTES = 16                      # of an access
FEW = 8                         # filters of a group
UNROLLED = 2048                 # products of a thread up to which all loops are unrolled
SUMS = 160                      # of a thread, in registers
LANES = 32
WARPS = THREADS // LANES
LEAST_PIXELS = 8                # of a thread, where blocks share the pixels


def of_groups(dot: Node) -> bool:
    """Whether a product is a convolution in groups, or a gradient of one."""
    return bool(dot.attrs.get("batch", ((),))[0]) and convolves(dot)


def print_pixels(k: Kernel, name: str) -> PrintedCuda:
    """The convolution: a thread has some neighbouring channels of a few pixels of a line."""
    return _either(k, name, _Pixels).print()


def print_filters(k: Kernel, name: str) -> PrintedCuda:
    """The gradient of filters: a thread has some of them, and sums over some pixels."""
    return _either(k, name, _Filters).print()


def _either(k: Kernel, name: str, form: type) -> "_Pixels | _Filters":
    """The form with the operands in the order in which it has them."""
    reasons = []
    for swap in (True, False):
        try:
            return form(Product(k, name, swap))
        except Refused as err:
            reasons.append(str(err))
    raise Refused(reasons[0])


def _together(o: Operand, v: Var, width: int) -> bool:
    """Whether so many neighbours along a loop lie together in memory, on a boundary of their size."""
    if o.place is None or coefficient(o.place, v) != 1 or o.place.const % width or v.extent % width:
        return False
    return not any(v in variables(at) for _, at, _ in o.guard) and all(
        a == v or (isinstance(a, Var) or isinstance(a, (Quot, Rem)) and v not in variables(a.x)) and c % width == 0
        for a, c in o.place.terms)


@dataclass
class _Reads:
    """What both forms need: operands that lie in memory."""
    p: Product

    def __post_init__(self) -> None:
        p = self.p
        if not why_not_mma(p):
            raise Refused("tensor cores multiply its groups")
        for o in (p.m.a, p.m.b):
            if o.place is None or any(isinstance(v, Val) for v in variables(o.place)):
                raise Refused("an operand is computed on the way")
        self.widths = [w for w in (8, 4, 2) if w * p.dot.dtype.itemsize <= BYTES]

    def load(self, side: str, to: str, width: int) -> list[str]:
        """Statements that read a pack of an operand, zeros outside."""
        o = self.p.operand(side)
        assert o.memory is not None and o.place is not None
        T = f"hy_pack<{CUDA.storage(o.memory.dtype)}, {width}>"
        inside = " && ".join(f"{text(at)} {'>=' if kind == 'ge' else '<'} {bound}" for kind, at, bound in o.guard)
        return [f"{T} {to} = {{}};", *([f"if ({inside})"] if inside else []),
                f"  {to} = *(const {T} *)({self.p.names[o.memory]} + {text(o.place)});"]

    def value(self, cell: str) -> str:
        """An element of a pack as a number."""
        d = self.p.dot.dtype
        return CUDA.half_load[d.name].format(cell) if is_half(d) else cell

    def steps(self, number: str, vs: Sequence[Var]) -> list[str]:
        """Variables from a row-major number, those of one value too."""
        return [*decode(number, vs, self.p.kind), *(f"const {self.p.kind} {v.name} = 0;" for v in vs if v.extent == 1)]


class _Pixels(_Reads):
    """Rows are pixels, columns the filters of a group."""

    def __post_init__(self) -> None:
        super().__post_init__()
        p = self.p
        filters, groups = counted(p.m.columns), counted(p.m.batch)
        if p.columns > FEW or len(filters) > 1 or not groups or p.rows < max(p.depth, FEW):
            raise Refused(f"{p.columns} filters of a group and {p.rows} pixels")
        self.lane = filters[0] if filters else groups[-1]
        own = not filters                                    # a group for each channel
        self.width = next((w for w in self.widths if _together(p.m.b, self.lane, w)
                           and (not own or _together(p.m.a, self.lane, w))), 0)
        if not self.width:
            raise Refused("neighbouring filters do not lie together")
        self.inner = None if own else next((v for v in counted(p.m.depth) if coefficient(p.m.a.place or Ix(), v) == 1
                                            and _together(p.m.a, v, 2)), None)
        self.deep = (self.width if own else 1 if self.inner is None else
                     next(w for w in self.widths if _together(p.m.a, self.inner, w)))
        self.line = counted(p.m.rows)[-1]
        count = p.batch * p.rows * p.columns // self.width
        self.pixels = next(n for n in (4, 2, 1) if self.line.extent % n == 0
                           and (n == 1 or count // n >= PROCESSORS * THREADS * 2))
        self.own = own

    def print(self) -> PrintedCuda:
        """Its text."""
        p, kind = self.p, self.p.kind
        group, step = Var("pixels", self.line.extent // self.pixels), Var("step", self.lane.extent // self.width)
        vs = [*(group if v == self.line else v for v in counted(p.m.rows)),
              *(v for v in counted(p.m.batch) if v != self.lane), step]
        count = math.prod(v.extent for v in vs)
        body = [*thread_number(kind, count), *self.steps("t", vs),
                f"const {kind} {self.lane.name} = step * {self.width};",
                f"{p.T} acc[{self.pixels}][{self.width}] = {{}};", *self._loops(),
                *unrolled([("i", self.pixels)], [self._pixel(), *self._finish()])]
        return p.printed(body, -(-count // THREADS), THREADS)

    def _pixel(self) -> str:
        return f"const {self.p.kind} {self.line.name} = pixels * {self.pixels} + i;"

    def _loops(self) -> list[str]:
        """Sums over taps and channels."""
        kind, vs = self.p.kind, [v for v in counted(self.p.m.depth) if v != self.inner]
        lines, work = self._products(), self.pixels * self.width * (self.inner.extent if self.inner is not None else 1)
        if self.inner is not None:
            lines = unrolled([("deep", self.inner.extent // self.deep)], lines)
        for v in reversed(vs):
            work *= v.extent
            lines = [f"#pragma unroll{'' if work <= UNROLLED else ' 1'}",
                     f"for ({kind} {v.name} = 0; {v.name} < {v.extent}; {v.name}++) {{",
                     *("  " + s for s in lines), "}"]
        return lines

    def _products(self) -> list[str]:
        """Those of some channels at one tap."""
        kind, inner = self.p.kind, self.inner
        first = [f"const {kind} {inner.name} = deep * {self.deep};"] if inner is not None else []
        each = [f"const {kind} {inner.name} = deep * {self.deep} + c;"] if inner is not None else []
        T = f"hy_pack<{CUDA.storage(self.p.dot.dtype)}, {self.deep}>"
        x = self.value(f"x[i].x[{'j' if self.own else 'c'}]")
        loaded = [self._pixel(), *first, *self.load("a", "one", self.deep), "x[i] = one;"]
        products = unrolled([("n", self.pixels * self.width)], [
            f"const int i = n / {self.width}, j = n % {self.width};", f"acc[i][j] += {x} * {self.value('w.x[j]')};"])
        return [f"{T} x[{self.pixels}];", *unrolled([("i", self.pixels)], loaded), *unrolled(
            [("c", 1 if self.own else self.deep)], [*each, *self.load("b", "w", self.width), *products])]

    def _finish(self) -> list[str]:
        """The root from a pixel's sums."""
        p, j, step = self.p, Var("j", self.width), Var("step", self.lane.extent // self.width)
        e = emitter(p.k, p.names, None, j)
        e.count = 3000
        outer = Block(None, frozenset([*p.m.rows, *(v for v in (*p.m.batch, *p.m.columns) if v != self.lane), step]))
        block = outer.child([j])
        at: dict[Var, Ix] = {self.lane: var(step) * self.width + var(j)}
        block.body.append(f"{p.T} raw = acc[i][j];")
        result(p, e, tuple(substitute(i, at) for i in p.m.dot_index), block)
        return [*outer.lines, *e.lanes(block.lines)]


class _Filters(_Reads):
    """Rows are filters, columns channels and taps, the depth pixels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        p = self.p
        filters, groups = counted(p.m.rows), counted(p.m.batch)
        if p.rows > FEW or len(filters) > 1 or not groups or p.depth < LEAST_PIXELS * LANES:
            raise Refused(f"{p.rows} filters of a group over {p.depth} pixels")
        self.own = not filters and all(_together(o, groups[-1], self.widths[-1]) for o in (p.m.a, p.m.b))
        channels = groups[-1:] if self.own else [v for v in counted(p.m.columns) if _together(p.m.b, v, 2)]
        row = groups[-1:] if self.own else filters
        if not channels or not row:
            raise Refused("neighbouring channels do not lie together")
        self.row, self.channel = row[0], channels[-1]
        self.taps = [v for v in counted(p.m.columns) if v != self.channel]
        count = math.prod(v.extent for v in self.taps)
        pairs = [(w, w) for w in self.widths] if self.own else [(w, v) for w in self.widths for v in self.widths]
        fit = [(w, v) for w, v in pairs if _together(p.m.a, self.row, w) and _together(p.m.b, self.channel, v)
               and count * self._of(w, v) <= SUMS]
        if not fit:
            raise Refused(f"{count} taps of neighbouring channels have too many sums for a thread's registers")
        self.down, self.across = max(fit, key=lambda x: (x[0] * x[1], x))
        self.count, self.sums = count, self._of(self.down, self.across)
        rest = [v for v in groups if v not in (self.row, self.channel)]
        a, b = Var("stepa", self.row.extent // self.down), Var("stepb", self.channel.extent // self.across)
        self.units = [*rest, b] if self.own else [*rest, a, b]
        self._share()

    def _of(self, down: int, across: int) -> int:
        """Sums of a tap."""
        return across if self.own else down * across

    def _share(self) -> None:
        """Threads of a block side by side, and parts of the pixels."""
        p, self.all = self.p, math.prod(v.extent for v in self.units)
        self.lanes = min((n for n in (32, 16, 8) if n == 8 or n <= self.all), key=lambda n: (-(-self.all // n) * n, -n))
        self.strips, self.across_grid = THREADS // self.lanes, -(-self.all // self.lanes)
        most = PROCESSORS * (1 if self.count * self.sums > SUMS // 2 else 2)      # as many as run at once
        parts = max(1, min(most // self.across_grid, p.depth // (self.strips * LEAST_PIXELS)))
        self.step = -(-p.depth // parts)
        self.parts = -(-p.depth // self.step)

    def _own(self, j: str) -> list[str]:
        """The places of the j-th of a thread's sums of a tap."""
        kind = self.p.kind
        if self.own:
            return [f"const {kind} {self.channel.name} = stepb * {self.across} + {j};"]
        return [f"const {kind} {self.row.name} = stepa * {self.down} + {j} / {self.across}, "
                f"{self.channel.name} = stepb * {self.across} + {j} % {self.across};"]

    def print(self) -> PrintedCuda:
        """Its text."""
        p, kind = self.p, self.p.kind
        arrays, shared = p.arrays(shared=(WARPS, self.sums, self.lanes))
        body = [f"const int lane = threadIdx.x % {self.lanes}, strip = threadIdx.x / {self.lanes};",
                f"const {kind} part = ({kind})(blockIdx.x / {self.across_grid}u), first = ({kind})(blockIdx.x % "
                f"{self.across_grid}u) * {self.lanes};",
                f"const {kind} low = part * {self.step}, high = low + {self.step} < {p.depth} ? low + {self.step} : "
                f"{p.depth};", f"{p.T} acc[{self.count}][{self.sums}] = {{}};",
                f"const {kind} unit = first + lane < {self.all} ? first + lane : {self.all - 1};",
                "HY_ASSUME(unit >= 0 && low >= 0);", *self.steps("unit", self.units), *self._loop(), *arrays,
                *self._reduced()]
        return p.printed(body, self.across_grid * self.parts, THREADS, self.parts, shared)

    def _loop(self) -> list[str]:
        """Sums over a thread's pixels."""
        p, kind = self.p, self.p.kind
        x, y = (self.value(t) for t in (("g.x[j]", "x.x[j]") if self.own else
                                        (f"g.x[j / {self.across}]", f"x.x[j % {self.across}]")))
        return ["#pragma unroll 1", f"for ({kind} pixel = low + strip; pixel < high; pixel += {self.strips}) {{",
                *indented([*p.decode("pixel", p.m.depth), *self._own("0"), *self.load("a", "g", self.down),
                           *unrolled([("n", self.count)], [
                               *decode("n", self.taps, kind), *self.load("b", "x", self.across),
                               *unrolled([("j", self.sums)], [f"acc[n][j] += {x} * {y};"])])]), "}"]

    def _reduced(self) -> list[str]:
        """The sums of all threads of a block that have the same filters, and where they go."""
        p, kind = self.p, self.p.kind
        done = p.finish("sum") if self.parts == 1 else p.keep("sum", "part")
        total = f"{p.T} sum = {p.rounded('all') if self.parts == 1 else 'all'};"
        last = [*self.steps("at", self.units), *self._own("j"), *decode("n", self.taps, kind), total, *done]
        within = ["#pragma unroll", f"for (int by = {self.lanes}; by < {LANES}; by *= 2) one += "
                  "__shfl_xor_sync(~0u, one, by);"] if self.lanes < LANES else []
        return unrolled([("n", self.count)], [
            *unrolled([("j", self.sums)], [
                f"{p.T} one = acc[n][j];", *within,
                f"if (threadIdx.x % {LANES} < {self.lanes}) shared[threadIdx.x / {LANES}][j][lane] = one;"]),
            "__syncthreads();", f"for (int e = threadIdx.x; e < {self.sums * self.lanes}; e += {THREADS}) {{",
            f"  const int j = e / {self.lanes};", f"  const {kind} at = first + e % {self.lanes};",
            f"  if (at >= {self.all}) continue;", f"  {p.T} all = 0;",
            *indented([*unrolled([("w", WARPS)], [f"all += shared[w][j][e % {self.lanes}];"]), *last]), "}",
            "__syncthreads();"])
