"""What a Trainer is given: parameters, and the store that brings devices and processes together."""
from __future__ import annotations

import re
from typing import Any

from ..base.errors import AttributeValueError
from ..mxnet.kvstore import OVER_PROCESSES, KVStore, KVStoreBase, create, over_processes
from .parameter import Parameter

LOCAL = ("local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "device", "nccl")


MULTIPLES = {"learning_rate": "lr_mult", "wd": "wd_mult"}     # of rates, as Parameters have them
PYTORCHS = {"lr": "learning_rate", "weight_decay": "wd"}      # names in groups of parameters


def parameters_of(params: Any) -> tuple[list[Parameter], list[dict[str, Any]]]:
    """The parameters that a Trainer is given, and the groups they come in, if they do."""
    groups = []
    if isinstance(params, (list, tuple)) and params and all(isinstance(g, dict) and "params" in g for g in params):
        groups = [{**{PYTORCHS.get(k, k): v for k, v in g.items()}, "params": _listed(g["params"])} for g in params]
        params = [p for g in groups for p in g["params"]]
    params = _listed(params)
    twice = [p.name for i, p in enumerate(params) if any(p is q for q in params[:i])]
    if twice:
        raise AttributeValueError(f"parameter {twice[0]!r} is given twice; each can be updated once a step")
    return params, groups


def _listed(params: Any) -> list[Parameter]:
    if hasattr(params, "keys"):
        params = [params[k] for k in sorted(params.keys(), key=_natural)]
    if not isinstance(params, (list, tuple)):
        raise AttributeValueError(f"the first argument of Trainer must be a list or dict of Parameters, got "
                                  f"{type(params).__name__}: "
                                  "give it net.collect_params()")
    for p in params:
        if not isinstance(p, Parameter):
            raise AttributeValueError(f"the first argument of Trainer must be a list or dict of Parameters, it holds "
                                      f"a {type(p).__name__}")
    return list(params)


def apply_groups(groups: list[dict[str, Any]], optimizer: Any) -> None:
    """Parameters of groups get ``lr_mult`` and ``wd_mult``: those that their group has, or the multiple of the
    optimizer's own rate that gives the group's."""
    for group in groups:
        given = {MULTIPLES.get(k, k): _multiple(k, v, optimizer) for k, v in group.items() if k != "params"}
        for p in group["params"]:
            for name, value in given.items():
                setattr(p, name, value)


def _multiple(name: str, value: Any, optimizer: Any) -> float:
    """The multiple of the optimizer's rate that a group has, from the multiple itself or the group's rate."""
    if name not in (*MULTIPLES, *MULTIPLES.values()):
        raise AttributeValueError("a group of parameters has params, learning_rate, wd, lr_mult and wd_mult, got "
                                  f"{name!r}: other settings belong to the optimizer, so make a Trainer for each group")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AttributeValueError(f"a group of parameters takes a number for {name}, got {value!r}")
    if name in MULTIPLES.values():
        return float(value)
    schedule = optimizer.lr_scheduler
    own = optimizer.wd if name == "wd" else optimizer.lr if schedule is None else schedule.base_lr
    if not own and value:
        raise AttributeValueError(f"a group of parameters has {name}={value}, which is taken as a multiple of the "
                                  f"optimizer's, and that is 0: give the optimizer another {name} in optimizer_params")
    return value / own if own else 1.0


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorting key: dense9 before dense10. States are saved by position, and a second network has other numbers in its
    names."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", str(name))]


def own_store(kvstore: Any, devices: int) -> KVStoreBase | None:
    """A store of a class of the user's: given as an object, or for several devices by the name of its class."""
    if isinstance(kvstore, str) and kvstore.lower() in KVStoreBase.kv_registry and devices > 1:
        return create(kvstore)
    return kvstore if isinstance(kvstore, KVStoreBase) and not isinstance(kvstore, KVStore) else None


def over_ranks(kvstore: Any, compression: Any) -> Any:
    """How gradients go over several processes, where a store of that kind is given, by its name or as an object."""
    if isinstance(kvstore, str) and kvstore.lower().startswith(("dist", "horovod")):
        kvstore = create(kvstore)
    if not isinstance(kvstore, KVStore) or kvstore.type not in OVER_PROCESSES:
        return None
    from .over_ranks import OverRanks  # noqa: PLC0415  loads only for several processes
    return OverRanks(kvstore, compression)


def shards_of(ranks: Any, params: Any) -> Any:
    """How optimizer states are shared out over several processes."""
    if ranks is None:
        raise AttributeValueError("shard_states shares optimizer states out over several processes: give a kvstore of "
                                  "such, 'dist_sync' or 'horovod'")
    from .sharded import Shards  # noqa: PLC0415  loads only for several processes
    return Shards(ranks.world, params, ranks.name)


def sums_devices(kvstore: Any) -> bool:
    """Whether gradients of several devices are added up."""
    if kvstore is None:
        return False
    if not isinstance(kvstore, str):
        kvstore = getattr(kvstore, "type", kvstore)         # an object, as mx.kv.create gives
    if isinstance(kvstore, str) and (kvstore in LOCAL or kvstore.lower() in KVStoreBase.kv_registry):
        return True
    if isinstance(kvstore, str) and kvstore.startswith(("dist", "byteps", "p3")):
        over_processes(kvstore)
    raise AttributeValueError(f"kvstore must be None or one of {', '.join(LOCAL)}, got {kvstore!r}")
