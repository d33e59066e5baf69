"""Collective calls on arrays, under Horovod's names and with its defaults (an allreduce averages)."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from .. import collective
from ..base.device import array_module
from ..base.errors import AttributeValueError, HybridError, ShapeError
from ..buffers.array import NDArray, wrap
from ..collective.sums import BUCKET_BYTES, Buckets, Sum, gather
from ..collective.sums import alltoall as rows_to_all, broadcast as broadcast_values
from ..collective.world import World
from ..gluon.parameter import Parameter
from ..mxnet.dist_kvstore import assign, host, spread


def init(comm: Any = None, deterministic: bool | None = None) -> None:
    """Join the job that mpirun has started. HybridError without mpi4py.

    comm: accepted where it is None. deterministic: sums are taken in the order of the ranks, bit for bit the same in
    every run (HYBRID_DETERMINISTIC_SUMS=1 is the default's other value).
    """
    if comm is not None:
        raise AttributeValueError("init: comm must be None; a job is all processes that mpirun started")
    collective.start(deterministic)


def shutdown() -> None:
    """Leave the job; waits until all ranks do."""
    collective.shutdown()


def is_initialized() -> bool:
    """Whether ``init`` was called."""
    return collective.current() is not None


def _world() -> World:
    world = collective.current()
    if world is None:
        raise HybridError("the job is not joined yet: call hybrid.distributed.init() (hvd.init()) first")
    return world


def rank() -> int:
    """The number of this process."""
    return _world().rank


def size() -> int:
    """How many processes there are."""
    return _world().size


def local_rank() -> int:
    """The number of this process among those of its machine."""
    return _world().local_rank


def local_size() -> int:
    """How many processes this machine has."""
    return _world().local_size


def cross_rank() -> int:
    """The number of this process's machine, where all have the same number of processes."""
    return _world().rank // _world().local_size


def cross_size() -> int:
    """How many machines there are, where all have the same number of processes."""
    return -(-_world().size // _world().local_size)


def mpi_threads_supported() -> bool:
    """Whether MPI may be called by several threads."""
    mpi = _world().mpi
    return mpi.Query_thread() == mpi.THREAD_MULTIPLE


def mpi_enabled() -> bool:
    """Whether MPI is used: always."""
    return True


def mpi_built() -> bool:
    """Whether MPI can be used: always, with mpi4py."""
    return True


def _absent() -> bool:
    """Whether another library than MPI is used: none is."""
    return False


gloo_enabled = gloo_built = nccl_built = ddl_built = ccl_built = cuda_built = rocm_built = _absent


# ---- arrays
def _told(what: str, name: Any) -> str:
    return f"{what} {name!r}" if name is not None else what


def allreduce(tensor: NDArray, average: bool = True, name: str | None = None, priority: int = 0,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> NDArray:
    """The mean (or sum) over the ranks, as a new array.

    >>> hvd.allreduce(nd.array([hvd.rank()])).asnumpy()                      # doctest: +SKIP
    array([0.5], dtype=float32)
    """
    out = tensor.copy()
    return allreduce_(out, average, name, priority, prescale_factor, postscale_factor)


def allreduce_(tensor: NDArray, average: bool = True, name: str | None = None, priority: int = 0,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> NDArray:
    """``allreduce`` in place."""
    return grouped_allreduce_([tensor], average, name, priority, prescale_factor, postscale_factor)[0]


def grouped_allreduce(tensors: Sequence[NDArray], average: bool = True, name: str | None = None, priority: int = 0,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> list[NDArray]:
    """``allreduce`` of several arrays in one message."""
    return grouped_allreduce_([x.copy() for x in tensors], average, name, priority, prescale_factor, postscale_factor)


def grouped_allreduce_(tensors: Sequence[NDArray], average: bool = True, name: str | None = None, priority: int = 0,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> list[NDArray]:
    """``grouped_allreduce`` in place."""
    world = _world()
    arrays = [(i, tuple(x.shape), np.dtype(x._data.dtype)) for i, x in enumerate(tensors)]
    after = postscale_factor / (world.size if average else 1)
    if average and any(d.kind in "iub" for *_, d in arrays):
        raise AttributeValueError("allreduce: the mean of integers is no integer: use average=False")
    large = [i for i, x in enumerate(tensors) if _in_place(x)
             and not any(np.may_share_memory(x._data, y._data) for y in (*tensors[:i], *tensors[i + 1:]))]
    sums = Buckets(world, [a for a in arrays if a[0] not in large])
    told = _told("allreduce", name)
    if len(large) < len(arrays):
        sums.sum(lambda i, view: _scaled(view, host(tensors[i]), prescale_factor), told)
    for i, view in sums.views.items():
        _scale(view, after)
        assign(tensors[i], view)
    if large:
        _sum_in_place(world, [tensors[i] for i in large], prescale_factor, after, told)
    return list(tensors)


def _in_place(x: NDArray) -> bool:
    """Whether an array is large, and can be summed where it is: two copies of it take longer than they save."""
    return (x._ctx.device_type != "gpu" and x._data.nbytes >= BUCKET_BYTES and x._data.flags.c_contiguous
            and x._data.flags.writeable)


def _sum_in_place(world: Any, tensors: Sequence[NDArray], before: float, after: float, told: str) -> None:
    """Large arrays become their sums over the ranks, all under way at once."""
    world.agree(f"{told}: large arrays {[(x._data.dtype.name, x.shape) for x in tensors]}")
    for x in tensors:
        _scale(x._data, before)
    under_way = [Sum(world, x._data.reshape(-1), None, told) for x in tensors]
    for each, x in zip(under_way, tensors):
        each.finish()
        _scale(x._data, after)
        x._bump()


def _scale(view: np.ndarray, factor: float) -> None:
    if factor != 1:
        view *= view.dtype.type(factor)


def _scaled(view: np.ndarray, values: np.ndarray, factor: float) -> None:
    view[...] = values
    _scale(view, factor)


def _as(values: np.ndarray, like: NDArray) -> NDArray:
    """An array of another's class and device over values."""
    return wrap(array_module(like._ctx).asarray(values), like._ctx, type(like))


def allgather(tensor: NDArray, name: str | None = None, priority: int = 0) -> NDArray:
    """The arrays of all ranks, one after the other along axis 0."""
    found = gather(_world(), host(tensor), _told("allgather", name))
    return _as(found, tensor)


def broadcast(tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0) -> NDArray:
    """One rank's array, as a new array on all of them."""
    return broadcast_(tensor.copy(), root_rank, name, priority)


def broadcast_(tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0) -> NDArray:
    """``broadcast`` in place."""
    spread(_world(), tensor, root_rank, _told("broadcast", name))
    return tensor


def alltoall(tensor: NDArray, splits: Any = None, name: str | None = None, priority: int = 0) -> NDArray:
    """Rows to all ranks: the first of each rank's parts go to rank 0, and so on. splits: how many rows each rank gets
    (equally many by default)."""
    world = _world()
    values = host(tensor)
    counts = ([len(values) // world.size] * world.size if splits is None
              else [int(n) for n in getattr(splits, "asnumpy", lambda: splits)()])
    if len(counts) != world.size or sum(counts) != len(values):
        raise ShapeError(f"alltoall: {len(values)} rows cannot be split into {counts} for {world.size} ranks")
    return _as(rows_to_all(world, values, counts, _told("alltoall", name)), tensor)


def barrier() -> None:
    """Wait until all ranks are here."""
    _world().barrier()


def allgather_object(obj: Any, session: Any = None, name: str | None = None) -> list[Any]:
    """The Python objects of all ranks, by rank."""
    return _world().gather_objects(obj, _told("allgather_object", name))


def broadcast_object(obj: Any, root_rank: int = 0, session: Any = None, name: str | None = None) -> Any:
    """One rank's Python object on all ranks."""
    return _world().broadcast_object(obj, root_rank, _told("broadcast_object", name))


def broadcast_parameters(params: Mapping[str, Any], root_rank: int = 0, prefix: str | None = None) -> None:
    """One rank's parameters (a ParameterDict, or a dict of Parameters or arrays) on all ranks.

    Parameters whose shapes are not known yet follow when they are: at the first call of the network.
    """
    if not hasattr(params, "items"):
        raise ValueError(f"broadcast_parameters takes a dict of parameters, got {type(params).__name__}")
    world = _world()
    for name, p in sorted(params.items()):
        if isinstance(p, Parameter) and p.is_deferred:
            _follow(world, p, root_rank, name)
        else:
            for x in p.arrays().values() if isinstance(p, Parameter) else [p]:
                spread(world, x, root_rank, f"broadcast of {prefix or ''}{name}")


def _follow(world: World, p: Parameter, root: int, name: str) -> None:
    """Broadcast a parameter when its values are made."""
    make = p._make

    def made(*args: Any, **kwargs: Any) -> None:
        del p.__dict__["_make"]
        make(*args, **kwargs)
        for x in p.arrays().values():
            assign(x, broadcast_values(world, host(x), root, "broadcast of a parameter at the first call"))
    p.__dict__["_make"] = made


