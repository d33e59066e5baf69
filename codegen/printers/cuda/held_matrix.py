"""Products in a loop over time whose matrix no step changes: each thread of a block keeps a part of it in registers.

The warps of a block split the depth of a product. The lanes of a warp split the columns, or groups of lanes split the
columns and the lanes of a group the warp's depth. Warps store their sums to shared memory; a unit's thread adds them.
"""
from __future__ import annotations

import math
from dataclasses import field
from typing import Mapping

from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Var, coefficient, linear, text, var

from .pieces import THREADS, unrolled, when
from .product import Product
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.lanes import Refused

WARPS = THREADS // 32
CHUNK = 4                       # neighbours along the depth that a lane multiplies together
L2_BYTES = 24                   # that a multiprocessor reads from the L2 in a clock
PARTS = (1, 2, 4, 8)            # how many lanes may split the depth of a column


@dataclass(frozen=True)
class Share:
    """How a block divides a product: it has ``columns``, of which each lane sums ``each``; ``parts`` lanes split the
    depth of a column, and each multiplies ``chunks`` of it."""
    columns: int
    parts: int
    each: int
    chunks: int

    @property
    def across(self) -> int:
        """Returns how many lanes of a warp have different columns."""
        return 32 // self.parts

    @property
    def deep(self) -> int:
        """Returns the depth that a warp multiplies."""
        return self.chunks * self.parts * CHUNK

    def clocks(self, rows: int, depth: int) -> float:
        """Estimates the time of a product: of shared memory or issue, of adding sums, and of reading the operand from
        L2."""
        reads, stores = self.chunks * rows, rows * self.each * (1 + 2 * int(math.log2(self.parts)))
        issued = reads + reads * CHUNK * self.each + stores
        return max(WARPS * reads * 4, issued * WARPS / 4) + 4 * stores + rows * depth * 4 / L2_BYTES


def share(columns: int, depth: int, rows: int) -> Share:
    """Returns the division of a product that takes least time."""
    made = [Share(columns, p, -(-columns * p // 32), -(-depth // (CHUNK * WARPS * p))) for p in PARTS]
    return min(made, key=lambda s: s.clocks(rows, depth))


@dataclass
class HeldMatrix:
    """A product whose matrix no step changes. ``level``: the length of the longest chain of products in a step that its
    operand is computed from; products of a level begin after the same barrier."""
    number: int
    product: Product
    level: int
    offsets: dict[int, str] = field(default_factory=dict)      # column minus the unit's -> name of that sum

    @property
    def count(self) -> int:
        """Returns how many columns a unit is computed from."""
        return max(1, len(self.offsets))

    @property
    def room(self) -> int:
        """Returns the floats from one unit's sums to the next's in shared memory. Vector loads read the sums of a unit:
        they are of 1, 2 or 4 floats on boundaries of their size, so that 3 take the room of 4, 5 that of 8."""
        return self.count if self.count < 3 else -(-self.count // 4) * 4

    def row_stride(self, u: int) -> int:
        """Returns the floats from one row's sums of ``u`` units to the next's in shared memory, which serves 32 floats
        at once. Rows of fewer floats are padded so that those read together lie in different banks. A multiple of 32
        stays as it is: all 32 are then of one row, and conflict only where units have more than 4 sums."""
        return -(-self.room * u // 32) * 32 + self.room * u % 32

    def stride(self) -> int:
        """Returns the distance between a unit's columns, of which the first is the unit's own number."""
        own = sorted(self.offsets)
        steps = {b - a for a, b in zip(own, own[1:])}
        if len(steps) > 1 or own and own[0]:
            raise Refused("a unit's columns are not evenly spaced, or the first is not that of its own number")
        return steps.pop() if steps else 0

    def sum_of(self, idx: Index, b: Var, j: Var) -> str:
        """Returns the name of the sum at an index, which unit j of row b needs."""
        p = self.product
        row, column = (coefficient(linear(p.dot.shape, p.m.dot_index), v) or 0 if v.extent > 1 else 0
                       for v in (p.m.rows[0], p.m.columns[0]))
        rest = linear(p.dot.shape, idx) - var(b) * row - var(j) * column
        if not rest.is_const or column and rest.const % column or not column and rest.const:
            raise Refused("a unit needs a sum that is not in its row, a fixed number of columns from its own")
        return self.offsets.setdefault(rest.const // (column or 1), f"sum{self.number}_{len(self.offsets)}")

    # ---- statements
    def held(self, names: Mapping[Node, str], s: Share, units: int) -> list[str]:
        """Prints the declaration of a thread's part of the matrix, and loads of it before the loop. names: pointers to
        what the matrix is computed from."""
        p, stride, matrix = self.product, self.stride(), f"matrix{self.number}"
        p.names.update(names)
        element = p.element("b", frozenset([*p.m.columns, *p.m.depth]))
        read = [*p.decode("own", p.m.columns), *p.decode("deep", p.m.depth), *element.common,
                f"value = {element.value};"]
        return [f"float {matrix}[{s.chunks}][{CHUNK}][{s.each}];", *unrolled(
            [("q", s.chunks), ("d", CHUNK), ("c", s.each)],
            [f"const int column = c * {s.across} + lane / {s.parts}, of_unit = j0 + column / {self.count};",
             f"const int deep = ((warp * {s.chunks} + q) * {s.parts} + lane % {s.parts}) * {CHUNK} + d;",
             "float value = 0;",
             f"if (column < {s.columns} && of_unit < {units} && deep < {p.depth}) {{",
             f"  const int own = column % {self.count} * {stride} + of_unit;", *("  " + t for t in read), "}",
             f"{matrix}[q][d][c] = value;"])]

    def multiplied(self, pointer: str, s: Share, r: int, u: int, at: tuple[int, int]) -> list[str]:
        """Prints statements that copy the operand to shared memory, multiply it by each warp's part of the matrix, and
        add the warps' sums for each thread's unit. pointer: to the operand; at: bytes of shared memory where it and the
        sums begin."""
        n, stride, sums = self.number, self.row_stride(u), [name for _, name in sorted(self.offsets.items())]
        acc, shared, d = f"acc{n}", f"shared{n}", self.product.dot.dtype
        mine = unrolled([("v", WARPS)], [
            f"const hy_pack<float, {self.room}> x = *(const hy_pack<float, {self.room}> *)&{shared}[v * {r} + row]"
            f"[unit * {self.room}];", *(f"{name} += x.x[{g}];" for g, name in enumerate(sums))])
        return [f"float (*operand{n})[{s.deep}] = (float (*)[{s.deep}])(tile_memory + {at[0]}) + warp * {r};",
                f"float (*{shared})[{stride}] = (float (*)[{stride}])(tile_memory + {at[1]});",
                *self._copy_operand(pointer, s, r), "__syncwarp();", f"float {acc}[{r}][{s.each}] = {{}};",
                *self._products(s, r), *self._store_partial_sums(s, r), "__syncthreads();",
                *(f"float {name} = 0;" for name in sums),
                *when("mine", [*mine, *(f"{name} = {CUDA.rounded(d, name)};" for name in sums if is_half(d))])]

    def _products(self, s: Share, r: int) -> list[str]:
        """Prints loops in which a lane multiplies its part of the operand by its part of the matrix."""
        acc, matrix, T = f"acc{self.number}", f"matrix{self.number}", f"const hy_pack<float, {CHUNK}>"
        return unrolled([("q", s.chunks), ("r", r)], [
            f"{T} x = *({T} *)&operand{self.number}[r][(q * {s.parts} + lane % {s.parts}) * {CHUNK}];",
            *unrolled([("d", CHUNK), ("c", s.each)], [f"{acc}[r][c] += x.x[d] * {matrix}[q][d][c];"])])

    def _store_partial_sums(self, s: Share, r: int) -> list[str]:
        """Prints loops that add the sums of the lanes of a column, and store each warp's sums to shared memory."""
        acc, column = f"acc{self.number}[r][c]", f"c * {s.across} + lane / {s.parts}"
        to = column
        if self.room != self.count:
            to = f"({column}) / {self.count} * {self.room} + ({column}) % {self.count}"
        return unrolled([("r", r), ("c", s.each)], [
            *(f"{acc} += __shfl_xor_sync(0xffffffffu, {acc}, {1 << i});" for i in range(int(math.log2(s.parts)))),
            f"if (lane % {s.parts} == 0 && {column} < {s.columns}) shared{self.number}[warp * {r} + r][{to}] = {acc};"])

    def _vector_loads(self) -> bool:
        """Whether each chunk of CHUNK elements of the operand is contiguous and aligned."""
        p = self.product
        o, deep = p.operand("a"), p.m.depth[0]
        assert o.place is not None and o.memory is not None
        rest = [o.place.const, *(c for a, c in o.place.terms if a != deep)]
        return (p.depth % CHUNK == 0 and coefficient(o.place, deep) == 1 and not any(c % CHUNK for c in rest)
                and o.node.dtype == o.memory.dtype)

    def _copy_operand(self, pointer: str, s: Share, r: int) -> list[str]:
        """Prints a loop in which a warp copies its part of the operand's rows to shared memory."""
        p, count = self.product, s.chunks * s.parts
        o = p.operand("a")
        assert o.memory is not None and o.place is not None
        d, T, at = o.memory.dtype, f"hy_pack<{CUDA.storage(o.memory.dtype)}, {CHUNK}>", text(o.place)
        load = CUDA.half_load[d.name] if is_half(d) else "{0}"
        index = [*p.decode("at", p.m.rows), *p.decode("deep", p.m.depth)]
        if self._vector_loads():
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
