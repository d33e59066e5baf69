"""Sums of arrays on GPUs by NCCL, through CuPy: over the GPUs of one process, and over processes with a GPU each.

It has run with a stand-in for NCCL alone, never on GPUs.
"""
from __future__ import annotations

from typing import Any, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from ..base.device import Context, find_cupy, on
from ..base.errors import HybridError
from .order import in_one_call, sent_dtype, total_of
from .world import World

GET = ("NCCL comes with CuPy for Linux where the package nvidia-nccl-cu12 (or -cu13) is installed: pip install "
       "nvidia-nccl-cu12")
_COMMUNICATORS: dict[tuple[int, ...], list[Any]] = {}         # of this process's GPUs, by their numbers
_RANKS: "WeakKeyDictionary[World, dict[int, Any]]" = WeakKeyDictionary()      # of a job, by this rank's GPU


def library() -> Any:
    """CuPy's module for NCCL, or None."""
    cupy = find_cupy()
    found = getattr(cupy.cuda, "nccl", None) if cupy is not None else None
    return found if found is not None and getattr(found, "available", True) else None


def needed(what: str) -> Any:
    """CuPy's module for NCCL. HybridError where there is none."""
    found = library()
    if found is None:
        raise HybridError(f"{what} needs GPUs, CuPy and NCCL, which are not here. {GET}. For several devices of this "
                          f"process 'device' needs none of them, for several processes 'dist_sync'")
    return found


def _type(nccl: Any, dtype: np.dtype) -> int:
    name = f"NCCL_{dtype.name.upper()}"
    if dtype.name == "bool" or not hasattr(nccl, name):
        raise HybridError(f"NCCL sums no arrays of {dtype.name}")
    return int(getattr(nccl, name))


def _stream() -> Any:
    return find_cupy().cuda.get_current_stream()              # type: ignore[union-attr]


# ---- the GPUs of this process
def reduce(work: Sequence[tuple[Sequence[Any], Any]], devices: Sequence[Context]) -> None:
    """Add up arrays that lie on several GPUs of this process. work: pairs of an array on each of the devices, all of
    one shape and dtype, and the array on the first device that their sum is written to.
    """
    nccl = needed("a sum over the GPUs of a process")
    key = tuple(d.device_id for d in devices)
    if key not in _COMMUNICATORS:
        _COMMUNICATORS[key] = nccl.NcclCommunicator.initAll(list(key))
    xp: Any = find_cupy()
    ready = []                                                # held until all calls are queued
    for arrays, _ in work:
        for d, x in zip(devices, arrays):
            with on(d):
                ready.append(xp.ascontiguousarray(x))
    sources = iter(ready)
    nccl.groupStart()
    try:
        for arrays, out in work:
            for d, comm in zip(devices, _COMMUNICATORS[key]):
                with on(d):
                    x = next(sources)
                    comm.reduce(x.data.ptr, out.data.ptr if d == devices[0] else x.data.ptr, x.size,
                                _type(nccl, x.dtype), nccl.NCCL_SUM, 0, _stream().ptr)
    finally:
        nccl.groupEnd()


# ---- a GPU of each of several processes
def _joined(world: World, ctx: Context) -> Any:
    """The communicator of this rank with a GPU. HybridError where two ranks of a machine share one."""
    known = _RANKS.setdefault(world, {})
    if ctx.device_id not in known:
        nccl, xp = needed("a sum over processes on GPUs"), find_cupy()
        bus = xp.cuda.runtime.deviceGetPCIBusId(ctx.device_id)                       # type: ignore[union-attr]
        places = world.gather_objects((world.host, bus), "joining NCCL")
        twice = [str(r) for r, p in enumerate(places) if places.count(p) > 1]
        if twice:
            raise HybridError(f"ranks {', '.join(twice)} share a GPU, and NCCL needs one for each: use "
                              f"mx.gpu(mx.distributed.local_rank()), or kvstore 'dist_sync', which adds up on the CPU")
        name = world.broadcast_object(nccl.get_unique_id() if world.rank == 0 else None, 0, "NCCL's id")
        with on(ctx):
            known[ctx.device_id] = nccl.NcclCommunicator(world.size, name, world.rank)
    return known[ctx.device_id]


class DeviceSum:
    """A sum of one flat array on a GPU over the ranks, under way: ``finish`` waits until ``data`` holds it.

    Sums in the ranks' order, and those of half types, are made of all ranks' arrays on each rank, in float32 or in the
    array's type if that is wider.
    """

    def __init__(self, world: World, data: Any, wire: np.dtype | None, what: str, ctx: Context):
        nccl, self.world, self.data, self.what, self.ctx = needed(what), world, data, what, ctx
        self.comm, xp = _joined(world, ctx), find_cupy()
        sent = sent_dtype(data.dtype, wire)
        self._parts: Any = None
        with on(ctx):
            if in_one_call(data.dtype, sent, world.deterministic):
                self.comm.allReduce(data.data.ptr, data.data.ptr, data.size, _type(nccl, data.dtype), nccl.NCCL_SUM,
                                    _stream().ptr)
            else:
                self._given = data.astype(sent)
                self._parts = xp.empty((world.size, data.size), sent)                # type: ignore[union-attr]
                self.comm.allGather(self._given.data.ptr, self._parts.data.ptr, data.size * sent.itemsize,
                                    nccl.NCCL_UINT8, _stream().ptr)
            self._event = xp.cuda.Event()                                            # type: ignore[union-attr]
            self._event.record(_stream())

    def poll(self) -> bool:
        """Whether it is there."""
        return bool(self._event.done)

    def finish(self) -> None:
        """Wait; then ``data`` holds the sum. A rank that is lost meanwhile is an error, not an endless wait."""
        try:
            self.world.wait_until(self.poll, self.what)
        except BaseException:
            self.comm.abort()                                 # what is queued would wait for the lost rank
            raise
        if self._parts is not None:
            with on(self.ctx):
                self.data[...] = total_of(self._parts).astype(self.data.dtype)
            self._parts = None
