"""Sums of arrays over the ranks, by buckets: many gradients are one message, and one bucket is packed while the last
one is under way."""
from __future__ import annotations

import hashlib
from typing import Any, Callable, Hashable, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.device import Context, cpu, on, zeros
from ..base.errors import AttributeValueError, HybridError
from .nccl import DeviceSum
from .order import in_one_call, sent_dtype, total_of
from .world import World

BUCKET_BYTES = 4 << 20
WIRES = {"none": None, "fp16": "float16", "float16": "float16", "bf16": "bfloat16", "bfloat16": "bfloat16"}


def wire_dtype(compression: Any) -> np.dtype | None:
    """The dtype in which gradients are sent, by the name of a compression (or MXNet's dict with a ``type``).

    >>> wire_dtype({"type": "fp16"})
    dtype('float16')
    """
    name = compression.get("type") if isinstance(compression, dict) else compression
    name = getattr(name, "wire", name)
    if name is None or name == {}:
        return None
    if name not in WIRES:
        raise AttributeValueError(f"gradient compression over several processes is one of {', '.join(WIRES)}, got "
                                  f"{name!r}")
    return None if WIRES[name] is None else dt.as_dtype(WIRES[name])


class Sum:
    """A sum of one flat array over the ranks, under way: ``poll`` drives it on, ``finish`` waits.

    Sums in the ranks' order, and those of half types (which MPI does not know): each rank adds up one part of the array
    in float32, or in the array's type if that is wider, and sends it to all. So are products, minima and maxima
    (``how``) made.
    """

    def __init__(self, world: World, data: np.ndarray, wire: np.dtype | None, what: str, how: str = "sum"):
        self.world, self.data, self.what, self.how = world, data, what, how
        sent = sent_dtype(data.dtype, wire)
        self._parts: np.ndarray | None = None
        if world.size == 1:
            if sent != data.dtype:
                data[...] = data.astype(sent).astype(data.dtype)
            self._requests: list[Any] = []
        elif in_one_call(data.dtype, sent, world.deterministic, how):
            self._requests = [world.comm.Iallreduce(world.mpi.IN_PLACE, data)]
        else:
            each = -(-data.size // world.size)
            self._given = np.zeros((world.size, each), sent)
            self._given.ravel()[:data.size] = data.astype(sent, copy=False)
            self._parts = np.empty_like(self._given)
            self._requests = [world.comm.Ialltoall(self._given.view(np.uint8), self._parts.view(np.uint8))]

    def poll(self) -> bool:
        """Whether the requests of this stage are through."""
        return not self._requests or self.world.mpi.Request.Testall(self._requests)

    def finish(self) -> None:
        """Wait; then ``data`` holds the sum."""
        if self._requests:
            self.world.wait(self._requests, self.what)
        if self._parts is not None:
            own = np.ascontiguousarray(total_of(self._parts, self.how))
            self.world.wait([self.world.comm.Iallgather(own.view(np.uint8), self._given.view(np.uint8))], self.what)
            self.data[...] = self._given.ravel()[:self.data.size].astype(self.data.dtype, copy=False)
            self._parts = None
        self._requests = []


def bucketed(arrays: Sequence[tuple[Hashable, tuple[int, ...], np.dtype]]) -> list[list[Any]]:
    """The keys of arrays (key, shape, dtype) that are summed together, by buckets. The last arrays come first: their
    gradients are the first that backward has.

    >>> bucketed([("a", (2,), np.dtype("float32")), ("b", (1 << 21,), np.dtype("float32")),
    ...           ("c", (3,), np.dtype("float32"))])
    [['c'], ['b'], ['a']]
    """
    out: list[list[Any]] = []
    for dtype in dict.fromkeys(d for *_, d in reversed(arrays)):
        room = -1
        for key, shape, _ in [a for a in reversed(arrays) if a[2] == dtype]:
            size = _size(shape) * dtype.itemsize
            if size > room:
                out.append([])
                room = BUCKET_BYTES
            out[-1].append(key)
            room -= size
    return out


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


class Buckets:
    """Arrays that are summed together again and again: each is a part (``views``) of one of few flat arrays.

    arrays: (key, shape, dtype) of each.
    gpu: where the flat arrays lie, to be summed by NCCL; in this process's memory, by MPI, where there is none.
    how: sums, or what else is made of them (``Sum``), in this process's memory.

    >>> from hybrid.collective import start
    >>> sums = Buckets(start(), [("w", (2, 3), np.dtype("float32"))])        # doctest: +SKIP
    """

    def __init__(self, world: World, arrays: Sequence[tuple[Hashable, tuple[int, ...], np.dtype]],
                 wire: np.dtype | None = None, gpu: Context | None = None, how: str = "sum"):
        self.world, self.wire, self.arrays, self.gpu, self.how = world, wire, list(arrays), gpu, how
        self.views: dict[Any, Any] = {}
        self._buckets: list[tuple[Any, list[Any]]] = []
        self._under_way: list[Any] = []                     # sums of the first buckets
        info = {key: (shape, dtype) for key, shape, dtype in self.arrays}
        for keys in bucketed(self.arrays):
            self._add([(k, info[k][0], _size(info[k][0])) for k in keys], info[keys[0]][1])
        told = ", ".join(f"{k}: {d}{s}" for k, s, d in self.arrays[:3]) + (", …" if len(self.arrays) > 3 else "")
        self._what = f"{how} of {len(self.arrays)} arrays ({told}; {_hash(self.arrays, wire)})"

    def _add(self, keys: Sequence[tuple[Any, tuple[int, ...], int]], dtype: np.dtype) -> None:
        ctx, at = self.gpu or cpu(), 0
        with on(ctx):
            flat = zeros((sum(n for *_, n in keys),), dtype, ctx)
            for key, shape, size in keys:
                self.views[key] = flat[at:at + size].reshape(shape)
                at += size
        self._buckets.append((flat, [key for key, *_ in keys]))

    def sum(self, fill: Callable[[Any, Any], None], what: str = "gradients") -> None:
        """Write this rank's values into the views by ``fill(key, view)``; sum them over the ranks there."""
        for number in range(len(self._buckets)):
            self.begin(number, fill, what)
        self.finish()

    def begin(self, number: int, fill: Callable[[Any, Any], None], what: str = "gradients") -> None:
        """Fill one bucket, the first one first, and begin its sum, which goes on while other things are done."""
        if number != len(self._under_way):
            raise HybridError(f"{what}: an earlier step ended in an error in the middle of its sums over the ranks, "
                              f"which cannot go on together from there: end the job, and go on from a checkpoint")
        if not number:
            self.world.agree(f"{what}: {self._what}")
        flat, keys = self._buckets[number]
        for key in keys:
            fill(key, self.views[key])
        for earlier in self._under_way:
            earlier.poll()                                  # lets MPI go on with it
        self._under_way.append(self._begun(flat, what))

    def finish(self) -> None:
        """Wait until the sums of all buckets are there."""
        for each in self._under_way:
            each.finish()
        self._under_way.clear()

    def _begun(self, flat: Any, what: str) -> Any:
        if self.gpu is None:
            return Sum(self.world, flat, self.wire, what, self.how)
        return DeviceSum(self.world, flat, self.wire, what, self.gpu)


def _hash(arrays: Sequence[Any], wire: Any) -> str:
    return hashlib.blake2b(repr((arrays, str(wire))).encode(), digest_size=6).hexdigest()


def total(world: World, data: np.ndarray, what: str, wire: np.dtype | None = None) -> np.ndarray:
    """The sum of an array over the ranks, as a new array."""
    world.agree(f"{what} of {data.dtype}{data.shape}")
    out = np.array(data, order="C")
    Sum(world, out.reshape(-1), wire, what).finish()
    return out


def broadcast(world: World, data: np.ndarray, root: int, what: str) -> np.ndarray:
    """The array of one rank, as a new array on all of them."""
    world.check_root(root)
    world.agree(f"{what} of {data.dtype}{data.shape} from rank {root}")
    out = np.array(data, order="C")
    if world.size > 1 and out.size:
        world.wait([world.comm.Ibcast(out.reshape(-1).view(np.uint8), root)], what)
    return out


def gather(world: World, data: np.ndarray, what: str) -> np.ndarray:
    """The arrays of all ranks, one after the other along axis 0; their first lengths may differ."""
    if data.ndim == 0:
        data = data.reshape(1)
    world.agree(f"{what} of {data.dtype} arrays of shape (*, {', '.join(map(str, data.shape[1:]))})")
    if world.size == 1:
        return data.copy()
    lengths = world.exchange(len(data), what)
    row = int(np.prod(data.shape[1:], dtype=np.int64)) * data.dtype.itemsize
    out = np.empty((sum(lengths), *data.shape[1:]), data.dtype)
    mine = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    world.wait([world.comm.Iallgatherv(mine, _parts(world, out, lengths, row))], what)
    return out


def alltoall(world: World, data: np.ndarray, counts: list[int], what: str) -> tuple[np.ndarray, list[int]]:
    """Rows to all ranks, ``counts`` of them to each, one after the other: what this rank is sent, by sender, and how
    many rows each has sent."""
    what = f"{what} of {data.dtype} rows of {data.shape[1:]}"
    world.agree(what)
    lengths = [each[world.rank] for each in world.exchange(counts, what)]
    row = int(np.prod(data.shape[1:], dtype=np.int64)) * data.dtype.itemsize
    out, mine = np.empty((sum(lengths), *data.shape[1:]), data.dtype), np.ascontiguousarray(data)
    world.wait([world.comm.Ialltoallv(_parts(world, mine, counts, row), _parts(world, out, lengths, row))], what)
    return out, lengths


def total_of_rows(world: World, data: np.ndarray, what: str) -> np.ndarray:
    """This rank's rows of the sum of an array over the ranks: the first ranks have one more where they have not
    equally many. Added up in the order of the ranks."""
    whole, rest = divmod(len(data), world.size)
    counts = [whole + (r < rest) for r in range(world.size)]
    parts, _ = alltoall(world, data, counts, f"{what} of {data.dtype}{data.shape}, by")
    return total_of(parts.reshape(world.size, counts[world.rank], *data.shape[1:]))


def _parts(world: World, data: np.ndarray, counts: Sequence[int], row: int) -> list[Any]:
    """MPI's description of an array of which each rank has some rows of so many bytes, by rank."""
    sizes = [n * row for n in counts]
    return [data.reshape(-1).view(np.uint8), sizes, np.cumsum([0, *sizes[:-1]]).tolist(), world.mpi.BYTE]
