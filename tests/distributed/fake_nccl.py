"""A stand-in for ``cupy.cuda.nccl`` and CuPy's events: sums within a process, in groups as NCCL asks for them, and over
processes through MPI, where a result is there only when its event is done and until then is garbage."""
from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
(NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64, NCCL_FLOAT16, NCCL_FLOAT32,
 NCCL_FLOAT64) = range(len(TYPES))
NCCL_SUM = 0
LATE = 3                                                  # polls of an event until what comes before it is done
CALLS: list[tuple[Any, ...]] = []                         # what was asked for, for tests
available = True
_group: list[Any] | None = None
_queued: list[Any] = []                                   # of this process's streams: what is not done yet


def memory(pointer: int, count: int, kind: int) -> np.ndarray:
    """Memory on the device, which is the process's own here."""
    dtype = np.dtype(TYPES[kind])
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(pointer), dtype)


class Event:
    """As CuPy's: done when all that was queued before is."""

    def record(self, stream: Any = None) -> None:
        self._before, self._polls = list(_queued), 0

    @property
    def done(self) -> bool:
        self._polls += 1
        if self._polls < LATE or not all([step() for step in self._before]):
            return False
        for step in self._before:
            if step in _queued:
                _queued.remove(step)
        return True


class NcclError(RuntimeError):
    """As CuPy's."""


class NcclCommunicator:
    """As CuPy's: ``NcclCommunicator(ranks, id, rank)`` of a job, or ``initAll`` of a process's devices."""

    def __init__(self, ndev: int, commId: tuple[int, ...], rank: int):  # noqa: N803
        from mpi4py import MPI
        assert len(commId) == 128 and ndev == MPI.COMM_WORLD.size and rank == MPI.COMM_WORLD.rank
        assert MPI.COMM_WORLD.bcast(commId, 0) == commId, "ranks joined with other ids"
        self._mpi, self.over, self.aborted = MPI, MPI.COMM_WORLD.Dup(), False
        CALLS.append(("join", ndev, rank))

    @classmethod
    def initAll(cls, devices: list[int]) -> list["NcclCommunicator"]:  # noqa: N802
        assert len(set(devices)) == len(devices)
        made = [cls.__new__(cls) for _ in devices]
        for c, d in zip(made, devices):
            c.device, c.all = d, made                       # type: ignore[attr-defined]
        CALLS.append(("initAll", tuple(devices)))
        return made

    def reduce(self, send: int, receive: int, count: int, kind: int, op: int, root: int, stream: int) -> None:
        assert _group is not None, "calls of several devices of a process outside of a group wait for each other"
        assert op == NCCL_SUM
        _group.append((self, send, receive, count, kind, root))

    def allReduce(self, send: int, receive: int, count: int, kind: int, op: int, stream: int) -> None:  # noqa: N802
        assert op == NCCL_SUM and send == receive
        CALLS.append(("allReduce", count, TYPES[kind]))
        data = memory(receive, count, kind)
        given, out = data.copy(), np.empty_like(data)
        data.view(np.uint8)[:] = 0xA5                        # nobody may read it yet
        request = self.over.Iallreduce(given, out)
        self._queue(request, lambda: np.copyto(data, out), given)

    def allGather(self, send: int, receive: int, count: int, kind: int, stream: int) -> None:  # noqa: N802
        CALLS.append(("allGather", count, TYPES[kind]))
        given, data = memory(send, count, kind).copy(), memory(receive, count * self.over.size, kind)
        out = np.empty_like(data)
        request = self.over.Iallgather(given, out)
        self._queue(request, lambda: np.copyto(data, out), given)

    def _queue(self, request: Any, end: Any, held: Any) -> None:
        state: list[Any] = [held]

        def step() -> bool:
            if self.aborted:
                raise NcclError("NCCL_ERROR_SYSTEM_ERROR")
            if len(state) == 1 and request.Test():
                end()
                state.append(True)
            return len(state) == 2
        _queued.append(step)

    def abort(self) -> None:
        self.aborted = True
        CALLS.append(("abort",))


def get_unique_id() -> tuple[int, ...]:
    """As CuPy's: 128 numbers of a byte with a sign."""
    return tuple(int(b) for b in np.random.randint(-128, 128, 128))


def groupStart() -> None:  # noqa: N802
    """Begin a group of calls."""
    global _group
    assert _group is None
    _group = []


def groupEnd() -> None:  # noqa: N802
    """Run a group: each collective has a call of each device of its communicators, in the same order."""
    global _group
    calls, _group = _group or [], None
    by_device: dict[int, list[Any]] = {}
    for c in calls:
        by_device.setdefault(c[0].device, []).append(c)
    rows = list(zip(*by_device.values(), strict=True))
    for row in rows:
        everyone = row[0][0].all
        assert [c[0] for c in row] == everyone and len({c[3:] for c in row}) == 1, "the devices do different things"
        *_, count, kind, root = row[0]
        total = sum(memory(c[1], count, kind).astype("float64") for c in row)
        memory(row[root][2], count, kind)[:] = total
        CALLS.append(("reduce", count, TYPES[kind], len(row)))


def into(cupy: Any) -> Any:
    """Put it into a stand-in for CuPy."""
    import sys
    cupy.cuda.nccl, cupy.cuda.Event = sys.modules[__name__], Event
    cupy.cuda.runtime = SimpleNamespace(**{**vars(cupy.cuda.runtime),
                                           "deviceGetPCIBusId": lambda n: f"0000:{n:02x}:00.0"})
    return cupy
