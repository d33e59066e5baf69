"""Winograd's convolutions F(m x m, 3x3) in C (hybrid/ir/packed.py): a strip of tiles is transformed, multiplied by the
transformed weights as (m + 2)² products of matrices, and transformed back, where the kernel's epilogue follows.
"""
from __future__ import annotations

from hybrid.ir.winograd import TILES, square

from .blocked import PIXELS, Packed, split
from .loops import Printed
from .transforms import backward, forward

STRIP = 1 << 19                  # bytes of transformed data of a strip and of its products


class Winograd(Packed):
    """Prints one convolution."""

    def print(self) -> Printed:
        """The kernel."""
        self.prepare()
        _, self.panels, _, self.width = self.weights
        L = self.lanes
        self.nv = self.width // L
        self.m = TILES[self.dot.attrs["form"]]
        self.at, _, self.bt = square(self.dot.attrs["form"])
        self.side = self.m + 2
        self.points = self.side ** 2
        self.th, self.tw = -(-self.oh // self.m), -(-self.ow // self.m)
        self.tiles = self.batch * self.th * self.tw
        self.vs, self.ms = -(-self.c // L) * L + L, self.panels * self.width + L            # numbers from tile to tile: never a power of two
        most = max(STRIP // (4 * self.points * (self.vs + self.ms)), 28)
        self.strips, self.strip, self.longer = split(self.tiles, most)
        self.cells = PIXELS[28 if self.target.accumulators >= 28 else 12][self.nv]
        room = self.strip + (self.longer > 0)
        self.v_bytes, self.m_bytes = 4 * self.points * room * self.vs, 4 * self.points * room * self.ms
        self.zeros = 4 * (-(-self.c // L) * L)
        self.scratch = self.v_bytes + self.m_bytes + self.zeros + 256
        self.sizes = sorted({s + extra for n in {self.strip, room} for _, s, more in [split(n, self.cells)] for extra in ((0, 1) if more else (0,))})
        return self.printed([*(line for p in self.sizes for line in self.micro(p)), *self.forward(), *self.backward(), self.head(), *self.body(), "}"])

    def micro(self, pixels: int) -> list[str]:
        """Some tiles times a panel, in registers."""
        L = self.lanes
        each = [(i, j) for i in range(pixels) for j in range(self.nv)]
        return [f"static __attribute__((noinline)) void {self.name}_{pixels}(const float *x, const float *W, float *to) {{",
                "  " + " ".join(f"hy_v s{i}_{j} = {{0}};" for i, j in each),
                f"  for (long q = 0; q < {self.c}; q++, W += {self.width}) {{",
                "    " + " ".join(f"const hy_v w{j} = HYV_LOAD(W + {j * L});" for j in range(self.nv)),
                *(f"    {{ const hy_v a = HYV_B(x[q + {i * self.vs}]); {' '.join(f's{i}_{j} += a * w{j};' for j in range(self.nv))} }}" for i in range(pixels)),
                "  }", "  " + " ".join(f"HYV_STORE(to + {i * self.ms + j * L}, s{i}_{j});" for i, j in each), "}"]

    def forward(self) -> list[str]:
        """Bᵀ d B of one tile, all channels."""
        L, n = self.lanes, self.side
        whole, rest = self.c // L * L, self.c % L

        def block(load: str) -> list[str]:
            out = [f"hy_v t[{self.points}];"]
            for i in range(n):                                       # along lines
                out += ["{ " + " ".join(f"const hy_v d{j} = {load.format(i * n + j)};" for j in range(n)), *("  " + s for s in forward(self.bt)),
                        "  " + " ".join(f"t[{i * n + j}] = v{j};" for j in range(n)) + " }"]
            for j in range(n):
                out += ["{ " + " ".join(f"const hy_v d{i} = t[{i * n + j}];" for i in range(n)), *("  " + s for s in forward(self.bt)),
                        "  " + " ".join(f"HYV_STORE(to + {i * n + j} * step + c, v{i});" for i in range(n)) + " }"]
            return out
        out = [f"static __attribute__((noinline)) void {self.name}_in(const float *const *s, float *to, long step) {{"]
        if whole:
            out += [f"  for (long c = 0; c < {whole}; c += {L}) {{", *("    " + line for line in block("HYV_LOAD(s[{}] + c)")), "  }"]
        if rest:
            out += [f"  {{ const long c = {whole}; const hy_m mk = HYV_FIRST({rest});", *("    " + line for line in block("HYV_LOADM(mk, s[{}] + c)")), "  }"]
        return [*out, "}"]

    def backward(self) -> list[str]:
        """Aᵀ m A of one tile for one vector of filters, and the epilogue at its pixels."""
        L = self.lanes
        out = [f"static __attribute__((noinline)) void {self.name}_out(const float *m, long step, long px0_, long right, long below, {self.pointers}) {{"]
        whole, rest = self.filters // L * L, self.filters % L
        if whole:
            out += [f"  for (long c0_ = 0; c0_ < {whole}; c0_ += {L}) {{", *("    " + s for s in self._vector(0)), "  }"]
        if rest:
            out += [f"  {{ const long c0_ = {whole};", *("    " + s for s in self._vector(rest)), "  }"]
        return [*out, "}"]

    def _vector(self, partial: int) -> list[str]:
        n, m = self.side, self.m
        out = [f"hy_v e[{n * m}], y[{m * m}];"]
        for i in range(n):
            out += ["{ " + " ".join(f"const hy_v m{j} = HYV_LOAD(m + {n * i + j} * step + c0_);" for j in range(n)), *("  " + s for s in backward(self.at)),
                    "  " + " ".join(f"e[{i * m + j}] = z{j};" for j in range(m)) + " }"]
        for j in range(m):
            out += ["{ " + " ".join(f"const hy_v m{i} = e[{i * m + j}];" for i in range(n)), *("  " + s for s in backward(self.at)),
                    "  " + " ".join(f"y[{i * m + j}] = z{i};" for i in range(m)) + " }"]
        if self.oh % m == 0 and self.ow % m == 0:
            return [*out, *self.finished(0, [(f"px0_ + {i * self.ow + j}", f"y[{i * m + j}]") for i in range(m) for j in range(m)], partial)]
        for i in range(m):
            for j in range(m):
                test = " && ".join([*([f"below > {i}"] if i else []), *([f"right > {j}"] if j else [])])
                out += [*([f"if ({test}) {{"] if test else []), *self.finished(0, [(f"px0_ + {i * self.ow + j}", f"y[{i * m + j}]")], partial), *(["}"] if test else [])]
        return out

    def body(self) -> list[str]:
        """Strip by strip: forward, a product for each point, back."""
        longest = self.strip + (self.longer > 0)
        omp, n, m = self.parallel, self.side, self.m
        tests = f"below = {self.oh} - oy, right = {self.ow} - ox"
        place = f"const long t = first + i, b = t / {self.th * self.tw}, oy = t / {self.tw} % {self.th} * {m}, ox = t % {self.tw} * {m};"
        out = [f"  float *V = (float *)scratch, *M = (float *)((char *)scratch + {self.v_bytes}), *zeros = (float *)((char *)scratch + {self.v_bytes + self.m_bytes});",
               f"  for (long i = 0; i < {self.zeros // 4}; i++) zeros[i] = 0;",
               f"  for (long strip = 0; strip < {self.strips}; strip++) {{",
               f"    const long first = strip * {self.strip} + (strip < {self.longer} ? strip : {self.longer}), count = {self.strip} + (strip < {self.longer});",
               *([omp] if omp else []), "    for (long i = 0; i < count; i++) {", f"      {place} const float *s[{self.points}];",
               f"      for (long a = 0; a < {self.points}; a++) {{",
               f"        const long y = oy + a / {n} - {self.py}, x = ox + a % {n} - {self.px};",
               f"        s[a] = y >= 0 && y < {self.h} && x >= 0 && x < {self.wide} ? {self.x} + ((b * {self.h} + y) * {self.wide} + x) * {self.c} : zeros;", "      }",
               f"      {self.name}_in(s, V + i * {self.vs}, {longest * self.vs});", "    }",
               *([omp] if omp else []), f"    for (long u = 0; u < {self.points * self.panels}; u++) {{",
               f"      const float *W = {self.w} + u * {self.c * self.width}l, *v = V + u / {self.panels} * {longest * self.vs}l;",
               f"      float *m = M + u / {self.panels} * {longest * self.ms}l + u % {self.panels} * {self.width};", *("      " + s for s in self.products()), "    }",
               *([omp] if omp else []), "    for (long i = 0; i < count; i++) {",
               f"      {place} const long {tests};",
               f"      {self.name}_out(M + i * {self.ms}, {longest * self.ms}, (b * {self.oh} + oy) * {self.ow} + ox, right, below, {self.passed});", "    }", "  }"]
        return out

    def products(self) -> list[str]:
        """All tiles of a strip times a panel."""
        out = []
        for n in dict.fromkeys([self.strip + (self.longer > 0), self.strip]):
            parts, size, more = split(n, self.cells)
            calls = ["  long i = 0;", *([f"  for (; i < {more * (size + 1)}; i += {size + 1}) {self.name}_{size + 1}(v + i * {self.vs}, W, m + i * {self.ms});"] if more else []),
                     f"  for (; i < {n}; i += {size}) {self.name}_{size}(v + i * {self.vs}, W, m + i * {self.ms});"]
            out += [f"if (count == {n}) {{", *calls, "}"]
        return out
