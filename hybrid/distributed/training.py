"""A Trainer and an optimizer that average gradients over the ranks, under Horovod's names."""
from __future__ import annotations

from typing import Any

from ..base.errors import AttributeValueError, warn_user
from ..gluon.trainer import Trainer
from ..mxnet.dist_kvstore import DistributedStore
from ..optimizer import Optimizer
from .compression import Compression
from .functions import Sum, grouped_allreduce_
from .process_sets import ProcessSet, global_process_set


class DistributedTrainer(Trainer):
    """A Trainer whose gradients are averaged over the ranks, or over those of a process set.

    compression: what they are sent in. gradient_predivide_factor: gradients are divided by it before the sum, and
    multiplied by it / size after it. shard_states: each rank keeps the optimizer's states of
    some parameters. prefix, num_groups: accepted; sums go in buckets. process_set: the ranks that train together; each
    of the others trains by itself.
    """

    def __init__(self, params: Any, optimizer: Any, optimizer_params: dict[str, Any] | None = None,
                 compression: Any = Compression.none, gradient_predivide_factor: float = 1.0,
                 prefix: str | None = None, num_groups: int = 0, process_set: ProcessSet = global_process_set,
                 shard_states: bool = False):
        if isinstance(optimizer, DistributedOptimizer):
            warn_user("DistributedTrainer does not take DistributedOptimizer as its optimizer. We have unwrapped "
                      "it for you.")
            optimizer = optimizer._optimizer
        if isinstance(params, (list, tuple)):
            params = sorted(params, key=lambda p: p.name)
        together = process_set.included()
        store = DistributedStore("horovod", process_set.world) if together else None
        super().__init__(params, optimizer, optimizer_params, kvstore=store,
                         compression_params=compression if together else None,
                         shard_states=shard_states and bool(together))
        if together:
            self._ranks.before = 1.0 / gradient_predivide_factor
            self._scale *= gradient_predivide_factor / process_set.world.size


class DistributedOptimizer(Optimizer):
    """An optimizer whose gradients are averaged over the ranks (of a process set) before each update; for
    ``Module.fit(kvstore=None)``.

    It is the optimizer it was made of, with all attributes in common: an instance of a subclass of both classes.
    """

    takes_lists = True
    _optimizer: Optimizer
    _before: float
    _set: ProcessSet

    def __new__(cls, optimizer: Optimizer, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                process_set: ProcessSet = global_process_set) -> "DistributedOptimizer":
        if not isinstance(optimizer, Optimizer):
            raise AttributeValueError(f"DistributedOptimizer takes an Optimizer, got {type(optimizer).__name__}: make "
                                      f"one with mx.optimizer.create")
        own = type(optimizer)
        kind = type(own.__name__, (cls, own), {"__module__": own.__module__, "_optimizer": optimizer,
                                               "_before": 1.0 / gradient_predivide_factor, "_set": process_set})
        made: Any = object.__new__(kind)
        made.__dict__ = optimizer.__dict__
        if process_set.included():
            made.rescale_grad *= gradient_predivide_factor / process_set.world.size
        return made

    def __init__(self, optimizer: Optimizer, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                 process_set: ProcessSet = global_process_set):
        """``__new__`` has done it: the attributes are the optimizer's."""

    def _summed(self, grad: Any) -> Any:
        if not self._set.included():
            return grad
        listed = list(grad) if isinstance(grad, (list, tuple)) else [grad]
        summed = grouped_allreduce_(listed, op=Sum, name="gradients", prescale_factor=self._before,
                                    process_set=self._set)
        return summed if isinstance(grad, (list, tuple)) else summed[0]

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """The optimizer's update with the sum of the ranks' gradients."""
        self._optimizer.update(index, weight, self._summed(grad), state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """The optimizer's update with the sum of the ranks' gradients; lists of all four go in few messages."""
        self._optimizer.update_multi_precision(index, weight, self._summed(grad), state)
