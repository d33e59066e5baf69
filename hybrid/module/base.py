"""BaseModule: the loops over batches (fit, score, predict) that every kind of module has."""
from __future__ import annotations

import logging
import time
from collections import namedtuple
from typing import Any, Callable, Iterator

from .. import metric
from ..buffers.array import NDArray
from ..base import _as_list as as_list
from ..base.errors import AttributeValueError, HybridError, OrderError
from ..nd.functions import resolve
from ..mxnet.initializer import Uniform
from ..mxnet.data_iter import DataBatch
from ..mxnet.checkpoint import split_names
from ..nd import array
from ..serialize import load, save

BatchEndParam = namedtuple("BatchEndParam", ["epoch", "nbatch", "eval_metric", "locals"])


def _absent(name: str) -> Any:
    def missing(self: Any, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {name}()")
    return missing


class BaseModule:
    """What a module does with batches. A subclass has ``bind``, ``init_params``, ``init_optimizer``, ``forward``,
    ``backward``, ``update``, ``get_outputs``, ``get_params`` and ``update_metric``.
    """
    symbol: Any = None
    bind: Callable[..., None] = _absent("bind")
    forward: Callable[..., None] = _absent("forward")
    backward: Callable[..., None] = _absent("backward")
    update: Callable[[], None] = _absent("update")
    get_outputs: Callable[..., list[Any]] = _absent("get_outputs")
    get_input_grads: Callable[..., list[Any]] = _absent("get_input_grads")
    get_params: Callable[[], tuple[dict[str, NDArray], dict[str, NDArray]]] = _absent("get_params")
    update_metric: Callable[..., None] = _absent("update_metric")
    init_params: Callable[..., None] = _absent("init_params")
    init_optimizer: Callable[..., None] = _absent("init_optimizer")
    install_monitor: Callable[[Any], None] = _absent("install_monitor")

    def __init__(self, logger: Any = logging):
        self.logger = logger
        self.binded = self.for_training = self.inputs_need_grad = self.params_initialized = self.optimizer_initialized = (False)  # noqa: E501

    def needs(self, what: str, **state: bool) -> None:
        """OrderError unless what must have happened before has happened."""
        calls = {"binded": "bind()", "params": "init_params() or set_params()", "optimizer": "init_optimizer()"}
        for name, there in state.items():
            if not there:
                raise OrderError(f"{what}: call {calls[name]} first")

    def forward_backward(self, data_batch: Any) -> None:
        """forward in training mode, then backward."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Called with the next batch while one is worked on; nothing to do here."""

    # ---- loops
    def score(self, eval_data: Any, eval_metric: Any, num_batch: int | None = None, batch_end_callback: Any = None,
              score_end_callback: Any = None,
              reset: bool = True, epoch: int = 0, sparse_row_id_fn: Any = None) -> list[tuple[str, Any]]:
        """The metric over the batches of an iterator, as (name, value) pairs.

        num_batch: how many batches at most. Callbacks get a BatchEndParam.
        """
        self.needs("score", binded=self.binded, params=self.params_initialized)
        if reset:
            eval_data.reset()
        eval_metric = metric.create(eval_metric)
        eval_metric.reset()
        count = 0
        for nbatch, batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(batch)
            self.forward(batch, is_train=False)
            self._update_metric(eval_metric, batch)
            _call(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            count += 1
        _call(score_end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        return eval_metric.get_name_value()

    def _update_metric(self, eval_metric: Any, batch: Any) -> None:
        if isinstance(batch, list):
            self.update_metric(eval_metric, [b.label for b in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def iter_predict(self, eval_data: Any, num_batch: int | None = None, reset: bool = True,
                     sparse_row_id_fn: Any = None) -> Iterator[tuple[list[Any], int, Any]]:
        """(outputs without padding, number of the batch, batch) for each batch."""
        self.needs("iter_predict", binded=self.binded, params=self.params_initialized)
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if nbatch == num_batch:
                return
            self.prepare(batch)
            self.forward(batch, is_train=False)
            pad = getattr(batch, "pad", 0) or 0
            yield [out[0:out.shape[0] - pad] for out in self.get_outputs()], nbatch, batch

    def predict(self, eval_data: Any, num_batch: int | None = None, merge_batches: bool = True, reset: bool = True,
                always_output_list: bool = False,
                sparse_row_id_fn: Any = None) -> Any:
        """Outputs for the batches of an iterator, or for an array of samples, without padding.

        merge_batches: one array an output over all batches; else a list with a list of outputs a batch.
        """
        self.needs("predict", binded=self.binded, params=self.params_initialized)
        if not hasattr(eval_data, "reset"):
            samples = eval_data if isinstance(eval_data, NDArray) else array(eval_data)
            self.forward(DataBatch([samples]), is_train=False)
            return self.get_outputs()[0]
        found = [[out.copy() for out in outputs] for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset)]
        if not found or not merge_batches:
            return found
        if len({len(outputs) for outputs in found}) > 1:
            raise OrderError(f"predict: batches have different numbers of outputs "
                             f"({sorted({len(o) for o in found})}), which cannot be merged: pass merge_batches=False")
        merged = [resolve("nd", "concat")(*parts, dim=0) for parts in zip(*found)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(self, train_data: Any, eval_data: Any = None, eval_metric: Any = "acc", epoch_end_callback: Any = None,
            batch_end_callback: Any = None,
            kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = (("learning_rate", 0.01),),
            eval_end_callback: Any = None,
            eval_batch_end_callback: Any = None, initializer: Any = Uniform(0.01), arg_params: Any = None,
            aux_params: Any = None,
            allow_missing: bool = False, force_rebind: bool = False, force_init: bool = False, begin_epoch: int = 0,
            num_epoch: int | None = None,
            validation_metric: Any = None, monitor: Any = None, sparse_row_id_fn: Any = None) -> None:
        """Train on an iterator: bind, initialize, then forward, backward and update for each batch of each epoch.

        train_data, eval_data: iterators such as io.NDArrayIter. eval_metric: a metric or its name. num_epoch: the epoch
        to end before; begin_epoch: the one to begin with. Callbacks: ``batch_end_callback(BatchEndParam)`` after each
        batch, ``epoch_end_callback(epoch, symbol, arg_params, aux_params)`` after each epoch; each may be a list.

        >>> mod.fit(train, num_epoch=10, optimizer="adam", batch_end_callback=mx.callback.Speedometer(64))       # doctest: +SKIP
        """  # noqa: E501
        if num_epoch is None:
            raise AttributeValueError("fit: please specify number of epochs (num_epoch)")
        self.bind(data_shapes=train_data.provide_data, label_shapes=train_data.provide_label, for_training=True,
                  force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer=initializer, arg_params=arg_params, aux_params=aux_params,
                         allow_missing=allow_missing, force_init=force_init)
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = metric.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            begin = time.time()
            for name, value in self._epoch(epoch, train_data, eval_metric, batch_end_callback, monitor):
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - begin)
            params = self.get_params()
            self.set_params(*params)                      # states that differ between devices become one
            for callback in as_list(epoch_end_callback) if epoch_end_callback is not None else ():
                callback(epoch, self.symbol, *params)
            if eval_data is not None:
                for name, value in self.score(eval_data, validation_metric, score_end_callback=eval_end_callback,
                                              batch_end_callback=eval_batch_end_callback,
                                              epoch=epoch):
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _epoch(self, epoch: int, train_data: Any, eval_metric: Any, batch_end_callback: Any,
               monitor: Any) -> list[tuple[str, Any]]:
        """One pass over the training data; the metric over all of it."""
        eval_metric.reset()
        batches = iter(train_data)
        batch = next(batches, None)
        if batch is None:
            raise HybridError("fit: the iterator of training data gives no batch")
        nbatch, found = 0, []
        while batch is not None:
            if monitor is not None:
                monitor.tic()
            self.forward_backward(batch)
            self.update()
            self._update_metric(eval_metric, batch)
            following = next(batches, None)               # here, so that loading goes on while the device works
            if following is not None:
                self.prepare(following)
            if monitor is not None:
                monitor.toc_print()
            if following is None:
                found = eval_metric.get_global_name_value()
            _call(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            nbatch, batch = nbatch + 1, following
        return found

    # ---- parameters
    def set_params(self, arg_params: Any, aux_params: Any, allow_missing: bool = False, force_init: bool = True,
                   allow_extra: bool = False) -> None:
        """New values of parameters and auxiliary states. allow_missing: others keep theirs; allow_extra: unknown names
        are ignored."""
        self.init_params(initializer=None, arg_params=arg_params, aux_params=aux_params, allow_missing=allow_missing,
                         force_init=force_init,
                         allow_extra=allow_extra)

    @property
    def _arg_params(self) -> dict[str, NDArray] | None:
        return self.get_params()[0] if self.params_initialized else None

    @property
    def _aux_params(self) -> dict[str, NDArray] | None:
        return self.get_params()[1] if self.params_initialized else None

    def save_params(self, fname: str) -> None:
        """Write parameters and auxiliary states to a .params file."""
        arg_params, aux_params = self.get_params()
        save(fname, {**{f"arg:{k}": v for k, v in arg_params.items()},
                     **{f"aux:{k}": v for k, v in aux_params.items()}})

    def load_params(self, fname: str) -> None:
        """Read what ``save_params`` (or ``export``) wrote."""
        self.set_params(*split_names(load(fname), fname))


def _call(callbacks: Any, param: BatchEndParam) -> None:
    for callback in as_list(callbacks) if callbacks is not None else ():
        callback(param)


__all__ = ["BaseModule", "BatchEndParam", "as_list"]
