"""Products with scores, and sums of them, in CUDA: what the gradients of attention are made of, and the maximum and
total of a softmax, with the scores computed again in tiles that are never in memory (Dao, FlashAttention-2, 2023).

A block has 64 rows of the result; what is summed over comes in tiles. The inner products of a tile stay in the
registers in which tensor cores leave them; the function of the scores is computed there, and is summed, or is the left
operand of the product.
"""
from __future__ import annotations

import numpy as np

from hybrid.ir import Node
from hybrid.ir.index import Var, var
from hybrid.ir.kernel import Kernel
from hybrid.passes.recomputed_scores import OverScores

from .attention_tiles import MOST, QUERIES, Tiled, multiplied
from .pieces import PrintedCuda, emitter, unrolled
from .target import current
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block

MOST_PRODUCTS = 2
MOST_SHARED = 96 << 10          # bytes of tiles: what every GPU from sm_80 on has for a block
TURING = 64 << 10               # and what those before have


def takes_over_scores(found: OverScores, n: Node) -> bool:
    """Whether a kernel is printed for the current GPU: tiles that fit, of one type that its tensor cores multiply."""
    dots = [p for p, _, _ in found.products]
    most = MOST_SHARED if current().number >= 80 else TURING
    if not dots or not multiplied(dots[0].dtype):
        return False
    if not 1 <= len(dots) <= MOST_PRODUCTS or found.row.extent < 16 or found.place.extent < 32:
        return False
    dtype, depths = dots[0].dtype, [p.args[0].shape[p.attrs["contract"][0][0]] for p in dots]
    same = all(a.dtype == dtype for p in dots for a in (p, *p.args))
    if n.prim == "reduce":
        return same and n.dtype == np.float32 and max(depths) <= MOST and _shared(depths, 0, dtype) <= most
    columns = n.shape[-1 if found.side == 0 else -2]
    return (same and all(a.dtype == dtype for a in (n, *n.args)) and max(*depths, columns) <= MOST
            and _shared(depths, columns, dtype) <= most)


def _keys(products: int, dtype: np.dtype) -> int:
    return 64 if products == 1 and dtype.itemsize == 2 else 32


def _shared(depths: list[int], columns: int, dtype: np.dtype) -> int:
    """Bytes of all tiles, or a few more."""
    keys = _keys(len(depths), dtype)
    line = [(-(-d // 16) * 16) * dtype.itemsize + 16 for d in depths]
    return sum(line) * (QUERIES + 2 * keys) + (columns + 16) * dtype.itemsize * 2 * keys


def print_over_scores(k: Kernel, name: str) -> PrintedCuda:
    """The kernel."""
    return _OverScores(k, name).print()


class _OverScores(Tiled):
    """Operands and the pieces of the text."""

    def __init__(self, k: Kernel, name: str):
        f: OverScores = k.attention
        dots = [p for p, _, _ in f.products]
        super().__init__(k, name, dots[0].dtype, (f.batch, f.row, f.place), _keys(len(dots), dots[0].dtype))
        self.found = f
        self.pairs = []
        for i, (p, at, side) in enumerate(f.products):
            depth = Var(f"depth{i}", p.args[0].shape[p.attrs["contract"][0][0]])
            self.pairs.append((self.tile(self.operand(p, side, at[:-2], self.row, depth), self.row, depth),
                               self.tile(self.operand(p, 1 - side, at[:-2], self.key, depth), self.key, depth)))
        if k.dot is not None:
            column = Var("column", k.dot.shape[-1 if f.side == 0 else -2])
            other = self.operand(k.dot, 1 - f.side, tuple(map(var, f.batch)), column, self.key)
            self.v = self.tile(other, self.key, column)

    def _values(self, to: list[str]) -> list[str]:
        """A loop over a thread's scores that computes the function of each, ``value``, and ends with ``to``."""
        given = {p: f"x{i}" for i, (p, _, _) in enumerate(self.found.products)}
        lines, value = self.element(self.found.value, self.found.at, given, 3000)
        xs = [f"  const float {x} = {CUDA.rounded(p.dtype, f's{i}[n / 4][n % 4]')};"
              for i, (p, x) in enumerate(given.items())]
        return [*self.each_score(), *xs, *("  " + s for s in lines), f"  const float value = {value};",
                *("  " + s for s in to), "}"]

    def _products(self) -> list[str]:
        return [s for i, (q, kt) in enumerate(self.pairs) for s in self.product(f"s{i}", q, kt)]

    def _staged(self) -> list:
        return [kt for _, kt in self.pairs]

    def print(self) -> PrintedCuda:
        """Its text."""
        own = [q for q, _ in self.pairs]
        if self.k.dot is None:
            return self.kernel([f"float sums[2] = {{{self._start}, {self._start}}};"], own, self._staged(),
                               [*self._products(), *self._values([self._add("sums[n / 2 % 2]", self._kept)])],
                               self._reduced())
        count = self.v.padded // 8
        turn = [*self._products(), f"float s[{self.nk}][4];",
                *self._values([f"s[n / 4][n % 4] = {self.inside} ? value : 0.f;"]), *self.sums(self.v),
                *unrolled([("n", 4 * count)], ["sums[n / 4][n % 4] += o[n / 4][n % 4];"])]
        return self.kernel([f"float sums[{count}][4] = {{}};"], own, [*self._staged(), self.v], turn,
                           self.written(self.k.dot, self.found.side, self.v, lambda cell: cell))

    # ---- sums and maxima of rows
    @property
    def _start(self) -> str:
        return "-HY_INF" if self.k.root.attrs["op"] == "max" else "0.f"

    @property
    def _kept(self) -> str:
        return "value" if self.inside == "true" else f"({self.inside} ? value : {self._start})"

    def _add(self, to: str, x: str) -> str:
        if self.k.root.attrs["op"] == "sum":
            return f"{to} += {x};"
        return f"{to} = hy_max_op()({to}, {x});"

    def _reduced(self) -> list[str]:
        """The root, from the sums of four neighbouring threads."""
        e = emitter(self.k, self.names)
        index = tuple(map(var, (*self.batch, self.row)))
        block = Block(None, frozenset([*self.batch, self.row]))
        block.body.append(e.store(self.names[self.k.root], self.k.root, index, "sums[h]"))
        return self.each_row(block.lines, [self._add("sums[h]", f"__shfl_xor_sync(~0u, sums[h], {by})")
                                           for by in (1, 2)])
