"""A sum over the ranks through which gradients flow."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import autograd
from ..buffers.array import wrap
from ..buffers.moving import move
from .sums import total
from .world import World


class SumOverRanks(autograd.Function):
    """The sum of an array over the ranks; its gradient is the sum of the ranks' gradients."""

    def __init__(self, world: World, what: str):
        super().__init__()
        self._world, self._what = world, what

    def _sum(self, x: Any, direction: str) -> Any:
        summed = total(self._world, np.asarray(x.asnumpy()), f"{self._what}, {direction}")
        return wrap(move(summed, x._ctx, False), x._ctx, type(x))

    def forward(self, x: Any) -> Any:                        # type: ignore[override]
        """The sum."""
        return self._sum(x, "forward")

    def backward(self, dy: Any) -> Any:                      # type: ignore[override]
        """The sum of the gradients."""
        return self._sum(dy, "backward")
