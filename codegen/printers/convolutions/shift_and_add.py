"""Convolutions of padded images in C without multiplying the padding: each pixel's products with all filters are
added where they belong (the data gradient of a convolution, small images with a border).

Vectors hold pixels of the image, numbered through; a tile is the filters of one line of the kernel. Its sums are
moved by 0, 1, … places and added to the lines of the result, which stays in a thread's memory until it is whole.
"""
from __future__ import annotations

import math
from hybrid.base.records import dataclass
from hybrid.ir.index import Ix, Var, linear, text, var, variables
from hybrid.ir.size import hint, may_exceed
from hybrid.ir.stmt import For, Scope, Stmt

from hybrid.codegen.program import local
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, decode, flat
from hybrid.codegen.dialect import PARALLEL
from . import padded_operand
from .padded_operand import Axis, axis
from .pixels_in_lanes import OWN_IMAGE, PixelsInLanes
from hybrid.codegen.block import level, nested
from hybrid.codegen.nest import Sums, count, function
from hybrid.codegen.printers.products.operand import root_index
from hybrid.codegen.lanes import Refused


@dataclass
class ShiftTile:
    """``group`` filters together, ``nv`` vectors of pixels, ``tiles`` of them in an image."""
    group: int
    nv: int
    tiles: int
    cost: float


class ShiftAndAdd(PixelsInLanes):
    """Prints one kernel; ``tile.cost`` says whether it is worth it."""

    def prepare(self) -> None:
        """Find the parts and the tile; Refused where it is not of this form."""
        if self.lanes != 16:
            raise Refused("masks at run time")
        self.m, self.image = self._roles()
        self._check()
        if self.image is None or self.image.node.prim != "pad" or self.image.node.attrs["value"] or self.step != 1:
            raise Refused("no padded picture, or a stride")
        self.around = [v for v in [*self.m.batch, *self.m.columns] if v not in (self.x, self.y)]
        self._axes()
        self.tile = self.choose()

    def _axes(self) -> None:
        assert self.image is not None
        wide = self.image.node
        self.source, at, taps = wide.args[0], self.image.at, set()
        self.at: list[Ix] = list(at)
        self.spatial: dict[str, Axis] = {}
        for a, x in enumerate(at):
            lo, hi = wide.attrs["lo"][a], wide.attrs["hi"][a]
            found = {v for v in (self.x, self.y) if v is not None and v in variables(x)}
            if not found:
                if lo or hi:
                    raise Refused("padding of other axes")
                continue
            name = "x" if self.x in found else "y"
            one = axis(x, found, self.m.depth, self.source.shape[a], lo)
            if one is None or one.stride != 1 or name in self.spatial:
                raise Refused("pixels that are not index + tap * dilation")
            self.spatial[name] = one
            taps |= {one.tap}
            self.at[a] = var(Var(f"s{name}", self.source.shape[a]))
        if "x" not in self.spatial:
            raise Refused("no lines")
        self.spatial.setdefault("y", Axis(None, None, 1, 1, 1, 0))
        self.channels = [v for v in self.m.depth if v not in taps]
        if any(variables(x) & taps for a, x in enumerate(self.at)):                       # type: ignore[operator]
            raise Refused("a place in the kernel that is of several axes")

    # ---- the tile
    def choose(self) -> ShiftTile:
        """As many filters and pixels as the registers hold."""
        x, y, rows = self.spatial["x"], self.spatial["y"], self.rows.extent
        pixels, depth = x.size * y.size, math.prod(v.extent for v in self.channels)
        vectors, best = -(-pixels // self.lanes), None
        for nv in range(1, 5):
            tiles = -(-vectors // nv)
            groups = [g for g in range(1, rows + 1) if rows % g == 0 and g * nv * x.taps <= self.target.accumulators]
            if not groups:
                continue
            g = groups[-1]
            each, lines = x.taps * g * nv, -(-x.pixels // self.lanes)
            cost = rows // g * y.taps * (tiles * (depth * max(each, nv * 2 + x.taps * g / 2, 8) + each * 2
                                                  + 20) + g * y.size * lines * (x.taps * 1.5 + 3))
            cost += rows * y.pixels * lines * 3 + depth * vectors * 3
            if best is None or cost < best.cost:
                best = ShiftTile(g, nv, tiles, cost)
        if best is None:
            raise Refused("no tile fits the registers")
        self.line = -(-x.pixels // self.lanes) * self.lanes
        self.panel = best.tiles * best.nv * self.lanes                                  # pixels of a channel
        if max(rows * y.pixels * self.line, depth * self.panel) * 4 > OWN_IMAGE:
            raise Refused("a picture that does not fit on the stack")
        return best

    # ---- text
    def _stride(self, v: Var | None) -> int:
        return (self.m.a.stride(v) or 0) if v is not None else 0

    def micro(self) -> Stmt:
        """The tile: products of all channels, summed."""
        t, L, x = self.tile, self.lanes, self.spatial["x"]
        places = [g * self._stride(self.rows) + (x.taps - 1 - tap) * self._stride(x.tap)
                  for g in range(t.group) for tap in range(x.taps)]
        sums = Sums([f"HYV_B(filters[{at}])" for at in places], [f"HYV_LOAD(pixels + {j * L})" for j in range(t.nv)])
        a = " + ".join(["A", *(f"{v.name} * {self._stride(v)}l" for v in self.channels)])
        b = " + ".join(["B", *(f"{v.name} * {s}l" for v, s in zip(self.channels, self._pixel_steps()))])
        step = Scope((f"const float *filters = {a}, *pixels = {b};", *sums.step()))
        return function(f"{self.name}_tile", "const float *A, const float *B, float *to",
                        [*sums.zero(), *nested(self.channels, [step]),
                         *sums.write("to", self.panel, L)])

    def _in_place(self) -> Ix | None:
        """The address of the image's elements where a channel's pixels are read in memory as they are."""
        if self.source not in self.reads:
            return None
        at = linear(self.source.shape, self.at)
        sizes = [self.spatial[n].size for n in "yx"]
        ones = [dict(at.terms).get(Var(f"s{n}", d)) for n, d in zip("yx", sizes)]
        plain = math.prod(sizes) == self.panel and (sizes[0] == 1
                                                    or ones[0] == sizes[1]) and (sizes[1] == 1 or ones[1] == 1)
        return at if plain and all(isinstance(v, Var) for v, _ in at.terms) else None

    def _pixel_steps(self) -> list[int]:
        at = self._in_place()
        if at is not None:
            return [dict(at.terms).get(v, 0) for v in self.channels]
        return [flat(self.channels).terms and dict(flat(self.channels).terms).get(v, 0) * self.panel  # type: ignore[misc]  # noqa: E501
                for v in self.channels]

    def _pixels(self) -> tuple[list[Stmt], str]:
        """Statements that put the image's pixels together, and where they are."""
        at, (sy, sx) = self._in_place(), (Var(f"s{n}", self.spatial[n].size) for n in "yx")
        if at is not None:
            base = Ix(at.const, tuple((v, c) for v, c in at.terms if v not in {*self.channels, sy, sx}))
            return [], f"({self.reads[self.source]} + {text(base)})"
        size, depth = sy.extent * sx.extent, math.prod(v.extent for v in self.channels)
        zero = count("c", depth, [count("z", self.panel, [f"panel[c * {self.panel} + z] = 0;"], first=size)])
        fill = padded_operand.write(
            self.source, tuple(self.at), [*self.channels, sy, sx], "panel",
            (*(v.extent for v in self.channels), self.panel), (*map(var, self.channels), var(sy) * sx.extent + var(sx)),
            self.reads, self.lanes, self.around)
        panel = local.array("float", "panel", depth * self.panel)
        return [panel, *([zero] if size < self.panel else []), *fill], "panel"

    def body(self) -> list[Stmt]:
        """The loop over images, and within it filters, lines of the kernel, tiles of pixels."""
        t, x, y, rows = self.tile, self.spatial["x"], self.spatial["y"], self.rows.extent
        images = math.prod(v.extent for v in self.around)
        work = images * rows * x.taps * y.taps * x.size * y.size * math.prod(v.extent for v in self.channels)
        size = rows * y.pixels * self.line
        fill, pixels = self._pixels()
        taps: list[Stmt] = [
                local.array("float", "acc", x.taps * t.group * self.panel),
                f"const float *A = {self.filters()} + mb * {self._stride(self.rows)}l + ({y.taps - 1} - i) * "
                f"{self._stride(y.tap)}l;",
                count("t", self.panel, [f"{self.name}_tile(A, {pixels} + t, acc + t);"], t.nv * self.lanes),
                *self._add()]
        inner = [local.array("float", "sums", size), count("z", size, ["sums[z] = 0;"]), *fill,
                 count("mb", rows, [count("i", y.taps, taps)], t.group), *self._root()]
        pragma = where_it_pays(PARALLEL, work, hint(work), PARALLEL_WORK) if may_exceed(images, 1) else ""
        return [self.head(), For("g", Ix(), Ix(images), (*decode("g", self.around), *inner), 1, pragma), "}"]

    def _add(self) -> list[str]:
        """The tile's sums, moved, added to the lines of the result."""
        t, x, y, L = self.tile, self.spatial["x"], self.spatial["y"], self.lanes
        shift = f"i * {y.dilation} - ({y.shift})"
        out = [f"const long dy = {shift}, first = dy < 0 ? -dy : 0, last = {y.pixels} - dy < {y.size} ? "
               f"{y.pixels} - dy : {y.size};",
               f"for (long f = 0; f < {t.group}; f++) for (long s = first; s < last; s++) {{",
               f"  float *to = sums + ((mb + f) * {y.pixels} + s + dy) * {self.line}; const float *a = acc + f * "
               f"{x.taps * self.panel} + s * {x.size};"]
        for at in range(0, self.line, L):
            parts = []
            for tap in range(x.taps):
                move = tap * x.dilation - x.shift
                low, high = max(0, move - at), min(L, x.size + move - at, x.pixels - at)
                if low < high:
                    parts.append(f"v += HYV_LOADM(HYV_RANGE({low}, {high}), a + {tap * self.panel + at - move});")
            if parts:
                out.append(f"  {{ hy_v v = HYV_LOAD(to + {at}); {' '.join(parts)} HYV_STORE(to + {at}, v); }}")
        return [*out, "}"]

    def _root(self) -> list[Stmt]:
        """The kernel's root from the whole sums."""
        x, y = self.spatial["x"].pixel, self.spatial["y"].pixel
        assert x is not None
        line = text(var(self.rows) * self.spatial["y"].pixels + (var(y) if y else Ix()))
        return self.results(root_index(self.k, self.m.dot_index), [level(self.rows), level(y)], x,
                            f"HYV_LOAD(sums + ({line}) * {self.line} + {x.name})", self.around)
