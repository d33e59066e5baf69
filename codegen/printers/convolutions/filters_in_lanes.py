"""Weight gradients of convolutions whose data and gradient lie channels last, in C: a vector holds the gradient of
neighbouring filters at a pixel. The image's numbers under one row of the filter there, which are contiguous for all of
its taps and channels, are broadcast. A tile of sums is kept in registers over the pixels of some lines.
"""
from __future__ import annotations

import math

from hybrid.ir.index import Var, text, var
from hybrid.ir.size import fixed, hint, same
from hybrid.ir.stmt import Scope, Stmt

from hybrid.codegen.block import nested
from hybrid.codegen.lanes import Refused
from hybrid.codegen.nest import Cut, Sums, count, function, within
from hybrid.codegen.program.size_parameters import literal, more_declared, more_passed
from hybrid.codegen.schedule.tiling import decode, flat
from .weight_gradient import SUMS, USED, Correlation

PIXELS = 64                     # that a tile takes at least, if there are so many
NEAR_LINES = 64 << 10           # bytes of lines that tiles read again and again


class FiltersInLanes(Correlation):
    """Prints one kernel."""
    x_axis_from_end, channels_last = 2, True

    def _neighbours(self) -> bool:
        m = self.m
        return (bool(m.rows) and bool(m.columns) and m.a.stride(m.rows[-1]) == 1 and len(self.at) > 1
                and self.at[-1] == var(m.columns[-1]))

    def _check_line(self) -> None:
        if self.x.pixel != self.m.depth[-1] or self.x.taps == 1:
            raise Refused("the filter is one tap wide along the lines, or the innermost loop is not over their pixels")

    # ---- the tile
    def _choose(self) -> None:
        """Vectors of filters times numbers of the image: as many sums as the registers hold."""
        x, y, rows, lanes = self.x, self.y, self.row.extent, self.lanes
        # the inputs under a row of the filter are contiguous, unless it is dilated: then those of each tap are
        self.together = x.taps if x.dilation == 1 else 1
        self.depth = self.together * self.channel.extent
        if rows < USED * lanes:
            raise Refused("filters that leave most of a vector empty")
        best = math.inf
        for nv in range(1, min(4, -(-rows // lanes)) + 1):
            most = min(self.target.accumulators // nv, lanes, self.depth)
            mr = -(-self.depth // -(-self.depth // most))
            cost = -(-rows // (nv * lanes)) * -(-self.depth // mr) * max(mr * nv, mr + nv, 8)
            if cost < best:
                best, self.nv, self.mr = cost, nv, mr
        width = self.nv * lanes
        self.row_tiles = Cut.overlapping(rows, min(width, rows))
        self.channel_tiles = Cut.overlapping(self.depth, self.mr)
        self.tile = self.mr * self.nv
        self.shared = math.prod(v.extent for v in self.around) * self.row_tiles.count * self.channel_tiles.count
        self.count = self.shared * y.taps * (x.taps // self.together)
        if self.count * self.tile * lanes * 4 > SUMS:
            raise Refused("more sums than working memory")
        self._in_blocks(-(-PIXELS // (hint(x.pixels) * hint(y.pixels))),
                        hint(x.pixels * width + self.picture.shape[-2] * self.picture.shape[-1] * y.stride) * 4)

    def _in_blocks(self, images: int, line: int) -> None:
        """Sets the blocks in which pixels are summed: whole images, at most so many; or, where that is one, as many of
        its lines as stay in the cache. line: bytes of a line."""
        x, y = self.x, self.y
        of_one_size = fixed(x.pixels) and fixed(y.pixels)        # images of any size may be large
        self.block = self._images(images if of_one_size else 1)
        lines = max(NEAR_LINES // line, -(-PIXELS // hint(x.pixels)))
        self.height = y.pixels if self.block > 1 else min(y.pixels, lines) if fixed(y.pixels) else lines
        self.cut = not same(self.height, y.pixels)               # also where it may be more: tiles then test bounds
        self.pixels, self.strips = x.pixels, -(-y.pixels // self.height)

    # ---- text
    def micro(self) -> Stmt:
        """The tile: lines first to last of some images. first_column: the tile's first number (tap, channel) of a row
        of the filter; x_offset: the pixel of the image at which that row begins for the gradient's first pixel."""
        x, L, apart = self.x, self.lanes, self.nv * self.lanes
        a = self.m.a.address
        channels, size, step = self.channel.extent, self.picture.shape[-2], self._steps(self.place, x.pixel)
        sums = Sums([f"HYV_B(inputs[{i}])" for i in range(self.mr)], [self._filters(j) for j in range(self.nv)])
        heads = [*self._over_lines(), f"for (long x = 0; x < {x.pixels}; x++) {{"]
        body = [f"const float *inputs = b + x * {literal(step)}, *g_ = g + x * {literal(self._steps(a, x.pixel))};",
                f"const long p = x * {x.stride} + x_offset;",
                f"if (p < 0 || p > {size - self.together}) {{ HYV_STORE(edge, HYV_LOADM(HYV_RANGE(-p * {channels} - "
                f"first_column, ({size} - p) * {channels} - first_column), inputs)); inputs = edge; }}", *sums.step()]
        return function(f"{self.name}_tile", "const float *G, const float *B, float *sums, long pictures, long first, "
                        f"long last, long first_column, long x_offset{more_declared()}",
                        [f"float edge[{L}] __attribute__((aligned(64)));", *sums.read("sums", apart, L),
                         *within(heads, [Scope(tuple(body))]), *sums.write("sums", apart, L)])

    def _filters(self, j: int) -> str:
        left = self.row_tiles.size - j * self.lanes
        return f"HYV_LOAD(g_ + {j * self.lanes})" if left >= self.lanes else (
            f"HYV_LOADM(HYV_FIRST({left}), g_ + {j * self.lanes})")

    def _tile(self, n: Var | None, keep: set[Var]) -> list[Stmt]:
        """Tile ``t`` for all rows of the filter. keep: the loops around it."""
        x, y, each = self.x, self.y, self.channel_tiles.count
        out: list[Stmt] = [
            f"const long ct = t % {each}, rt = t / {each} % {self.row_tiles.count}, r = {self.row_tiles.first('rt')};",
            *decode(f"(t / {self.row_tiles.count * each})", self.around),
            f"const long c = {self.channel_tiles.first('ct')};", *self._begin(n, keep, "r", " + c")]
        line, places = (math.prod(self.picture.shape[-2:]) if y.pixel is not None else 0), x.taps // self.together
        for tap in range(y.taps):
            for t, kx in enumerate(range(0, x.taps, self.together)):
                x_offset = kx * x.dilation - x.border
                at = (tap * y.dilation - y.border) * line + x_offset * self.channel.extent
                to = f"((t * {y.taps} + {tap}) * {places} + {t}) * {self.tile * self.lanes}l"
                out.append(f"{self.name}_tile(pa, pb + {literal(at)}, sums + {to}, pictures, {self._range(tap)}, c, "
                           f"{x_offset}{more_passed()});")
        return out

    def _joined(self) -> list[Stmt]:
        """The sums in the contraction's own order."""
        loops = [*self.around, Var("rt", self.row_tiles.count), Var("ct", self.channel_tiles.count),
                 Var("ky", self.y.taps), Var("kt", self.x.taps // self.together), Var("i", self.mr)]
        return nested(loops, [
            f"const long c = {self.channel_tiles.first('ct')} + i, chan = c % {self.channel.extent}, "
            f"kx = kt + c / {self.channel.extent};",
            count("l", self.row_tiles.size, [f"const long row = {self.row_tiles.first('rt')} + l;",
                  f"{self._whole()} = sums[({text(flat(loops))}) * {self.nv * self.lanes} + l];"])])
