"""MXNet's ``mx.model``: checkpoints, and FeedForward, the oldest of its interfaces for training."""
from __future__ import annotations

import logging
from typing import Any, Mapping

import numpy as np

from ..buffers.array import NDArray
from ..mxnet.checkpoint import load_checkpoint, load_params, save_checkpoint
from ..base.device import current_context
from ..base.errors import AttributeValueError, HybridError, ShapeError
from ..mxnet.initializer import Uniform
from ..mxnet.data_iter import DataIter, NDArrayIter, ResizeIter
from ..metric import create as create_metric
from . import BatchEndParam, Module
from .base import as_list
from ..graph.symbol import Symbol


def _from_one(callback: Any) -> Any:
    """A callback that counts batches from 1."""
    return lambda param: callback(param._replace(nbatch=param.nbatch + 1))


class FeedForward:
    """A Symbol with one output that is trained and used on arrays or iterators: ``fit``, ``predict``, ``score``.

    symbol: the network, with its loss. ctx: a device or a list. num_epoch: the epoch to end before; epoch_size: batches
    of an epoch (all of the data by default). optimizer: its name, or one; kwargs: its settings. numpy_batch_size:
    samples of a batch where data are arrays. arg_params, aux_params: values to begin with; what is missing comes from
    the initializer.

    >>> model = FeedForward(symbol, num_epoch=3, learning_rate=0.1).fit(x, y)           # doctest: +SKIP
    >>> model.predict(x).shape                                                          # doctest: +SKIP
    (100, 10)
    """

    def __init__(self, symbol: Symbol, ctx: Any = None, num_epoch: int | None = None, epoch_size: int | None = None,
                 optimizer: Any = "sgd",
                 initializer: Any = Uniform(0.01), numpy_batch_size: int = 128,
                 arg_params: Mapping[str, NDArray] | None = None,
                 aux_params: Mapping[str, NDArray] | None = None, allow_extra_params: bool = False,
                 begin_epoch: int = 0, **kwargs: Any):
        if not isinstance(symbol, Symbol):
            raise AttributeValueError(f"FeedForward takes a Symbol, got {type(symbol).__name__}; for networks by "
                                      f"length use mod.BucketingModule")
        self.symbol, self.ctx = symbol, ctx if ctx is not None else [current_context()]
        self.num_epoch, self.epoch_size, self.begin_epoch = num_epoch, epoch_size, begin_epoch
        self.optimizer, self.initializer, self.kwargs = optimizer, initializer, dict(kwargs)
        self.numpy_batch_size = numpy_batch_size
        known = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
        if allow_extra_params:
            arg_params, aux_params = ({k: v for k, v in p.items() if k in known} if p else p
                                      for p in (arg_params, aux_params))
        self.arg_params, self.aux_params, self.allow_extra_params = arg_params, aux_params, allow_extra_params

    # ---- data
    def _iterator(self, x: Any, y: Any, training: bool) -> Any:
        if not isinstance(x, (np.ndarray, NDArray)):
            if not isinstance(x, DataIter) and not hasattr(x, "provide_data"):
                raise TypeError(f"X must be an array or a DataIter, got {type(x).__name__}")
            return x
        if y is None:
            if training:
                raise ValueError("y must be given when X is an array")
            y = np.zeros(x.shape[0])
        y = np.asarray(y.asnumpy() if isinstance(y, NDArray) else y)
        if y.ndim not in (1, 2) or y.ndim == 2 and y.shape[1] != 1:
            raise ShapeError(f"labels must be 1-D, or 2-D with a second length of 1; got {y.shape}")
        if len(x) != len(y):
            raise ShapeError(f"{len(x)} samples for {len(y)} labels")
        size = min(len(x), self.numpy_batch_size)
        return NDArrayIter(x, y.ravel(), size, shuffle=training, last_batch_handle="roll_over" if training else "pad")

    def _evaluation(self, data: Any) -> Any:
        if not isinstance(data, (tuple, list)):
            return None if data is None else self._iterator(data, None, False)
        if len(data) != 2 or data[0] is None:
            raise ValueError("eval_data must be an iterator, or (X, y)")
        return self._iterator(np.asarray(data[0]) if isinstance(data[0], list) else data[0], data[1], False)

    def _module(self, data: Any, labels: bool, logger: Any = logging) -> Module:
        arguments = self.symbol.list_arguments()
        names = [d[0] for d in data.provide_label if d[0] in arguments]
        if not names:                                        # the iterator gives none; a loss still has one
            names = [n for n in arguments if n.endswith("label")]
        return Module(self.symbol, [d[0] for d in data.provide_data], names if labels or names else None, logger,
                      self.ctx)

    # ---- training
    def fit(self, X: Any, y: Any = None, eval_data: Any = None, eval_metric: Any = "acc",
            epoch_end_callback: Any = None,  # noqa: N803
            batch_end_callback: Any = None, kvstore: Any = "local", logger: Any = None, work_load_list: Any = None,
            monitor: Any = None,
            eval_end_callback: Any = None, eval_batch_end_callback: Any = None) -> "FeedForward":
        """Train on an iterator, or on arrays X (samples) and y (labels). eval_data: an iterator or (X, y).

        The rest as in ``Module.fit``, but that callbacks count the batches from 1.
        """
        if self.num_epoch is None:
            raise HybridError("FeedForward: give num_epoch")
        data = self._iterator(X, y, True)
        if self.epoch_size is not None:
            data = ResizeIter(data, self.epoch_size, reset_internal=False)
        module = self._module(data, True, logger or logging)
        batch_end_callback = ([_from_one(f) for f in as_list(batch_end_callback)] if batch_end_callback is not None
                              else None)
        module.fit(data, self._evaluation(eval_data), eval_metric, epoch_end_callback, batch_end_callback, kvstore,
                   self.optimizer, tuple(self.kwargs.items()),
                   eval_end_callback, eval_batch_end_callback, self.initializer, self.arg_params, self.aux_params, True,
                   begin_epoch=self.begin_epoch, num_epoch=self.num_epoch, monitor=monitor)
        self.arg_params, self.aux_params = module.get_params()
        return self

    @staticmethod
    def create(symbol: Symbol, X: Any, y: Any = None, ctx: Any = None, num_epoch: int | None = None,
               epoch_size: int | None = None,  # noqa: N803
               optimizer: Any = "sgd", initializer: Any = Uniform(0.01), eval_data: Any = None,
               eval_metric: Any = "acc", epoch_end_callback: Any = None,
               batch_end_callback: Any = None, kvstore: Any = "local", logger: Any = None, work_load_list: Any = None,
               eval_end_callback: Any = None,
               eval_batch_end_callback: Any = None, **kwargs: Any) -> "FeedForward":
        """A new model, trained."""
        model = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        return model.fit(X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger,
                         work_load_list,
                         eval_end_callback=eval_end_callback, eval_batch_end_callback=eval_batch_end_callback)

    # ---- use
    def _ready(self, data: Any, labels: bool) -> Module:
        if self.arg_params is None:
            raise HybridError("FeedForward: no parameters yet: call fit(), or load()")
        module = self._module(data, labels)
        module.bind(data.provide_data, data.provide_label if labels else None, for_training=False)
        module.set_params(self.arg_params, self.aux_params or {}, allow_missing=False)
        return module

    def predict(self, X: Any, num_batch: int | None = None, return_data: bool = False,
                reset: bool = True) -> Any:  # noqa: N803
        """Outputs as NumPy arrays, a list where there are several. With return_data: (outputs, data, labels)."""
        data = self._iterator(X, None, False)
        if reset:
            data.reset()
        parts: list[Any] = []
        for outputs, _, batch in self._ready(data, False).iter_predict(data, num_batch, reset=False):
            keep = batch.data[0].shape[0] - (batch.pad or 0)
            parts.append([[a.asnumpy()[:keep] for a in values] for values in (outputs, batch.data, batch.label or ())])
        outputs, inputs, labels = ([np.concatenate(arrays) for arrays in zip(*(p[i] for p in parts))] for i in range(3))
        found = tuple(values[0] if len(values) == 1 else values for values in (outputs, inputs, labels))
        return found if return_data else found[0]

    def score(self, X: Any, eval_metric: Any = "acc", num_batch: int | None = None, batch_end_callback: Any = None,
              reset: bool = True) -> Any:  # noqa: N803
        """The metric over an iterator."""
        data, metric = self._iterator(X, None, False), create_metric(eval_metric)
        self._ready(data, True).score(data, metric, num_batch, batch_end_callback, reset=reset)
        return metric.get()[1]

    # ---- files
    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write ``prefix-symbol.json`` and ``prefix-%04d.params``; the epoch is num_epoch unless given."""
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None:
            raise ValueError("save: give the epoch")
        save_checkpoint(prefix, epoch, self.symbol, self.arg_params or {}, self.aux_params or {}, remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> "FeedForward":
        """What ``save`` wrote; training goes on from that epoch."""
        symbol, args, aux = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx, arg_params=args, aux_params=aux, begin_epoch=epoch, **kwargs)


__all__ = ["BatchEndParam", "FeedForward", "load_checkpoint", "load_params", "save_checkpoint"]
