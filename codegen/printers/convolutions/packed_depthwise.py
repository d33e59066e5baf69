"""One filter a channel (depthwise convolutions) in C, channels last (hybrid/ir/packed.py): a vector holds channels;
some neighbouring pixels of a line share what they read.
"""
from __future__ import annotations

from typing import Iterable, Sequence

from .blocked import Packed
from hybrid.codegen.loops import Printed
from hybrid.codegen.program.size_parameters import more_declared, more_passed

TILE = 4                         # pixels that are computed together
LONG = 9                         # columns of a row of weights that are held in registers


class Depthwise(Packed):
    """Prints one convolution."""

    def print(self) -> Printed:
        """The kernel."""
        self.prepare()
        self.room = self.weights[-1]
        self.tile = min(TILE, self.ow) if self.target.accumulators >= 28 else min(2, self.ow)
        self.span = (self.tile - 1) * self.sx + (self.kw - 1) * self.dx + 1
        self.columns = sorted({t * self.sx + j * self.dx for t in range(self.tile) for j in range(self.kw)})
        zeros = 4 * (-(-self.c // self.lanes) * self.lanes)
        self.scratch = zeros + 64
        rows, inside = self.kd * self.kh, f"z >= 0 && z < {self.layers} && " if self.volume else ""
        count = rows * len(self.columns)
        across = -(-self.ow // self.tile)
        omp = self.parallel
        body = [f"  float *zeros = (float *)scratch; for (long i = 0; i < {zeros // 4}; i++) zeros[i] = 0;",
                *([omp] if omp else []),
                f"  for (long u = 0; u < {self.batch * self.oh * across}; u++) {{",
                f"    const long t = u % {across} * {self.tile}, ox = t < {self.ow - self.tile} ? t : "
                f"{self.ow - self.tile};",
                f"    const long oy = u / {across} % {self.oh}, b = u / {across * self.oh};",
                f"    const long y0 = oy * {self.sy} - {self.py}, x0 = ox * {self.sx} - {self.px};",
                *self._planes(rows, count),
                *(f"      s[i * {len(self.columns)} + {k}] = {inside}y >= 0 && y < {self.h} && x0 + {x} >= 0 && x0 + "
                  f"{x} < {self.wide}"
                  f" ? image + (y * {self.wide} + x0 + {x}) * {self.c} : zeros;"
                  for k, x in enumerate(self.columns)),
                "    }", f"    {self.name}_tile(s, {self.w}, (b * {self.oh} + oy) * {self.ow} + ox, "
                f"{self.passed}{more_passed()});",
                "  }"]
        return self.printed([*self.micro(), self.head(), *body, "}"])

    def _planes(self, rows: int, count: int) -> list[str]:
        """The image of a plane of results, and for each row of weights the line that it reads."""
        size = self.h * self.wide * self.c
        if not self.volume:
            return [f"    const float *image = {self.x} + b * {size}l, *s[{count}];",
                    f"    for (long i = 0; i < {rows}; i++) {{", f"      const long y = y0 + i * {self.dy};"]
        return [f"    const float *volume = {self.x} + b / {self.planes} * {size * self.layers}l, *s[{count}]; const "
                f"long z0 = b % {self.planes} * {self.sz} - {self.pz};",
                f"    for (long i = 0; i < {rows}; i++) {{",
                f"      const long y = y0 + i % {self.kh} * {self.dy}, z = z0 + i / {self.kh} * {self.dz}; const "
                f"float *image = volume + z * {size}l;"]

    def micro(self) -> list[str]:
        """All channels of a tile."""
        n = len(self.columns)

        def weights(i: int, columns: Iterable[int]) -> str:
            return " ".join(f"const hy_v w{j} = HYV_LOAD(W + {(i * self.kw + j) * self.room} + c0_);" for j in columns)

        def block(load: str, partial: int) -> list[str]:
            out = [" ".join(f"hy_v s{t} = {{0}};" for t in range(self.tile))]
            for i in range(self.kd * self.kh):
                # those of a long row are loaded where they are used first
                loaded: Sequence[int] = range(self.kw) if self.kw <= LONG else []
                out.append("{ " + weights(i, loaded))
                for k, x in enumerate(self.columns):
                    uses = [(t, j) for t in range(self.tile) for j in range(self.kw) if t * self.sx + j * self.dx == x]
                    first = [j for t, j in uses if j not in loaded]
                    loaded = [*loaded, *first]
                    out.append(f"  {weights(i, first)} {{ const hy_v a = {load.format(i * n + k)}; "
                               f"{' '.join(f's{t} += a * w{j};' for t, j in uses)} }}")
                out.append("}")
            return [*out, *self.finished(0, [(f"px0_ + {t}", f"s{t}") for t in range(self.tile)], partial)]
        out = [f"static __attribute__((noinline)) void {self.name}_tile(const float *const *s, const float *W, long "
               f"px0_, {self.pointers}{more_declared()}) {{"]
        return [*out, *self.over_channels(block), "}"]
