"""Winograd's convolutions F(2x2, 3x3) of pairs of bfloat16 (hybrid/ir/packed.py): the loops of ``Winograd`` over words
of 32 bits (packed_words.py). Data is rounded when it is transformed; weights were transformed and rounded beforehand,
and are read in the order in which they lie.
"""
from __future__ import annotations

from hybrid.ir import Node
from hybrid.ir.stmt import Stmt
from hybrid.ir.winograd import TAPS

from hybrid.codegen.lanes import F32, HALVES
from .packed_winograd import Winograd
from .packed_words import ARITHMETIC


class WinogradWords(Winograd):
    """Prints one convolution, whose sums are over words: two channels of a pixel each."""
    how = ARITHMETIC["bfloat16"]

    def _shapes(self, x: Node, w: Node) -> None:
        super()._shapes(x, w)
        self.w = f"((const hy_word *){self.w})"
        if x.dtype != F32:
            self.data = "hy_bf16", HALVES[x.dtype.name]

    def packing(self) -> None:
        """Sets ``panels``, ``width`` and ``depth`` (words that a filter reads at each point)."""
        self.panels, _, self.depth, self.width, _ = self.weights

    def channel_blocks(self) -> tuple[int, int, int]:
        """Returns one block of all channels; weights need no scratch: they are already transformed."""
        return self.depth, 1, 0

    def prefetch_bytes(self) -> int:
        """Returns how many bytes of the next point's weights a step of products prefetches."""
        return -(-4 * self.width // self.sharing)

    def filters_forward(self) -> list[Stmt]:
        """Prints nothing: weights are already transformed."""
        return []

    def stored(self, to: str, v: str) -> str:
        """Rounds a vector of transformed data and stores it."""
        return f"HYV_STORE_BF16((hy_bf16 *)({to}) + c0_, {v});"

    def of_filters_at(self, q: str) -> tuple[str, str, str]:
        """Returns C for a panel's weights: no transform, the address of those of point p, and of the next point's."""
        return ("", f"{self.w} + (o * {self.points} + p) * {self.depth * self.width}l",
                f"(const char *)(w + {self.depth * self.width}) + ({self.run})")

    def plain_product(self) -> tuple[list[str], list[str]]:
        """As of ``Winograd``, with filters recovered from their transforms (``TAPS``)."""
        rows = ", ".join(map(str, (c for row in TAPS for c in row)))
        read = "hy_load_bf16(a[q])" if self.data[1] else "a[q]"
        return ([f"  static const signed char taps[] = {{ {rows} }};",
                 f"  const hy_word *w = W + c0 / {self.width} * {16 * self.depth * self.width}l + c0 % {self.width};"],
                ["        hy_v g = {0};",
                 "        for (long i = 0; i < 16; i++) {",
                 "          const int c = taps[k / 3 * 4 + i / 4] * taps[k % 3 * 4 + i % 4];",
                 f"          const hy_words pair = HYV_WORDS(w + (i * {self.depth} + q / 2) * {self.width});",
                 "          if (c) g += HYV_B((float)c) * (hy_v)(q % 2 ? pair & -65536 : pair << 16);",
                 "        }",
                 f"        sum += HYV_B(inside ? {read} : 0) * g;"])
