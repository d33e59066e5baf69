"""Packed products and convolutions of bfloat16, and of uint8 with int8: the loops of ``Direct`` over words of 32 bits.
A word of the data (2 or 4 channels of a pixel) is put into all lanes; one instruction multiplies it with a vector of
words of weights and adds the products up, in float32 or in 32-bit integers (kernels/c/words.h).
"""
from __future__ import annotations

from hybrid.ir import Node

from .blocked import Direct

DOTS = {"bfloat16": ("BF16", "hy_v"), "uint8": ("BYTES", "hy_vi")}        # by type of the data: macro, vector of sums


class Words(Direct):
    """Sums over words: sizes of channels are words."""
    number = "hy_word"

    def _shapes(self, x: Node, w: Node) -> None:
        super()._shapes(x, w)
        *self.weights, word = w.shape                        # type: ignore[assignment]
        self.c //= word
        self.dot_name, self.sums = DOTS[x.dtype.name]
        self.beyond = self.dot.attrs.get("zero", 0)
        self.x, self.w = (f"((const hy_word *){p})" for p in (self.x, self.w))

    def weight(self, vector: int, at: str) -> str:
        """Words of weights."""
        return f"const hy_words w{vector} = HYV_WORDS({at});"

    def broadcast(self, number: str) -> str:
        """A word of the data."""
        return f"const hy_words a = HYV_WORD({number});"

    def term(self, total: str, vector: int) -> str:
        """The products of two vectors of words."""
        return f"{total} = HYV_DOT_{self.dot_name}({total}, a, w{vector});"

    def summed(self, total: str) -> str:
        """Integers are rounded to float32."""
        return total if self.sums == "hy_v" else f"__builtin_convertvector({total}, hy_v)"
