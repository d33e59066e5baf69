"""Packed products and convolutions of bfloat16, and of uint8 with int8: the loops of ``Direct`` over words of 32 bits.
A word of the data (2 or 4 channels of a pixel) is put into all lanes; one instruction multiplies it with a vector of
words of weights and adds the products up, in float32 or in 32-bit integers (kernels/c/words.h).
"""
from __future__ import annotations

from hybrid.ir import Node
from hybrid.ir.stmt import Stmt

from .blocked import Direct
from hybrid.codegen.nest import Arithmetic

WORDS = {"load": "HYV_WORDS({})", "spread": "HYV_WORD({})"}
ARITHMETIC = {                                                            # by type of the data
    "bfloat16": Arithmetic("hy_word", "hy_words", "hy_v", **WORDS, added="HYV_DOT_BF16({0}, {1}, {2})",
                            tiles="HYT_DOT_BF16"),
    "uint8": Arithmetic("hy_word", "hy_words", "hy_vi", **WORDS, added="HYV_DOT_BYTES({0}, {1}, {2})",
                        tiles="HYT_DOT_BYTES",                         floats="__builtin_convertvector({}, hy_v)")}


class Words(Direct):
    """Sums over words: sizes of channels are words."""

    def _shapes(self, x: Node, w: Node) -> None:
        super()._shapes(x, w)
        *self.weights, word = w.shape                        # type: ignore[assignment]
        self.c //= word
        self.how = ARITHMETIC[x.dtype.name]
        self.beyond = self.dot.attrs.get("zero", 0)
        self.x, self.w = (f"((const hy_word *){p})" for p in (self.x, self.w))


class Interleaved(Words):
    """Sums over data that is stored [tile][word][pixel]: the pixels of a tile are contiguous for each word, so strides
    are constant even where the depth is symbolic, and the pixels share cache lines."""

    def begin(self) -> None:
        """The panels, and the most pixels of a tile: as many as in the tiles in which the data is stored."""
        super().begin()
        self.most = self.dot.attrs["interleaved"]

    def conflicts(self) -> bool:
        """Never: pixels of a tile are contiguous."""
        return False

    def micro(self, rows: int, columns: int, suffix: str, partial: list[int]) -> list[Stmt]:
        """The function that sums a tile: for each word, the contiguous pixels."""
        numbers = [f"X[q * {columns} + {c}]" for c in range(columns)]
        return self.tile(f"{rows}x{columns}{suffix}", [], self.deep, numbers,
                         [f"px0_ + {c}" for c in range(columns)], partial)
