"""Packed convolutions (``conv`` primitives, hybrid/ir/packed.py) in C: data (N, H, W, C), or of volumes (N, D, H, W,
C); a vector holds filters.

A tile is some pixels times a panel of filters, its sums in registers; each step of the depth broadcasts one number a
pixel against the panel's vectors. Planes beyond a volume are not read: each plane of results knows its first tap and
how many. What follows the sums (factors of BatchNorm, additions, functions) is computed on the registers.
Winograd's form (packed_winograd.py) and one filter a channel (packed_depthwise.py) share the epilogue.
"""
from __future__ import annotations

import math
from typing import Callable, Sequence

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Var, unlinear, var
from hybrid.ir.kernel import Kernel, strip_reshape
from hybrid.ir.rewriting import length
from hybrid.ir.size import Specialised, fixed, hint

from .anchored import Anchored
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.emit import Block
from hybrid.codegen.program.size_parameters import literal, more_declared, more_passed, where_it_pays
from hybrid.codegen.loops import PARALLEL_WORK, Printed
from hybrid.codegen.printers.products.operand import root_index
from hybrid.codegen.lanes import Refused, copied_text, masked_text
from hybrid.codegen.vector import VectorEmitter
from hybrid.codegen.vector_forms import one_plus

# of a tile, by accumulators and vectors of a panel
PIXELS = {28: {1: 24, 2: 14, 3: 9, 4: 6}, 12: {1: 10, 2: 6, 3: 4, 4: 3}}
SCALARS = 8                     # statements for a kernel's call that are repeated for each vector of a tile
BUSY = 10                       # sums that are needed to keep the multipliers busy
SMALL_WEIGHTS = 1 << 18         # bytes that stay in a core's second cache beside the data
TOGETHER = 1 << 17              # bytes of pixels that are put together at once, or a quarter of the weights'
# pixels that are a multiple of so many numbers apart fall on few lines of the first cache
CONFLICT = 512
WAYS = 6                        # such lines that stay there beside the weights
NEAR = 32                       # numbers of each further pixel that a tile puts together at a time


def split(n: int, most: int) -> tuple[int, int, int]:
    """n as equal parts of at most ``most``: (number of parts, their size, how many of them are one larger)."""
    parts = -(-n // most)
    return parts, n // parts, n % parts


def begin_of(number: str, parts: tuple[int, int, int]) -> str:
    """C text of where the part of a number begins, of ``split`` parts."""
    _, size, longer = parts
    if fixed(longer) and longer == 0:
        return f"{number} * {size}"
    return f"{number} * {size} + ({number} < {longer} ? {number} : {longer})"


def part(t: int) -> str:
    """What the name of a part of a sum ends with."""
    return f"_{t}" if t else ""


class Packed(Anchored):
    """What the forms share: the window, the epilogue."""

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, k.dot, name, target)
        a, (x, w) = self.dot.attrs, self.dot.args
        self.x, self.w = self.names[strip_reshape(x)], self.names[strip_reshape(w)]
        self._window(a["kernel"], a["stride"], a["dilate"], a["pads"])
        self._shapes(x, w)
        # groups; how many each of them stands for
        self.groups, self.joined = a.get("groups", 1), a.get("together", 1)
        # channels that a filter reads, filters of a group
        self.deep, self.each = self.c // self.groups, self.filters // self.groups

    def _window(self, kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int], pads: Sequence[int]) -> None:
        """The window over images or volumes."""
        self.volume = len(kernel) == 3
        (self.kd, self.kh, self.kw), (self.sz, self.sy, self.sx) = (1, *kernel)[-3:], (1, *stride)[-3:]
        (self.dz, self.dy, self.dx), (self.pz, self.py, self.px) = (1, *dilate)[-3:], (0, *pads)[-3:]

    def _shapes(self, x: Node, w: Node) -> None:
        """Sizes of the data, the filters and the result."""
        self._sizes(x)
        self.weights = w.shape

    def _sizes(self, x: Node) -> None:
        *_, self.oh, self.ow, self.filters = self.dot.shape
        *_, self.h, self.wide, self.c = x.shape
        # of the results and of the data
        self.planes, self.layers = (self.dot.shape[1], x.shape[1]) if self.volume else (1, 1)
        self.batch = self.dot.shape[0] * self.planes

    # ---- the epilogue
    def epilogue(self) -> tuple[list[str], list[str], list[str]]:
        """Statements for a kernel's call, for a vector of filters ``ch``, and for it at pixel ``px`` (numbered
        through), from the sums ``sum@``."""
        ch, px = Var("ch", self.filters), Var("px", max(self.batch * self.oh * self.ow, 2))
        e = VectorEmitter(C, self.reads, given={self.dot: lambda idx: "sum@"},
                          extra={n: self.names[n] for n in self.k.extra}, count=3000,
                          width=self.lanes, lanes={ch}, one_plus=one_plus(self.k), of_halves=True)
        e.kind["sum@"] = "v"
        outer = Block(None, frozenset())
        filters = outer.child([ch])
        last = filters.child([px])
        at = self.place((*unlinear(var(px), self.dot.shape[:-1]), var(ch)))
        value = e.value(self.k.root, at, last)
        last.body.append(e.store(self.names[self.k.root], self.k.root, at, value))
        return outer.lines, filters.lines, last.lines

    def over_channels(self, block: Callable[[str, int], list[str]]) -> list[str]:
        """Loops over channels as vectors, from lines ``s`` of them. block(load, partial): the statements of one
        vector."""
        whole, rest = self.c // self.lanes * self.lanes, self.c % self.lanes
        out: list[str] = []
        if whole:
            out += [f"  for (long c0_ = 0; c0_ < {whole}; c0_ += {self.lanes}) {{",
                    *("    " + s for s in block("HYV_LOAD(s[{}] + c0_)", 0)), "  }"]
        if rest:
            out += [f"  {{ const long c0_ = {whole};",
                    *("    " + s for s in block(f"HYV_LOADM(HYV_FIRST({rest}), s[{{}}] + c0_)", rest)), "  }"]
        return out

    def place(self, idx: Index) -> Index:
        """Where a result stands in the kernel's root."""
        return root_index(self.k, idx)

    def finished(self, vector: int, sums: Sequence[tuple[str, str]], partial: int, loop: str = "") -> list[str]:
        """The epilogue for one vector of a panel (filters c0_ + vector * lanes …) and some (pixel, sum); partial:
        filters in it, 0 for all. loop: the head of a loop over pixels."""
        _, filters, last = self.parts
        form = (lambda lines: masked_text(lines)) if partial else (lambda lines: copied_text(lines, 0))
        out = ["{", f"  const long ch = c0_ + {vector * self.lanes};",
               *([f"  const hy_m mk = HYV_FIRST({partial});"] if partial else []), *("  " + s for s in form(filters))]
        for pixel, value in sums:
            out += [f"  {loop}{{ const long px = {pixel}; const hy_v sum_0 = {value};",
                    *("    " + s for s in form(last)), "  }"]
        return [*out, "}"]

    def prepare(self) -> None:
        """Print the epilogue; Refused where it is not of vectors."""
        whole, filters, last = self.epilogue()
        if length(whole) > SCALARS:
            raise Refused("values of the whole kernel")
        self.parts: tuple[list[str], list[str], list[str]] = [], [*whole, *filters], last

    def printed(self, lines: list[str]) -> Printed:
        """The kernel of these lines."""
        return Printed(self.name, "\n".join(lines), self.args, "convolution", self.scratch, True, vectors=True)

    @property
    def parallel(self) -> str:
        """A pragma for a loop that threads share, where they pay."""
        return self.threads(PARALLEL)

    def threads(self, pragma: str) -> str:
        """A pragma, where threads pay."""
        work = hint(self.dot.size) * (self.kd * self.kh * self.kw * (1 if self.dot.attrs["form"] == "depthwise"
                                                                     else self.deep))
        return where_it_pays(pragma, self.dot.size, work, PARALLEL_WORK)

    @staticmethod
    def taps(name: str, at: str, size: int, kernel: int, stride: int, dilate: int, pad: int) -> str:
        """The taps of an axis that meet data, for a place of results: the first, and the one behind the last, as name0
        and name1."""
        front, step = f"({pad} - {at} * {stride})", f" + {dilate - 1}) / {dilate}" if dilate > 1 else ")"
        return (f"const long {name}0 = {front} > 0 ? ({front}{step} : 0, {name}_ = ({front} + {size}{step},"
                f" {name}1 = {name}_ < {kernel} ? {name}_ > {name}0 ? {name}_ : {name}0 : {kernel};")

    def partial(self, panel: int, width: int) -> list[int]:
        """Filters in each vector of a group's panel: 0 for all, -1 for none."""
        out = []
        for j in range(width // self.lanes):
            left = self.each - panel * width - j * self.lanes
            out.append(0 if left >= self.lanes else left if left > 0 else -1)
        return out


class Direct(Packed):
    """Sums over the window and the channels, tile by tile."""
    near = False                        # whether pixels that fall on the same cache lines are put together by tiles
    number, sums = "float", "hy_v"      # C types of what is multiplied, and of vectors of sums
    beyond = 0                          # byte that stands beyond the data
    beyond_lines = False                # whether the last tile has lines that are none of the results

    def print(self) -> Printed:
        """The kernel."""
        self.begin()
        inside = (self.oh - 1) * self.sy < self.h and (self.ow - 1) * self.sx < self.wide
        self.steps = self.sy, self.sx
        plain = self.steps == (1, 1) and (self.oh, self.ow) == (self.h, self.wide)
        # pixels are numbered through; those of a stride are put together, where it is known how many there are
        self.line = (self.kh == self.kw == 1 and not self.py and not self.px and inside and not self.volume
                     and (plain or fixed(self.batch)))
        if self.line:
            self.rows, self.columns = 1, self.batch * self.oh * self.ow
            self.sy = self.sx = 1
        else:
            self.rows, self.columns = self.oh, self.ow
        self.reach = (self.oh - 1) * self.sy + (self.kh
                                                - 1) * self.dy + 1, (self.ow
                                                                     - 1) * self.sx + (self.kw - 1) * self.dx + 1
        beyond = self.py or self.px or self.reach[0] > self.h or self.reach[1] > self.wide
        self.divide()
        conflict = self.conflicts()
        self.near = self.line and plain and conflict and self.deep % NEAR == 0
        self.own = (fixed(self.columns) and (not plain or conflict and not self.near) if self.line
                    else bool(beyond) or self.beyond_lines)
        self.apart = not plain
        # numbers from pixel to pixel
        self.step = self.c + 16 if self.own and self.c % CONFLICT == 0 else self.c
        self.across = max(self.reach[1], 1) if self.own and not self.line else self.wide
        if not fixed(self.columns) and not self.line:
            raise Specialised("a convolution along an axis of any size")
        tiles = self.micros()
        return self.printed([*tiles, self.head(), *self.body(), "}"])

    def divide(self) -> None:
        """The tiles along lines and columns."""
        if self.rows == 1 or self.columns >= self.most:
            self.ty, self.tx = (self.rows, 1, 0), split(self.columns, self.most)
        else:
            self.ty, self.tx = split(self.rows, max(self.most // self.columns, 1)), (1, self.columns, 0)

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
        if not fixed(self.columns):                              # of a line: any number of pixels
            return [(1, c) for c in range(self.most, 0, -1)]
        return [(r, c) for r in dict.fromkeys([self.ty[1], self.ty[1] + (self.ty[2] > 0)])
                for c in dict.fromkeys([self.tx[1], self.tx[1] + (self.tx[2] > 0)])]

    def micros(self) -> list[str]:
        """A function for each size of tile, and for the last panel where it is not whole."""
        out = []
        for r, c in self.sizes():
            out += self.micro(r, c, "", [0] * self.nv if self.each % self.width == 0 or self.own_panels > 1
                              else self.partial(0, self.width))
            if self.each % self.width and self.own_panels > 1:
                out += self.micro(r, c, "_last", self.partial(self.own_panels - 1, self.width))
        return out

    def micro(self, rows: int, columns: int, suffix: str, partial: list[int]) -> list[str]:
        """The function of a tile: sums and epilogue."""
        places = [(r, c) for r in range(rows) for c in range(columns)]
        numbers = [f"x[q + {(r * self.sy * self.across + c * self.sx) * self.step}]" for r, c in places]
        run, loops = self._run()
        if self.near:
            run, (loops, numbers) = NEAR, self._near([c * self.c for _, c in places])
        if self.volume:
            loops = ["  for (long t = 0; t < taps; t++, X += plane) {", *loops]
        pixels = [f"px0_ + {r * self.ow + c}" for r, c in places]
        return self.tile(f"{rows}x{columns}{suffix}", loops, run, numbers, pixels, partial)

    def tile(self, name: str, loops: list[str], run: int, numbers: list[str], pixels: list[str],
             partial: list[int]) -> list[str]:
        """A function that sums runs of so many numbers, within loops, for some pixels and the vectors of a panel.

        Where several groups are computed together, zeros stand between their weights, and an infinity or NaN of one
        group would reach the results of others: a tile with sums that are no finite numbers is computed again by a
        second function, each filter over the channels of its own group.
        """
        if self.joined == 1:
            return self._tile(name, loops, run, numbers, pixels, partial)
        return [*self._tile(f"{name}_own", loops, run, numbers, pixels, partial, own=True),
                *self._tile(name, loops, run, numbers, pixels, partial)]

    def _tile(self, name: str, loops: list[str], run: int, numbers: list[str], pixels: list[str],
              partial: list[int], own: bool = False) -> list[str]:
        """A tile's function; own: each filter reads the channels of its own group alone."""
        L, vectors, more = self.lanes, [j for j in range(self.nv)
                                        if partial[j] >= 0], "".join(f"long {v}, " for v in self.more)
        sums, parts = [f"s{i}_{j}" for i in range(len(pixels)) for j in vectors], 1
        # few sums wait for themselves: each in parts
        while run % (parts * 2) == 0 and parts * 2 * len(sums) <= BUSY:
            parts *= 2
        T = self.number
        out = [f"static __attribute__((noinline{', cold' if own else ''})) void {self.name}_{name}(const {T} *X, "
               f"const {T} *W, {more}long px0_, long c0_, {self.pointers}{more_declared()}) {{",
               *(self._own_groups(vectors) if own else []),
               *([f"  const {T} *const X0 = X, *const W0 = W;"] if self.joined > 1 and not own else []),
               "  " + " ".join(f"{self.sums} {s}{part(t)} = {{0}};" for t in range(parts) for s in sums), *loops]
        out.append(f"  for (long q_ = 0; q_ < {run}; q_ += {parts}, W += {parts * self.width}) {{")
        for t in range(parts):
            out.append(f"    {{ const long q = q_ + {t}; "
                       + " ".join(self.weight(j, f"W + {t * self.width + j * L}") for j in vectors))
            for i, number in enumerate(numbers):
                terms = " ".join(self.term(f"s{i}_{j}{part(t)}", j) for j in vectors) if not own else " ".join(
                    f"s{i}_{j}{part(t)} += (hy_v)((hy_vi)a & (o{j} == of_)) * w{j};" for j in vectors)
                group = f"const int of_ = {self._channel('q')} / {self.deep // self.joined}; " if own else ""
                out.append(f"    {{ {group}{self.broadcast(number)} {terms} }}")
            out.append("    }")
        out += ["  }"] * (1 + sum(line.count("{") - line.count("}") for line in loops))
        out += [f"  {s} += {' + '.join(s + part(t) for t in range(1, parts))};" for s in sums if parts > 1]
        if self.joined > 1 and not own:
            out += self._again(name, sums)
        for j in vectors:
            results = [(pixel, self.summed(f"s{i}_{j}")) for i, pixel in enumerate(pixels)]
            out += ["  " + s for s in self.finished(j, results, partial[j])]
        return [*out, "}"]

    def _own_groups(self, vectors: list[int]) -> list[str]:
        """The number of each filter's group among those computed together, by vector."""
        each = self.each // self.joined
        return [f"  const hy_vi o{j} = (HYV_COUNT + (int)(c0_ % {self.each}) + {j * self.lanes}) / {each};"
                for j in vectors]

    def _channel(self, number: str) -> str:
        """The channel of a number of a run, among those of the groups computed together."""
        return f"({'q0 + ' if self.near else ''}{number}) % {self.deep}"

    def _again(self, name: str, sums: list[str]) -> list[str]:
        """A tile whose sums are not all finite is left to the function that keeps groups apart."""
        passed = ", ".join(["X0", "W0", *self.more, "px0_", "c0_", self.passed])
        return [f"  {{ const hy_v y_ = {' + '.join(sums)};",
                f"    if (__builtin_expect(HYV_ANY(HYV_NAN(y_ - y_, y_ - y_)) != 0, 0)) {{ "
                f"{self.name}_{name}_own({passed}{more_passed()}); return; }} }}"]

    def weight(self, vector: int, at: str) -> str:
        """The statement that loads a vector of weights."""
        return f"const hy_v w{vector} = HYV_LOAD({at});"

    def broadcast(self, number: str) -> str:
        """The statement that puts a number of the data into all lanes."""
        return f"const hy_v a = HYV_B({number});"

    def term(self, total: str, vector: int) -> str:
        """The statement that adds the products of that number with a vector of weights to a sum."""
        return f"{total} += a * w{vector};"

    def summed(self, total: str) -> str:
        """A sum as a vector of float32."""
        return total

    def _near(self, at: list[int]) -> tuple[list[str], list[str]]:
        """Loops of a tile over pixels that fall on the same lines of the first cache, and where their numbers are: most
        are put together, the others have room."""
        moved = at[:-WAYS]
        put = " ".join(f"HYV_STORE(x + q + {i * NEAR}, HYV_LOAD(X + q + {a}));" for i, a in enumerate(moved))
        return ([f"  {self.number} x[{len(moved) * NEAR}] __attribute__((aligned(64)));",
                 f"  for (long q0 = 0; q0 < {self.deep}; q0 += {NEAR}, X += {NEAR}) {{",
                 f"  for (long q = 0; q < {NEAR}; q += {self.lanes}) {{ {put} }}"] if moved
                 else [f"  for (long q0 = 0; q0 < {self.deep}; q0 += {NEAR}, X += {NEAR}) {{"],
                [*(f"x[q + {i * NEAR}]" for i in range(len(moved))), *(f"X[q + {a}]" for a in at[len(moved):])])

    def _run(self) -> tuple[int, list[str]]:
        """Numbers that lie one after another in data and weights, and the loops around them."""
        if self.kh == self.kw == 1:
            return self.deep, [f"  const {self.number} *x = X;"]
        line, T = self.across * self.step * self.dy, self.number
        if self.dx == 1 and self.step == self.deep:
            return self.kw * self.c, [f"  const {T} *x = X; for (long i = 0; i < {self.kh}; i++, x += {line}) {{"]
        return self.deep, [f"  for (long i = 0; i < {self.kh * self.kw}; i++) {{ const {T} *x = X + i / {self.kw} * "
                           f"{line} + i % {self.kw} * {self.dx * self.step};"]

    # ---- all tiles
    def body(self) -> list[str]:
        """The loops over images, tiles and panels; where pixels are put together, over parts of them that stay in the
        second cache."""
        if self.line and self.own:
            return self._parts()
        if self.own:
            return self._strips()
        images, plane = 1 if self.line else self.batch // self.planes, self.h * self.wide * self.c
        at = f"(y * {self.sy * self.across} + x * {self.sx})"
        return [f"  for (long n = 0; n < {images}; n++) {{",
                f"    const {self.number} *image = {self.x} + n * {literal(self.layers * plane)};",
                *("    " + s for s in self._tiles(str(self.ty[0] * self.tx[0]), f"image + {at}",
                                                  "x" if self.line else self._pixel(), plane=plane)), "  }"]

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
        lines, largest = self.ty[0], self.ty[1] + (self.ty[2] > 0)
        wide, c, window = self.across * self.step, self.c, (self.kh - 1) * self.dy + 1
        each = self.together(max(self.reach[0], 1) * wide * 4 * self.layers, lines)
        held = (each * largest - 1) * self.sy + window                   # lines of a plane
        self.scratch = 4 * self.layers * held * wide + 256
        inside = min(self.wide, self.across - self.px)
        step, after = self.step, (self.across - self.px - inside) * self.step
        row = (f"__builtin_memcpy(to + {self.px * c}, line, {inside * c * 4});" if step == c else
               f"for (long j = 0; j < {inside}; j++) __builtin_memcpy(to + ({self.px} + j) * {step}l, line + j * "
               f"{c}l, {c * 4});")
        first, beyond = begin_of("part", self.ty), begin_of("end", self.ty)
        image, to, each_line = f"(n * {self.h} + y)", "(i - low)", "for (long i = low; i < high; i++) {"
        if self.volume:
            image, to = f"((n * {self.layers} + z) * {self.h} + y)", f"(z * {held} + i - low)"
            each_line = (f"for (long l = 0; l < (high - low) * {self.layers}; l++) {{ const long z = l / (high - "
                         f"low), i = low + l % (high - low);")
        T, zero = self.number, self.beyond
        copy = [f"{T} *to = from + {to} * {wide}l; const long y = i - {self.py}; const {T} *line = {self.x} + "
                f"{image} * {self.wide * c}l;",
                f"if (y < 0 || y >= {self.h}) {{ __builtin_memset(to, {zero}, {wide * 4}); continue; }}",
                *([f"__builtin_memset(to, {zero}, {self.px * step * 4});"] if self.px else []), row,
                *([f"__builtin_memset(to + {(self.px + inside) * step}, {zero}, {after * 4});"] if after else [])]
        return [f"  {T} *from = ({T} *)scratch;",
                f"  for (long n = 0; n < {self.batch // self.planes}; n++) for (long part = 0; part < {lines}; part "
                f"+= {each}) {{",
                f"    const long end = part + {each} < {lines} ? part + {each} : {lines}, y0 = {first}, low = y0 * "
                f"{self.sy}, high = ({beyond} - 1) * {self.sy} + {window};",
                *([f"    {self.parallel}"] if self.parallel else []), f"    {each_line}",
                *("      " + s for s in copy), "    }",
                *("    " + s for s in self._tiles(f"((end - part) * {self.tx[0]})",
                                                  f"from + ((y - y0) * {self.sy * self.across} + x * {self.sx})",
                                                  self._pixel(), f"part * {self.tx[0]} + ", held * wide)), "  }"]

    def _tiles(self, count: str, source: str, pixel: str, first: str = "", plane: int = 0) -> list[str]:
        """All panels of some tiles, from their data and the number of their first pixel; plane: numbers from plane to
        plane of the data."""
        nx, volume = self.tx[0], self.volume
        small = math.prod(self.weights) * 4 <= SMALL_WEIGHTS
        every = f"({self.planes} * {count})" if volume else count
        at, o = (f"u / {self.panels}", f"u % {self.panels}") if small else (f"u % ({every})", f"u / ({every})")
        number = (f"v = {at}, o = {o}, z = v / ({count}), t = {first}v % ({count})" if volume
                  else f"t = {first}{at}, o = {o}")
        met = self.taps("t", "z", self.layers, self.kd, self.sz, self.dz, self.pz)
        taps = [f"  {met}", f"  const long taps = t1 - t0, plane = {plane * self.dz}l;"] if volume else []
        data, begin = (f" + (z * {self.sz} - {self.pz} + t0 * {self.dz}) * {plane}l",
                       f" + t0 * {math.prod(self.weights[2:])}l") if volume else ("", "")
        return self.shared([
                f"for (long u = 0; u < {every} * {self.panels}; u++) {{",
                f"  const long {number}, ty = t / {nx}, tx = t % {nx};",
                f"  const long y = {begin_of('ty', self.ty)}, x = {self.column('tx')};",
                *taps, f"  const {self.number} *X = {source} * "
                       f"{self.step}l{data}{f' + o / {self.own_panels} * {self.deep}' if self.groups > 1 else ''},"
                f" *W = {self.w} + o * {math.prod(self.weights[1:])}l{begin};",
                f"  const long px0_ = {pixel}, c0_ = {self.first_filter()};", *("  " + s for s in self.choice()), "}"])

    def shared(self, loop: list[str]) -> list[str]:
        """A loop that threads share where that pays."""
        return [*([self.parallel] if self.parallel else []), *loop]

    def first_filter(self) -> str:
        """The first filter of panel ``o``."""
        if self.groups == 1:
            return f"o * {self.width}"
        return f"o / {self.own_panels} * {self.each} + o % {self.own_panels} * {self.width}"

    def column(self, tile: str) -> str:
        """The first column of a tile."""
        return begin_of(tile, self.tx)

    def _parts(self) -> list[str]:
        """Pixels put together, some tiles of them at a time."""
        tiles, largest = self.tx[0], self.tx[1] + (self.tx[2] > 0)
        each = self.together(self.columns * self.step * 4, tiles)
        self.scratch = 4 * each * largest * self.step + 256
        (sy, sx), c = self.steps, self.c
        at = "i" if not self.apart else (f"(i / {self.oh * self.ow} * {self.h} + i / {self.ow} % {self.oh} * {sy}) * "
                                         f"{self.wide} + i % {self.ow} * {sx}")
        T = self.number
        return [f"  {T} *from = ({T} *)scratch;", f"  for (long part = 0; part < {tiles}; part += {each}) {{",
                f"    const long end = part + {each} < {tiles} ? part + {each} : {tiles}, low = "
                f"{self.column('part')}, high = {self.column('end')};",
                *([f"    {self.parallel}"] if self.parallel else []),
                f"    for (long i = low; i < high; i++) __builtin_memcpy(from + (i - low) * {self.step}l, {self.x} + "
                f"({at}) * {c}l, {c * 4});",
                *("    " + s for s in self._tiles("(end - part)", "from + (x - low)", "x", "part + ")), "  }"]

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
            return [f"switch ({self.tx[1]} + (tx < {self.tx[2]})) {{",
                    *(f"case {c}: {calls((r, c))} break;" for r, c in sizes), "}"]
        for r, c in sizes[1:]:
            tests = ([f"ty < {self.ty[2]}" if r > self.ty[1] else f"ty >= {self.ty[2]}"] if self.ty[2] else []) + \
                    ([f"tx < {self.tx[2]}" if c > self.tx[1] else f"tx >= {self.tx[2]}"] if self.tx[2] else [])
            out.append(f"if ({' && '.join(tests)}) {{ {calls((r, c))} continue; }}")
        return [*out, calls(sizes[0])]
