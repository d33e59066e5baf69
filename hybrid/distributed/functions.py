"""Collective calls on arrays and objects, under Horovod's names and with its defaults (an allreduce averages)."""
from __future__ import annotations

import enum
from typing import Any, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.errors import AttributeValueError, DTypeError, ShapeError
from ..buffers.array import NDArray, wrap
from ..buffers.moving import move
from ..collective.sums import BUCKET_BYTES, Buckets, Sum as SumUnderWay, gather, total_of_rows
from ..collective.sums import alltoall as rows_to_all, broadcast as broadcast_values
from ..collective.world import World
from ..gluon.parameter import Parameter
from ..mxnet.dist_kvstore import assign, host, spread
from .process_sets import ProcessSet, global_process_set


class Reduction(enum.IntEnum):
    """What is made of the arrays of all ranks."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average, Sum, Adasum, Min, Max, Product = Reduction
_WAYS = {Average: "sum", Sum: "sum", Min: "min", Max: "max", Product: "product"}


def reduction(what: str, op: Any, average: bool | None = None,
              known: Sequence[Reduction] = tuple(_WAYS)) -> Reduction:
    """One of a call's reductions, by ``op`` or, as older programs have it, by ``average``."""
    if op is not None and average is not None:
        raise AttributeValueError(f"{what}: give op or average, not both (average=False is op=Sum)")
    if op is None:
        return Sum if average is not None and not average else Average
    if op not in known:
        name = f"hvd.{Reduction(op).name}" if op in set(Reduction) else repr(op)
        raise AttributeValueError(f"{what}: op is one of {', '.join(f'hvd.{k.name}' for k in known)}; got {name}")
    return Reduction(op)


def _told(what: str, name: Any) -> str:
    return f"{what} {name!r}" if name is not None else what


# ---- sums and their like
def allreduce(tensor: NDArray, average: bool | None = None, name: str | None = None, priority: int = 0,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set, op: Any = None) -> NDArray:
    """The mean over the ranks, as a new array; or their Sum, Min, Max or Product, as ``op`` says. Means of integers are
    cut off towards 0.

    >>> hvd.allreduce(nd.array([hvd.rank()])).asnumpy()                      # doctest: +SKIP
    array([0.5], dtype=float32)
    >>> hvd.allreduce(nd.array([hvd.rank()]), op=hvd.Max).asnumpy()          # doctest: +SKIP
    array([1.], dtype=float32)
    """
    return allreduce_(tensor.copy(), average, name, priority, prescale_factor, postscale_factor, process_set, op)


def allreduce_(tensor: NDArray, average: bool | None = None, name: str | None = None, priority: int = 0,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set, op: Any = None) -> NDArray:
    """``allreduce`` in place."""
    return grouped_allreduce_([tensor], average, name, priority, prescale_factor, postscale_factor, process_set, op)[0]


def grouped_allreduce(tensors: Sequence[NDArray], average: bool | None = None, name: str | None = None,
                      priority: int = 0, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set, op: Any = None) -> list[NDArray]:
    """``allreduce`` of several arrays in one message."""
    return grouped_allreduce_([x.copy() for x in tensors], average, name, priority, prescale_factor, postscale_factor,
                              process_set, op)


def grouped_allreduce_(tensors: Sequence[NDArray], average: bool | None = None, name: str | None = None,
                       priority: int = 0, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set, op: Any = None) -> list[NDArray]:
    """``grouped_allreduce`` in place."""
    kind, world = reduction("allreduce", op, average), process_set.world
    arrays = [(i, tuple(x.shape), np.dtype(x._data.dtype)) for i, x in enumerate(tensors)]
    ranks, told = world.size if kind is Average else 1, _told("allreduce", name)
    large = [i for i, x in enumerate(tensors) if _in_place(x)
             and not any(np.may_share_memory(x._data, y._data) for y in (*tensors[:i], *tensors[i + 1:]))]
    sums = Buckets(world, [a for a in arrays if a[0] not in large], how=_WAYS[kind])
    if len(large) < len(arrays):
        sums.sum(lambda i, view: _scaled(view, host(tensors[i]), prescale_factor), told)
    for i, view in sums.views.items():
        _scale(view, postscale_factor, ranks)
        assign(tensors[i], view)
    if large:
        _sum_in_place(world, [tensors[i] for i in large], _WAYS[kind], prescale_factor, (postscale_factor, ranks), told)
    return list(tensors)


def _in_place(x: NDArray) -> bool:
    """Whether an array is large, and can be summed where it is: two copies of it take longer than they save."""
    return (x._ctx.device_type != "gpu" and x._data.nbytes >= BUCKET_BYTES and x._data.flags.c_contiguous
            and x._data.flags.writeable)


def _sum_in_place(world: World, tensors: Sequence[NDArray], how: str, before: float, after: tuple[float, int],
                  told: str) -> None:
    """Large arrays become their sums over the ranks, all under way at once."""
    world.agree(f"{told}: {how} of large arrays {[(x._data.dtype.name, x.shape) for x in tensors]}")
    for x in tensors:
        _scale(x._data, before)
    under_way = [SumUnderWay(world, x._data.reshape(-1), None, told, how) for x in tensors]
    for each, x in zip(under_way, tensors):
        each.finish()
        _scale(x._data, *after)
        x._bump()


def _scale(view: np.ndarray, factor: float, ranks: int = 1) -> None:
    """Multiply in place, and divide by the number of ranks: integers in float64, halves in float32."""
    if factor == ranks:
        return
    if view.dtype.kind in "iub":
        view[...] = np.trunc(view * np.float64(factor) / ranks)
    elif dt.is_half(view.dtype):
        view[...] = view.astype(np.float32) * np.float32(factor / ranks)
    else:
        view *= view.dtype.type(factor / ranks)


def _scaled(view: np.ndarray, values: np.ndarray, factor: float) -> None:
    view[...] = values
    _scale(view, factor)


def reducescatter(tensor: NDArray, op: Any = Average, name: str | None = None, priority: int = 0,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> NDArray:
    """This rank's rows of the mean (or Sum) over the ranks: equally many on each, the first ranks have one more where
    that is not so.

    >>> hvd.reducescatter(nd.arange(4), op=hvd.Sum).asnumpy()                # doctest: +SKIP
    array([0., 2.], dtype=float32)
    """
    return grouped_reducescatter([tensor], op, name, priority, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(tensors: Sequence[NDArray], op: Any = Average, name: str | None = None, priority: int = 0,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> list[NDArray]:
    """``reducescatter`` of several arrays."""
    kind, world = reduction("reducescatter", op, known=(Average, Sum)), process_set.world
    if any(x.ndim == 0 for x in tensors):
        raise ShapeError("reducescatter takes arrays of at least one axis, got a scalar")
    found = []
    for x in tensors:
        values = np.array(host(x))
        _scale(values, prescale_factor)
        rows = total_of_rows(world, values, _told(f"reducescatter ({kind.name})", name))
        _scale(rows, postscale_factor, world.size if kind is Average else 1)
        found.append(_as(rows, x))
    return found


# ---- arrays as they are
def _as(values: np.ndarray, like: NDArray) -> NDArray:
    """An array of another's class and device over values."""
    return wrap(move(values, like._ctx, False), like._ctx, type(like))


def allgather(tensor: NDArray, name: str | None = None, priority: int = 0,
              process_set: ProcessSet = global_process_set) -> NDArray:
    """The arrays of all ranks, one after the other along axis 0."""
    return _as(gather(process_set.world, host(tensor), _told("allgather", name)), tensor)


def grouped_allgather(tensors: Sequence[NDArray], name: str | None = None, priority: int = 0,
                      process_set: ProcessSet = global_process_set) -> list[NDArray]:
    """``allgather`` of several arrays."""
    return [allgather(x, name, priority, process_set) for x in tensors]


def broadcast(tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0,
              process_set: ProcessSet = global_process_set) -> NDArray:
    """One rank's array, as a new array on all of them. root_rank: its number in the job, also in a process set."""
    return broadcast_(tensor.copy(), root_rank, name, priority, process_set)


def broadcast_(tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0,
               process_set: ProcessSet = global_process_set) -> NDArray:
    """``broadcast`` in place."""
    spread(process_set.world, tensor, process_set.number_of(root_rank), _told("broadcast", name))
    return tensor


def alltoall(tensor: NDArray, splits: Any = None, name: str | None = None, priority: int = 0,
             process_set: ProcessSet = global_process_set) -> Any:
    """Rows to all ranks: the first of each rank's parts go to rank 0, and so on. splits: how many rows each rank gets
    (equally many by default); where it is given, the result is a pair, of the rows and of how many each rank sent."""
    world, values = process_set.world, host(tensor)
    if splits is None:
        counts = [len(values) // world.size] * world.size
    else:
        given = np.asarray(splits.asnumpy() if isinstance(splits, NDArray) else splits)
        if given.dtype.kind not in "iu":
            raise DTypeError(f"alltoall: splits are numbers of rows, integers, got {given.dtype}")
        counts = given.tolist()
    if len(counts) != world.size or sum(counts) != len(values) or min(counts) < 0:
        raise ShapeError(f"alltoall: {len(values)} rows cannot be split into {counts} for {world.size} ranks")
    rows, lengths = rows_to_all(world, values, counts, _told("alltoall", name))
    found = _as(rows, tensor)
    return found if splits is None else (found, _as(np.array(lengths, np.int32), tensor))


# ---- objects and parameters
def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """The Python objects of all ranks, by rank."""
    return process_set.world.gather_objects(obj, _told("allgather_object", name))


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """One rank's Python object on all ranks."""
    root = process_set.number_of(root_rank)
    return process_set.world.broadcast_object(obj, root, _told("broadcast_object", name))


def broadcast_parameters(params: Mapping[str, Any], root_rank: int = 0, prefix: str | None = None,
                         process_set: ProcessSet = global_process_set) -> None:
    """One rank's parameters (a ParameterDict, or a dict of Parameters or arrays) on all ranks.

    Parameters whose shapes are not known yet follow when they are: at the first call of the network.
    """
    if not hasattr(params, "items"):
        raise ValueError(f"broadcast_parameters takes a dict of parameters, got {type(params).__name__}")
    world, root = process_set.world, process_set.number_of(root_rank)
    for name, p in sorted(params.items()):
        if isinstance(p, Parameter) and p.is_deferred:
            _follow(world, p, root)
        else:
            for x in p.arrays().values() if isinstance(p, Parameter) else [p]:
                spread(world, x, root, f"broadcast of {prefix or ''}{name}")


def _follow(world: World, p: Parameter, root: int) -> None:
    """Broadcast a parameter when its values are made."""
    make = p._make

    def made(*args: Any, **kwargs: Any) -> None:
        del p.__dict__["_make"]
        make(*args, **kwargs)
        for x in p.arrays().values():
            assign(x, broadcast_values(world, host(x), root, "broadcast of a parameter at the first call"))
    p.__dict__["_make"] = made
