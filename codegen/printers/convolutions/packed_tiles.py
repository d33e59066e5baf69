"""Packed products and convolutions of bfloat16, and of uint8 with int8, by tile registers (AMX): those of words
(packed_words.py), with the same weights. A tile of the data holds up to 16 pixels of up to 16 words each, a tile of
weights as many words of a vector of filters, a tile of sums a number for each pixel and filter (kernels/c/tiles.h).

Shapes of tiles are set once for each thread of a kernel. All parts of the results have one shape, therefore: the last
one overlaps the one before, or computes pixels beyond the results, and stores those that are its own.
"""
from __future__ import annotations

import math
from dataclasses import replace

from hybrid.ir.low_precision import tile_depth
from hybrid.ir.stmt import Stmt

from .packed_words import Words
from hybrid.codegen.dialect import OF_TEAM, TEAM
from hybrid.codegen.nest import Cut, count, function, within
from hybrid.codegen.program.size_parameters import more_declared

LARGE_WEIGHTS = 1 << 19                                   # bytes beyond which they do not all stay in the second cache
MOST_PARTS = 32
ROWS = 16                                                 # of a tile
DATA = {1: 3, 2: 2, 3: 1, 4: 1}                           # tiles of data beside so many vectors of weights
REGISTERS = 8


class Tiles(Words):
    """Sums in tiles."""

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
            self.ty, self.tx = Cut.even(self.rows, 1), self._line_parts(size, parts)
            self.heights = [size // tiles + (i < size % tiles) for i in range(tiles)]
        else:
            lines = Cut.even(self.rows, min(DATA[self.nv], self.rows))
            self.ty = replace(lines, extent=lines.largest * lines.count, size=lines.largest, longer=0)
            self.tx, self.beyond_lines = Cut.even(self.columns, self.columns), lines.longer > 0
            self.heights = [self.columns] * self.ty.size

    def _line_parts(self, size: int, count: int) -> Cut:
        """Parts of a line; where its pixels are put together there is room for some beyond it."""
        return Cut(size * count if self.line and self.apart else self.columns, size, count)

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

    def micro(self, rows: int, columns: int, suffix: str, partial: list[int]) -> list[Stmt]:
        """The function of a part: sums and epilogue."""
        vectors = len([p for p in partial if p >= 0])
        more, T, tiles = "".join(f"long {v}, " for v in self.more), self.how.number, len(self.heights)
        sums = [(j, i, j * tiles + i) for j in range(vectors) for i in range(tiles)]
        at = {t: (j * self.pixels + sum(self.heights[:i])) * self.lanes for j, i, t in sums}
        value = f"*(const {self.how.sum} *)(sums + ({{}} + r_) * {self.lanes})"
        return [function(
            f"{self.name}_{rows}x{columns}{suffix}",
            f"const {T} *X, const {T} *W, {more}long px0_, long c0_, long from_, long to_, "
            f"const struct hy_shape *shape, {self.pointers}{more_declared()}",
            [f"float sums[{self.nv * self.pixels * self.lanes}] __attribute__((aligned(64)));", "HYT_USE(shape);",
             *(f"HYT_ZERO({t});" for t in at), *self._products(rows, vectors),
             *(f"HYT_STORE({t}, sums + {at[t]}, {self.lanes * 4});" for t in at),
             *(self.finished(j, [("px0_ + r_", self.how.floats.format(value.format(j * self.pixels)))], partial[j],
                             lambda body: count("r_", "to_", body, first="from_")) for j in range(vectors))])]

    def _products(self, rows: int, vectors: int) -> list[Stmt]:
        """The loops that load tiles of data and weights, and multiply them."""
        run, loops = self._run()
        depth, step, heights = tile_depth(run), self.sx * self.step, self.heights
        offsets = [self.sy * self.across * self.step * i if rows > 1 else sum(heights[:i]) * step
                   for i in range(len(heights))]
        _, data, free = self.numbers
        lines, panel = self._lines_ahead(depth), math.prod(self.weights[1:])
        each = panel // (depth * self.width) * lines * ROWS
        begin = [f"const {self.how.number} *ahead = W + {panel} + px0_ / {self.pixels} * {each};"] if lines else []
        fetch = [f"for (long i_ = 0; i_ < {lines * ROWS}; i_ += {ROWS}) __builtin_prefetch(ahead + i_, 0, 2);",
                 f"ahead += {lines * ROWS};"] if lines else []
        body = [*fetch, *(f"HYT_LOAD({t}, x + q + {at}l, {step * 4}l);" for t, at in zip(data, offsets))]
        for j in range(vectors):
            w = free[j % len(free)]
            body += [f"HYT_LOAD({w}, W + {j * self.lanes}, {self.width * 4});",
                     *(f"{self.how.tiles}({j * len(heights) + i}, {t}, {w});" for i, t in enumerate(data))]
        return within([*begin, *(["for (long t = 0; t < taps; t++, X += plane) {"] if self.volume else []), *loops,
                       f"for (long q = 0; q < {run}; q += {depth}, W += {depth * self.width}) {{"], body)

    def _lines_ahead(self, depth: int) -> int:
        """Cache lines of the next panel that a step of a part fetches: all parts together fetch the panel. 0 where
        weights stay in the second cache, or parts are so many that fetching it is little beside the products."""
        parts = self.batch // self.planes * self.ty.count * self.tx.count
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
        return [self.threads(TEAM), "{", "  HYT_CONFIGURE(shape);", "  " + OF_TEAM, *loop,
                "  HYT_RELEASE();", "}"]

    # ---- which part
    def choice(self) -> list[str]:
        """The call of the function for a part, which stores some of its pixels."""
        whole = self.tx.count * self.tx.size
        first = f"tx * {self.tx.size} - x" if whole > self.tx.extent else "0"
        left = (f"({self.rows} - y) * {self.columns}" if self.beyond_lines else
                f"{self.columns} - x" if self.tx.extent > self.columns else "")
        end = f"({left} < {self.pixels} ? {left} : {self.pixels})" if left else str(self.pixels)
        return [f"const long from_ = {first}, to_ = {end};", *super().choice()]

    def given(self) -> list[str]:
        """What the function of a part is called with."""
        return ["X", "W", *self.more, "px0_", "c0_", "from_", "to_", "&shape", self.passed]
