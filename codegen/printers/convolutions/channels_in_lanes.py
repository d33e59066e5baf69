"""Convolutions in C whose vectors hold filters: pixels are broadcast from the image, sums are transposed before
they are stored.

For images whose lines do not fill vectors. A panel of filters is packed, depth by depth, transposed in registers; the
depth goes in parts where a panel would not stay in the second cache.
"""
from __future__ import annotations

import math
from functools import partial
from typing import Any

from hybrid.base.records import dataclass
from hybrid.ir.index import Ix, Var, substitute, text, unlinear, var
from hybrid.ir.size import hint, may_exceed
from hybrid.ir.stmt import For, Scope, Stmt

from hybrid.codegen.program import local
from hybrid.codegen.dialect import PARALLEL
from hybrid.codegen.schedule.tiling import decode, flat
from .pixels_in_lanes import PixelsInLanes
from hybrid.codegen.block import nested
from hybrid.codegen.nest import Sums, count, function
from hybrid.codegen.printers.products.operand import root_index
from hybrid.codegen.lanes import Refused

PANEL = 320 << 10              # bytes of packed filters that stay in the second cache beside the image


@dataclass
class ChannelsTile:
    """``r`` lines of ``c`` pixels, ``nv`` vectors of filters; ``part``: how much of the outermost depth a panel
    holds."""
    r: int
    c: int
    nv: int
    part: int
    cost: float


class ChannelsInLanes(PixelsInLanes):
    """Prints one kernel; ``tile.cost`` says whether it is worth it."""

    def choose(self) -> Any:
        """The cheapest tile by a count of vector operations."""
        rows, xs, ys = self.rows.extent, self.x.extent, self.y.extent if self.y else 1
        limit = min(self.target.accumulators, self.lanes * 4)
        best: ChannelsTile | None = None
        for nv in range(1, min(4, -(-rows // self.lanes)) + 1):
            panels = -(-rows // (nv * self.lanes))
            # from the fewest whose lines fit the registers
            for parts in range(-(-xs // max(min(limit // nv, self.lanes), 1)), xs + 1):
                c = -(-xs // parts)
                if c * nv > limit:
                    continue
                for r in range(1, ys + 1 if c == xs else 2):
                    if r * c * nv > limit or r * c > self.lanes:
                        break
                    tiles = -(-xs // c) * -(-ys // r)
                    each = self.depth * max(r * c * nv, 2 * nv + r * c / 2,
                                            4) * (1.2 if self.step > 1 else 1) + nv * self.lanes * 8 + nv * 90 + 20
                    if r * c * nv > 14:                      # measured: a quarter slower than by this count
                        each *= 1.25
                    cost = panels * (self.depth * nv * self.lanes * 0.4 + tiles * each)
                    if best is None or cost < best.cost:
                        best = ChannelsTile(r, c, nv, self._part(nv), cost)
                break
        if best is None:
            raise Refused("no tile fits the registers")
        return best

    def _part(self, nv: int) -> int:
        """How much of the outermost depth a panel holds."""
        whole = self.m.depth[0].extent
        row = self.depth // whole * nv * self.lanes * 4
        if row * whole <= PANEL * 3 // 2:
            return whole
        parts = -(-row * whole // PANEL)
        return -(-whole // parts)

    def micro(self) -> Stmt:
        """The tile: sums of all pixels, read and written in memory when the depth goes in parts."""
        t, m, L = self.tile, self.m, self.lanes
        lines, sx = self.steps(m.b, self.y, self.x)
        sums = Sums([f"HYV_B(x[{p // t.c * lines + p % t.c * sx}])" for p in range(t.r * t.c)],
                    [f"HYV_LOAD(W + {j * L})" for j in range(t.nv)])
        first, *rest = m.depth
        at = " + ".join(f"{v.name} * {m.b.stride(v)}l" for v in m.depth)
        step = [f"const float *x = A + {at};", *sums.step(), f"W += {t.nv * L};"]
        return function(f"{self.name}_tile", "const float *A, const float *W, float *to, long count",
                        [*(sums.read("to", t.nv * L, L) if self.parts > 1 else sums.zero()),
                         count(first.name, "count", nested(rest, step)), *sums.write("to", t.nv * L, L)])

    @property
    def parts(self) -> int:
        """In how many parts the depth goes."""
        return -(-self.m.depth[0].extent // self.tile.part)

    def tiles(self, parallel: bool) -> list[Stmt]:
        """Panels of filters, in each all tiles of pixels."""
        t, m = self.tile, self.m
        width, whole, several = t.nv * self.lanes, m.depth[0].extent, self.parts > 1
        ys, xs = self.cuts(t.r, t.c)
        panels, rest = -(-self.rows.extent // width), math.prod(v.extent for v in self.rest)
        split = 1 if hint(panels * rest) >= 4 or several else min(ys.count, -(-4 // hint(panels * rest)))
        space = self.lanes * width                               # sums of a tile: as many rows as a square block has
        sums = f"sums + t * {space}" if several else "sums"
        sy, sx, sc = self.steps(m.b, self.y, self.x, m.depth[0])
        call = f"{self.name}_tile({self.pixels()} + y0 * {sy}l + x0 * {sx}l + c_ * {sc}l, Bp, {sums}, some);"

        def over(*body: Stmt) -> Stmt:
            first, last = (f"{part} * {ys.count} / {split} * {xs.count}" for part in ("part", "(part + 1)"))
            return count("t", last, [f"const long yt = t / {xs.count}, xt = t % {xs.count}, x0 = {xs.first('xt')}, "
                                     f"y0 = {ys.first('yt')};", *body], first=first)
        finish, pack = self._finish(sums), self._pack(width, self.depth // whole)
        if several:
            size = xs.count * ys.count * space
            inner: list[Stmt] = [
                local.array("float", "sums", size), count("z", size, ["sums[z] = 0;"]),
                count("c_", whole, [f"const long some = {whole} - c_ < {t.part} ? {whole} - c_ : {t.part};", *pack,
                                    over(call)], t.part), over(*finish)]
        else:
            inner = [Scope((f"const long c_ = 0, some = {whole};", *pack,
                            over(f"float sums[{space}] __attribute__((aligned(64)));", call, *finish)))]
        return [*self.before, For("u", Ix(), Ix(rest * panels * split), (
            f"const long panel = u / {split} % {panels}, part = u % {split};",
            *decode(f"(u / {panels * split})", self.rest),
            f"const long m0_ = panel * {width}, left = {self.rows.extent} - m0_;",
            f"const long filters = left < {width} ? left : {width};",
            local.array("float", "Bp", t.part * (self.depth // whole) * width), *inner), 1,
            self.pays.format(PARALLEL) if parallel and may_exceed(rest * panels * split, 1) else "")]

    def _pack(self, width: int, inner: int) -> list[Stmt]:
        """The panel's filters: transposed in registers where the depth is contiguous in memory."""
        m, L = self.m, self.lanes
        sm, *strides = self.steps(m.a, self.rows, *m.depth)
        dense = 1
        for v, s in reversed(list(zip(m.depth, strides))):
            if v.extent > 1 and s != dense:
                dense = 0
                break
            dense *= v.extent
        out: list[Stmt] = [f"const float *from = {self.filters()} + m0_ * {sm}l + c_ * {strides[0]}l;"]
        if not dense:
            first, *rest = m.depth
            at = " + ".join(f"{v.name} * {s}l" for v, s in zip(m.depth, strides))
            cell = f"Bp[({text(flat(m.depth))}) * {width} + f] = f < filters ? from[f * {sm}l + {at}] : 0;"
            return [*out, count(first.name, "some", nested(rest, [count("f", width, [cell])]))]
        return [*out, f"const long deep = some * {inner}, whole = filters == {width} ? deep / {L} * {L} : 0;",
                count("f", width, [count("k", "whole", [
                    f"turn_vfloat{L}(Bp + k * {width} + f, {width}, from + f * {sm}l + k, {sm}l);"], L)], L),
                count("k", "deep", [count("f", width, [
                    f"Bp[k * {width} + f] = f < filters ? from[f * {sm}l + k] : 0;"])], first="whole")]

    def _finish(self, sums: str) -> list[Stmt]:
        """The kernel's root from the sums of a tile."""
        t, L, m = self.tile, self.lanes, self.m
        height = self.y.extent if self.y else 1
        q, x0, y0 = Var("q_", t.r * t.c), Var("x0", max(self.x.extent, 2)), Var("y0", max(height, 2))
        names = {self.x: var(x0) + var(q)}
        if t.r > 1 and self.y is not None:                       # whole lines: pixels are numbered through
            names = dict(zip((self.y, self.x), unlinear(var(q) + var(y0) * self.x.extent, [height, self.x.extent])))
        elif self.y is not None and height > 1:
            names[self.y] = var(y0)
        at = root_index(self.k, tuple(substitute(i, names) for i in m.dot_index))
        turned = f"turn_vfloat{L}(acc + j * {L * L}, {L}, {sums} + j * {L}, {t.nv * L});"
        return [f"float acc[{t.nv * L * L}] __attribute__((aligned(64)));", count("j", t.nv, [turned]),
                *self.results(at, [([self.rows], partial(self.filter_loop, "filters"))], q,
                              f"HYV_LOAD(acc + i_m * {L} + q_)", [*self.outer, *self.rest, x0, y0])]
