"""Weight gradients of convolutions in C: sums over images, lines and pixels of the result's gradient times the image
shifted by a tap of the filter. Nothing is packed and no border is stored: vectors hold neighbouring pixels of a line,
lanes beyond the image are masked, and a tile of sums (filters times channels times taps of a filter's row) is kept in
vectors until all images are done; then the lanes are added up and the kernel's root is computed.
"""
from __future__ import annotations

import math

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, linear, substitute, text, var, variables
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, hint, may_exceed
from hybrid.ir.stmt import Scope, Stmt

from . import padded_operand
from .padded_operand import Axis, axis
from hybrid.codegen.program.size_parameters import literal, more_declared, more_passed, where_it_pays
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Target, decode, flat
from hybrid.codegen.dialect import OF_TEAM, ONE, TEAM, C
from hybrid.codegen.printers.anchored import Anchored
from hybrid.codegen.block import Block, nested
from hybrid.codegen.emit import Emitter
from hybrid.codegen.loops import Printed, close, loop_pragma, merged_loops
from hybrid.codegen.nest import Cut, Sums, count, function, within
from hybrid.codegen.printers.products.operand import matmul
from hybrid.codegen.lanes import Refused

USED = 0.4                     # of a vector's lanes, at least
FIRST_CACHE = 24 << 10         # bytes of lines that a tile reads again and again
LINES = 4                       # short lines that one vector may hold
LINE = 16                      # vectors in a line up to which it is written out
STEPS = 64                      # vectors of pixels a tile takes at least, if there are so many images
SUMS = 8 << 20                  # bytes of working memory for sums


class Correlation(Anchored):
    """Prints one kernel. x_axis_from_end: the image's axis along its lines, counted from the last axis."""
    x_axis_from_end, channels_last = 1, False
    strips = 1                         # of an image's lines, which are blocks of their own
    lines = 1                          # that one vector holds

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, k.dot, name, target)

    def prepare(self) -> None:
        """Find the parts and the tile; Refused where it is not of this form."""
        if self.lanes < 8:
            raise Refused("vectors of fewer than 8 lanes")
        self._roles()
        self._axes()
        self._choose()

    # ---- what is correlated
    def _roles(self) -> None:
        for swap in (False, True):
            side = self.dot.args[0] if swap else self.dot.args[1]
            below = padded_operand.unread(side, self.reads)
            if below is not None and (below.prim != "pad" or below.attrs["value"] or below.args[0] not in self.reads):
                continue
            stored = self.reads if below is None else {**self.reads, below: "image"}
            m = matmul(self.dot, stored, swap, merged=not self.channels_last)
            if (m.a.address is None or m.b.address is None or m.a.base is below or m.b.base is None or m.a.base is None
                or not m.depth):
                continue
            wide: Node = m.b.base
            self.at = padded_operand.index_of(m.b.node, m.b.index, wide)
            self.lo = wide.attrs["lo"] if wide is below else (0,) * wide.ndim
            self.hi = wide.attrs["hi"] if wide is below else (0,) * wide.ndim
            self.picture = wide.args[0] if wide is below else wide
            self.m = m
            if len(m.rows) <= 1 and self._neighbours():
                return
        raise Refused("no lines of neighbours in both operands")

    def _neighbours(self) -> bool:
        """Whether both operands have their pixels, or their channels, as neighbours in memory."""
        m = self.m
        return m.a.stride(m.depth[-1]) == 1 and bool(self.at) and m.depth[-1] in variables(self.at[-1])

    def _axes(self) -> None:
        m, ends = self.m, len(self.at) - self.x_axis_from_end
        if any(not isinstance(v, Var) for x in self.at for v, _ in x.terms):
            raise Refused("places that are no sums")
        line = self._axis(ends)
        if line is None:
            raise Refused("the axis along the lines is not a sum of a loop over pixels and one over taps")
        self.x = line
        self._check_line()
        found = self._axis(ends - 1) if ends else None
        self.y = found or Axis(None, None, 1, 1, 1, 0)
        special = [v for a in (self.x, self.y) for v in (a.pixel, a.tap) if v is not None]
        for a, x in enumerate(self.at):
            if a == ends or found is not None and a == ends - 1:
                continue
            if variables(x) & set(special) or self.lo[a] or self.hi[a]:
                raise Refused("a border of other axes")
        self.pictures = [v for v in m.depth if v not in special]
        columns = [v for v in m.columns if v not in special]
        self.channel = columns[-1] if columns else Var("c_", 1)
        self.around = [*m.batch, *columns[:-1]]
        self.row = m.rows[0] if m.rows else Var("m_", 1)
        if any(v not in [*m.depth] for v in (self.x.pixel, self.y.pixel)
               if v) or any(v not in m.columns for v in (self.x.tap, self.y.tap) if v):
            raise Refused("other roles of the axes")
        if any(m.a.stride(v) is None for v in [*m.depth, self.row]):
            raise Refused("steps that are no constants")
        whole = [v.extent for v in (*m.rows, *m.columns, *m.batch)]
        lines = [self._steps(a, v) for a in (m.a.address, linear(self.picture.shape, self.at))
                 for v in (self.x.pixel, self.y.pixel)]
        pixels = [v.extent for v in m.depth if v not in self.pictures]
        if not all(map(fixed, whole)) or not self.channels_last and not all(map(fixed, [*pixels, *lines])):
            raise Refused("sizes of an image or of filters that are known at a call only")

    def _check_line(self) -> None:
        x = self.x
        if x.pixel != self.m.depth[-1] or x.stride not in (1, 2) or x.taps == 1 or -(-x.pixels // self.lanes) > LINE:
            raise Refused("the filter is one tap wide along the lines, or the lines are long")
        if x.stride > 1 and self.lanes < 16:
            raise Refused("every second pixel of vectors without masks for it: gathered windows are faster")
        if x.pixels < x.taps:
            raise Refused("a filter larger than the image: with the roles exchanged it is a convolution")

    def _axis(self, a: int) -> Axis | None:
        """A spatial axis; None for one that is neither padded nor has taps."""
        found = axis(self.at[a], self.m.depth, self.m.columns, self.picture.shape[a], self.lo[a])
        return found if found is not None and (found.tap is not None or self.lo[a] or self.hi[a]) else None

    # ---- the tile
    def _choose(self) -> None:
        """Filters times channels: as many sums as the registers hold."""
        rows, channels, taps = self.row.extent, self.channel.extent, self.x.taps
        # lines that follow each other
        whole = self.y.pixel is not None and self.m.a.stride(self.y.pixel) == self.x.pixels
        self.lines = min(LINES, self.lanes // self.x.pixels or 1) if whole and self.x.stride == 1 else 1
        best = math.inf
        for mr in range(1, min(rows, 8) + 1):
            for cg in range(1, min(channels, 8) + 1):
                sums = mr * cg * taps
                if sums > self.target.accumulators or sums + mr + 1 > self.target.registers:
                    break
                loads = mr + cg * taps * (self.lines if self.x.stride == 1 else 2.5)
                # most loads cross a line of the cache
                cost = -(-rows // mr) * -(-channels // cg) * (max(sums, 2 * loads, 8) + 0.3 * loads)
                if cost < best:
                    best, self.mr, self.cg = cost, mr, cg
        if best == math.inf:
            raise Refused("a filter with too many taps along the lines for the registers")
        self.vectors = -(-self.x.pixels // self.lanes)
        self.pixels = self.vectors * self.lanes
        if self.lines * self.x.pixels < USED * self.vectors * self.lanes:
            raise Refused("lines that leave most of a vector empty")
        copies = math.prod(v.extent for v in self.around)
        self.row_tiles = Cut.overlapping(rows, self.mr)
        self.channel_tiles = Cut.overlapping(channels, self.cg)
        self.tile = self.mr * self.cg * taps
        # of tiles that a team shares, all channels of a tile's rows being one; of sums
        self.shared = copies * self.row_tiles.count
        self.count = self.shared * self.channel_tiles.count * self.y.taps
        steps = -(-self.y.pixels // self.lines) * self.vectors
        self.block = self._images(-(-STEPS // steps))
        # lines that stay in the first cache
        height = FIRST_CACHE // ((self.mr + self.cg * self.x.stride * self.y.stride) * self.x.pixels * 4)
        lines = max(height, -(-STEPS // self.vectors)) // self.lines * self.lines
        self.height = min(self.y.pixels, lines) if self.block == 1 else self.y.pixels
        self.cut = self.height < self.y.pixels
        if self.count * self.tile * self.lanes * 4 > SUMS:
            raise Refused("more sums than working memory")

    def _images(self, most: int) -> int:
        """How many images a block has, of which it may have ``most``."""
        images = self.pictures[-1].extent if self.pictures else 1
        return max(1, min(images, most) if fixed(images) else most)

    # ---- text
    def micro(self) -> Stmt:
        """The tile: lines first to last of some images."""
        x, L, apart = self.x, self.lanes, self.cg * self.x.taps * self.lanes
        b_channel = self._steps(self.place, self.channel)
        places = [(c * b_channel, t) for c in range(self.cg) for t in range(x.taps)]
        steps = [Sums([self._pixels(at, t, x0) for at, t in places], self._gradient(x0))
                 for x0 in range(0, x.pixels, L)]
        return function(f"{self.name}_tile", "const float *G, const float *B, float *sums, long pictures, long first, "
                        f"long last{more_declared()}", [
                            *steps[0].read("sums", L, apart), *within([*self._over_lines(), *self._masks()], [
                                Scope(tuple(s.step())) for s in steps]), *steps[0].write("sums", L, apart)])

    def _over_lines(self) -> list[str]:
        """The loops over images and their lines, and where the gradient's and the image's line begin."""
        n, y = self.pictures[-1] if self.pictures else None, self.y.pixel
        step = f"y += {self.lines}" if self.lines > 1 else "y++"
        return ["for (long n = 0; n < pictures; n++) {", f"for (long y = first; y < last; {step}) {{",
                *(f"const float *{p} = {p.upper()} + n * {literal(self._steps(at, n))} + "
                  f"y * {literal(self._steps(at, y))};"
                  for p, at in (("g", self.m.a.address), ("b", self.place)))]

    def _gradient(self, x0: int) -> list[str]:
        """Vectors of the gradient's pixels from x0 on, of each row."""
        row, pixels = self._steps(self.m.a.address, self.row), self.x.pixels
        load = ("HYV_LOADM(mk, {})" if self.lines > 1 else f"HYV_LOADM(HYV_FIRST({pixels - x0}), {{}})"
                if x0 + self.lanes > pixels else "HYV_LOAD({})")
        return [load.format(f"g + {i * row + x0}") for i in range(self.mr)]

    def _masks(self) -> list[str]:
        """Which lanes count where a vector holds several lines, of which the last ones may be beyond the end."""
        x = self.x
        if self.lines == 1:
            return []
        out = [f"const long lines = last - y < {self.lines} ? last - y : {self.lines}; const hy_m mk = HYV_RANGE(0, "
               f"lines * {x.pixels});"]
        for line in range(self.lines):
            for tap in range(x.taps):
                first, last = (line * x.pixels + v for v in x.range(tap))
                out.append(f"const hy_m m{line}_{tap} = {line} < lines ? HYV_RANGE({first}, {last}) : HYV_RANGE(0, 0);")
        return out

    def _pixels(self, at: int, tap: int, x0: int) -> str:
        """A vector of the image's pixels under one tap of the filter, zero beyond the image and beyond the line."""
        x, L = self.x, self.lanes
        if self.lines > 1:
            out, step = "", self._steps(self.place, self.y.pixel)
            for line in range(self.lines):
                where = f"b + ({at + line * (step - x.pixels) + tap * x.dilation - x.border})"
                out = f"HYV_LOADO(m{line}_{tap}, {where}, {out})" if out else f"HYV_LOADM(m0_{tap}, {where})"
            return out
        first, last = (v - x0 for v in x.range(tap))
        first, last = max(first, 0), min(last, L)
        if first >= last:
            return "(hy_v){}"
        begin = at + x0 * x.stride + tap * x.dilation - x.border
        parts = []
        for part in range(x.stride):                            # every second pixel is of two vectors
            low, high = first * x.stride - part * L, (last - 1) * x.stride + 1 - part * L
            low, high = max(low, 0), min(high, L)
            where = f"b + ({begin + part * L})"
            parts.append("(hy_v){}" if low >= high else f"HYV_LOAD({where})" if (low, high) == (0, L)
                         else f"HYV_LOADM(HYV_RANGE({low}, {high}), {where})")
        return parts[0] if x.stride == 1 else f"HYV_EVEN({parts[0]}, {parts[1]})"

    @staticmethod
    def _steps(address: Ix | None, v: Var | None) -> int:
        return 0 if v is None or address is None else dict(address.terms).get(v, 0)

    def print(self) -> Printed:
        """The kernel."""
        at = [substitute(i, {self.x.tap: Ix()} if self.x.tap else {}) for i in self.at]
        # of the border's first pixel; the tile adds the place in the line
        self.place = linear(self.picture.shape, at)
        self.scratch = self.count * self.tile * self.lanes * 4 + self.dot.size * 4
        return self.printed([self.micro(), *self.body()], "contraction")

    def body(self) -> list[Stmt]:
        """Blocks of images, or of ``strips`` of their lines, in each all tiles; then all sums of lanes; then the
        root."""
        n, tile, outer = self.pictures[-1] if self.pictures else None, self.tile * self.lanes, self.pictures[:-1]
        images, strips = n.extent if n else 1, self.strips
        blocks, groups = -(-images // self.block), math.prod(v.extent for v in outer)
        work = self.dot.size * self.pixels * self.y.pixels * math.prod(v.extent for v in self.pictures)
        team = where_it_pays(TEAM, work, hint(work), PARALLEL_WORK) if self.shared > 1 else ""
        several = may_exceed(strips, 1)
        of_image = f"block / {strips}" if several else "block"
        block: list[Stmt] = [
            f"const long first = {of_image} % {blocks} * {self.block}, pictures = {images} - first < {self.block} ? "
            f"{images} - first : {self.block};",
            *([f"const long low = block % {strips} * {self.height}, high = low + {self.height};"] * several),
            *decode(f"(block / {blocks * strips})", outer), OF_TEAM,
            count("t", self.shared, self._tile(n, {*self.around, *outer}))]
        return [self.head(), f"float *sums = (float *)scratch, *whole = sums + {self.count * tile}l;",
                count("z", f"{self.count * tile}l", ["sums[z] = 0;"]), team or ONE,
                count("block", groups * blocks * strips, block), *self._joined(), *self._root(), "}"]

    def _tile(self, n: Var | None, keep: set[Var]) -> list[Stmt]:
        """Tile ``t`` of rows, for all channels and places of the kernel. keep: the loops around it."""
        y, line = self.y, self.picture.shape[-1] if self.y.pixel is not None else 0
        inner: list[Stmt] = [f"const long c = {self.channel_tiles.first('ct')};"]
        for tap in range(y.taps):
            to = f"sums + ((t * {self.channel_tiles.count} + ct) * {y.taps} + {tap}) * {self.tile * self.lanes}l"
            at = f"c * {literal(self._steps(self.place, self.channel))} + ({(tap * y.dilation - y.border) * line}l)"
            inner.append(f"{self.name}_tile(pa, pb + {at}, {to}, pictures, {self._range(tap)}{more_passed()});")
        channels: Stmt = count("ct", self.channel_tiles.count, inner)
        if self.cut:
            channels = count("low", y.pixels, [f"const long high = low + {self.height};", channels], self.height)
        return [f"const long rt = t % {self.row_tiles.count}, r = {self.row_tiles.first('rt')};",
                *decode(f"(t / {self.row_tiles.count})", self.around),
                *self._begin(n, keep, f"r * {literal(self._steps(self.m.a.address, self.row))}"), channels]

    def _begin(self, n: Var | None, keep: set[Var], row: str, more: str = "") -> list[str]:
        """Where a block's first image begins in both operands. row: of the tile's gradient; more: added to the place in
        the image; keep: as of ``_tile``."""
        m, steps = self.m, self._steps
        assert m.a.address is not None and m.a.base is not None
        a, b = (Ix(i.const, tuple((v, c) for v, c in i.terms if v in keep)) for i in (m.a.address, self.place))
        return [f"const float *pa = {self.reads[m.a.base]} + ({text(a)}) + {row}"
                f" + first * {literal(steps(m.a.address, n))};",
                f"const float *pb = {self.reads[self.picture]} + ({text(b)}){more} + first * "
                f"{literal(steps(self.place, n))};"]

    def _range(self, tap: int) -> str:
        """The first and the last line of a block or strip that a tap of the filter meets, in C."""
        first, last = self.y.range(tap)
        return (f"low > {first} ? low : {first}, high < {last} ? high : {last}" if self.cut else f"{first}, {last}")

    def _joined(self) -> list[Stmt]:
        """The lanes of all sums added up, into the contraction's own order."""
        loops = [*self.around, Var("rt", self.row_tiles.count), Var("ct", self.channel_tiles.count),
                 Var("ky", self.y.taps), Var("i", self.mr), Var("j", self.cg), Var("kx", self.x.taps)]
        return nested(loops, [f"const long row = {self.row_tiles.first('rt')} + i;",
                              f"const long chan = {self.channel_tiles.first('ct')} + j;",
                              f"{self._whole()} = hyv_sum(HYV_LOAD(sums + ({text(flat(loops))}) * {self.lanes}));"])

    def _whole(self) -> str:
        """The element of the contraction at ``row``, ``chan``, ``ky`` and ``kx``, in C."""
        names = {v: var(Var(name, max(v.extent, 2))) if v.extent > 1 else Ix() for v, name in (
            (self.row, "row"), (self.channel, "chan"), (self.y.tap, "ky"), (self.x.tap, "kx")) if v is not None}
        names |= {v: Ix() for v in (*self.m.rows, *self.m.columns) if v.extent == 1}
        return f"whole[{text(linear(self.dot.shape, [substitute(i, names) for i in self.m.dot_index]))}]"

    def _root(self) -> list[Stmt]:
        """The kernel's root from the contraction."""
        def emit(at: Index, blocks: list[Block]) -> Emitter:
            e = Emitter(C, {**self.reads, self.dot: "whole"}, extra=self.extra, count=1000)
            self.store_root(e, at, blocks[-1])
            return e
        blocks, loops, _ = merged_loops(self.k.root.shape, emit, "z")
        return close(blocks, loops, loop_pragma(loops, 0))
