"""Attention in CUDA: softmax(f(Q Kᵀ)) V in one kernel, whose matrix of weights is never in memory.

A block has 64 queries, 16 a warp; keys and values come in tiles, the next under way by asynchronous copies. Scores stay
in the registers in which tensor cores leave them: they become exponentials under a running maximum, and those are the
left operand of the second product as they are. Sums so far are scaled again when the maximum grows (Milakov and
Gimelshein, Online normalizer calculation for softmax, 2018; Dao, FlashAttention-2, 2023). Masks and scales are printed
into the loop over a thread's scores.
"""
from __future__ import annotations

from hybrid.ir import Node
from hybrid.ir.index import Var, var
from hybrid.ir.kernel import Kernel
from hybrid.passes.attention import Attention

from .attention_tiles import MOST, Tiled, multiplied
from .pieces import PrintedCuda
from hybrid.codegen.dialect import CUDA

KEYS = {2: 64, 4: 32}           # of a tile, by bytes of an element


def takes_attention(found: Attention, dot: Node) -> bool:
    """Whether a kernel is printed for an attention on the current GPU: others keep their products."""
    depth = found.scores.args[0].shape[found.scores.attrs["contract"][0][0]]
    return (multiplied(dot.dtype) and max(depth, dot.shape[-1]) <= MOST
            and found.row.extent >= 16 and found.place.extent >= 32
            and all(a.dtype == dot.dtype for a in (*found.scores.args, *dot.args)))


def print_attention(k: Kernel, name: str) -> PrintedCuda:
    """The kernel."""
    return _Attention(k, name).print()


class _Attention(Tiled):
    """Sizes, operands and the pieces of the text."""

    def __init__(self, k: Kernel, name: str):
        assert k.dot is not None
        f: Attention = k.attention
        super().__init__(k, name, k.dot.dtype, (f.batch, f.row, f.place), KEYS[k.dot.dtype.itemsize])
        self.dot, self.found = k.dot, f
        depth = Var("depth", f.scores.args[0].shape[f.scores.attrs["contract"][0][0]])
        column = Var("column", self.dot.shape[-1])
        at = f.scores_at[:-2]
        self.q = self.tile(self.operand(f.scores, f.query, at, self.row, depth), self.row, depth)
        self.kt = self.tile(self.operand(f.scores, 1 - f.query, at, self.key, depth), self.key, depth)
        self.v = self.tile(self.operand(self.dot, 1, tuple(map(var, f.batch)), column, self.key), self.key, column)
        self.nc = self.v.padded // 8                    # fragments of a warp along columns

    @property
    def replaced(self) -> bool:
        """Whether weights are changed before the second product: a row of zeros in place of weights that are none is
        zero."""
        n = self.found.given
        while n.prim in ("cast", "reshape", "permute"):
            n = n.args[0]
        return n is not self.found.weights

    # ---- softmax
    def _softmax(self) -> list[str]:
        """Scores become exponentials under the running maximum, times what is behind the softmax."""
        f, x = self.found, "s[n / 4][n % 4]"
        before = self.element(f.logits, f.weights_at, {f.scores: "x"}, 3000)
        after = self.element(f.given, f.given_at, {f.weights: "x"}, 4000)
        each, inside = self.each_score(), self.inside
        rounded = CUDA.rounded(f.scores.dtype, x)
        return ["float peak[2] = {-HY_INF, -HY_INF}, by[2], again[2];", *each, f"  const float x = {rounded};",
                *("  " + s for s in before[0]), f"  {x} = {inside} ? {before[1]} : -HY_INF;",
                f"  peak[n / 2 % 2] = fmaxf(peak[n / 2 % 2], {x});", "}",
                "#pragma unroll", "for (int h = 0; h < 2; h++) {",
                "  peak[h] = fmaxf(peak[h], __shfl_xor_sync(~0u, peak[h], 1));",
                "  peak[h] = fmaxf(most[h], fmaxf(peak[h], __shfl_xor_sync(~0u, peak[h], 2)));",
                "  by[h] = peak[h] == -HY_INF ? 0.f : peak[h];",
                "  again[h] = hy_exp2((most[h] - by[h]) * 1.44269504f), most[h] = peak[h], total[h] *= again[h];", "}",
                *each, f"  const float x = hy_exp2(({x} - by[n / 2 % 2]) * 1.44269504f);", "  total[n / 2 % 2] += x;",
                *("  " + s for s in after[0]), f"  {x} = {inside} ? {after[1]} : 0.f;", "}"]

    # ---- results
    def _results(self) -> list[str]:
        """The root, from sums and totals."""
        return ["#pragma unroll", "for (int h = 0; h < 2; h++) {",
                "  total[h] += __shfl_xor_sync(~0u, total[h], 1);", "  total[h] += __shfl_xor_sync(~0u, total[h], 2);",
                "}",
                "const float part[2] = {1 / total[0], 1 / total[1]};",
                *self.written(self.dot, 0, self.v, self._quotient)]

    def _quotient(self, cell: str) -> str:
        """A result: its sum over the total of its row."""
        return f"({cell} == 0 ? {cell} : {cell} * part[c / 2 % 2])" if self.replaced else f"{cell} * part[c / 2 % 2]"

    # ---- the kernel
    def print(self) -> PrintedCuda:
        """Its text: a block has some queries of a batch."""
        sums = f"float sums[{self.nc}][4] = {{}}, most[2] = {{-HY_INF, -HY_INF}}, total[2] = {{0, 0}};"
        turn = [*self.product("s", self.q, self.kt), *self._softmax(), *self.sums(self.v),
                "#pragma unroll", f"for (int n = 0; n < {4 * self.nc}; n++)",
                "  sums[n / 4][n % 4] = sums[n / 4][n % 4] * again[n / 2 % 2] + o[n / 4][n % 4];"]
        return self.kernel([sums], [self.q], [self.kt, self.v], turn, self._results())
