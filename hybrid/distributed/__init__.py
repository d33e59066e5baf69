"""Training over several processes, under Horovod's names: ``import horovod.mxnet as hvd`` gives this module in programs
that run under ``python -m hybrid.as_mxnet``.

>>> from hybrid import distributed as hvd
>>> hvd.init()                                                               # doctest: +SKIP
>>> trainer = hvd.DistributedTrainer(net.collect_params(), "sgd")            # doctest: +SKIP
"""
from __future__ import annotations

from .checkpoint import load_checkpoint, save_checkpoint
from .compression import Compression
from .functions import (allgather, allgather_object, allreduce, allreduce_, alltoall, barrier, broadcast, broadcast_,
                        broadcast_object, broadcast_parameters, ccl_built, cross_rank, cross_size, cuda_built,
                        ddl_built, gloo_built, gloo_enabled, grouped_allreduce, grouped_allreduce_, init,
                        is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                        nccl_built, rank, rocm_built, shutdown, size)
from .samplers import DistributedSampler, SplitSampler
from .training import DistributedOptimizer, DistributedTrainer

__all__ = ["Compression", "DistributedOptimizer", "DistributedSampler", "DistributedTrainer", "SplitSampler",
           "allgather", "allgather_object", "allreduce", "allreduce_", "alltoall", "barrier", "broadcast",
           "broadcast_", "broadcast_object", "broadcast_parameters", "ccl_built", "cross_rank", "cross_size",
           "cuda_built", "ddl_built", "gloo_built", "gloo_enabled", "grouped_allreduce", "grouped_allreduce_", "init",
           "is_initialized", "load_checkpoint", "local_rank", "local_size", "mpi_built", "mpi_enabled",
           "mpi_threads_supported", "nccl_built", "rank", "rocm_built", "save_checkpoint", "shutdown", "size"]
