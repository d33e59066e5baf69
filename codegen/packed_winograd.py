"""Winograd's convolution F(2x2, 3x3) in C (hybrid/ir/packed.py): a strip of tiles is transformed, multiplied by the
transformed weights as 16 products of matrices, and transformed back, where the kernel's epilogue follows.
"""
from __future__ import annotations

from .blocked import PIXELS, Packed, split
from .loops import Printed

STRIP = 1 << 19                  # bytes of transformed data of a strip and of its products


class Winograd(Packed):
    """Prints one convolution."""

    def print(self) -> Printed:
        """The kernel."""
        self.prepare()
        _, self.panels, _, self.width = self.weights
        L = self.lanes
        self.nv = self.width // L
        self.th, self.tw = -(-self.oh // 2), -(-self.ow // 2)
        self.tiles = self.batch * self.th * self.tw
        self.vs, self.ms = -(-self.c // L) * L + L, self.panels * self.width + L            # numbers from tile to tile: never a power of two
        most = max(STRIP // (64 * (self.vs + self.ms)), 28)
        self.strips, self.strip, self.longer = split(self.tiles, most)
        self.cells = PIXELS[28 if self.target.accumulators >= 28 else 12][self.nv]
        room = self.strip + (self.longer > 0)
        self.v_bytes, self.m_bytes = 64 * room * self.vs, 64 * room * self.ms
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
        L = self.lanes
        whole, rest = self.c // L * L, self.c % L
        names = [f"d{i}{j}" for i in range(4) for j in range(4)]

        def block(load: str) -> list[str]:
            out = [f"hy_v {', '.join(f'{n} = {load.format(i)}' for i, n in enumerate(names))};"]
            for i in range(4):                                       # along lines
                a, b, c, d = (f"d{i}{j}" for j in range(4))
                out.append(f"{{ const hy_v a = {a} - {c}, b = {b} + {c}, c = {c} - {b}, d = {b} - {d}; {a} = a; {b} = b; {c} = c; {d} = d; }}")
            for j in range(4):
                a, b, c, d = (f"d{i}{j}" for i in range(4))
                out.append(" ".join(f"HYV_STORE(to + {at * 4 + j} * step + c, {value});" for at, value in enumerate([f"{a} - {c}", f"{b} + {c}", f"{c} - {b}", f"{b} - {d}"])))
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
        out = [f"static __attribute__((noinline)) void {self.name}_out(const float *m, long step, long px0_, int right, int below, {self.pointers}) {{"]
        whole, rest = self.filters // L * L, self.filters % L
        if whole:
            out += [f"  for (long c0_ = 0; c0_ < {whole}; c0_ += {L}) {{", *("    " + s for s in self._vector(0)), "  }"]
        if rest:
            out += [f"  {{ const long c0_ = {whole};", *("    " + s for s in self._vector(rest)), "  }"]
        return [*out, "}"]

    def _vector(self, partial: int) -> list[str]:
        out = [f"hy_v {', '.join(f'd{i}{j} = HYV_LOAD(m + {4 * i + j} * step + c0_)' for i in range(4) for j in range(4))};"]
        out += [f"const hy_v e{i}0 = d{i}0 + d{i}1 + d{i}2, e{i}1 = d{i}1 - d{i}2 - d{i}3;" for i in range(4)]
        out += [f"const hy_v y0{j} = e0{j} + e1{j} + e2{j}, y1{j} = e1{j} - e2{j} - e3{j};" for j in range(2)]
        if self.oh % 2 == 0 and self.ow % 2 == 0:
            return [*out, *self.finished(0, [(f"px0_ + {i * self.ow + j}", f"y{i}{j}") for i in range(2) for j in range(2)], partial)]
        for i in range(2):
            for j in range(2):
                test = " && ".join([*(["below"] if i else []), *(["right"] if j else [])])
                out += [*([f"if ({test}) {{"] if test else []), *self.finished(0, [(f"px0_ + {i * self.ow + j}", f"y{i}{j}")], partial), *(["}"] if test else [])]
        return out

    def body(self) -> list[str]:
        """Strip by strip: forward, 16 products, back."""
        longest = self.strip + (self.longer > 0)
        omp = self.parallel
        tests = f"below = oy + 1 < {self.oh}, right = ox + 1 < {self.ow}"
        place = f"const long t = first + i, b = t / {self.th * self.tw}, oy = t / {self.tw} % {self.th} * 2, ox = t % {self.tw} * 2;"
        out = [f"  float *V = (float *)scratch, *M = (float *)((char *)scratch + {self.v_bytes}), *zeros = (float *)((char *)scratch + {self.v_bytes + self.m_bytes});",
               f"  for (long i = 0; i < {self.zeros // 4}; i++) zeros[i] = 0;",
               f"  for (long strip = 0; strip < {self.strips}; strip++) {{",
               f"    const long first = strip * {self.strip} + (strip < {self.longer} ? strip : {self.longer}), count = {self.strip} + (strip < {self.longer});",
               *([omp] if omp else []), "    for (long i = 0; i < count; i++) {", f"      {place} const float *s[16];",
               "      for (long a = 0; a < 16; a++) {",
               f"        const long y = oy + a / 4 - {self.py}, x = ox + a % 4 - {self.px};",
               f"        s[a] = y >= 0 && y < {self.h} && x >= 0 && x < {self.wide} ? {self.x} + ((b * {self.h} + y) * {self.wide} + x) * {self.c} : zeros;", "      }",
               f"      {self.name}_in(s, V + i * {self.vs}, {longest * self.vs});", "    }",
               *([omp] if omp else []), f"    for (long u = 0; u < {16 * self.panels}; u++) {{",
               f"      const float *W = {self.w} + u * {self.c * self.width}l, *v = V + u / {self.panels} * {longest * self.vs}l;",
               f"      float *m = M + u / {self.panels} * {longest * self.ms}l + u % {self.panels} * {self.width};", *("      " + s for s in self.products()), "    }",
               *([omp] if omp else []), "    for (long i = 0; i < count; i++) {",
               f"      {place} const int {tests};",
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
