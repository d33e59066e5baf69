"""Optimizer states that are shared out over the ranks (ZeRO's first stage: Rajbhandari et al., ZeRO: Memory
Optimizations Toward Training Trillion Parameter Models, 2020): each rank keeps those of some parameters, updates these,
and sends the new values to the others.
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base.errors import HybridError
from ..collective.world import World
from ..mxnet.dist_kvstore import assign, host


def owners(sizes: Sequence[int], ranks: int) -> list[int]:
    """The rank of each parameter: the largest first, each to the rank that has least so far.

    >>> owners([10, 4, 3, 3], 2)
    [0, 1, 1, 1]
    """
    have, out = [0] * ranks, [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        out[i] = min(range(ranks), key=lambda r: (have[r], r))
        have[out[i]] += sizes[i]
    return out


class Shards:
    """The share of each rank in a Trainer's parameters."""

    def __init__(self, world: World, params: Sequence[Any], name: str):
        self.world, self.params, self.name = world, params, name
        self._owners: list[int] | None = None

    @property
    def owners(self) -> list[int]:
        """The rank of each parameter."""
        if self._owners is None:
            for p in self.params:
                if p.stype != "default" or getattr(p, "_grad_stype", "default") != "default":
                    raise HybridError(f"parameter {p.name!r} is sparse: optimizer states by rows are not shared out "
                                      "over the ranks; make the Trainer without shard_states")
            self._owners = owners([int(np.prod(p.shape)) for p in self.params], self.world.size)
        return self._owners

    def own(self, numbers: Sequence[int]) -> list[int]:
        """Those of some parameters that this rank updates."""
        return [i for i in numbers if self.owners[i] == self.world.rank]

    def send(self, numbers: Sequence[int]) -> None:
        """New values of some parameters, from their ranks to all: one message a rank."""
        world = self.world
        world.agree(f"{self.name}: new values of {len(numbers)} parameters")
        if world.size == 1:
            return
        requests, flats = [], []
        for rank in range(world.size):
            mine = [i for i in numbers if self.owners[i] == rank]
            arrays = [next(iter(self.params[i]._data.values())) for i in mine]
            flat = np.concatenate([np.ascontiguousarray(host(x)).reshape(-1).view(np.uint8) for x in arrays]
                                  or [np.empty(0, np.uint8)])
            if flat.size:
                requests.append(world.comm.Ibcast(flat, rank))
            flats.append((arrays, flat))
        if requests:
            world.wait(requests, f"{self.name}: new values")
        for rank, (arrays, flat) in enumerate(flats):
            at = 0
            for x in arrays if rank != world.rank else ():
                size = int(np.prod(x.shape)) * x._data.dtype.itemsize
                assign(x, flat[at:at + size].view(x._data.dtype).reshape(x.shape))
                at += size

    # ---- files
    def whole(self, updater: Any) -> dict[Any, Any]:
        """The states of all parameters, on all ranks; and what their optimizer counted."""
        own = {i: updater.states[i] for i in self.own([i for i in updater.states if isinstance(i, int)])}
        counts = updater.optimizer._index_update_count
        states: dict[Any, Any] = {}
        for some, counted in self.world.gather_objects((own, dict(counts)), f"{self.name}: optimizer states"):
            states.update(some)
            for i, n in counted.items():
                counts[i] = max(n, counts.get(i, 0))
        return states

    def keep_own(self, updater: Any) -> None:
        """Forget the states of the others' parameters."""
        for i in list(updater.states):
            if isinstance(i, int) and self.owners[i] != self.world.rank:
                del updater.states[i]
