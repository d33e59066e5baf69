"""Winograd's convolutions F(m x m, 3x3) in C (hybrid/ir/packed.py): a strip of tiles is transformed; then for each
panel of filters its weights are, some channels at a time, multiplied in (m + 2)² products of matrices, and the sums
transformed back, where the kernel's epilogue follows. Transformed weights and sums of a panel are a thread's own and
stay in its second cache. Of volumes, the tiles of a strip are transformed in all planes, and each tap of the depth
multiplies those so many planes further on.
"""
from __future__ import annotations

from hybrid.ir import winograd
from hybrid.ir.size import fixed, same
from hybrid.ir.stmt import Scope, Stmt, When
from hybrid.ir.winograd import TILES, tiles

from hybrid.codegen.loops import Printed
from hybrid.codegen.nest import FLOATS, Cut, Sums, count, function, unless_finite, within
from hybrid.codegen.program import local
from hybrid.codegen.program.size_parameters import more_declared, more_passed
from .blocked import BUSY, PIXELS
from .packed_form import Packed
from .transforms import backward, forward, square

STRIP = 1 << 20                  # bytes of transformed data of a strip
PANEL = 5 << 16                  # bytes of a panel's transformed weights
SUMS = 1 << 18                   # bytes of a panel's sums
FEWEST = 56                      # tiles of a strip: fewer do not pay for weights that are transformed again


class Winograd(Packed):
    """Prints one convolution."""
    how = FLOATS
    data = ("float", "")             # C type of an input element, and the suffix of its HYV_LOAD macro

    def packing(self) -> None:
        """Sets ``panels``, ``width`` (filters a panel) and ``depth`` (elements of transformed data that a filter reads
        at each point)."""
        self.panels, *_, self.width = self.weights
        self.depth = self.c

    def print(self) -> Printed:
        """Prints the kernel."""
        self.prepare()
        self.packing()
        L = self.lanes
        self.nv = self.width // L
        self.m = TILES.get(self.dot.attrs["form"], 2)
        self.at, self.g, self.bt = winograd.square(self.dot.attrs["form"])
        self.side = self.m + 2
        self.points = self.side ** 2
        self.th, self.tw = tiles(self.oh, self.dy, self.m), tiles(self.ow, self.dx, self.m)
        self.tiles = self.th * self.tw * (1 if self.volume else self.batch)
        self.deep_planes = self.planes + (self.kd - 1) * self.dz         # that a strip has transformed
        # numbers from tile to tile: never a power of two
        self.vs = -(-self.depth // L) * L + L
        most = max(STRIP // (4 * self.points * self.vs * self.deep_planes), -(-FEWEST // self.planes))
        # with a symbolic number of images strips are counted at run time, and a strip may have any number of tiles up
        # to most
        self.counted = not fixed(self.tiles)
        self.strips = Cut.even(most if self.counted else self.tiles, most)
        self.cells = PIXELS[28 if self.target.accumulators >= 28 else 12][self.nv]
        self.chunk, self.chunks, self.us = self.channel_blocks()
        room = self.strips.largest
        self.skips = self.volume and self._skips()
        # parts of a strip that no run of tiles goes across: planes that leave taps out
        self.apart = self.planes if self.skips else 1
        self.row = self.planes // self.apart                             # planes of such a part
        # runs of tiles that a function does at once, of the strips of each size, the longest first
        self.runs = [Cut.even(n * self.row, self.cells) for n in reversed(self.strips.sizes)]
        self.sizes = [*range(1, self.cells + 1)] if self.counted else sorted(
            {size for runs in self.runs for size in runs.sizes})
        # runs of tiles whose sums are there at once
        self.several = max(SUMS // (4 * self.points * self.width * self.sizes[-1]), 1)
        self.several = min(self.several, max(runs.count * self.apart for runs in self.runs))
        self.ms = self.several * self.sizes[-1] * self.width + L
        # runs that share the prefetches of the next weights; how many there are is not known of counted ones, each of
        # which prefetches them all
        self.sharing, self.run = (1, "0") if self.counted else (self.several, "r - r0")
        self.slice = self.prefetch_bytes()
        self.v_bytes, self.zeros = 4 * self.points * room * self.deep_planes * self.vs, 4 * (-(-self.c // L) * L)
        self.scratch = self.v_bytes + self.zeros + 256
        self.rest = [] if self.filters % self.width == 0 else self.partial(self.panels - 1, self.width)
        return self.printed([*map(self.micro, self.sizes), self.forward(), *self.filters_forward(), *self.plain(),
                             self.backward("", [0] * self.nv if self.panels > 1 or not self.rest else self.rest),
                             *([self.backward("_last", self.rest)] if self.rest and self.panels > 1 else []),
                             self.head(), *self.body(), "}"])

    def channel_blocks(self) -> tuple[int, int, int]:
        """Returns channels a block, number of blocks (those of all taps of the depth), and the stride between points
        of transformed weights."""
        chunks = Cut.even(self.c, max(PANEL // (4 * self.points * self.width), 8))
        return chunks.largest, chunks.count * self.kd, chunks.largest * self.width + self.lanes

    def prefetch_bytes(self) -> int:
        """Returns how many bytes of the next channels' weights a step of products prefetches."""
        return -(-36 * self.width // (self.points * self.sharing))

    def _skips(self) -> bool:
        """Whether depth slices are multiplied one by one, each without the taps that read only padding: where that is
        less work, and each slice has a tap that reads data."""
        met = [sum(0 <= z - self.pz + t * self.dz < self.layers for t in range(self.kd)) for z in range(self.planes)]

        def cost(tiles: int) -> int:
            runs = Cut.even(tiles, self.cells)
            return ((runs.count - runs.longer) * max(runs.size * self.nv, BUSY)
                    + runs.longer * max((runs.size + 1) * self.nv, BUSY))
        return min(met) > 0 and cost(self.strips.size) * sum(met) < cost(self.strips.size * self.planes) * self.kd

    def micro(self, pixels: int) -> Stmt:
        """Prints the function that multiplies so many tiles by a panel at one point, with the sums in registers, and
        adds the sums of earlier channels."""
        sums, T = Sums([self.how.spread.format(f"x[q + {i * self.vs}]") for i in range(pixels)],
                       [self.how.load.format(f"W + {j * self.lanes}") for j in range(self.nv)],
                       self.how), self.how.number
        return function(f"{self.name}_{pixels}",
                        f"const {T} *x, const {T} *W, float *to, long depth, long add, const char *soon",
                        [*sums.zero(),
                         *([When("add", tuple(sums.again("to", self.width, self.lanes)))] if self.chunks > 1 else []),
                         *within([f"for (long q = 0; q < depth; q++, W += {self.width}) {{"],
                                 [f"__builtin_prefetch(soon + q * {self.slice}, 0, 2);", *sums.step()]),
                         *sums.write("to", self.width, self.lanes)])

    def filters_forward(self) -> list[Stmt]:
        """Prints the function that computes G g Gᵀ for some channels of a panel."""
        body = square(forward(self.g), 3, self.side, "t", lambda i, j: f"HYV_LOAD(g + {(i * 3 + j) * self.width} + j)",
                      lambda i, j, v: f"HYV_STORE(to + {(i * self.side + j) * self.us} + j, {v});")
        head = f"for (long q = 0; q < depth; q++, g += {9 * self.width}, to += {self.width}) {{"
        return [function(f"{self.name}_filters", "const float *g, float *to, long depth",
                         within([head], [count("j", self.width, body, self.lanes)]))]

    def forward(self) -> Stmt:
        """Prints the function that computes Bᵀ d B of one tile, for all channels."""
        n, (number, kind) = self.side, self.data
        return function(
            f"{self.name}_in", f"const {number} *const *s, {self.how.number} *to, long step",
            self.over_channels(lambda load, partial: square(
                forward(self.bt), n, n, "t", lambda i, j: load.format(i * n + j),
                lambda i, j, v: self.stored(f"to + {i * n + j} * step", v)), kind))

    def stored(self, to: str, v: str) -> str:
        """Stores a vector of a tile's transformed data, channels c0_ and following."""
        return f"HYV_STORE({to} + c0_, {v});"

    def backward(self, suffix: str, partial: list[int]) -> Stmt:
        """Prints the function that computes Aᵀ m A of one tile for a panel, and the epilogue at its pixels."""
        L, whole = self.lanes, partial.count(0)
        body: list[Stmt] = []
        if whole:
            body += within([f"for (long j = 0; j < {whole}; j++, c0_ += {L}, m += {L}) {{"], self._vector(0))
        body += [Scope(tuple(self._vector(rest))) for rest in partial if rest > 0]
        return function(f"{self.name}_out{suffix}", "const float *m, long px0_, long right, long below, long c0_, "
                        f"{self.pointers}{more_declared()}", body)

    def plain(self) -> list[str]:
        """Prints the function that sums a tile's pixels for a vector of filters without the transforms, which spread
        infinities and NaN to pixels that do not read them. It runs if any of the tile's results is not finite."""
        m, (number, _) = self.m, self.data
        taps, read, border = "", "b", "1"
        if self.volume:
            taps = (f"for (long t = 0; t < {self.kd}; t++) {{ const long z = b % {self.planes} - {self.pz} + t * "
                    f"{self.dz}; ")
            border = f"z >= 0 && z < {self.layers}"
            read = f"(b / {self.planes} * {self.layers} + z)"
        declared, product = self.plain_product()
        return [f"static __attribute__((noinline, cold)) void {self.name}_plain(float *to, long px, long c0, const "
                f"{number} *x, const {self.how.number} *W{more_declared()}) {{", *declared,
                f"  const long b = px / {self.oh * self.ow}, oy = px / {self.ow} % {self.oh}, ox = px % {self.ow};",
                f"  for (long p = 0; p < {m * m}; p++, to += {self.lanes}) {{",
                f"    hy_v sum = {{0}}; {taps or '{ const long t = 0; '}",
                "    for (long k = 0; k < 9; k++) {",
                f"      const long v = oy + (p / {m} + k / 3) * {self.dy} - {self.py}, u = ox + (p % {m} + k % 3) * "
                f"{self.dx} - {self.px};",
                f"      const int inside = {border} && {self.inside('v', 'u')};",
                f"      const {number} *a = x + (({read} * {self.h} + v) * {self.wide} + u) * {self.c};",
                f"      for (long q = 0; q < {self.c}; q++) {{", *product, "      }",
                "    } }", "    HYV_STORE(to, sum);", "  }", "}"]

    def plain_product(self) -> tuple[list[str], list[str]]:
        """Returns statements that declare ``w``, the weights of the filters from c0 on, and those that add the product
        of channel ``q`` of the pixel ``a`` and tap ``k`` of the filters to ``sum``."""
        own, data = [], "HYV_B(inside ? a[q] : 0)"
        if self.joined > 1:
            own = [f"  const hy_vi own = (HYV_COUNT + (int)c0) / {self.filters // self.joined};"]
            data = f"(hy_v)((hy_vi){data} & (own == (int)q / {self.c // self.joined}))"
        panel = 9 * self.kd * self.c * self.width
        return ([f"  const float *w = W + c0 / {self.width} * {panel}l + c0 % {self.width};", *own],
                [f"        sum += {data} * HYV_LOAD(w + ((t * {self.c} + q) * 9 + k) * {self.width});"])

    def _vector(self, partial: int) -> list[Stmt]:
        n, m = self.side, self.m
        every = [f"y[{k}]" for k in range(m * m)]
        plain = [f"hy_v plain[{m * m}];",
                 f"{self.name}_plain((float *)plain, px0_, c0_, {self.x}, {self.w}{more_passed()});",
                 *(f"{y} = plain[{k}];" for k, y in enumerate(every))]
        out = [f"hy_v y[{m * m}];",
               *square(backward(self.at), n, m, "e", lambda i, j: f"HYV_LOAD(m + {(n * i + j) * self.ms})",
                       lambda i, j, v: f"y[{i * m + j}] = {v};"),
               unless_finite(" + ".join(every), plain)]
        pixels = [(i, j, f"px0_ + {i * self.dy * self.ow + j * self.dx}") for i in range(m) for j in range(m)]
        if same(self.oh % (m * self.dy), 0) and same(self.ow % (m * self.dx), 0):
            return [*out, self.finished(0, [(px, f"y[{i * m + j}]") for i, j, px in pixels], partial)]
        for i, j, px in pixels:
            test = " && ".join([*([f"below > {i * self.dy}"] if i or self.dy > 1 else []),
                                *([f"right > {j * self.dx}"] if j or self.dx > 1 else [])])
            done = self.finished(0, [(px, f"y[{i * m + j}]")], partial)
            out.append(When(test, (done,)) if test else done)
        return out

    def body(self) -> list[str]:
        """Prints the loop over strips: it transforms the data; then, for each panel, it transforms the weights,
        multiplies at each point, and transforms the sums back."""
        longest = self.strips.largest * self.deep_planes
        omp, n = self.parallel, self.side
        oy, ox = self._first(f"t / {self.tw} % {self.th}", self.dy), self._first(f"t % {self.tw}", self.dx)
        place = read = f"const long t = first + i, b = t / {self.th * self.tw}, oy = {oy}, ox = {ox};"
        planes = inside = every = ""
        if self.volume:
            place, read = (f"const long t = first + i % count, {b}, oy = {oy}, ox = {ox};" for b in (
                f"b = n * {self.planes} + i / count", f"z = i / count - {self.pz}, b = n * {self.layers} + z"))
            planes, inside, every = (f" * {self.deep_planes}", f"z >= 0 && z < {self.layers} && ",
                                     f"for (long n = 0; n < {self.dot.shape[0]}; n++) ")
        strips, first, size = (
            self.strips.count, self.strips.first("strip"), f"{self.strips.size} + (strip < {self.strips.longer})"
        ) if not self.counted else (
            "strips", "strip * each_strip + (strip < longer ? strip : longer)", "each_strip + (strip < longer)")
        T, number = self.how.number, self.data[0]
        return [f"  {T} *V = ({T} *)scratch; {number} *zeros = ({number} *)((char *)scratch + {self.v_bytes});",
                f"  for (long i = 0; i < {-(-self.c // self.lanes) * self.lanes}; i++) zeros[i] = 0;",
                *([f"  const long strips = ({self.tiles} + {longest - 1}) / {longest}, each_strip = {self.tiles} / "
                   f"strips, longer = {self.tiles} % strips;"] if self.counted else []),
                f"  {every}for (long strip = 0; strip < {strips}; strip++) {{",
                f"    const long first = {first}, count = {size};",
                *([omp] if omp else []), f"    for (long i = 0; i < count{planes}; i++) {{",
                f"      {read} const {number} *s[{self.points}];",
                f"      for (long a = 0; a < {self.points}; a++) {{",
                f"        const long y = oy + a / {n} * {self.dy} - {self.py}, x = ox + a % {n} * {self.dx} - "
                f"{self.px};",
                f"        s[a] = {inside}{self.inside()} ? {self.x} + ((b * "
                f"{self.h} + y) * {self.wide} + x) * {self.c} : zeros;", "      }",
                f"      {self.name}_in(s, V + i * {self.vs}, {longest * self.vs});", "    }",
                *self._runs(),
                *([omp] if omp else []), f"    for (long u = 0; u < {self.panels} * parts; u++) {{",
                *self._panel(place, longest), "    }", "  }"]

    def of_filters_at(self, q: str) -> tuple[str, str, str]:
        """Returns C for a panel's weights from channel ``q`` on: the call that transforms them; the address of those
        of point p; the address of the next block's, plus the number of runs multiplied before, which the caller
        multiplies by the bytes that a run prefetches."""
        W = f"{self.w} + o * {9 * self.kd * self.c * self.width}l"
        return (f"{self.name}_filters({W} + {q} * {9 * self.width}l, U, deep);", f"U + p * {self.us}",
                f"(const char *)({W} + ({q} + deep) * {9 * self.width}l) + (p * {self.sharing} + {self.run})")

    def _first(self, tile: str, dilate: int) -> str:
        """Returns C for the first row or column of a tile; with a dilation, tiles are interleaved."""
        return f"{tile} * {self.m}" if dilate == 1 else f"{tile} / {dilate} * {self.m * dilate} + {tile} % {dilate}"

    def _runs(self) -> list[str]:
        """Declares the runs of tiles that one call multiplies: how many a strip has, their size, how many are one
        longer; and into how many parts threads divide them."""
        share = f"hy_threads > 1 ? (hy_threads + {self.panels - 1}) / {self.panels} : 1" if self.parallel else "1"
        if self.counted:
            return [f"const long runs = (count + {self.cells - 1}) / {self.cells}, size = count / runs, more = count % "
                    f"runs, share = {share};", "const long parts = share < runs ? share : runs;"]
        longest, usual = ((runs.count, runs.size, runs.longer) for runs in (self.runs[0], self.runs[-1]))
        values = [f"count == {self.strips.size} ? {b} : {a}" if b != a else str(a) for a, b in zip(longest, usual)]
        if self.skips:
            return [f"const long each = {values[0]}, runs = each * {self.apart}, size = {values[1]}, more = "
                    f"{values[2]}, share = {share};",
                    "const long parts = share < runs ? share : runs;"]
        return [f"const long runs = {values[0]}, size = {values[1]}, more = {values[2]}, share = {share};",
                "const long parts = share < runs ? share : runs;"]

    def _panel(self, place: str, longest: int) -> list[str]:
        """Prints the body of the loop over panels and parts: one panel of filters over one part of a strip's runs. If
        the runs do not divide evenly, which parts have one more differs from panel to panel."""
        q, add = "q", "q"
        if self.volume:                                                  # taps of the depth, and channels of each
            q, add = f"(tap * {self.c} + q)", f"q || tap && z - {self.dz} >= 0" if self.skips else "q || tap"
        transformed, of_point, following = self.of_filters_at(q)
        out = (f"{self.name}_out%s(M + (i - low) * {self.width}, (b * {self.oh} + oy) * {self.ow} + ox, {self.ow} - "
               f"ox, {self.oh} - oy, o * {self.width}, {self.passed}{more_passed()});")
        back = (out % "" if not self.rest or self.panels == 1
                else f"if (o == {self.panels - 1}) {out % '_last'} else {out % ''}")
        sizes = [f"if (run == {s}) {self.name}_{s}(v, w, to, deep, {add}, soon);" for s in self.sizes]
        each, past = ("r % each",
                      lambda r: f"{r} / each * count + {r} % each * size + ({r} % each < more ? {r} % each : more)") if self.skips else (  # noqa: E501
            "r", lambda r: f"{r} * size + ({r} < more ? {r} : more)")
        further = f" + tap * {self.dz} * count" if self.volume else ""
        beyond = [f"      const long z = r / each - {self.pz} + tap * {self.dz}; if (z < 0 || z >= {self.layers}) "
                  f"continue;"] if self.skips else []
        return ["const long o = u / parts, part = u % parts, odd = o % parts, begin = (part * runs + odd) / parts, "
                "end = ((part + 1) * runs + odd) / parts;",
                local.array("float", "U", self.points * (self.us + self.ms)),
                f"float *M = U + {self.points * self.us};",
                f"for (long r0 = begin; r0 < end; r0 += {self.several}) {{",
                f"  const long r1 = r0 + {self.several} < end ? r0 + {self.several} : end;",
                f"  const long low = {past('r0')}, high = {past('r1')};",
                f"  {f'for (long tap = 0; tap < {self.kd}; tap++) ' if self.volume else ''}for (long q = 0; q < "
                f"{self.depth}; q += {self.chunk}) {{",
                f"    const long deep = q + {self.chunk} < {self.depth} ? {self.chunk} : {self.depth} - q;",
                *([f"    {'' if self.chunks > 1 else 'if (r0 == begin) '}{transformed}"] if transformed else []),
                f"    for (long p = 0; p < {self.points}; p++) for (long r = r0, at = low, run; r < r1; r++, at += "
                f"run) {{",
                f"      run = size + ({each} < more);", *beyond,
                f"      const {self.how.number} *v = V + p * {longest * self.vs}l + "
                f"{f'(at{further})' if further else 'at'} * {self.vs} + q, *w = {of_point};",
                f"      const char *soon = {following} * deep * {self.slice};",
                f"      float *to = M + p * {self.ms} + (at - low) * {self.width};", "      " + " else ".join(sizes),
                "    }", "  }",
                f"  for (long i = low; i < high; i++) {{ {place} {back} }}", "}"]
