"""Contractions of a few rows with columns that lie along the depth: dot products of vectors, some columns at a time."""
from __future__ import annotations

import math

from hybrid.ir.index import Ix, Var
from hybrid.ir.stmt import lines

from hybrid.codegen.emit import loop_nest
from hybrid.codegen.program import local
from hybrid.codegen import partial_sums
from .operand import Matmul
from .packing import Panels, threads
from hybrid.codegen.schedule.tiling import Target, inner_name

MOST_ROWS = 14                  # of a tile of dot products
MOST_COPIED = 256 << 10         # bytes of rows that are copied so that they lie along the depth
# bytes of columns that do not stay in the second cache: asked for AHEAD bytes before they are read
FAR = 256 << 10
AHEAD = 8 << 10
DEEP = 4 * partial_sums.TERMS   # steps of a depth before the sums go into totals
FINISH = 5                      # cycles from a vector of sums to a stored result


class Dots(Panels):
    """What a Contraction prints where dot products are its form."""
    target: Target

    def _dots_tile(self, m: Matmul) -> int:
        """Columns that are done together: sums of whole vectors, where rows are more than one."""
        rows, columns, _ = m.sizes
        most = self.target.accumulators - (2 if self.target.accumulators > 12 else 1)
        together = 4 if rows == 1 else (self.lanes // rows or (most - rows) // rows or 1)
        return max(1, min(together, (most + 2 - rows) // rows, columns))

    def _dots_cost(self, m: Matmul) -> float | None:
        """Cycles of dot products; None where they are not possible."""
        rows, columns, depth = m.sizes
        if not (rows <= MOST_ROWS and (columns > 1 or rows == 1) and depth >= self.lanes and len(m.depth) == 1
                and len(m.columns) <= 1 and len(m.rows) <= 1
                and m.b.stride(m.depth[0]) == 1 and (not m.columns or m.b.stride(m.columns[0]) is not None)):
            return None
        if m.a.address is None or m.a.stride(m.depth[0]) is None or m.rows and m.a.stride(m.rows[0]) is None:
            return None
        copied = m.a.stride(m.depth[0]) != 1
        if copied and rows * depth * self.d.itemsize > MOST_COPIED or self.target.accumulators <= 12 and rows > 6:
            return None
        unroll = self._dots_tile(m)
        step = max(rows * unroll / 2, (rows + unroll) / 2, 4)
        return -(-columns // unroll) * (-(-depth // self.lanes) * step
                                        + rows * unroll * FINISH) + (rows * depth if copied else 0)

    def _dots(self, m: Matmul) -> str:
        rows, columns, depth = m.sizes
        unroll = self._dots_tile(m)
        n = m.columns[0] if m.columns else Var("n_0", 1)
        row = m.rows[0] if m.rows else Var("m_0", 1)
        share = threads(math.prod(v.extent for v in m.batch) * rows * columns * depth)
        few = columns < 64                                 # then threads share batches
        if self.k.once and columns % unroll:
            self.begin = {n: f"nt * {unroll} - nb"}
        cell = f"acc[{inner_name(row)} * {unroll} + {inner_name(n)}]"
        body = [f"long nb = nt * {unroll} < {columns - unroll} ? nt * {unroll} : {columns - unroll};",
                f"{self.T} acc[{-(-rows * unroll // self.lanes) * self.lanes}] __attribute__((aligned(64)));",
                *self._dot_body(m, row, n, rows, unroll, depth),
                *self._epilogue(m, {row: (rows, "0"), n: (unroll, "nb")}, lambda: cell)]
        loop = [*self._dots_rows(m, row, rows, depth), *([share] if share and not few else []),
                f"for (long nt = 0; nt < {-(-columns // unroll)}; nt++) {{", *body, "}"]
        nest = loop_nest(m.batch, loop, share if few else "")
        return "\n".join([self._head(), *self.outside, *nest, "}"])

    def _dots_rows(self, m: Matmul, row: Var, rows: int, depth: int) -> list[str]:
        """The rows: where they are, or copied."""
        k = m.depth[0]
        base = self._base(m.a, {row: Ix()}, m)
        sm, sk = m.a.stride(row) or 0, m.a.stride(k)
        if sk == 1:
            return [f"const {self.T} *A = {base};"]
        return [local.array(self.T, "A", rows * depth, self.d.itemsize),
                f"{{ const {self.T} *a = {base}; for (long k = 0; k < {depth}; k++) for (long i = 0; i < {rows}; "
                f"i++) A[i * {depth} + k] = a[k * {sk}l + i * {sm}l]; }}"]

    def _dot_body(self, m: Matmul, row: Var, n: Var, rows: int, unroll: int, depth: int) -> list[str]:
        k, L = m.depth[0], self.lanes
        sm = (m.a.stride(row) or 0) if m.a.stride(k) == 1 else depth
        sn = m.b.stride(n) or 0
        cells = [(i, j) for i in range(rows) for j in range(unroll)]
        deep = partial_sums.in_blocks("sum", self.d, depth // L // (DEEP // partial_sums.TERMS))
        zero = "{{0}}" if L > 1 else "{0}"
        out = [f"const {self.T} *B = {self._base(m.b, {row: Ix(), n: Ix()}, m)} + nb * {sn}l;",
               " ".join(f"{self.V} s{i}_{j} = {{0}};" for i, j in cells),
               *([f"{self.V} total[{len(cells)}] = {zero}, lost[{len(cells)}] = {zero};"] if deep else [])]
        steps = []
        if rows > 1 and n.extent * depth * self.d.itemsize > FAR:
            ahead = max(unroll * sn, AHEAD // self.d.itemsize if sn == depth else 0)
            steps.append(" ".join(f"__builtin_prefetch(B + {j * sn + ahead}l + k);" for j in range(unroll)))
        steps += self._dot_step(rows, unroll, sm, sn, "")
        flush = [self._flushed(f"s{i}_{j}", c) for c, (i, j) in enumerate(cells)] if deep else []
        out += lines(partial_sums.iterations("k", 0, depth - depth % L, L, steps, DEEP, flush))
        # the last vector overlaps the one before it, whose part counts as zero
        if depth % L:
            some = ", ".join("0" if i < L - depth % L else "-1" for i in range(L))
            out += [f"{{ const long k = {depth - L}; const m{self.V[1:]} some = {{{some}}};",
                    *self._dot_step(rows, unroll, sm, sn, "some"), "}"]
        if deep:
            out += [self._total(f"s{i}_{j}", c) for c, (i, j) in enumerate(cells)]
        if len(cells) < L // 2:
            out += [f"acc[{i * unroll + j}] = hsum_{self.V}(s{i}_{j});" for i, j in cells]
        else:
            for at in range(0, len(cells), L):
                group = [f"s{i}_{j}" for i, j in cells[at:at + L]]
                out.append(f"*({self.U} *)(acc + {at}) = "
                           f"sums_{self.V}({', '.join(group + [f'({self.V}){{0}}'] * (L - len(group)))});")
        return out

    def _flushed(self, s: str, c: int) -> str:
        """A sum goes into its total (partial_sums.py)."""
        return (f"{{ const {self.V} y = total[{c}] + {s}, z = y - total[{c}]; lost[{c}] += (total[{c}] - (y - z)) + "
                f"({s} - z); total[{c}] = y; {s} = ({self.V}){{0}}; __asm__(\"\" : \"+m\"(total[{c}]), "
                f"\"+m\"(lost[{c}])); }}")

    def _total(self, s: str, c: int) -> str:
        """All of a sum; what rounding lost counts where it is a number."""
        m = f"m{self.V[1:]}"
        if self.lanes == 1:
            return (f"{self._flushed(s, c)} {{ const {self.V} y = total[{c}] + lost[{c}]; "
                    f"{s} = y == y ? y : total[{c}]; }}")
        return (f"{self._flushed(s, c)} {{ const {self.V} y = total[{c}] + lost[{c}]; const {m} known = ({m})(y == y); "
                f"{s} = ({self.V})((({m})y & known) | (({m})total[{c}] & ~known)); }}")

    def _dot_step(self, rows: int, unroll: int, sm: int, sn: int, mask: str) -> list[str]:
        """Products of a vector of each row and column at ``k``."""
        def load(at: str) -> str:
            read = f"*(const {self.U} *)({at})"
            return f"({self.V})((m{self.V[1:]}){read} & {mask})" if mask else read
        out = [f"{self.V} x{i} = {load(f'A + {i * sm} + k')};" for i in range(rows)]
        return out + [f"{{ {self.V} w = {load(f'B + {j * sn}l + k')}; "
                      f"{' '.join(f's{i}_{j} += x{i} * w;' for i in range(rows))} }}" for j in range(unroll)]
