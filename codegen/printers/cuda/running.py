"""Running sums in CUDA (``cumulate``). Along the innermost axis a warp adds up 32 neighbours at a time, and its block
adds what is before them; a row of many blocks takes a launch that adds up each block's elements, and one that makes the
sums. Along other axes a thread walks down a column, or down a part of it where there are few columns. The order of
additions depends on the shape alone.
"""
from __future__ import annotations

import math
from typing import Sequence

from hybrid.base.dtype import is_half
from hybrid.ir.index import Ix, Var, var
from hybrid.ir.kernel import Kernel

from .pieces import (
    PROCESSORS, THREADS, CudaEmitter, PrintedCuda, emitter, in_turn, index_type, launched, names_of, unrolled, when,
)
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.schedule.tiling import decode

WARPS = THREADS // 32
EACH = 16                       # elements of a thread
TILE = THREADS * EACH           # of a block
ROW = 32 * EACH                 # the longest row of a warp
MANY = 1024                     # tiles of a row whose sums a block adds up by itself
PART, PARTS = 32, 64            # the shortest part of a column, and the most parts


def print_running(k: Kernel, name: str) -> PrintedCuda:
    """CUDA of a running sum."""
    r = _Running(k, name)
    return r.columns() if r.inner > 1 else r.rows() if r.n <= ROW else r.tiles()


class _Running:
    def __init__(self, k: Kernel, name: str):
        self.k, self.name, self.kind = k, name, index_type(k)
        self.args, self.names = names_of(k)
        axis, shape, d = k.root.attrs["axis"], k.root.shape, k.root.dtype
        self.outer_vars, self.at = [Var(f"i{a}", n) for a, n in enumerate(shape[:axis])], Var("at", shape[axis])
        self.inner_vars = [Var(f"i{a}", n) for a, n in enumerate(shape) if a > axis]
        self.n, self.outer, self.inner = shape[axis], math.prod(shape[:axis]), math.prod(shape[axis + 1:])
        self.T = "int" if d.kind in "iu" and d.itemsize < 4 else CUDA.compute(d)
        self.bytes = 8 if d.itemsize == 8 else 4
        # changes no number that is added to it, nor the sign of zero
        self.nothing = "0" if d.kind in "iu" else "-0.0f" if is_half(d) or d.itemsize == 4 else "-0.0"

    # ---- elements
    def _element(self, last: Sequence[str] | None) -> list[str]:
        """Statements that give ``x``, the element at ``at`` along the axis. last: and what is done with it where
        results are stored; None: nothing is stored."""
        e: CudaEmitter = emitter(self.k, self.names)
        if last is None:
            e.extra = {}
        block = Block(None, frozenset([*self.outer_vars, self.at, *self.inner_vars]))
        value = e.value(self.k.root.args[0], self._index(), block)
        return [*block.lines, f"x = {value};", *(last or [])]

    def _index(self) -> tuple[Ix, ...]:
        place = Ix(self.n - 1) - var(self.at) if self.k.root.attrs["reverse"] else var(self.at)
        return (*map(var, self.outer_vars), place, *map(var, self.inner_vars))

    def _store(self, value: str) -> str:
        return str(emitter(self.k, self.names).store(self.names[self.k.root], self.k.root, self._index(), value))

    def _launches(self, bodies: Sequence[tuple[str, list[str], int]], scratch: int) -> PrintedCuda:
        """The launches, (end of the name, body, blocks) each; the last one has no end, and stores the results."""
        T = self.T if scratch else ""
        return in_turn([launched(self.name + end, self.args, 0 if end else len(self.k.stores), body, blocks, THREADS, T,
                                 not end) for end, body, blocks in bodies], scratch)

    # ---- along the innermost axis
    def rows(self) -> PrintedCuda:
        """A warp for each row."""
        body = ["const int lane = threadIdx.x % 32;",
                f"const {self.kind} row = ({self.kind})blockIdx.x * {WARPS} + threadIdx.x / 32, first = lane;",
                f"if (row >= {self.outer}) return;", "HY_ASSUME(row >= 0);", *decode("row", self.outer_vars, self.kind),
                *self._sums(-(-self.n // 32)), *self._stores(-(-self.n // 32), "v[c]")]
        return self._launches([("", body, -(-self.outer // WARPS))], 0)

    def tiles(self) -> PrintedCuda:
        """A block for each row, or for each tile of it."""
        tiles = -(-self.n // TILE)
        each = EACH if tiles > 1 else -(-self.n // THREADS)
        start = [f"{self.T} start = {self.nothing};"]
        if tiles > MANY:
            start = [f"{self.T} start = scratch[blockIdx.x];"]
        elif tiles > 1:
            start = self._total([f"for (int t = threadIdx.x; t < (int)tile; t += {THREADS}) own += "
                                 f"scratch[row * {tiles} + t];"], "start")
        whole = [*self._head(tiles, each), *self._sums(each), *start, f"__shared__ {self.T} sums[{WARPS}];",
                 "if (lane == 31) sums[warp] = before;", "__syncthreads();",
                 *unrolled([("w", WARPS)], [f"start += w < warp ? sums[w] : {self.nothing};"]),
                 *self._stores(each, "start + v[c]")]
        if tiles == 1:
            return self._launches([("", whole, self.outer)], 0)
        parts = [*self._head(tiles, each), *self._total(
            unrolled([("c", each)], self._inside(None, "own += x;")), "total"),
            "if (threadIdx.x == 0) scratch[blockIdx.x] = total;"]
        launches = [("_parts", parts, self.outer * tiles),
                    *([("_starts", self._starts(tiles), self.outer)] if tiles > MANY else []),
                    ("", whole, self.outer * tiles)]
        return self._launches(launches, self.bytes * self.outer * tiles)

    def _head(self, tiles: int, each: int) -> list[str]:
        """What a block's tile is, and where a lane begins in it: warps have stretches of their own."""
        return ["const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
                f"const {self.kind} tile = blockIdx.x % {tiles}u, row = blockIdx.x / {tiles}u;",
                f"const {self.kind} first = tile * {TILE} + warp * {32 * each} + lane;",
                "HY_ASSUME(row >= 0 && first >= 0);", *decode("row", self.outer_vars, self.kind)]

    def _inside(self, last: Sequence[str] | None, then: str) -> list[str]:
        """Statements of a thread's element number ``c``."""
        return [f"const {self.kind} at = first + 32 * c;", f"{self.T} x = {self.nothing};",
                *when(f"at < {self.n}", self._element(last)), then]

    def _sums(self, each: int) -> list[str]:
        """v[c]: the running sums of a warp's stretch; before: its total."""
        return [f"{self.T} v[{each}], before = {self.nothing};",
                *unrolled([("c", each)], self._inside([], "v[c] = x;")),
                *unrolled([("c", each)], ["v[c] = before + hy_warp_running(v[c]);",
                                          "before = __shfl_sync(~0u, v[c], 31);"])]

    def _stores(self, each: int, value: str) -> list[str]:
        return unrolled([("c", each)], [f"const {self.kind} at = first + 32 * c;", f"const {self.T} sum = {value};",
                                        f"if (at < {self.n}) {{ {self._store('sum')} }}"])

    def _total(self, adds: Sequence[str], name: str) -> list[str]:
        """A value that all threads of a block have: the sum of what each has added up in ``own``."""
        return [f"{self.T} own = {self.nothing};", *adds, f"__shared__ {self.T} others[32];",
                f"{self.T} {name} = hy_block_reduce(own, hy_sum_op(), ({self.T}){self.nothing}, others);"]

    def _starts(self, tiles: int) -> list[str]:
        """The sums of a row's tiles become those of the tiles before them."""
        each = -(-tiles // THREADS)
        return [f"{self.T} *sums = scratch + blockIdx.x * {tiles}ll;", "const int lane = threadIdx.x % 32, warp = "
                f"threadIdx.x / 32, first = threadIdx.x * {each};",
                f"const int last = first + {each} < {tiles} ? first + {each} : {tiles};",
                f"{self.T} own = {self.nothing};", "for (int t = first; t < last; t++) own += sums[t];",
                f"const {self.T} running = hy_warp_running(own);", f"__shared__ {self.T} others[{WARPS}];",
                "if (lane == 31) others[warp] = running;", "__syncthreads();",
                f"{self.T} start = __shfl_up_sync(~0u, running, 1);", f"if (lane == 0) start = {self.nothing};",
                f"{self.T} before = {self.nothing};", "for (int w = 0; w < warp; w++) before += others[w];",
                "start = before + start;", "for (int t = first; t < last; t++) {", f"  const {self.T} own = sums[t];",
                "  sums[t] = start;", "  start += own;", "}"]

    # ---- along other axes
    def columns(self) -> PrintedCuda:
        """A thread for each column, or for each part of it."""
        count = self.outer * self.inner
        parts = max(1, min(PROCESSORS * 2 * THREADS // count, self.n // PART, PARTS))
        step = -(-self.n // parts)
        parts = -(-self.n // step)
        begin = [f"const {self.kind} t = ({self.kind})blockIdx.x * {THREADS} + ({self.kind})threadIdx.x;",
                 f"if (t >= {count * parts}) return;", "HY_ASSUME(t >= 0);",
                 f"const {self.kind} q = t % {self.inner}, part = t / {self.inner} % {parts}, "
                 f"row = t / {self.inner * parts};", *decode("row", self.outer_vars, self.kind),
                 *decode("q", self.inner_vars, self.kind),
                 f"const {self.kind} low = part * {step}, high = low + {step} < {self.n} ? low + {step} : {self.n};",
                 f"{self.T} sum = {self.nothing};"]
        blocks = -(-count * parts // THREADS)
        start = [f"for ({self.kind} i = 0; i < part; i++) sum += scratch[(row * {parts} + i) * {self.inner} + q];"]
        whole = [*begin, *(start if parts > 1 else []), *self._down(["sum += x;", self._store("sum")])]
        if parts == 1:
            return self._launches([("", whole, blocks)], 0)
        totals = [*begin, *self._down(None), "scratch[t] = sum;"]
        return self._launches([("_parts", totals, blocks), ("", whole, blocks)], self.bytes * count * parts)

    def _down(self, last: Sequence[str] | None) -> list[str]:
        """The elements of a column, one after the other."""
        return ["#pragma unroll 4", f"for ({self.kind} at = low; at < high; at++) {{", f"  {self.T} x;",
                *("  " + s for s in self._element(last)), *(["  sum += x;"] if last is None else []), "}"]
