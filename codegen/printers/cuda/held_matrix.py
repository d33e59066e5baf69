"""A product in a loop over time whose matrix no step changes: each thread of a block keeps a part of it in registers.

Warps share the depth, and lanes the columns, or some lanes the depth as well; the sums of warps meet in shared memory.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Mapping, Sequence

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Var, coefficient, linear, text, var

from .pieces import THREADS
from .product import Product
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.lanes import Refused

WARPS = THREADS // 32
CHUNK = 4                       # neighbours along the depth that a lane multiplies together
L2_BYTES = 24                   # that a multiprocessor reads of the L2 in a clock
PARTS = (1, 2, 4, 8)            # lanes that share the depth


@dataclass(frozen=True)
class Share:
    """How a product is divided: ``columns`` of a block, ``parts`` of the depth among lanes, ``each`` columns of a lane,
    ``chunks`` of the depth of a lane."""
    columns: int
    parts: int
    each: int
    chunks: int

    @property
    def across(self) -> int:
        """Lanes with different columns."""
        return 32 // self.parts

    @property
    def deep(self) -> int:
        """Depth of a warp."""
        return self.chunks * self.parts * CHUNK

    def clocks(self, rows: int, depth: int) -> float:
        """About how long the product takes: shared memory, instructions, and the operand's way from the L2."""
        reads, met = self.chunks * rows, rows * self.each * (1 + 2 * int(math.log2(self.parts)))
        issued = reads + reads * CHUNK * self.each + met
        return max(WARPS * reads * 4, issued * WARPS / 4) + 4 * met + rows * depth * 4 / L2_BYTES


def share(columns: int, depth: int, rows: int) -> Share:
    """The division of a product that takes least time."""
    made = [Share(columns, p, -(-columns * p // 32), -(-depth // (CHUNK * WARPS * p))) for p in PARTS]
    return min(made, key=lambda s: s.clocks(rows, depth))


@dataclass
class HeldMatrix:
    """A product with a matrix that no step changes, its sums that a unit needs, and after how many barriers of a step
    it can begin."""
    number: int
    product: Product
    level: int
    offsets: dict[int, str] = field(default_factory=dict)      # column beside the unit's -> name of the sum

    @property
    def count(self) -> int:
        """Columns of a unit."""
        return max(1, len(self.offsets))

    @property
    def room(self) -> int:
        """Floats between the sums of neighbouring units: they are read together."""
        return 4 if self.count == 3 else self.count

    def line(self, u: int) -> int:
        """Floats between the sums of two rows of ``u`` units: those of neighbouring rows lie in different banks."""
        return -(-self.room * u // 32) * 32 + self.room * u % 32

    def apart(self) -> int:
        """Columns between those of a unit."""
        own = sorted(self.offsets)
        steps = {b - a for a, b in zip(own, own[1:])}
        if len(steps) > 1 or own and own[0]:
            raise Refused("the columns that a unit is computed from are not evenly apart")
        return steps.pop() if steps else 0

    def sum_of(self, idx: Index, b: Var, j: Var) -> str:
        """The name of the sum at an index, for unit j of row b."""
        p = self.product
        row, column = (coefficient(linear(p.dot.shape, p.m.dot_index), v) or 0 if v.extent > 1 else 0
                       for v in (p.m.rows[0], p.m.columns[0]))
        rest = linear(p.dot.shape, idx) - var(b) * row - var(j) * column
        if not rest.is_const or column and rest.const % column or not column and rest.const:
            raise Refused("a unit is computed from others' columns")
        return self.offsets.setdefault(rest.const // (column or 1), f"sum{self.number}_{len(self.offsets)}")

    # ---- statements
    def held(self, names: Mapping[Node, str], s: Share, units: int) -> list[str]:
        """A thread's part of the matrix, loaded once. names: pointers to what it is made of."""
        p, apart, matrix = self.product, self.apart(), f"matrix{self.number}"
        p.names.update(names)
        element = p.element("b", frozenset([*p.m.columns, *p.m.depth]))
        read = [*p.decode("own", p.m.columns), *p.decode("deep", p.m.depth), *element.common,
                f"value = {element.value};"]
        return [f"float {matrix}[{s.chunks}][{CHUNK}][{s.each}];", *unrolled(
            [("q", s.chunks), ("d", CHUNK), ("c", s.each)],
            [f"const int column = c * {s.across} + lane / {s.parts}, unit = j0 + column / {self.count};",
             f"const int deep = ((warp * {s.chunks} + q) * {s.parts} + lane % {s.parts}) * {CHUNK} + d;",
             "float value = 0;",
             f"if (column < {s.columns} && unit < {units} && deep < {p.depth}) {{",
             f"  const int own = column % {self.count} * {apart} + unit;", *("  " + t for t in read), "}",
             f"{matrix}[q][d][c] = value;"])]

    def multiplied(self, pointer: str, s: Share, r: int, u: int, at: tuple[int, int]) -> list[str]:
        """The operand into shared memory, the products of each warp, and the sums of a thread's unit. pointer: to the
        operand; at: bytes of shared memory where it and the sums begin."""
        n, line, sums = self.number, self.line(u), [name for _, name in sorted(self.offsets.items())]
        acc, shared, d = f"acc{n}", f"shared{n}", self.product.dot.dtype
        mine = unrolled([("v", WARPS)], [
            f"const hy_pack<float, {self.room}> x = *(const hy_pack<float, {self.room}> *)&{shared}[v * {r} + line]"
            f"[place * {self.room}];", *(f"{name} += x.x[{g}];" for g, name in enumerate(sums))])
        return [f"float (*operand{n})[{s.deep}] = (float (*)[{s.deep}])(tile_memory + {at[0]}) + warp * {r};",
                f"float (*{shared})[{line}] = (float (*)[{line}])(tile_memory + {at[1]});",
                *self._fetched(pointer, s, r), "__syncwarp();", f"float {acc}[{r}][{s.each}] = {{}};",
                *self._products(s, r), *self._meet(s, r), "__syncthreads();", *(f"float {name} = 0;" for name in sums),
                *when("mine", [*mine, *(f"{name} = {CUDA.rounded(d, name)};" for name in sums if is_half(d))])]

    def _products(self, s: Share, r: int) -> list[str]:
        acc, matrix, T = f"acc{self.number}", f"matrix{self.number}", f"const hy_pack<float, {CHUNK}>"
        return unrolled([("q", s.chunks), ("r", r)], [
            f"{T} x = *({T} *)&operand{self.number}[r][(q * {s.parts} + lane % {s.parts}) * {CHUNK}];",
            *unrolled([("d", CHUNK), ("c", s.each)], [f"{acc}[r][c] += x.x[d] * {matrix}[q][d][c];"])])

    def _meet(self, s: Share, r: int) -> list[str]:
        """The sums of a warp into shared memory."""
        acc, column = f"acc{self.number}[r][c]", f"c * {s.across} + lane / {s.parts}"
        to = column
        if self.room != self.count:
            to = f"({column}) / {self.count} * {self.room} + ({column}) % {self.count}"
        return unrolled([("r", r), ("c", s.each)], [
            *(f"{acc} += __shfl_xor_sync(0xffffffffu, {acc}, {1 << i});" for i in range(int(math.log2(s.parts)))),
            f"if (lane % {s.parts} == 0 && {column} < {s.columns}) shared{self.number}[warp * {r} + r][{to}] = {acc};"])

    def _whole(self) -> bool:
        """Whether chunks of the operand lie together on boundaries of their size."""
        p = self.product
        o, deep = p.operand("a"), p.m.depth[0]
        assert o.place is not None and o.memory is not None
        rest = [o.place.const, *(c for a, c in o.place.terms if a != deep)]
        return (p.depth % CHUNK == 0 and coefficient(o.place, deep) == 1 and not any(c % CHUNK for c in rest)
                and o.node.dtype == o.memory.dtype)

    def _fetched(self, pointer: str, s: Share, r: int) -> list[str]:
        """A warp brings its part of the operand's rows."""
        p, count = self.product, s.chunks * s.parts
        o = p.operand("a")
        assert o.memory is not None and o.place is not None
        d, T, at = o.memory.dtype, f"hy_pack<{CUDA.storage(o.memory.dtype)}, {CHUNK}>", text(o.place)
        load = CUDA.half_load[d.name] if is_half(d) else "{0}"
        index = [*p.decode("at", p.m.rows), *p.decode("deep", p.m.depth)]
        if self._whole():
            get = ["const int deep = from;", *index, f"const {T} v = *(const {T} *)({pointer} + {at});",
                   *unrolled([("d", CHUNK)], [f"x.x[d] = {load.format('v.x[d]')};"])]
        else:
            get = unrolled([("d", CHUNK)], ["const int deep = from + d;", *when(f"deep < {p.depth}", [
                *index, f"x.x[d] = {load.format(f'{pointer}[{at}]')};"])])
        return ["#pragma unroll", f"for (int i = lane; i < {r * count}; i += 32) {{",
                f"  const int at = r0 + i / {count}, from = warp * {s.deep} + i % {count} * {CHUNK};",
                f"  hy_pack<float, {CHUNK}> x = {{}};",
                *("  " + t for t in when(f"at < {p.rows} && from < {p.depth}", get)),
                f"  *(hy_pack<float, {CHUNK}> *)&operand{self.number}[i / {count}][i % {count} * {CHUNK}] = x;", "}"]


def when(condition: str, body: Sequence[str]) -> list[str]:
    """Statements under a condition."""
    return [f"if ({condition}) {{", *("  " + s for s in body), "}"] if body else []


def unrolled(loops: Sequence[tuple[str, int]], body: Sequence[str]) -> list[str]:
    """Unrolled loops around statements."""
    out = list(body)
    for name, count in reversed(loops):
        out = ["#pragma unroll", f"for (int {name} = 0; {name} < {count}; {name}++) {{", *("  " + s for s in out), "}"]
    return out
