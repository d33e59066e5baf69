"""The kvstore ``nccl``: what is pushed from several GPUs of a process is added up by NCCL."""
from __future__ import annotations

from typing import Any, Sequence

from ..base.device import array_module, on
from ..buffers.array import NDArray, wrap
from ..collective import nccl
from .local_kvstore import KVStore


class NcclStore(KVStore):
    """A store within one process whose sums over GPUs are NCCL's. HybridError where there is no NCCL.

    >>> kv = NcclStore()                                                     # doctest: +SKIP
    """

    def __init__(self) -> None:
        nccl.needed("kvstore 'nccl'")
        super().__init__("nccl")

    def _added(self, values: Any, ctx: Any) -> Any:
        if not summable(values):
            return super()._added(values, ctx)
        first = values[0]
        with on(first._ctx):
            out = array_module(first._ctx).empty(first.shape, first._data.dtype)
        nccl.reduce([([v._data for v in values], out)], [v._ctx for v in values])
        return wrap(out, first._ctx, type(first)).as_in_context(ctx)


def summable(values: Sequence[NDArray]) -> bool:
    """Whether NCCL adds up arrays: dense ones, each on a GPU of its own."""
    places = {v._ctx for v in values}
    return (len(values) > 1 and len(places) == len(values) and all(p.device_type == "gpu" for p in places)
            and all(v.stype == "default" for v in values) and nccl.library() is not None)
