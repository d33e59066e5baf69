"""kvstores over several processes: ``dist_sync``, ``dist_device_sync``, ``dist`` as MXNet's with the sums taken over
all ranks instead of on servers, and ``horovod``, which keeps nothing."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base.device import Context, array_module, on
from ..base.errors import HybridError
from ..buffers import moving
from ..buffers.array import NDArray, wrap
from ..collective import World, nccl, start
from ..collective.sums import Buckets, broadcast, total, wire_dtype
from ..sparse import row_sparse_array
from .local_kvstore import KVStore, _pairs

ON_DEVICES = ("dist_device_sync", "dist_sync_device", "horovod")     # stores that sum where the arrays lie


class DistributedStore(KVStore):
    """Values by key, the same on all ranks: ``init`` takes rank 0's, ``push`` sums the values of all ranks.

    With ``set_optimizer`` every rank updates its own copy of the values, all alike. world: which ranks; all by default.

    >>> kv = DistributedStore("dist_sync")                                   # doctest: +SKIP
    >>> kv.rank, kv.num_workers                                              # doctest: +SKIP
    (0, 1)
    """

    def __init__(self, kind: str = "dist_sync", world: World | None = None):
        super().__init__(kind)
        self.world = start() if world is None else world
        self.wire: np.dtype | None = None
        self._sums: dict[Any, Buckets] = {}

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self.world.rank

    @property
    def num_workers(self) -> int:
        """How many processes there are."""
        return self.world.size

    @property
    def local_rank(self) -> int:
        """The number of this process among those of its machine."""
        return self.world.local_rank

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do something: ``optimizer`` is that it updates weights, which a horovod store does
        not."""
        return super().is_capable(capability) and self._kind != "horovod"

    def init(self, key: Any, value: Any) -> None:
        """First values, those of rank 0; each key once."""
        pairs = _pairs(key, value)
        super().init(key, value)
        for k, _ in pairs:
            spread(self.world, self._values[k], 0, f"kvstore.init({k!r})")

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Rank 0's values into the arrays of ``out``."""
        if self._kind != "horovod":
            return super().broadcast(key, value, out, priority)
        targets = dict(_pairs(key, out))
        for k, (v, *_) in _pairs(key, value):
            given = v.copy()
            spread(self.world, given, 0, f"kvstore.broadcast({k!r})")
            for t in targets[k]:
                given.copyto(t)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum the values of each key over devices and ranks; the sum takes the stored value's place, or goes to the
        updater with it."""
        if self._kind == "horovod":
            raise HybridError("a kvstore of type 'horovod' keeps no values: use pushpull() and broadcast()")
        pairs = _pairs(key, value)
        for (k, values), summed in zip(pairs, self.summed([(k, v) for k, v in pairs])):
            stored = self._stored(k)
            if self._updater is not None:
                self._updater(k, summed.as_in_context(stored.context), stored)
            else:
                self._values[k] = summed.as_in_context(stored.context)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum the values over devices and ranks into ``out`` (into the values where there is none)."""
        if self._kind != "horovod":
            return super().pushpull(key, value, out, priority)
        pairs = _pairs(key, value)
        for (_, targets), summed in zip(_pairs(key, value if out is None else out), self.summed(pairs)):
            for t in targets:
                summed.copyto(t)

    def summed(self, pairs: Sequence[tuple[Any, Sequence[NDArray]]]) -> list[NDArray]:
        """The sum over devices and ranks of the arrays of each key."""
        local = []
        for _, values in pairs:
            first = values[0]
            for v in values[1:]:
                first = first + v.as_in_context(first.context)
            local.append(first)
        out: list[Any] = [None if x.stype == "default" else sum_rows(self.world, x, f"key {k!r}")
                          for (k, _), x in zip(pairs, local)]
        dense = {i: x for i, x in enumerate(local) if x.stype == "default"}
        if dense:
            views = self.buckets(tuple((pairs[i][0], x.shape, x._data.dtype) for i, x in dense.items()),
                                 self.gpu_of(list(dense.values())))
            by_key = {pairs[i][0]: i for i in dense}
            views.sum(lambda k, view: put(view, dense[by_key[k]], views.gpu), "kvstore")
            for i, x in dense.items():
                with on(x._ctx):
                    raw = array_module(x._ctx).array(views.views[pairs[i][0]])
                out[i] = wrap(raw, x._ctx, type(x))
        return out

    def buckets(self, arrays: Any, gpu: Context | None = None) -> Buckets:
        """The buckets in which these arrays, (key, shape, dtype) of each, are summed, on a GPU or in memory."""
        key = arrays, self.wire, gpu
        if key not in self._sums:
            self._sums[key] = Buckets(self.world, arrays, self.wire, gpu)
        return self._sums[key]

    def gpu_of(self, arrays: Sequence[NDArray]) -> Context | None:
        """The GPU on which NCCL sums arrays over the ranks: theirs, if they have one in common, the store's kind is one
        that sums on devices, and NCCL is there."""
        places = {x._ctx for x in arrays}
        ctx = next(iter(places)) if len(places) == 1 else None
        sums = self._kind in ON_DEVICES and self.world.size > 1
        return ctx if sums and ctx is not None and ctx.device_type == "gpu" and nccl.library() is not None else None

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Send sums in ``{'type': 'fp16'}`` or ``'bf16'``; they are added up in float32. MXNet's '2bit' is refused: its
        sums are of another kind."""
        self.wire = wire_dtype(compression_params)

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self.world.barrier("kvstore.barrier")

    _barrier = barrier

    def save_optimizer_states(self, fname: Any, dump_optimizer: bool = False) -> None:
        """Save the optimizer's states, which are the same on all ranks: rank 0 writes."""
        if self.rank == 0:
            super().save_optimizer_states(fname, dump_optimizer)
        self.barrier()


def host(x: NDArray) -> np.ndarray:
    """The values of an array in this process's memory, without a copy where they are there already."""
    return x._data if x._ctx.device_type != "gpu" else x.asnumpy()


def put(view: Any, x: NDArray, gpu: Context | None) -> None:
    """The values of an array into a part of a bucket, which lies on a GPU or in this process's memory."""
    moving.put(view, ..., host(x) if gpu is None else x._data, x._ctx)


def assign(x: NDArray, values: np.ndarray) -> None:
    """New values of an array, in place."""
    moving.put(x._data, ..., values, x._ctx)
    x._bump()


def spread(world: Any, x: NDArray, root: int, what: str) -> None:
    """One rank's values into an array, on all ranks."""
    if x.stype != "default":
        dense = x.tostype("default")
        assign(dense, broadcast(world, host(dense), root, what))
        x[:] = dense.tostype(x.stype)
    else:
        assign(x, broadcast(world, host(x), root, what))


def sum_rows(world: Any, x: Any, what: str) -> Any:
    """The sum of a row_sparse array over the ranks."""
    parts = world.gather_objects((x.data.asnumpy(), x.indices.asnumpy()),
                                 f"sum of rows of {what} {x.dtype}{x.shape}")
    out: Any = None
    for values, numbers in parts:
        one = row_sparse_array((values, numbers), shape=x.shape, ctx=x.context, dtype=x.dtype)
        out = one if out is None else out + one
    return out


def sum_in_place(world: Any, x: NDArray, what: str, wire: Any = None) -> None:
    """The sum over the ranks into an array."""
    assign(x, total(world, host(x), what, wire))
