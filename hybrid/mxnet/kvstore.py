"""MXNet's ``kvstore``: stores by their names, of one process (local_kvstore.py) or of several (dist_kvstore.py)."""
from __future__ import annotations

from ..base.errors import HybridError
from .local_kvstore import KVStore, KVStoreBase, TestStore

_ELSEWHERE = ("dist", "horovod", "byteps", "nccl", "p3")
OVER_PROCESSES = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device", "horovod")


def create(name: str = "local") -> KVStoreBase:
    """A store, by the name of a registered class or of a kind. Within one process all kinds ('local', 'device', …) do
    the same; 'nccl' adds up on GPUs
    by NCCL. 'dist_sync', 'dist_device_sync', 'dist' and 'horovod' bring the processes together that mpirun started."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a kvstore must be text, got {type(name).__name__}")
    if name.lower().startswith(_ELSEWHERE):
        return over_processes(name.lower())
    found = KVStoreBase.kv_registry.get(name.lower())
    return KVStore(name.lower()) if found is None else found()


def over_processes(name: str) -> KVStoreBase:
    """A store over several processes. HybridError for those that are not supported, and without mpi4py."""
    if name == "nccl":
        from .nccl_kvstore import NcclStore  # noqa: PLC0415  loads only for several GPUs
        return NcclStore()
    if "async" in name:
        raise HybridError(f"kvstore {name!r}: updates without waiting for the other workers are not supported: use "
                          f"'dist_sync'")
    if name not in OVER_PROCESSES:
        raise HybridError(f"kvstore {name!r} is not supported; over several processes there are "
                          f"{', '.join(OVER_PROCESSES)}")
    from .dist_kvstore import DistributedStore  # noqa: PLC0415  loads only for several processes
    return DistributedStore(name)


__all__ = ["KVStore", "KVStoreBase", "TestStore", "create"]
