"""Weight gradients of depthwise convolutions whose data and gradient lie channels last, in C: a vector holds channels,
of which each is multiplied with its own. The sums of one row of the filter are kept in registers over the pixels of
some lines.
"""
from __future__ import annotations

from itertools import groupby
from typing import Sequence

from hybrid.ir.index import Var, text, var
from hybrid.ir.size import fixed, hint
from hybrid.ir.stmt import Stmt

from hybrid.codegen.block import nested
from hybrid.codegen.lanes import Refused
from hybrid.codegen.nest import Cut, count, function, within
from hybrid.codegen.program.size_parameters import literal, more_declared, more_passed
from hybrid.codegen.schedule.tiling import flat
from .filters_in_lanes import NEAR_LINES, PIXELS, FiltersInLanes
from .weight_gradient import SUMS, USED

VECTORS = 2                     # of channels at most, which a cache line or two hold


class DepthwiseGradient(FiltersInLanes):
    """Prints one kernel."""

    def _neighbours(self) -> bool:
        m = self.m
        return (len(m.batch) == 1 and m.a.stride(m.batch[0]) == 1 and len(self.at) > 2
                and self.at[-1] == var(m.batch[0]))

    def _axes(self) -> None:
        super()._axes()
        if self.row.extent > 1 or self.channel.extent > 1 or len(self.around) > 1:
            raise Refused("several filters of a channel, or channels of a filter")
        self.row, self.around = self.around[0], []

    # ---- the tile
    def _choose(self) -> None:
        """Vectors of channels times taps of a row: as many sums as the registers hold."""
        x, y, channels, lanes = self.x, self.y, self.row.extent, self.lanes
        if channels < USED * lanes or x.taps > self.target.accumulators:
            raise Refused("channels that leave most of a vector empty, or a filter too wide for the registers")
        self.nv = min(VECTORS, self.target.accumulators // x.taps, -(-channels // lanes))
        width = min(self.nv * lanes, channels)
        self.row_tiles, self.channel_tiles = Cut.overlapping(channels, width), Cut.overlapping(1, 1)
        self.tile, self.shared = x.taps * self.nv, self.row_tiles.count
        self.count = self.shared * y.taps
        if self.count * self.tile * lanes * 4 > SUMS:
            raise Refused("more sums than working memory")
        height, wide = self.picture.shape[-3:-1]
        pixels = hint(x.pixels * y.pixels)
        near = max(NEAR_LINES // ((pixels + hint(height * wide)) * width * 4), -(-PIXELS // pixels))
        self._in_blocks(near, hint(x.pixels + wide * y.stride) * width * 4)

    # ---- text
    def micro(self) -> Stmt:
        """The tile: lines first to last of some images, under one row of the filter."""
        x, L, apart = self.x, self.lanes, self.nv * self.lanes
        sums = [(t, j) for t in range(x.taps) for j in range(self.nv)]
        columns: list[Stmt] = []
        # neighbouring pixels that meet the same taps
        for taps, same in groupby(range(x.pixels) if fixed(x.pixels) else (), self._taps):
            pixels = list(same)
            columns.append(count("x", pixels[-1] + 1, self._products(taps), first=pixels[0]))
        if not fixed(x.pixels):
            columns.append(count("x", x.pixels, self._products(range(x.taps))))
        return function(f"{self.name}_tile", "const float *G, const float *B, float *sums, long pictures, long first, "
                        f"long last{more_declared()}",
                        [*(f"hy_v s{t}_{j} = HYV_LOAD(sums + {t * apart + j * L});" for t, j in sums),
                         *within(self._over_lines(), columns),
                         *(f"HYV_STORE(sums + {t * apart + j * L}, s{t}_{j});" for t, j in sums)])

    def _taps(self, pixel: int) -> list[int]:
        """The taps of a row of the filter that meet the image at a pixel of the gradient."""
        return [t for t in range(self.x.taps) if self.x.range(t)[0] <= pixel < self.x.range(t)[1]]

    def _products(self, taps: Sequence[int]) -> list[Stmt | str]:
        """The products of a pixel of the gradient with those under some taps. In a line of any length it is tested
        which of them the image has."""
        x, step = self.x, self.picture.shape[-1]
        out: list[Stmt | str] = [f"const float *g_ = g + x * {literal(self._steps(self.m.a.address, x.pixel))}, "
                                 f"*b_ = b + x * {literal(self._steps(self.place, x.pixel))};"]
        out += [f"const hy_v w{j} = {self._vector('g_', j)};" for j in range(self.nv)]
        for t in taps:
            products = [f"s{t}_{j} += w{j} * {self._vector(f'b_ + ({(t * x.dilation - x.border) * step})', j)};"
                        for j in range(self.nv)]
            first, last = x.range(t)
            out += products if fixed(x.pixels) else within([f"if (x >= {first} && x < {last}) {{"], products)
        return out

    def _vector(self, pointer: str, j: int) -> str:
        left = self.row_tiles.size - j * self.lanes
        load = "HYV_LOAD({})" if left >= self.lanes else f"HYV_LOADM(HYV_FIRST({left}), {{}})"
        return load.format(f"{pointer} + {j * self.lanes}")

    def _tile(self, n: Var | None, keep: set[Var]) -> list[Stmt]:
        """Tile ``t`` of channels for all rows of the filter. keep: the loops around it."""
        y = self.y
        line = self.picture.shape[-2] * self.picture.shape[-1] if y.pixel is not None else 0
        out: list[Stmt] = [f"const long r = {self.row_tiles.first('t')};", *self._begin(n, keep, "r", " + r")]
        for tap in range(y.taps):
            at = literal((tap * y.dilation - y.border) * line)
            out.append(f"{self.name}_tile(pa, pb + {at}, sums + (t * {y.taps} + {tap}) * {self.tile * self.lanes}l, "
                       f"pictures, {self._range(tap)}{more_passed()});")
        return out

    def _joined(self) -> list[Stmt]:
        """The sums in the contraction's own order."""
        loops = [Var("rt", self.row_tiles.count), Var("ky", self.y.taps), Var("kx", self.x.taps)]
        return nested(loops, [count("l", self.row_tiles.size, [
            f"const long row = {self.row_tiles.first('rt')} + l;",
            f"{self._whole()} = sums[({text(flat(loops))}) * {self.nv * self.lanes} + l];"])])
