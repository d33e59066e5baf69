"""Windows over channels-last data in C, a vector of channels at a time: pointers to a window's pixels, which beyond the
border are those of one line of a value, and a function that goes over all channels."""
from __future__ import annotations

from typing import Callable, Sequence

from hybrid.ir.stmt import Stmt

from .packed_form import Packed
from hybrid.codegen.loops import Printed
from hybrid.codegen.program.size_parameters import literal, more_declared, more_passed
from hybrid.codegen.nest import Cut, count, function


class Windows(Packed):
    """A form whose results are some neighbouring pixels of a line, ``tile`` of them, from windows of their own
    channels."""
    tile = 1
    beyond = "0"                        # what stands beyond the border, in C

    def windows(self, of_channels: Callable[[str, int], Sequence[Stmt]], how: str, parallel: str,
                weights: str = "") -> Printed:
        """The kernel. of_channels(load, partial): the results of one vector of channels; load: the expression of a
        pixel's vector, from its number; partial: as in ``finished``. how: attributes of a tile's function; parallel: a
        pragma for the loop over tiles; weights: their array, named W in a tile's function."""
        self.prepare()
        columns = sorted({t * self.sx + j * self.dx for t in range(self.tile) for j in range(self.kw)})
        self.column = {x: k for k, x in enumerate(columns)}
        line = 4 * (-(-self.c // self.lanes) * self.lanes)
        self.scratch = line + 64
        taken, given = ("const float *W, ", f"{weights}, ") if weights else ("", "")
        tile = function(f"{self.name}_tile",
                        f"const float *const *s, {taken}long px0_, {self.pointers}{more_declared()}",
                        self.over_channels(of_channels), how)
        tiles = Cut.overlapping(self.ow, self.tile)
        across = tiles.count
        body: list[Stmt] = [
            f"const long t = u % {across}, ox = {tiles.first('t')};",
            f"const long oy = u / {across} % {self.oh}, b = u / {across * self.oh};",
            f"const long y0 = oy * {self.sy} - {self.py}, x0 = ox * {self.sx} - {self.px};",
            *self._pointers(columns),
            f"{self.name}_tile(s, {given}(b * {self.oh} + oy) * {self.ow} + ox, {self.passed}{more_passed()});"]
        return self.printed([
            tile, self.head(), f"float *beyond = (float *)scratch; for (long i = 0; i < {line // 4}; i++) beyond[i] = "
            f"{self.beyond};", *([parallel] if parallel else []), count("u", self.batch * self.oh * across, body), "}"])

    def _pointers(self, columns: Sequence[int]) -> list[Stmt]:
        """Where the pixels of a tile's windows are: for each row of a window those of its columns."""
        size, rows, n = self.h * self.wide * self.c, self.kd * self.kh, len(columns)
        image = f"const float *image = {self.x} + b * {literal(size)}, *s[{rows * n}];"
        row, inside = [f"const long y = y0 + i * {self.dy};"], ""
        if self.volume:
            image = (f"const float *volume = {self.x} + b / {self.planes} * {literal(size * self.layers)}, "
                     f"*s[{rows * n}]; const long z0 = b % {self.planes} * {self.sz} - {self.pz};")
            row = [f"const long y = y0 + i % {self.kh} * {self.dy}, z = z0 + i / {self.kh} * {self.dz};",
                   f"const float *image = volume + z * {literal(size)};"]
            inside = f"z >= 0 && z < {self.layers} && "
        pixels = [f"s[i * {n} + {k}] = {inside}{self.inside('y', f'x0 + {x}')} ? image + (y * {self.wide} + x0 + {x}) "
                  f"* {self.c} : beyond;" for k, x in enumerate(columns)]
        return [image, count("i", rows, [*row, *pixels])]
