"""Convolutions in C whose vectors hold filters: pixels are broadcast from the image, sums are transposed before
they are stored.

For images whose lines do not fill vectors. A panel of filters is packed, depth by depth, transposed in registers; the
depth goes in parts where a panel would not stay in the second cache.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hybrid.ir.index import Ix, Var, substitute, unlinear, var
from hybrid.ir.size import hint, may_exceed
from hybrid.ir.stmt import Stmt

from hybrid.codegen.program import local
from hybrid.codegen.dialect import PARALLEL
from hybrid.codegen.schedule.tiling import counted, decode
from .pixels_in_lanes import Direct
from hybrid.codegen.block import Block, nested
from hybrid.codegen.nest import Cut, Sums, count, function
from hybrid.codegen.printers.products.operand import root_index
from hybrid.codegen.lanes import Refused, lane_loop

PANEL = 320 << 10              # bytes of packed filters that stay in the second cache beside the image


@dataclass
class TurnedTile:
    """``r`` lines of ``c`` pixels, ``nv`` vectors of filters; ``part``: how much of the outermost depth a panel
    holds."""
    r: int
    c: int
    nv: int
    part: int
    cost: float


class Turned(Direct):
    """Prints one kernel; ``tile.cost`` says whether it is worth it."""

    def choose(self) -> Any:
        """The cheapest tile by a count of vector operations."""
        rows, xs, ys = self.rows.extent, self.x.extent, self.y.extent if self.y else 1
        limit = min(self.target.accumulators, self.lanes * 4)
        best: TurnedTile | None = None
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
                        best = TurnedTile(r, c, nv, self._part(nv), cost)
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
        lines, sx = (m.b.stride(self.y) or 0) if self.y else 0, m.b.stride(self.x) or 0
        sums = Sums([f"HYV_B(x[{p // t.c * lines + p % t.c * sx}])" for p in range(t.r * t.c)],
                    [f"HYV_LOAD(W + {j * L})" for j in range(t.nv)])

        def to(p: int, j: int) -> int:
            return (p * t.nv + j) * L
        first, *rest = m.depth
        at = " + ".join(f"{v.name} * {m.b.stride(v)}l" for v in m.depth)
        step = [f"const float *x = A + {at};", *sums.step(), f"W += {t.nv * L};"]
        return function(f"{self.name}_tile", "const float *A, const float *W, float *to, long count",
                        [*(sums.read("to", to) if self.parts > 1 else sums.zero()),
                         count(first.name, "count", nested(rest, step)), *sums.write("to", to)])

    @property
    def parts(self) -> int:
        """In how many parts the depth goes."""
        return -(-self.m.depth[0].extent // self.tile.part)

    def tiles(self, parallel: bool) -> list[str]:
        """Panels of filters, in each all tiles of pixels."""
        t, m, L = self.tile, self.m, self.lanes
        width, inner = t.nv * L, self.depth // m.depth[0].extent
        xs, ys = Cut.overlapping(self.x.extent, t.c), Cut.overlapping(self.y.extent if self.y else 1, t.r)
        xt, yt = xs.count, ys.count
        panels = -(-self.rows.extent // width)
        rest = math.prod(v.extent for v in self.rest)
        split = 1 if hint(panels * rest) >= 4 or self.parts > 1 else min(yt, -(-4 // hint(panels * rest)))
        out = [self.pays.format(PARALLEL)] if parallel and may_exceed(rest * panels * split, 1) else []
        out += [f"for (long u = 0; u < {rest * panels * split}; u++) {{",
                f"  const long panel = u / {split} % {panels}, part = u % {split};",
                *(f"  {s}" for s in decode(f"(u / {panels * split})", counted(self.rest))),
                f"  const long m0_ = panel * {width}, filters = {self.rows.extent} - m0_ < {width} ? "
                f"{self.rows.extent} - m0_ : {width};",
                "  " + local.array("float", "Bp", t.part * inner * width)]
        space = L * width                                        # sums of a tile: as many rows as a square block has
        if self.parts > 1:
            out += ["  " + local.array("float", "sums", xt * yt * space),
                    f"  for (long z = 0; z < {xt * yt * space}; z++) sums[z] = 0;",
                    f"  for (long c_ = 0; c_ < {m.depth[0].extent}; c_ += {t.part}) {{",
                    f"    const long some = {m.depth[0].extent} - c_ < {t.part} ? {m.depth[0].extent} - c_ : {t.part};"]
        else:
            out += ["  {", f"    const long c_ = 0, some = {m.depth[0].extent};"]
        out += ["    " + s for s in self._pack(width, inner)]
        zero = {v: Ix() for v in [*m.depth, self.x, self.rows, *([self.y] if self.y else [])]}
        base = self.pixels(zero)
        sx, sy, sc = m.b.stride(self.x) or 0, (m.b.stride(self.y) or 0) if self.y else 0, m.b.stride(m.depth[0]) or 0
        where = [f"const long yt = t / {xt}, xt = t % {xt}, x0 = {xs.first('xt')}, y0 = {ys.first('yt')};"]
        sums = f"sums + t * {space}" if self.parts > 1 else "sums"
        call = f"{self.name}_tile({base} + y0 * {sy}l + x0 * {sx}l + c_ * {sc}l, Bp, {sums}, some);"
        over = f"for (long t = part * {yt} / {split} * {xt}; t < (part + 1) * {yt} / {split} * {xt}; t++) {{"
        if self.parts > 1:
            out += ["    " + s for s in [over, *("  " + s for s in where), f"  {call}", "}"]]
            out += ["  }", *("  " + s for s in [over, *("  " + s for s in where),
                                                *("  " + s for s in self._finish(sums)), "}"])]
        else:
            out += ["    " + s for s in [over, *("  " + s for s in where),
                                         f"  float sums[{space}] __attribute__((aligned(64)));", f"  {call}",
                                         *("  " + s for s in self._finish(sums)), "}"]]
            out.append("  }")
        return [*self.before, *out, "}"]

    def _pack(self, width: int, inner: int) -> list[str]:
        """The panel's filters: transposed in registers where the depth is contiguous in memory."""
        m, L = self.m, self.lanes
        assert m.a.address is not None and m.a.base is not None
        zero = {v: Ix() for v in [*m.depth, self.rows]}
        sm = m.a.stride(self.rows) or 0
        base = self.base(m.a.address, self.reads[m.a.base], zero)
        strides, dense = [m.a.stride(v) or 0 for v in m.depth], 1
        for v, s in reversed(list(zip(m.depth, strides))):
            if v.extent > 1 and s != dense:
                dense = 0
                break
            dense *= v.extent
        out = [f"const float *from = {base} + m0_ * {sm}l + c_ * {strides[0]}l;"]
        if not dense:
            names = [v.name for v in m.depth]
            loops = "".join(f"for (long {v.name} = 0; {v.name} < {'some' if i == 0 else v.extent}; {v.name}++) " for i,
                            v in enumerate(m.depth))
            flat = names[0]
            for v in m.depth[1:]:
                flat = f"({flat}) * {v.extent} + {v.name}"
            at = " + ".join(f"{n} * {s}l" for n, s in zip(names, strides))
            return [*out,
                    f"{loops}for (long f = 0; f < {width}; f++) Bp[({flat}) * {width} + f] = f < filters ? from[f * "
                    f"{sm}l + {at}] : 0;"]
        return [*out, f"const long deep = some * {inner}, whole = filters == {width} ? deep / {L} * {L} : 0;",
                f"for (long f = 0; f < {width}; f += {L}) for (long k = 0; k < whole; k += {L}) turn_vfloat{L}(Bp + k "
                f"* {width} + f, {width}, from + f * {sm}l + k, {sm}l);",
                f"for (long k = whole; k < deep; k++) for (long f = 0; f < {width}; f++) Bp[k * {width} + f] = f < "
                f"filters ? from[f * {sm}l + k] : 0;"]

    def _finish(self, sums: str) -> list[str]:
        """The kernel's root from the sums of a tile."""
        t, L, m = self.tile, self.lanes, self.m
        turned = [f"float acc[{t.nv * L * L}] __attribute__((aligned(64)));",
                  f"for (long j = 0; j < {t.nv}; j++) turn_vfloat{L}(acc + j * {L * L}, {L}, {sums} + j * {L}, "
                  f"{t.nv * L});"]
        q = Var("q_", t.r * t.c)
        x0, y0 = Var("x0", max(self.x.extent, 2)), Var("y0", max(self.y.extent if self.y else 1, 2))
        if t.r > 1 and self.y is not None:                       # whole lines: pixels are numbered through
            place = unlinear(var(q) + var(y0) * self.x.extent, [self.y.extent, self.x.extent])
            names = {self.y: place[0], self.x: place[1]}
        else:
            names = {self.x: var(x0) + var(q), **({self.y: var(y0)} if self.y is not None and self.y.extent > 1
                                                  else {})}
        outer = Block(None, frozenset([*self.outer, *self.rest, x0, y0]))
        filters = outer.child([self.rows])
        last = filters.child([q])
        at = root_index(self.k, tuple(substitute(i, names) for i in m.dot_index))
        self.store_root(self.emitter(q), at, last)
        body = lane_loop(q, [f"const hy_v sum@ = HYV_LOAD(acc + i_m * {L} + q_);", *last.body], L, 1)
        return [*turned, *outer.lines, *self.filter_loop("filters", filters.body, last.body, body)]
