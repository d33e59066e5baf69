"""Convolutions and dense layers in C over blocks of images (hybrid/ir/batch_in_lanes.py): a vector holds one pixel of
several images, weights are broadcast from memory.

The lines that a tile of results reads stand in a ring: transformed for F(m, r) along lines
(hybrid/ir/winograd.py), or copied with their border, or, without a border, where they are. A tile is some filters times
some pixels; its sums go through a small buffer to the epilogue, which transforms back and takes the largest of a pool.
"""
from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Sequence

import numpy as np

from hybrid.ir import Node
from hybrid.ir.index import Ix, Var, var
from hybrid.ir.stmt import Let, Name, Scope, Stmt, When
from hybrid.ir.winograd import array, matrices

from hybrid.codegen.dialect import PARALLEL
from hybrid.codegen.emit import Block
from hybrid.codegen.lanes import unmasked
from hybrid.codegen.loops import PARALLEL_WORK, Printed
from hybrid.codegen.nest import Cut, Sums, count, function, unless_finite, within
from hybrid.codegen.program import local
from .packed_form import Packed
from .transforms import backward, forward

UNROLLED = 8                     # columns of a filter that are written out


class BatchInLanes(Packed):
    """Prints one kernel."""

    def _shapes(self, x: Node, w: Node) -> None:
        a = self.dot.attrs
        self.batch, self.c, self.h, self.wide, _ = x.shape
        self.filters, (self.ph, self.pw) = a["filters"], a["pool"]
        self.filter_groups, self.g = w.shape[0], w.shape[4]
        self.oh, self.ow = a["out"][0] * self.ph, a["out"][1] * self.pw              # before the pool
        self.points = w.shape[1] if a["form"] == "batch_in_lanes_winograd" else 0
        self._tile()

    def _tile(self) -> None:
        """Lines and columns of results that are computed together, and what they read."""
        pooled = self.ph * self.pw > 1
        if self.points:
            self.r, self.tx = self.ph if pooled else min(2, self.oh), self.points - self.kw + 1
        elif pooled:
            self.r, self.tx = self.ph, self.pw
        else:
            self.r = min(2, self.oh)
            self.tx = min(4 // self.r, self.ow)
        self.across, self.down = Cut.overlapping(self.ow, self.tx), Cut.overlapping(self.oh, self.r)
        self.span = (self.r - 1) * self.sy + (self.kh - 1) * self.dy + 1
        self.need = max((self.ow - 1) * self.sx + (self.kw - 1) * self.dx + 1, 1)            # columns that are read
        low = (self.oh - 1) * self.sy + (self.kh - 1) * self.dy + 1
        self.bordered = bool(self.py or self.px or self.need > self.wide or low > self.h)
        self.line = self.need if self.bordered else self.wide
        self.ring = bool(self.points) or self.bordered
        L = self.lanes
        self.slot = self.c * L * (self.points * self.across.count if self.points else self.line)
        # from channel to channel
        self.step = L * (self.across.count if self.points else self.line if self.ring else self.h * self.wide)
        # vectors of a filter in a tile
        self.sums = self.r * (self.points or self.tx)

    def epilogue(self) -> tuple[Block, Block, Block]:
        """Statements for the kernel, for filter ``ch``, and for a result of all images of block ``bk`` at ``oy``,
        ``ox`` from the sums ``sum@``."""
        b, f, *out, lanes = self.dot.shape
        lane = Var("l", lanes)

        def at(name: str, extent: int) -> Ix:
            return var(Var(name, extent)) if extent > 1 else Ix()
        idx = (at("bk", b), at("ch", f), at("oy", out[0]), at("ox", out[1]), var(lane))
        outer = Block(None, frozenset())
        filters = outer.child([Var("ch", f), Var("bk", b)])
        last = filters.child([Var("oy", out[0]), Var("ox", out[1]), lane])
        self.store_root(replace(self.emitter(lane), allow_halves=True), self.place(idx), last)
        return outer, filters, last

    def print(self) -> Printed:
        """The kernel."""
        row = [] if not self.ring else [self.row_transformed() if self.points else self.row_copied()]
        return self.printed([*row, self.multiply(), *(self.plain() if self.points else []), self.finish(),
                             self.head(), *self.body(), "}"])

    # ---- lines
    def _row(self, body: Sequence[Stmt]) -> Stmt:
        """The function that puts a line of all channels together; zeros beyond the image."""
        zeros = When(f"y < 0 || y >= {self.h}", (f"__builtin_memset(to, 0, {self.slot * 4});", "return;"))
        return function(f"{self.name}_row", "const float *X, long y, float *to", [zeros, *body],
                        "noinline" if self.points else "")

    def row_copied(self) -> Stmt:
        """A line of all channels with its border."""
        return self._row(within([f"for (long c = 0; c < {self.c}; c++, to += {self.step}) {{"],
                                self._with_border("to")))

    def _with_border(self, to: str) -> list[Stmt]:
        L, inside = self.lanes, max(min(self.wide, self.need - self.px), 0)
        rest = self.need - self.px - inside
        return [*([f"__builtin_memset({to}, 0, {min(self.px, self.need) * L * 4});"] if self.px else []),
                *([f"__builtin_memcpy({to} + {self.px * L}, X + (c * {self.h} + y) * {self.wide * L}, "
                   f"{inside * L * 4});"] if inside else []),
                *([f"__builtin_memset({to} + {(self.px + inside) * L}, 0, {rest * L * 4});"] if rest > 0 else [])]

    def row_transformed(self) -> Stmt:
        """Bᵀ d of a line of all channels: point by point, channel by channel, tile by tile."""
        L, n, T = self.lanes, self.points, self.across
        base = "line" if self.bordered else f"X + (c * {self.h} + y) * {self.wide * L}"
        tile = forward(matrices(self.tx, self.kw)[2]).along(
            [f"HYV_LOAD(x + {q * L})" for q in range(n)],
            lambda p, v: f"HYV_STORE(to + ({p * self.c * T.count} + c * {T.count} + t) * {L}, {v});", n)
        return self._row([*([local.array("float", "line", self.need * L)] if self.bordered else []),
                          count("c", self.c, [*(self._with_border("line") if self.bordered else []),
                                              count("t", T.count, [f"const float *x = {base} + {T.first('t')} * {L};",
                                                                   tile])])])

    # ---- a tile
    def multiply(self) -> Stmt:
        """Sums of a group of filters at the pixels (or points) of a tile."""
        L, R, columns = self.lanes, range(self.r), range(1 if self.points else self.tx)
        taps, size = 1 if self.points else self.kw, self.points or 1

        def sums(tap: str) -> Sums:
            return Sums([f"HYV_B(W[{f}])" for f in range(self.g)],
                        [f"HYV_LOAD(x{r}{tap} + {t * self.sx * L})" for r in R for t in columns])
        if taps > UNROLLED:
            steps = within([f"for (long j = 0; j < {taps}; j++, W += {self.g}) {{"],
                           sums(f" + j * {self.dx * L}").step())
        else:
            steps = [Scope((*sums(f" + {j * self.dx * L}").step(), f"W += {self.g};")) for j in range(taps)]
        rows = [f"const float *x{r} = row[i * {self.dy} + {r * self.sy}] + at;" for r in R]
        advance = ", ".join(f"x{r} += {self.step}" for r in R)
        every = sums("")
        body = [*every.zero(),
                count("i", self.kh, [*rows, *within([f"for (long c = 0; c < {self.c}; c++, {advance}) {{"], steps)]),
                *every.write("to", len(every.vectors) * size * L, size * L)]
        points = [f"for (long p = 0; p < {self.points}; p++, at += {self.c * self.across.count * L}, to += {L}) {{"]
        return function(f"{self.name}_sums", "const float *const *row, long at, const float *W, float *to",
                        within(points, body) if self.points else body)

    def finish(self) -> Stmt:
        """The epilogue of a tile: filters ch0 … of block bk at the tile's first result."""
        L = self.lanes
        outer, filters, last = (unmasked(block.body) for block in self.epilogue())
        each = [(r, q) for r in range(self.r) for q in range(self.tx)]
        if self.points:
            sums: list[Stmt] = [f"hy_v {', '.join(f'y{r}_{q}' for r, q in each)};",
                                *map(self._transformed_back, range(self.r)),
                                self._finite([f"y{r}_{q}" for r, q in each])]
        else:
            sums = [Let("hy_v", Name(f"y{r}_{q}"), f"HYV_LOAD(m + {(r * self.tx + q) * L})", True) for r, q in each]
        results = [Scope((f"const long oy = oy0 + {i // self.ph}, ox = ox0 + {j // self.pw};",
                          Let("hy_v", Name("sum_0"), self._pooled(i, j), True), *last))
                   for i in range(0, self.r, self.ph) for j in range(0, self.tx, self.pw)]
        loop = f"for (long ch = ch0; ch < ch0 + count; ch++, m += {self.sums * L}) {{"
        return function(f"{self.name}_out", "const float *m, long bk, long ch0, long count, long oy0, long ox0, "
                        + self.pointers,
                        ["const long l = 0;", *outer, *within([loop], [*filters, *sums, *results])])

    def _transformed_back(self, r: int) -> Stmt:
        """The results of a line of a tile, from its sums at all points."""
        n = self.points
        return backward(matrices(self.tx, self.kw)[0]).along(
            [f"HYV_LOAD(m + {(r * n + p) * self.lanes})" for p in range(n)], lambda q, v: f"y{r}_{q} = {v};", self.tx)

    def _pooled(self, i: int, j: int) -> str:
        """The largest of a window's sums."""
        first, *others = [f"y{i + a}_{j + b}" for a in range(self.ph) for b in range(self.pw)]
        return reduce(lambda best, y: f"HYV_MAXN({best}, {y})", others, first)

    def _finite(self, sums: list[str]) -> Stmt:
        """Sums of a tile that are no finite numbers are computed again, plainly."""
        return unless_finite(" + ".join(sums), [
            f"hy_v plain[{len(sums)}];",
            f"{self.name}_plain((float *)plain, bk, ch, oy0 * {self.ph}, ox0 * {self.pw}, {self.x}, {self.w});",
            *(f"{y} = plain[{k}];" for k, y in enumerate(sums))])

    def plain(self) -> list[str]:
        """A tile's sums for a filter without the transforms, which would spread infinities and NaN to pixels that do
        not read them. Transforming a filter's line is undone for it."""
        L, back = self.lanes, np.linalg.pinv(array(matrices(self.tx, self.kw)[1]).astype(np.float64))
        rows = ", ".join("{" + ", ".join(f"{float(v):.9e}f" for v in row) + "}" for row in back)
        return [f"static __attribute__((noinline, cold)) void {self.name}_plain(float *to, long bk, long ch, long y, "
                f"long x, const float *X, const float *W) {{",
                f"  static const float back[{self.kw}][{self.points}] = {{{rows}}};",
                f"  W += ch / {self.g} * {self.kh * self.c * self.g * self.points}l + ch % {self.g};",
                f"  X += bk * {self.c * self.h * self.wide * L}l;",
                f"  for (long r = 0; r < {self.r}; r++) for (long q = 0; q < {self.tx}; q++, to += {L}) {{",
                "    hy_v sum = {0};",
                f"    for (long i = 0; i < {self.kh}; i++) for (long j = 0; j < {self.kw}; j++) {{",
                f"      const long v = (y + r) * {self.sy} + i * {self.dy} - {self.py}, u = x + q + j - {self.px};",
                f"      const int inside = {self.inside('v', 'u')};",
                f"      for (long c = 0; c < {self.c}; c++) {{", "        float w = 0;",
                f"        for (long p = 0; p < {self.points}; p++) w += back[j][p] * W[((p * {self.kh} + i) * {self.c} "
                f"+ c) * {self.g}];",
                f"        if (inside) sum += HYV_LOAD(X + ((c * {self.h} + v) * {self.wide} + u) * {L}) * HYV_B(w);",
                "        else sum += HYV_B(0 * w);",
                "      }", "    }", "    HYV_STORE(to, sum);", "  }", "}"]

    # ---- all tiles
    def body(self) -> list[str]:
        """Blocks, or parts of them for threads; lines of tiles; groups of filters; tiles. The last line of tiles may
        write results of the one before again, so they are of one part.
        """
        L = self.lanes
        apart = self.down.count - (self.oh % self.r > 0) if self.down.count > 1 else 1
        parallel = self.dot.size * self.ph * self.pw * self.kh * self.kw * self.c >= PARALLEL_WORK
        parts = (f"hy_threads > 1 && {self.batch} < 4 * hy_threads ? ({apart} < 2 * hy_threads ? {apart} : 2 * "
                 f"hy_threads) : 1" if parallel else "1")
        # numbers of a group of filters
        pitch = self.kh * self.c * self.g * (self.points or self.kw)
        out = [f"  const long parts = {parts};",
               *(["  " + PARALLEL] if parallel else []),
               f"  for (long u = 0; u < {self.batch} * parts; u++) {{",
               f"    const long bk = u / parts, part = u % parts, begin = part * {apart} / parts, end = part + 1 == "
               f"parts ? {self.down.count} : (part + 1) * {apart} / parts;",
               f"    const float *X = {self.x} + bk * {self.c * self.h * self.wide * L}l, *row[{self.span}];",
               "    " + local.array("float", "sums", self.g * self.sums * L),
               *(["    " + local.array("float", "ring", self.span * self.slot), "    long have = 0;"] if self.ring
                 else []),
               "    for (long ty = begin; ty < end; ty++) {",
               f"      const long y = {self.down.first('ty')}, first = y * {self.sy};"]
        if self.ring:
            out += [f"      for (long i = have > first ? have : first; i < first + {self.span}; i++) "
                    f"{self.name}_row(X, i - {self.py}, ring + i % {self.span} * {self.slot});",
                    f"      have = first + {self.span};",
                    f"      for (long i = 0; i < {self.span}; i++) row[i] = ring + (first + i) % {self.span} * "
                    f"{self.slot};"]
        else:
            out.append(f"      for (long i = 0; i < {self.span}; i++) row[i] = X + (first + i) * {self.wide * L};")
        at = f"t * {L}" if self.points else f"x * {self.sx * L}"
        out += [f"      for (long o = 0; o < {self.filter_groups}; o++)",
                f"      for (long t = 0; t < {self.across.count}; t++) {{",
                f"        const long x = {self.across.first('t')}, left = {self.filters} - o * {self.g};",
                f"        {self.name}_sums(row, {at}, {self.w} + o * {pitch}l, sums);",
                f"        {self.name}_out(sums, bk, o * {self.g}, left < {self.g} ? left : {self.g}, y / {self.ph}, x "
                f"/ {self.pw}, {self.passed});",
                "      }", "    }", "  }"]
        return out
