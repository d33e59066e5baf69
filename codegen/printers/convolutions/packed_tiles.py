"""Packed products and convolutions of bfloat16, and of uint8 with int8, by tile registers (AMX): those of words
(packed_words.py), with the same weights. A tile of the data holds up to 16 pixels of up to 16 words each, a tile of
weights as many words of a vector of filters, a tile of sums a number for each pixel and filter (kernels/c/tiles.h).

Shapes of tiles are set once for each thread of a kernel. All parts of the results have one shape, therefore: the last
one overlaps the one before, or computes pixels beyond the results, and stores those that are its own.
"""
from __future__ import annotations

import math

from hybrid.ir import Node
from hybrid.ir.low_precision import tile_depth

from .blocked import split
from .packed_words import Words
from hybrid.codegen.dialect import OF_TEAM, TEAM
from hybrid.codegen.program.size_parameters import more_declared

LARGE_WEIGHTS = 1 << 19                                   # bytes beyond which they do not all stay in the second cache
MOST_PARTS = 32
ROWS = 16                                                 # of a tile
DATA = {1: 3, 2: 2, 3: 1, 4: 1}                           # tiles of data beside so many vectors of weights
REGISTERS = 8


class Tiles(Words):
    """Sums in tiles."""

    def _shapes(self, x: Node, w: Node) -> None:
        super()._shapes(x, w)
        self.sums = "hy_v" if self.dot_name == "BF16" else "hy_vi"

    def begin(self) -> None:
        """The panels, and pixels of a part at most."""
        super().begin()
        self.most = ROWS * DATA[self.nv]

    def conflicts(self) -> bool:
        """A tile takes whole cache lines: none is read twice for a panel."""
        return False

    def divide(self) -> None:
        """Parts of one line, or of some whole ones; ``heights``: pixels of each tile of data."""
        if self.rows == 1 or self.columns > ROWS:
            parts = -(-self.columns // self.most)
            size = -(-self.columns // parts)
            tiles = -(-size // ROWS)
            self.ty, self.tx = (self.rows, 1, 0), (parts, size, 0)
            self.heights = [size // tiles + (i < size % tiles) for i in range(tiles)]
        else:
            parts, each, more = split(self.rows, min(DATA[self.nv], self.rows))
            self.ty, self.tx = (parts, each + (more > 0), 0), (1, self.columns, 0)
            self.beyond_lines = more > 0
            self.heights = [self.columns] * self.ty[1]

    @property
    def pixels(self) -> int:
        """Of a part."""
        return sum(self.heights)

    @property
    def numbers(self) -> tuple[list[int], list[int], list[int]]:
        """Of the tiles: of sums (those of a vector together), of data, of weights."""
        count = len(self.heights)
        first = self.nv * count
        return list(range(first)), list(range(first, first + count)), list(range(first + count, REGISTERS))

    def micro(self, rows: int, columns: int, suffix: str, partial: list[int]) -> list[str]:
        """The function of a part: sums and epilogue."""
        vectors = [j for j in range(self.nv) if partial[j] >= 0]
        more, T, count = "".join(f"long {v}, " for v in self.more), self.number, len(self.heights)
        sums = [(j, i, j * count + i) for j in vectors for i in range(count)]
        out = [f"static __attribute__((noinline)) void {self.name}_{rows}x{columns}{suffix}(const {T} *X, "
               f"const {T} *W, {more}long px0_, long c0_, long from_, long to_, const struct hy_shape *shape, "
               f"{self.pointers}{more_declared()}) {{",
               f"  float sums[{self.nv * self.pixels * self.lanes}] __attribute__((aligned(64)));",
               "  HYT_USE(shape); " + " ".join(f"HYT_ZERO({t});" for *_, t in sums),
               *self._products(rows, vectors)]
        for j, i, t in sums:
            at = (j * self.pixels + sum(self.heights[:i])) * self.lanes
            out.append(f"  HYT_STORE({t}, sums + {at}, {self.lanes * 4});")
        for j in vectors:
            value = self.summed(f"*(const {self.sums} *)(sums + ({j * self.pixels} + r_) * {self.lanes})")
            out += ["  " + s for s in self.finished(j, [("px0_ + r_", value)], partial[j],
                                                    "for (long r_ = from_; r_ < to_; r_++) ")]
        return [*out, "}"]

    def _products(self, rows: int, vectors: list[int]) -> list[str]:
        """The loops that load tiles of data and weights, and multiply them."""
        run, loops = self._run()
        loops = [*(["  for (long t = 0; t < taps; t++, X += plane) {"] if self.volume else []), *loops]
        depth, step, count = tile_depth(run), self.sx * self.step, len(self.heights)
        offsets = [self.sy * self.across * self.step * i if rows > 1 else sum(self.heights[:i]) * step
                   for i in range(count)]
        _, data, free = self.numbers
        lines, panel = self._lines_ahead(depth), math.prod(self.weights[1:])
        each = panel // (depth * self.width) * lines * ROWS
        begin = [f"  const {self.number} *ahead = W + {panel} + px0_ / {self.pixels} * {each};"] if lines else []
        fetch = [f"    for (long i_ = 0; i_ < {lines * ROWS}; i_ += {ROWS}) __builtin_prefetch(ahead + i_, 0, 2);",
                 f"    ahead += {lines * ROWS};"] if lines else []
        out = [*begin, *loops, f"  for (long q = 0; q < {run}; q += {depth}, W += {depth * self.width}) {{", *fetch,
               "    " + " ".join(f"HYT_LOAD({t}, x + q + {at}l, {step * 4}l);" for t, at in zip(data, offsets))]
        for n, j in enumerate(vectors):
            w = free[n % len(free)]
            out.append(f"    HYT_LOAD({w}, W + {j * self.lanes}, {self.width * 4}); " + " ".join(
                f"HYT_DOT_{self.dot_name}({j * count + i}, {t}, {w});" for i, t in enumerate(data)))
        return [*out, *["  }"] * (1 + sum(line.count("{") - line.count("}") for line in loops))]

    def _lines_ahead(self, depth: int) -> int:
        """Cache lines of the next panel that a step of a part fetches: all parts together fetch the panel. 0 where
        weights stay in the second cache, or parts are so many that fetching it is little beside the products."""
        parts = self.batch // self.planes * self.ty[0] * self.tx[0]
        large = math.prod(self.weights) * 4 > LARGE_WEIGHTS and not self.volume
        return -(-depth * self.width // ROWS // parts) if large and parts <= MOST_PARTS else 0

    def head(self) -> str:
        """The head of the kernel's function, and the shapes of its tiles."""
        (sums, data, free), depth = self.numbers, tile_depth(self._run()[0])
        tiles = [*(self.heights[t % len(self.heights)] for t in sums), *self.heights, *(depth for _ in free)]
        nbytes = [self.lanes * 4] * len(sums) + [depth * 4] * len(data) + [self.lanes * 4] * len(free)
        return (f"{super().head()}\n  static const struct hy_shape shape = {{ 1, .bytes = {{ "
                f"{', '.join(map(str, nbytes))} }}, .rows = {{ {', '.join(map(str, tiles))} }} }};")

    def shared(self, loop: list[str]) -> list[str]:
        """A loop that threads share where that pays, each with its shapes of tiles."""
        if not self.parallel:
            return ["HYT_CONFIGURE(shape);", *loop, "HYT_RELEASE();"]
        return [self.threads(TEAM), "{", "  HYT_CONFIGURE(shape);", "  " + OF_TEAM, *("  " + s for s in loop),
                "  HYT_RELEASE();", "}"]

    # ---- which part
    @property
    def overlaps(self) -> bool:
        """Whether the last part of a line begins earlier than it would, so that it ends with the line."""
        return not (self.line and self.own) and self.tx[0] * self.tx[1] > self.columns

    def column(self, tile: str) -> str:
        """The first column of a part."""
        at, last = f"{tile} * {self.tx[1]}", self.columns - self.tx[1]
        return f"({at} < {last} ? {at} : {last})" if self.overlaps else f"({at})"

    def choice(self) -> list[str]:
        """The call of the function for a part, which stores some of its pixels."""
        first = f"tx * {self.tx[1]} - x" if self.overlaps else "0"
        left = (f"({self.rows} - y) * {self.columns}" if self.beyond_lines else
                f"{self.columns} - x" if self.tx[0] * self.tx[1] > self.columns and not self.overlaps else "")
        end = f"({left} < {self.pixels} ? {left} : {self.pixels})" if left else str(self.pixels)
        return [f"const long from_ = {first}, to_ = {end};", *super().choice()]

    def given(self) -> list[str]:
        """What the function of a part is called with."""
        return ["X", "W", *self.more, "px0_", "c0_", "from_", "to_", "&shape", self.passed]
