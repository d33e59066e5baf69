"""Horovod's names: what is made of the arrays of all ranks, rows of them, sets of ranks."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid import distributed as hvd, launch, nd
from tests.distributed.test_distributed import needs_mpi, run

WORKER = Path(__file__).with_name("horovod_worker.py")
EXPORTED = """Compression allgather_object broadcast_object allgather grouped_allgather allreduce allreduce_
grouped_allreduce grouped_allreduce_ alltoall broadcast broadcast_ reducescatter grouped_reducescatter init shutdown
is_initialized start_timeline stop_timeline size local_size cross_size rank local_rank cross_rank mpi_threads_supported
mpi_enabled mpi_built gloo_enabled gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built ProcessSet
global_process_set add_process_set remove_process_set Average Sum Adasum Min Max Product DistributedOptimizer
DistributedTrainer broadcast_parameters""".split()


@needs_mpi
@pytest.mark.parametrize("what", ["reductions", "rows", "sets", "some"])
def test_three_ranks(what: str) -> None:
    done = run(str(launch.mpirun()), "-n", "3", sys.executable, str(WORKER), what)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", EXPORTED)
def test_horovods_names_are_there(name: str) -> None:
    assert name in hvd.__all__ and hasattr(hvd, name)


def test_what_is_left_out_is_an_error() -> None:
    for call, told in ((hvd.start_timeline, "mx.profiler"), (hvd.stop_timeline, "mx.profiler"), (hvd.run, "mpirun -n")):
        with pytest.raises(mx.MXNetError, match=told):
            call("x")
    assert not hvd.gloo_built() and hvd.nccl_built() >= 0


def test_compression_leaves_integers_and_halves_alone() -> None:
    for dtype, sent in (("float32", "float16"), ("float64", "float16"), ("float16", "float16"), ("int32", "int32"),
                        ("int8", "int8")):
        x = nd.ones((2, 2), dtype=dtype)
        small, ctx = hvd.Compression.fp16.compress(x)
        assert small.dtype == np.dtype(sent)
        back = hvd.Compression.fp16.decompress(small, ctx)
        assert back.dtype == x.dtype and (back.asnumpy() == 1).all()


def test_sets_take_lists_of_ranks() -> None:
    for ranks in ("ab", [0.5], 3, [1, 1]):
        with pytest.raises(mx.MXNetError, match="ProcessSet"):
            hvd.ProcessSet(ranks)
