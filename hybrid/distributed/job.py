"""The job: who takes part in it, and what it runs on, under Horovod's names."""
from __future__ import annotations

from typing import Any, NoReturn, Sequence

from .. import collective
from ..base.errors import AttributeValueError, HybridError
from ..collective import nccl
from ..collective.world import World
from . import process_sets as sets
from .process_sets import ProcessSet, add_process_set


def init(comm: Any = None, process_sets: Sequence[ProcessSet] | str | None = None,
         deterministic: bool | None = None) -> None:
    """Join the job that mpirun has started. HybridError without mpi4py.

    comm: the ranks that are the job, a list of their numbers or a communicator of mpi4py; all by default.
    process_sets: sets of ranks to begin with (``add_process_set`` adds others). deterministic: sums are taken in the
    order of the ranks, bit for bit the same in every run (HYBRID_DETERMINISTIC_SUMS=1 is the default's other value).
    """
    collective.start(deterministic, comm)
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise AttributeValueError(f"init: process_sets is a list of ProcessSets or 'dynamic', got {process_sets!r}")
        process_sets = ()
    for each in process_sets or ():
        add_process_set(each)


def shutdown() -> None:
    """Leave the job; waits until all ranks do."""
    sets.forget()
    collective.shutdown()


def is_initialized() -> bool:
    """Whether ``init`` was called."""
    return collective.current() is not None


def _world() -> World:
    return sets.global_process_set.world


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


def is_homogeneous() -> bool:
    """Whether all machines have the same number of processes."""
    return len(set(_world().gather_objects(_world().local_size, "is_homogeneous"))) == 1


def barrier(process_set: ProcessSet = sets.global_process_set) -> None:
    """Wait until all ranks are here."""
    process_set.world.barrier()


# ---- what is there
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


def nccl_built() -> int:
    """The version of NCCL that sums arrays on GPUs, 0 where there is none."""
    found = nccl.library()
    return 0 if found is None else int(found.get_version())


def _absent() -> bool:
    """Whether another library than MPI and NCCL is used: none is."""
    return False


gloo_enabled = gloo_built = ddl_built = ccl_built = cuda_built = rocm_built = _absent


# ---- what Horovod has and this library leaves out
def _left_out(name: str, instead: str) -> Any:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise HybridError(f"horovod's {name} is not supported: {instead}")
    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"Is an error: {instead}."
    return refused


run = _left_out("run", "start the program with mpirun -n 2 python train.py, or python -m hybrid.launch -n 2 python "
                       "train.py")
start_timeline = _left_out("start_timeline", "mx.profiler writes a timeline of each rank")
stop_timeline = _left_out("stop_timeline", "mx.profiler writes a timeline of each rank")
