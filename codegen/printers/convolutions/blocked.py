"""Packed convolutions in C (hybrid/ir/packed.py), data channels last: a vector holds filters.

A tile is some pixels times a panel of filters, its sums in registers; each step of the depth broadcasts one number a
pixel against the panel's vectors. Planes beyond a volume are not read: each plane of results knows its first tap and
how many.
"""
from __future__ import annotations

import math
from typing import Sequence

from hybrid.ir.size import fixed, greater, hint, smaller, surely
from hybrid.ir.stmt import Assign, Let, Name, Op, Scope, Stmt

from .packed_form import Packed
from hybrid.codegen.loops import Printed
from hybrid.codegen.nest import FLOATS, A, Cut, Sums, function, unless_finite, within
from hybrid.codegen.program.size_parameters import literal, more_declared, more_passed

# of a tile, by accumulators and vectors of a panel
PIXELS = {28: {1: 24, 2: 14, 3: 9, 4: 6}, 12: {1: 10, 2: 6, 3: 4, 4: 3}}
BUSY = 10                       # sums that are needed to keep the multipliers busy
SMALL_WEIGHTS = 1 << 18         # bytes that stay in a core's second cache beside the data
TOGETHER = 1 << 17              # bytes of pixels that are put together at once, or a quarter of the weights'
# pixels that are a multiple of so many numbers apart fall on few lines of the first cache
CONFLICT = 512
WAYS = 6                        # such lines that stay there beside the weights


class Direct(Packed):
    """Sums over the window and the channels, tile by tile."""
    how = FLOATS
    beyond = 0                          # byte that stands beyond the data
    beyond_lines = False                # whether the last tile has lines that are none of the results

    def print(self) -> Printed:
        """The kernel."""
        self.begin()
        inside = surely(lambda: (self.oh - 1) * self.sy < self.h and (self.ow - 1) * self.sx < self.wide)
        self.steps = self.sy, self.sx
        plain = self.steps == (1, 1) and surely(lambda: (self.oh, self.ow) == (self.h, self.wide))
        # pixels are numbered through; those of a stride are put together, where it is known how many there are
        self.line = (self.kh == self.kw == 1 and not self.py and not self.px and inside and not self.volume
                     and (plain or fixed(self.batch * self.oh * self.ow)))
        if self.line:
            self.rows, self.columns = 1, self.batch * self.oh * self.ow
            self.sy = self.sx = 1
        else:
            self.rows, self.columns = self.oh, self.ow
        self.reach = (self.oh - 1) * self.sy + (self.kh
                                                - 1) * self.dy + 1, (self.ow
                                                                     - 1) * self.sx + (self.kw - 1) * self.dx + 1
        beyond = self.py or self.px or not surely(lambda: self.reach[0] <= self.h and self.reach[1] <= self.wide)
        self.apart = not plain
        self.divide()
        self.own = not plain or self.conflicts() if self.line else bool(beyond) or self.beyond_lines
        # numbers from pixel to pixel
        self.step = self.c + 16 if self.own and self.c % CONFLICT == 0 else self.c
        self.across = greater(self.reach[1], 1) if self.own and not self.line else self.wide
        tiles = self.micros()
        return self.printed([*tiles, self.head(), *self.body(), "}"])

    def divide(self) -> None:
        """The tiles along lines and columns."""
        if not fixed(self.columns):                              # each line of pixels in tiles of its own
            self.ty, self.tx = Cut(self.rows, 1, self.rows), Cut.even(self.columns, self.most)
        elif self.rows == 1 or self.columns >= self.most:
            self.ty, self.tx = Cut.even(self.rows, 1), Cut.even(self.columns, self.most)
        else:
            self.ty = Cut.even(self.rows, max(self.most // self.columns, 1))
            self.tx = Cut.even(self.columns, self.columns)

    def conflicts(self) -> bool:
        """Whether pixels of a tile fall on few lines of the first cache, where they do not stay for the next panel."""
        pixels = min(self.most, self.columns) if fixed(self.columns) else self.most
        return self.c % CONFLICT == 0 and self.panels > 1 and pixels > WAYS

    def begin(self) -> None:
        """The panels, and pixels of a tile at most."""
        self.prepare()
        self.panels, self.width = self.weights[0], self.weights[-1]
        self.own_panels = self.panels // self.groups
        self.nv = self.width // self.lanes
        self.most = PIXELS[28 if self.target.accumulators >= 28 else 12][self.nv]
        self.more = ["taps", "plane"] if self.volume else []             # what a tile's function takes beside the usual

    # ---- a tile
    def sizes(self) -> list[tuple[int, int]]:
        """Lines and columns of the tiles there are."""
        if not fixed(self.columns):                              # any number of pixels of a line
            return [(1, c) for c in range(self.most, 0, -1)]
        return [(r, c) for r in self.ty.sizes for c in self.tx.sizes]

    def micros(self) -> list[Stmt]:
        """A function for each size of tile, and for the last panel where it is not whole."""
        out: list[Stmt] = []
        for r, c in self.sizes():
            out += self.micro(r, c, "", [0] * self.nv if self.each % self.width == 0 or self.own_panels > 1
                              else self.partial(0, self.width))
            if self.each % self.width and self.own_panels > 1:
                out += self.micro(r, c, "_last", self.partial(self.own_panels - 1, self.width))
        return out

    def micro(self, rows: int, columns: int, suffix: str, partial: list[int]) -> list[Stmt]:
        """The function of a tile: sums and epilogue."""
        places = [(r, c) for r in range(rows) for c in range(columns)]
        numbers = [f"x[q + {(r * self.sy * self.across + c * self.sx) * self.step}]" for r, c in places]
        run, loops = self._run()
        if self.volume:
            loops = ["for (long t = 0; t < taps; t++, X += plane) {", *loops]
        pixels = [f"px0_ + {r * self.ow + c}" for r, c in places]
        return self.tile(f"{rows}x{columns}{suffix}", loops, run, numbers, pixels, partial)

    def tile(self, name: str, loops: list[str], run: int, numbers: list[str], pixels: list[str],
             partial: list[int]) -> list[Stmt]:
        """A function that sums runs of so many numbers, within loops, for some pixels and the vectors of a panel.

        Where several groups are computed together, zeros stand between their weights, and an infinity or NaN of one
        group would reach the results of others: a tile with sums that are no finite numbers is computed again by a
        second function, each filter over the channels of its own group.
        """
        if self.joined == 1:
            return [self._tile(name, loops, run, numbers, pixels, partial)]
        return [self._tile(f"{name}_own", loops, run, numbers, pixels, partial, own=True),
                self._tile(name, loops, run, numbers, pixels, partial)]

    def _tile(self, name: str, loops: list[str], run: int, numbers: list[str], pixels: list[str],
              partial: list[int], own: bool = False) -> Stmt:
        """A tile's function; own: each filter reads the channels of its own group alone."""
        vectors, T, again = len([p for p in partial if p >= 0]), self.how.number, self.joined > 1 and not own
        # as many as whole tiles have: equal filters give the same bits, wherever they are
        parts = self._parts_of(run, len(pixels) * (self.width // self.lanes))
        sums = [Sums([self.how.spread.format(x) for x in numbers],
                     [self.how.load.format(f"W + {t * self.width + j * self.lanes}") for j in range(vectors)],
                     self.how, f"_{t}" if t else "") for t in range(parts)]
        every = [s for *_, s in sums[0].all()]
        if parts == 1:
            steps, v, by = self._step(sums[0], own), "q", "q++"
        else:
            steps, v, by = [Scope((Let("long", Name("q"), f"q_ + {t}", True), *self._step(s, own)))
                            for t, s in enumerate(sums)], "q_", f"q_ += {parts}"
        step = within([*loops, f"for (long {v} = 0; {v} < {run}; {by}, W += {parts * self.width}) {{"], steps)
        added = [Assign(s, " + ".join(p.name(i, j) for p in sums[1:]), "+=")
                 for i, j, s in sums[0].all() if parts > 1]
        results = [self.finished(j, [(pixel, self.how.floats.format(sums[0].name(i, j)))
                                     for i, pixel in enumerate(pixels)], partial[j]) for j in range(vectors)]
        parameters = (f"const {T} *X, const {T} *W, {''.join(f'long {v}, ' for v in self.more)}long px0_, long c0_, "
                      f"{self.pointers}{more_declared()}")
        return function(f"{self.name}_{name}", parameters,
                        [*(self._own_groups(vectors) if own else []),
                         *([f"const {T} *const X0 = X, *const W0 = W;"] if again else []),
                         *(line for s in sums for line in s.zero()), *step, *added,
                         *(self._again(name, every) if again else []), *results],
                        "noinline, cold" if own else "noinline")

    @staticmethod
    def _parts_of(run: int, sums: int) -> int:
        """Into how many accumulators each sum is split, to hide the latency of multiply-add where there are few
        sums."""
        parts = 1
        while fixed(run) and run % (parts * 2) == 0 and parts * 2 * sums <= BUSY:
            parts *= 2
        return parts

    def _step(self, sums: Sums, own: bool) -> list[Stmt]:
        """Statements that add the products of element ``q`` of each pixel to the sums."""
        if not own:
            return sums.step()
        group = Let("int", Name("of_"), f"q % {self.deep} / {self.deep // self.joined}", True)
        return sums.step(lambda i, j: Assign(
            sums.name(i, j), Op(f"(hy_v)((hy_vi){{0}} & (o{j} == of_)) * w{j}", (A,)), "+="), lambda i: [group])

    def _own_groups(self, vectors: int) -> list[Stmt]:
        """The number of each filter's group among those computed together, by vector."""
        each = self.each // self.joined
        return [Let("hy_vi", Name(f"o{j}"), f"(HYV_COUNT + (int)(c0_ % {self.each}) + {j * self.lanes}) / {each}", True)
                for j in range(vectors)]

    def _again(self, name: str, sums: Sequence[str]) -> list[Stmt]:
        """A tile whose sums are not all finite is left to the function that keeps groups apart."""
        passed = ", ".join(["X0", "W0", *self.more, "px0_", "c0_", self.passed])
        return [unless_finite(" + ".join(sums), [f"{self.name}_{name}_own({passed}{more_passed()});", "return;"])]

    def _run(self) -> tuple[int, list[str]]:
        """Numbers that lie one after another in data and weights, and the loops around them."""
        line, T = self.across * self.step * self.dy, self.how.number
        if self.kh == self.kw == 1:
            return self.deep, [f"const {T} *x = X;"]
        if self.dx == 1 and self.step == self.deep:
            return self.kw * self.c, [f"const {T} *x = X;", f"for (long i = 0; i < {self.kh}; i++, x += {line}) {{"]
        return self.deep, [f"for (long i = 0; i < {self.kh * self.kw}; i++) {{",
                           f"const {T} *x = X + i / {self.kw} * {line} + i % {self.kw} * {self.dx * self.step};"]

    # ---- all tiles
    def body(self) -> list[str]:
        """The loops over images, tiles and panels; where pixels are put together, over parts of them that stay in the
        second cache."""
        if self.line and self.own:
            return self._parts()
        if self.own:
            return self._strips()
        tiles = str(self.ty.count * self.tx.count)
        if self.line:
            return self._tiles(tiles, f"{self.x} + x", "x")
        images, plane = self.batch // self.planes, self.h * self.wide * self.c
        return [f"  for (long n = 0; n < {images}; n++) {{",
                f"    const {self.how.number} *image = {self.x} + n * {literal(self.layers * plane)};",
                *self._tiles(tiles, f"image + (y * {self.sy * self.across} + x * {self.sx})", self._pixel(),
                             plane=plane), "  }"]

    def _pixel(self) -> str:
        """The number of a tile's first pixel."""
        return f"({f'(n * {self.planes} + z)' if self.volume else 'n'} * {self.oh} + y) * {self.ow} + x"

    def together(self, nbytes: int, tiles: int) -> int:
        """How many of some lines or runs of tiles, of so many bytes in all, are put together at a time: all weights are
        read again each time."""
        most = max(TOGETHER, math.prod(self.weights))
        return -(-tiles // min(-(-nbytes // most), tiles))

    def _strips(self) -> list[str]:
        """Lines of the padded image put together, for some lines of tiles at a time."""
        lines, largest = self.ty.count, self.ty.largest
        wide, c, window = self.across * self.step, self.c, (self.kh - 1) * self.dy + 1
        each = self._lines_at_once(wide)
        held = (each * largest - 1) * self.sy + window                   # lines of a plane
        self.scratch = 4 * self.layers * held * wide + 256 if fixed(held) else (
            4 * (self._at_once() + (self.sy + window) * self.layers * wide) + 256)
        inside = smaller(self.wide, self.across - self.px)
        step, after = self.step, (self.across - self.px - inside) * self.step
        row = (f"__builtin_memcpy(to + {self.px * c}, line, {inside * (c * 4)});" if step == c else
               f"for (long j = 0; j < {inside}; j++) __builtin_memcpy(to + ({self.px} + j) * {step}l, line + j * "
               f"{c}l, {c * 4});")
        image, to, each_line = f"(n * {self.h} + y)", "(i - low)", "for (long i = low; i < high; i++) {"
        if self.volume:
            image, to = f"((n * {self.layers} + z) * {self.h} + y)", f"(z * {held} + i - low)"
            each_line = (f"for (long l = 0; l < (high - low) * {self.layers}; l++) {{ const long z = l / (high - "
                         f"low), i = low + l % (high - low);")
        T, zero = self.how.number, self.beyond
        copy = [f"{T} *to = from + {to} * {literal(wide)}; const long y = i - {self.py}; const {T} *line = {self.x} + "
                f"{image} * {literal(self.wide * c)};",
                f"if (y < 0 || y >= {self.h}) {{ __builtin_memset(to, {zero}, {wide * 4}); continue; }}",
                *([f"__builtin_memset(to, {zero}, {self.px * step * 4});"] if self.px else []), row,
                *([f"__builtin_memset(to + {(self.px + inside) * step}, {zero}, {after * 4});"]
                  if not fixed(after) or after else [])]
        return [f"  {T} *from = ({T} *)scratch;",
                f"  for (long n = 0; n < {self.batch // self.planes}; n++) for (long part = 0; part < {lines}; part "
                f"+= {each}) {{",
                f"    const long end = part + {each} < {lines} ? part + {each} : {lines}, "
                f"y0 = {self.ty.first('part')};",
                f"    const long low = y0 * {self.sy}, high = ({self.ty.first('end')} - 1) * {self.sy} + {window};",
                *([f"    {self.parallel}"] if self.parallel else []), f"    {each_line}",
                *copy, "    }",
                *self._tiles(f"((end - part) * {self.tx.count})",
                                                  f"from + ((y - y0) * {self.sy * self.across} + x * {self.sx})",
                                                  self._pixel(), f"part * {self.tx.count} + ", held * wide), "  }"]

    def _lines_at_once(self, wide: int) -> int:
        """How many lines of tiles are put together at a time; wide: numbers of a line of the padded image."""
        if fixed(self.columns) and fixed(self.rows):
            return self.together(max(self.reach[0], 1) * wide * 4 * self.layers, self.ty.count)
        return smaller(greater(self._at_once() // (wide * self.layers * self.sy), 1),  # type: ignore[no-any-return]
                       self.ty.count)

    def _at_once(self) -> int:
        """How many numbers of data are put together at a time, where sizes are symbolic."""
        return max(TOGETHER, math.prod(self.weights)) // 4

    def _tiles(self, count: str, source: str, pixel: str, first: str = "", plane: int = 0) -> list[str]:
        """All panels of some tiles, from their data and the number of their first pixel; plane: numbers from plane to
        plane of the data."""
        nx, volume = self.tx.count, self.volume
        small = hint(math.prod(self.weights)) * 4 <= SMALL_WEIGHTS
        every = f"({self.planes} * {count})" if volume else count
        at, o = (f"u / {self.panels}", f"u % {self.panels}") if small else (f"u % ({every})", f"u / ({every})")
        number = (f"v = {at}, o = {o}, z = v / ({count}), t = {first}v % ({count})" if volume
                  else f"t = {first}{at}, o = {o}")
        met = self.taps("t", "z", self.layers, self.kd, self.sz, self.dz, self.pz)
        taps = [f"  {met}", f"  const long taps = t1 - t0, plane = {literal(plane * self.dz)};"] if volume else []
        data, begin = (f" + (z * {self.sz} - {self.pz} + t0 * {self.dz}) * {literal(plane)}",
                       f" + t0 * {math.prod(self.weights[2:])}l") if volume else ("", "")
        place = [f"  const long tx = {first}{at}, o = {o}, x = {self.tx.first('tx')};"] if self.line else [
            f"  const long {number}, ty = t / {nx}, tx = t % {nx};",
            f"  const long y = {self.ty.first('ty')}, x = {self.tx.first('tx')};"]
        return self.shared([
                f"for (long u = 0; u < {every} * {self.panels}; u++) {{", *place, *taps,
                f"  const {self.how.number} *X = {source} * {literal(self.step)}{data}"
                f"{f' + o / {self.own_panels} * {self.deep}' if self.groups > 1 else ''},"
                f" *W = {self.w} + o * {literal(math.prod(self.weights[1:]))}{begin};",
                f"  const long px0_ = {pixel}, c0_ = {self.first_filter()};", *self.choice(), "}"])

    def shared(self, loop: list[str]) -> list[str]:
        """A loop that threads share where that pays."""
        return [*([self.parallel] if self.parallel else []), *loop]

    def first_filter(self) -> str:
        """The first filter of panel ``o``."""
        if self.groups == 1:
            return f"o * {self.width}"
        return f"o / {self.own_panels} * {self.each} + o % {self.own_panels} * {self.width}"

    def _parts(self) -> list[str]:
        """Pixels put together, some tiles of them at a time."""
        tiles, largest = self.tx.count, self.tx.largest if fixed(self.columns) else self.most
        each = (self.together(self.columns * self.step * 4, tiles) if fixed(tiles) else
                max(TOGETHER // (4 * largest * self.step), 1))
        self.scratch = 4 * each * largest * self.step + 256
        (sy, sx), c = self.steps, self.c
        at = "i" if not self.apart else (f"(i / {self.oh * self.ow} * {self.h} + i / {self.ow} % {self.oh} * {sy}) * "
                                         f"{self.wide} + i % {self.ow} * {sx}")
        T = self.how.number
        return [f"  {T} *from = ({T} *)scratch;", f"  for (long part = 0; part < {tiles}; part += {each}) {{",
                f"    const long end = part + {each} < {tiles} ? part + {each} : {tiles}, low = "
                f"{self.tx.first('part')}, high = {self.tx.first('end')};",
                *([f"    {self.parallel}"] if self.parallel else []),
                f"    for (long i = low; i < high; i++) __builtin_memcpy(from + (i - low) * {self.step}l, {self.x} + "
                f"({at}) * {c}l, {c * 4});",
                *self._tiles("(end - part)", "from + (x - low)", "x", "part + "), "  }"]

    def given(self) -> list[str]:
        """What the function of a tile is called with."""
        return ["X", "W", *self.more, "px0_", "c0_", self.passed]

    def choice(self) -> list[str]:
        """The call of the function for a tile."""
        def calls(size: tuple[int, int]) -> str:
            call = f"{self.name}_{size[0]}x{size[1]}%s({', '.join(self.given())}{more_passed()});"
            if self.each % self.width and self.own_panels > 1:
                return f"if (o % {self.own_panels} == {self.own_panels - 1}) {call % '_last'} else {call % ''}"
            return call % ""
        out = []
        sizes = self.sizes()
        if not fixed(self.columns):
            return [f"switch ({self.tx.size} + (tx < {self.tx.longer})) {{",
                    *(f"case {c}: {calls((r, c))} break;" for r, c in sizes), "}"]
        for r, c in sizes[1:]:
            tests = [*self.ty.has("ty", r), *self.tx.has("tx", c)]
            out.append(f"if ({' && '.join(tests)}) {{ {calls((r, c))} continue; }}")
        return [*out, calls(sizes[0])]
