"""One filter a channel (depthwise convolutions) in C, channels last (hybrid/ir/packed.py): a vector holds channels;
some neighbouring pixels of a line share what they read.
"""
from __future__ import annotations

from typing import Iterable, Sequence

from hybrid.ir.stmt import Assign, Let, Name, Op, Scope, Stmt

from .packed_windows import Windows
from hybrid.codegen.loops import Printed
from hybrid.codegen.nest import A

TILE = 4                         # pixels that are computed together
LONG = 9                         # columns of a row of weights that are held in registers


class Depthwise(Windows):
    """Prints one convolution."""

    def print(self) -> Printed:
        """The kernel."""
        most = TILE if self.target.accumulators >= 28 else 2
        self.tile = most if self.ow >= most else self.ow
        return self.windows(self.of_channels, "noinline", self.parallel, self.w)

    def of_channels(self, load: str, partial: int) -> Sequence[Stmt]:
        """Sums over the window."""
        out: list[Stmt] = [Let("hy_v", Name(f"s{t}"), "{0}") for t in range(self.tile)]
        out += [self._row(i, load) for i in range(self.kd * self.kh)]
        return [*out, self.finished(0, [(f"px0_ + {t}", f"s{t}") for t in range(self.tile)], partial)]

    def _row(self, i: int, load: str) -> Scope:
        """The products of a row of weights."""
        def weights(columns: Iterable[int]) -> list[Stmt]:
            return [Let("hy_v", Name(f"w{j}"), f"HYV_LOAD(W + {(i * self.kw + j) * self.weights[-1]} + c0_)", True)
                    for j in columns]
        # those of a long row are loaded where they are used first
        loaded: Sequence[int] = range(self.kw) if self.kw <= LONG else []
        out = weights(loaded)
        for x, k in self.column.items():
            uses = [(t, j) for t in range(self.tile) for j in range(self.kw) if t * self.sx + j * self.dx == x]
            first = [j for t, j in uses if j not in loaded]
            loaded = [*loaded, *first]
            terms = [Assign(Name(f"s{t}"), Op("{0} * {1}", (A, Name(f"w{j}"))), "+=") for t, j in uses]
            pixel = Let("hy_v", A, load.format(i * len(self.column) + k), True)
            out += [*weights(first), Scope((pixel, *terms))]
        return Scope(tuple(out))
