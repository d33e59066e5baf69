"""Convolutions of several small images in C (the ``direct`` form of hybrid/ir/packed.py): a tile is one place of some
images times a panel of filters, so that only those taps are multiplied that meet the image at this place. Of 2x2
images and filters 3x3 with a border, 20 of 36 products are with zeros.
"""
from __future__ import annotations

import math

from hybrid.ir import Node
from hybrid.ir.stmt import Stmt

from .blocked import BUSY, CONFLICT, SMALL_WEIGHTS, Direct
from hybrid.codegen.loops import Printed
from hybrid.codegen.nest import Cut

GAIN = 0.85                      # of the work of tiles of neighbouring pixels, up to which it pays


def _met(size: int, out: int, kernel: int, stride: int, dilate: int, pad: int) -> int:
    """Taps that meet data, of all places along an axis."""
    return sum(0 <= y * stride - pad + t * dilate < size for y in range(out) for t in range(kernel))


def pays(dot: Node, lanes: int, pixels: dict[int, int]) -> bool:
    """Whether this form has less work than tiles of neighbouring pixels. pixels: of a tile, by vectors of a panel."""
    a, (x, w) = dot.attrs, dot.args
    if x.ndim != 4 or x.shape[0] < 2:
        return False
    (lines, columns), vectors = a["out"], w.shape[-1] // lanes

    def work(tiles: Cut, wide: int = 1) -> int:
        return ((tiles.count - tiles.longer) * max(tiles.size * wide * vectors, BUSY)
                + tiles.longer * max((tiles.size + 1) * wide * vectors, BUSY))
    most = pixels[vectors]
    line = work(Cut.even(lines, most // columns), columns) if columns < most else lines * work(Cut.even(columns, most))
    met = math.prod(_met(*axis) for axis in zip(x.shape[1:3], a["out"], a["kernel"], a["stride"], a["dilate"],
                                                a["pads"]))
    return met * work(Cut.even(x.shape[0], most)) < GAIN * math.prod(a["kernel"]) * x.shape[0] * line


class Images(Direct):
    """Prints one convolution. Images are put together so that neighbours in memory are the same place of all of
    them."""

    def print(self) -> Printed:
        """The kernel."""
        self.begin()
        # numbers from image to image
        self.step = self.c + 16 if self.c % CONFLICT == 0 else self.c
        self.rows, self.columns = 1, self.batch
        self.ty, self.tx = Cut.even(1, 1), Cut.even(self.batch, self.most)
        # taps that meet the image
        self.more = ["rows", "columns"]
        # runs of images that are put together at a time
        self.runs = self.together(self.batch * self.h * self.wide * self.step * 4, self.tx.count)
        self.room = min(self.runs * self.tx.largest, self.batch)
        self.scratch = 4 * self.room * self.h * self.wide * self.step + 256
        return self.printed([*self.micros(), self.head(), *self.body(), "}"])

    def micro(self, rows: int, columns: int, suffix: str, partial: list[int]) -> list[Stmt]:
        """The function of a tile of so many images."""
        # numbers from place to place, from tap to tap
        place, weights = self.room * self.step, self.deep * self.width
        loops = [f"for (long i = 0; i < rows; i++, X += {self.dy * self.wide * place}l, W += ({self.kw} - columns) "
                 f"* {weights}l) {{",
                 "for (long j = 0; j < columns; j++) {", f"const float *x = X + j * {self.dx * place}l;"]
        numbers = [f"x[q + {i * self.step}]" for i in range(columns)]
        return self.tile(f"{rows}x{columns}{suffix}", loops, self.deep, numbers,
                         [f"px0_ + {i * self.oh * self.ow}" for i in range(columns)], partial)

    def body(self) -> list[str]:
        """Runs of images put together; of these, all places and panels."""
        tiles, place, c, out = self.tx.count, self.h * self.wide, self.c, self.oh * self.ow
        omp = [f"    {self.parallel}"] if self.parallel else []
        small = math.prod(self.weights) * 4 <= SMALL_WEIGHTS
        at, o = (f"u / {self.panels}", f"u % {self.panels}") if small else ("u % count", "u / count")
        first = (f"(i0 * {self.dy} + oy * {self.sy} - {self.py}) * {self.wide} + j0 * {self.dx} + ox * {self.sx} - "
                 f"{self.px}")
        return ["  float *from = (float *)scratch;", f"  for (long part = 0; part < {tiles}; part += {self.runs}) {{",
                f"    const long end = part + {self.runs} < {tiles} ? part + {self.runs} : {tiles}, count = (end - "
                f"part) * {out};",
                f"    const long low = {self.tx.first('part')}, high = {self.tx.first('end')};",
                *omp, f"    for (long i = 0; i < (high - low) * {place}; i++) {{",
                f"      __builtin_memcpy(from + (i % {place} * {self.room} + i / {place}) * {self.step}l, {self.x} + "
                f"(low * {place} + i) * {c}l, {c * 4});", "    }",
                *omp, f"    for (long u = 0; u < count * {self.panels}; u++) {{",
                f"      const long v = {at}, o = {o}, oy = v / {self.ow} % {self.oh}, ox = v % {self.ow}, tx = part + "
                f"v / {out}, x = {self.tx.first('tx')};",
                *(f"      {self.taps(*axis)}" for axis in (("i", "oy", self.h, self.kh, self.sy, self.dy, self.py),
                                                           ("j", "ox", self.wide, self.kw, self.sx, self.dx, self.px))),
                f"      const float *X = from + (({first}) * {self.room} + x - low) * "
                f"{self.step}l{f' + o / {self.own_panels} * {self.deep}' if self.groups > 1 else ''},"
                f" *W = {self.w} + o * {math.prod(self.weights[1:])}l + (i0 * {self.kw} + j0) * "
                f"{self.deep * self.width}l;",
                "      const long rows = i1 - i0, columns = j1 - j0;",
                f"      const long px0_ = (x * {self.oh} + oy) * {self.ow} + ox, c0_ = {self.first_filter()};",
                *self.choice(), "    }", "  }"]
