"""Cuts the update of many parameters into parts that are alike, so that one small program serves them all: layers that
repeat have parameters of the same kinds. The small program is traced, planned and compiled once. One program of all
parameters would hold the same kernels as often as there are layers.
"""
from __future__ import annotations

from typing import Hashable, Sequence

# up to so many parameters are updated by one program: with several calls an update takes up to 8 % longer
FEW = 96
LEAST = 8                                # parameters of a part on average: the time of a call itself is small then
WORTH = 2                                # so many times fewer parameters must be in the programs, or there is one part


def alike(kinds: Sequence[Hashable]) -> list[list[int]]:
    """The numbers of the parameters of each part. All parts but the last have parameters of the same kinds, in the same
    order; the last has what is left over. kinds: of the parameters; equal ones have the same update."""
    places: dict[Hashable, list[int]] = {}
    for i, kind in enumerate(kinds):
        places.setdefault(kind, []).append(i)
    every = len(kinds)
    if every <= FEW:
        return [list(range(every))]
    counts = [len(p) for p in places.values()]

    def printed(parts: int) -> int:
        """The number of parameters in the two programs: that of the equal parts, and that of what is left over."""
        one = sum(n // parts for n in counts)
        return one + every - parts * one
    parts = min(range(2, every // LEAST + 1), key=printed)
    if printed(parts) * WORTH > every:
        return [list(range(every))]
    out = [[i for p in places.values() for i in p[k * (len(p) // parts):(k + 1) * (len(p) // parts)]]
           for k in range(parts)]
    rest = [i for p in places.values() for i in p[parts * (len(p) // parts):]]
    return [*out, *([rest] if rest else [])]
