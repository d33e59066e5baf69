"""How a Module adds up gradients over several processes."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..mxnet.dist_kvstore import spread


class GradientsOverRanks:
    """A Module's gradients over the ranks of a store (a ``DistributedStore``)."""

    def __init__(self, store: Any):
        self.store, self.world = store, store.world

    def begin(self, params: Mapping[str, Any]) -> None:
        """Rank 0's values on all ranks, after a check that all have the same parameters in the same order."""
        self.world.same([f"parameter {n}: {x.dtype}{x.shape}" for n, x in params.items()],
                        "the parameters of a Module")
        for name, x in params.items():
            spread(self.world, x, 0, f"first value of {name}")

    def summed(self, rows: Sequence[tuple[int, Any, Any]]) -> list[tuple[int, Any, Any]]:
        """(number, gradient, weight) of each parameter with gradients summed over the ranks; the Module's own stay."""
        sums = self.store.summed([(i, [g]) for i, g, _ in rows])
        return [(i, total, w) for (i, _, w), total in zip(rows, sums)]
