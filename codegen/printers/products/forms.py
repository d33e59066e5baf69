"""The forms of a contraction: which operand is packed, which axes are merged, and about how many cycles that takes."""
from __future__ import annotations

import math
from dataclasses import replace

from hybrid.ir.index import Var, coefficient
from hybrid.ir.size import fixed, hint, same

from hybrid.codegen.schedule.tiling import choose_tile
from . import tiles
from .operand import Matmul, any_size, matmul
from .packing import NEAR
from .sparsity import LETTERS, Zeros

MOST_ROWS = 14                  # of a tile of dot products
MOST_COPIED = 256 << 10         # bytes of rows that are copied so that they lie along the depth
FINISH = 5                      # cycles from a vector of sums to a stored result
LEAST_DEPTH = 32                # steps of the depth's last axis from which on its other axes may be loops around it
AGAIN = 0.1                     # cycles to load and store a sum between two steps of those loops


class Forms(Zeros):
    """Costs of the forms of a contraction, of which ``form`` takes the cheapest; a base of ``Contraction``."""
    any: bool                                              # whether sizes of tiles are known only at the call

    def form(self) -> tuple[float, bool, Matmul]:
        """The form that needs fewest cycles: their number, whether tiles are dot products, the product as it sees
        it."""
        plans = [*self._plans(), *([] if any_size(self.dot) else self._other_plans())]
        forms = [(self._role_cost(m), False, m) for m in plans]
        if not any_size(self.dot):
            forms += [(cost, True, m) for m in plans if (cost := self._dots_cost(m)) is not None]
        return min(forms, key=lambda f: f[0])

    def _other_plans(self) -> list[Matmul]:
        """The product with axes merged only as far as the result is stored in order; and where the depth has several
        axes, those with the last one alone, if neither operand has to be packed."""
        stored = [matmul(self.dot, self.reads, swap, LETTERS, self.d, place=self._stored_at) for swap in (False, True)]
        last = [replace(m, depth=m.depth[-1:], over=m.depth[:-1]) for m in (*self._plans(), *stored)
                if len(m.depth) > 1 and hint(m.depth[-1].extent) >= LEAST_DEPTH]
        return stored + [m for m in last if self._row_stride(m) is not None and m.columns and (
            self._along(m) or self._in_reach(m, m.columns[-1]))]

    def _varies(self, m: Matmul) -> bool:
        """Whether only the call tells what tiles are like: their rows, columns or depth, or how far apart these are.
        Where it tells no more than how many panels or products there are, tiles are those of constant sizes."""
        near, store = m.columns[-2:], self._stored_at(m)
        sizes = [m.sizes[0], m.sizes[2], *(v.extent for v in near), *(m.a.stride(v) for v in (*m.rows, *m.depth)),
                 *(m.b.stride(v) for v in (*near, *m.depth)), *(coefficient(store, v) for v in (*m.rows, *near))]
        return not all(n is None or fixed(n) for n in sizes)

    # ---- which operand is packed
    def _role_cost(self, m: Matmul) -> float:
        """Cycles of the tiles, about; at the hints of sizes that are known at the call."""
        self.any = self._varies(m)
        rows, columns, depth = map(hint, m.sizes)
        last = m.columns[-1] if m.columns else None
        unit = last is None or same(m.b.stride(last), 1) or self._runs(m.b, last)
        x, y = last or Var("n_0", 1), m.columns[-2] if len(m.columns) > 1 and not self.any else None
        extents = hint(x.extent), hint(y.extent) if y else 1
        tile = choose_tile(rows, extents[1], extents[0], self.lanes, self.target.accumulators)
        others = columns // max(math.prod(extents), 1)
        # where only the call tells their number, half a panel of two vectors is beyond the columns
        cost = max(depth, 1) * others * (tile.cost + (0 if fixed(x.extent) else rows / 2))
        times = 1.0                                        # how often columns are packed
        if self._row_stride(m) is None:
            cost += rows * depth * (0.2 if self._along_depth(m, m.a) or len(m.rows) == 1 and self._runs(
                m.a, m.rows[0]) else 1.5)
            times = 1 if m.batch else max(1, rows * depth * self.d.itemsize / self._rows_at_once(m))
        if not (rows <= NEAR * tile.mr and self._in_reach(m, x) and extents[0] >= self.lanes):
            cost += times * columns * depth * (
                0.2 if unit else 0.4 if self._along(m) or self._along_depth(m, m.b) else 2.0)
        if m.over:
            cost = (cost + AGAIN * rows * columns) * math.prod(v.extent for v in m.over)
        if last is not None and not same(coefficient(self._stored_at(m), last), 1):
            cost += rows * columns * (0.7 if self._prefers_transposed(m, x, None) and len(m.columns) == 1 else 3.0)
        return cost + 1e-3 * columns

    def _dots_cost(self, m: Matmul) -> float | None:
        """Cycles of dot products of few rows with columns that lie along the depth; None where they are not
        possible."""
        rows, columns, depth = m.sizes
        if m.over or not (rows <= MOST_ROWS and (columns > 1 or rows == 1) and depth >= self.lanes and len(m.depth) == 1
                and len(m.columns) <= 1 and len(m.rows) <= 1 and same(m.b.stride(m.depth[0]), 1)
                and (not m.columns or m.b.stride(m.columns[0]) is not None)):
            return None
        if m.a.address is None or m.a.stride(m.depth[0]) is None or m.rows and m.a.stride(m.rows[0]) is None:
            return None
        copied = m.a.stride(m.depth[0]) != 1
        if copied and rows * depth * self.d.itemsize > MOST_COPIED or self.target.accumulators <= 12 and rows > 6:
            return None
        together = min(tiles.together(rows, self.lanes, depth), columns)
        step = max(rows * together / 2, (rows + together) / 2, 4)
        return -(-columns // together) * (-(-depth // self.lanes) * step
                                          + rows * together * FINISH) + (rows * depth if copied else 0)

    def _prefers_transposed(self, m: Matmul, x: Var, y: Var | None) -> bool:
        """Whether rows, not columns, are neighbours in the result."""
        store = self._stored_at(m)
        return (not same(coefficient(store, x), 1) and y is None and len(m.rows) == 1
                and same(coefficient(store, m.rows[0]), 1))
