"""Slices of a contraction's operands on their way into shared memory, by way of registers."""
from __future__ import annotations

from typing import Callable, Sequence

from hybrid.ir.index import Var, var

from .pieces import THREADS, unrolled, when, widths
from .product import Element, Product
from hybrid.codegen.dialect import CUDA


class Fill:
    """How 256 threads bring a slice (``size`` rows or columns, ``bk`` deep) of an operand from memory through
    registers.

    Threads take neighbours in memory, along the depth or along the side, several at once where they load as one.
    """

    def __init__(self, p: Product, side: str, size: int, bk: int, raw: bool = False, threads: int = THREADS):
        self.p, self.side, self.size, self.bk, self.raw, self.threads = p, side, size, bk, raw, threads
        self.by_depth = p.depth_major(side)
        self.register = f"r{side}"
        self.each = size * bk // threads
        self.lane, self.element = self._choose()
        if p.operand(side).address is None and self.lane.extent == 1:        # what is computed may be read along either
            self.by_depth = True
            self.lane, self.element = self._choose()
            self.by_depth = self.lane.extent > 1
        self.width = self.lane.extent

    def _choose(self) -> tuple[Var, Element]:
        p, group = self.p, self.p.group(self.side)
        known = frozenset([*p.m.batch, *group, *p.m.depth])
        straight = self.raw and p.operand(self.side).address is not None
        along, most = (p.m.depth, self.bk) if self.by_depth else (group, self.size)
        if len(along) == 1:
            for w in widths(along[0].extent, p.operand(self.side).node.dtype.itemsize):
                lane, first = Var("j", w), Var("step", along[0].extent // w)
                found = p.element(self.side, known | {first}, lane, {along[0]: var(first) * w + var(lane)}, straight)
                if found.whole and most % w == 0 and self.each % w == 0:
                    return lane, found
        return Var("j", 1), p.element(self.side, known, None, None, straight)

    def declare(self, T: str) -> list[str]:
        """The registers."""
        return [f"__align__(16) {T} {self.register}[{self.each}];"]

    def _walk(self, body: Sequence[str]) -> list[str]:
        """Statements for each of a thread's loads, the i-th at s along the side of the slice and d along the depth."""
        w = self.width
        if self.by_depth:
            place = f"int d = e % {self.bk // w} * {w}, s = e / {self.bk // w};"
        else:
            place = f"int s = e % {self.size // w} * {w}, d = e / {self.size // w};"
        return unrolled([("i", self.each // w)], [f"int e = (int)threadIdx.x + i * {self.threads};", place, *body])

    def load(self, high: str, k: str = "k0") -> list[str]:
        """Statements that load the slice that begins at depth k into registers, zero outside."""
        p, w, r = self.p, self.width, self.register
        start, extent = ("r0", p.rows) if self.side == "a" else ("c0", p.columns)
        group, depth = p.group(self.side), p.m.depth
        decoded = [*([] if w > 1 and not self.by_depth else p.decode("at", group)),
                   *([] if w > 1 and self.by_depth else p.decode("kk", depth))]
        if w > 1:
            decoded.append(f"{p.kind} step = {'kk' if self.by_depth else 'at'} / {w};")
        value = self.element.value
        if self.raw and p.operand(self.side).address is None:
            value = CUDA.half_store[p.dot.dtype.name].format(value)
        one = [*self.element.own, f"{r}[i * {w} + j] = {value};"]
        return self._walk([f"{p.kind} at = {start} + s, kk = {k} + d;", "HY_ASSUME(at >= 0 && kk >= 0);",
                           *unrolled([("j", w)], [f"{r}[i * {w} + j] = 0;"]),
                           *when(f"at < {extent} && kk < {high}", [
                               *decoded, *self.element.common, *unrolled([("j", w)], one)])])

    def keep_by_depth(self, to: str) -> list[str]:
        """Statements that write the registers to shared memory as [depth][side]; neighbours of a side as a vector."""
        w, r = self.width, self.register
        if not self.by_depth:
            return self._walk([self._vector(f"&{to}[d][s]", self.p.T)])
        return self._walk(unrolled([("j", w)], [f"{to}[d + j][s] = {r}[i * {w} + j];"]))

    def keep(self, to: str, place: Callable[[str, str], str]) -> list[str]:
        """Statements that write the registers to shared memory, where ``place`` (bytes behind ``to``) says of an
        element along the side and the depth. Neighbours of a load lie together."""
        T = "unsigned short" if self.raw else self.p.T
        at = f"({to} + {place('s', 'd')})"
        return self._walk([self._vector(at, T)])

    def _vector(self, to: str, T: str) -> str:
        """A statement that writes what a thread loads at once."""
        w = self.width
        return f"*(hy_pack<{T}, {w}> *){to} = *(const hy_pack<{T}, {w}> *)({self.register} + i * {w});"
