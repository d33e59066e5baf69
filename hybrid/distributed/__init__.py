"""Training over several processes, under Horovod's names: ``import horovod.mxnet as hvd`` gives this module in programs
that run under ``python -m hybrid.as_mxnet``.

>>> from hybrid import distributed as hvd
>>> hvd.init()                                                               # doctest: +SKIP
>>> trainer = hvd.DistributedTrainer(net.collect_params(), "sgd")            # doctest: +SKIP
"""
from __future__ import annotations

from ..base.other_names import hinted as _hinted
from .checkpoint import load_checkpoint, save_checkpoint
from .compression import Compression
from .functions import (Adasum, Average, Max, Min, Product, Sum, allgather, allgather_object, allreduce, allreduce_,
                        alltoall, broadcast, broadcast_, broadcast_object, broadcast_parameters, grouped_allgather,
                        grouped_allreduce, grouped_allreduce_, grouped_reducescatter, reducescatter)
from .job import (barrier, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built, gloo_enabled, init,
                  is_homogeneous, is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                  nccl_built, rank, rocm_built, run, shutdown, size, start_timeline, stop_timeline)
from .process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from .samplers import DistributedSampler, SplitSampler
from .training import DistributedOptimizer, DistributedTrainer

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "DistributedSampler", "DistributedTrainer",
           "Max", "Min", "ProcessSet", "Product", "SplitSampler", "Sum", "add_process_set", "allgather",
           "allgather_object", "allreduce", "allreduce_", "alltoall", "barrier", "broadcast", "broadcast_",
           "broadcast_object", "broadcast_parameters", "ccl_built", "cross_rank", "cross_size", "cuda_built",
           "ddl_built", "global_process_set", "gloo_built", "gloo_enabled", "grouped_allgather", "grouped_allreduce",
           "grouped_allreduce_", "grouped_reducescatter", "init", "is_homogeneous", "is_initialized", "load_checkpoint",
           "local_rank", "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "rank",
           "reducescatter", "remove_process_set", "rocm_built", "run", "save_checkpoint", "shutdown", "size",
           "start_timeline", "stop_timeline"]

_hinted(globals())
