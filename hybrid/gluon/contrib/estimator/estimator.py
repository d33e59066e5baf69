"""Estimator: the training loop."""
from __future__ import annotations

import copy
import logging
import sys
from typing import Any, Sequence

from ....mxnet import initializer as init
from ....base.device import Context, cpu, gpu, num_gpus
from ....base.errors import AttributeValueError, warn_user
from ....metric import Accuracy
from ....metric import Loss as LossMetric
from ...data import DataLoader
from ...loss import SoftmaxCrossEntropyLoss
from ...loss_base import Loss
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (BatchBegin, BatchEnd, EpochBegin, EpochEnd, EventHandler, GradientUpdateHandler,
                            LoggingHandler, MetricHandler, StoppingHandler,
                            TrainBegin, TrainEnd, ValidationHandler, check_metrics)


class Estimator:
    """Trains a network, with handlers for what happens on the way.

    train_metrics, val_metrics: metrics, by default the accuracy (for a softmax loss) and the loss; val_metrics are
    copies of the train_metrics. trainer: by default SGD with learning rate 0.001. context: a device or a list of them.
    val_net, val_loss: for validation, by default the same. batch_processor: what is done with a batch.

    >>> est = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)                # doctest: +SKIP
    >>> est.fit(train_data, val_data, epochs=3, event_handlers=[CheckpointHandler('models')])      # doctest: +SKIP
    """

    logger: logging.Logger

    def __init__(self, net: Any, loss: Any, train_metrics: Any = None, val_metrics: Any = None,
                 initializer: Any = None, trainer: Any = None, context: Any = None,
                 val_net: Any = None, val_loss: Any = None, batch_processor: Any = None):
        self.net, self.loss = net, _check_loss(loss)
        self._train_metrics, self._val_metrics = check_metrics(train_metrics), check_metrics(val_metrics)
        self.val_loss = _check_loss(val_loss) if val_loss is not None else self.loss
        self.val_net = val_net if val_net is not None else net
        self.logger = logging.Logger("Estimator", logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self._add_metrics()
        self.context = _check_context(context)
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = _check_processor(batch_processor)
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    @property
    def train_metrics(self) -> list[Any]:
        """Metrics of the training."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[Any]:
        """Metrics of the validation."""
        return self._val_metrics

    # ---- what it needs
    def _add_metrics(self) -> None:
        if not self._train_metrics:
            self._train_metrics = [Accuracy()] if isinstance(self.loss, SoftmaxCrossEntropyLoss) else []
            self._train_metrics.append(LossMetric(self.loss.name.rstrip("_0123456789")))
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(m) for m in self._train_metrics]
        for kind, metrics in (("training", self._train_metrics), ("validation", self._val_metrics)):
            for m in metrics:
                m.name = f"{kind} {m.name}"

    def _initialize(self, initializer: Any) -> None:
        params = self.net.collect_params().values()
        if not all(p._data is not None or p._deferred is not None for p in params):
            self.net.initialize(init=initializer if initializer is not None else init.Uniform(), ctx=self.context)
        elif initializer is not None:
            warn_user("the network is initialized already: the initializer is not used. For other values call "
                      "net.initialize(init, force_reinit=True)")
        elif any(set(p.list_ctx()) != set(self.context) for p in params):
            self.net.collect_params().reset_ctx(self.context)

    def _check_trainer(self, trainer: Any) -> Trainer:
        if trainer is None:
            warn_user("no trainer given: SGD with learning rate 0.001 is used")
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise AttributeValueError(f"trainer must be a gluon.Trainer, got {trainer!r:.60}")
        return trainer

    # ---- running
    def evaluate(self, val_data: Any, batch_axis: int = 0, event_handlers: Any = None) -> None:
        """Metrics of the network on a DataLoader, in ``val_metrics``."""
        _check_data(val_data)
        self.batch_axis = batch_axis
        handlers = _check_handlers(event_handlers)
        if not any(isinstance(h, MetricHandler) for h in handlers):
            handlers.append(MetricHandler(metrics=self.val_metrics))
        if not any(isinstance(h, LoggingHandler) for h in handlers):
            handlers.append(LoggingHandler(metrics=self.val_metrics))
        handlers.sort(key=_priority)
        _call(handlers, EpochBegin, "epoch_begin", self)
        for batch in val_data:
            _call(handlers, BatchBegin, "batch_begin", self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            _call(handlers, BatchEnd, "batch_end", self, batch=batch, pred=pred, label=label, loss=loss)
        _call(handlers, EpochEnd, "epoch_end", self)

    def fit(self, train_data: Any, val_data: Any = None, epochs: int | None = None, event_handlers: Any = None,
            batches: int | None = None, batch_axis: int = 0) -> None:
        """Train on a DataLoader for a number of epochs or of batches, with validation on another after each epoch."""
        _check_data(train_data)
        if (not epochs) == (not batches):
            raise AttributeValueError("fit: say how long to train with one of epochs and batches (a number of at "
                                      "least 1)")
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._handlers(val_data, event_handlers)
        _call(handlers, TrainBegin, "train_begin", self)
        stop = False
        while not stop:
            _call(handlers, EpochBegin, "epoch_begin", self)
            for batch in train_data:
                _call(handlers, BatchBegin, "batch_begin", self, batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                stop = _call(handlers, BatchEnd, "batch_end", self, batch=batch, pred=pred, label=label, loss=loss)
                if stop:
                    break
            stop = _call(handlers, EpochEnd, "epoch_end", self) or stop
        _call(handlers, TrainEnd, "train_end", self)

    def _handlers(self, val_data: Any, event_handlers: Any) -> list[Any]:
        """The user's handlers, and the default of each kind that is not among them."""
        handlers = _check_handlers(event_handlers)
        given = len(handlers)

        def lacks(kind: type) -> bool:
            return not any(isinstance(h, kind) for h in handlers)
        added = [StoppingHandler(self.max_epoch, self.max_batch)]
        added += [GradientUpdateHandler()] if lacks(GradientUpdateHandler) else []          # type: ignore[list-item]
        added += ([MetricHandler(metrics=self.train_metrics)] if lacks(MetricHandler)  # type: ignore[list-item]
                  else [])
        if val_data is not None and lacks(ValidationHandler):
            added.append(ValidationHandler(val_data=val_data, eval_fn=self.evaluate))       # type: ignore[arg-type]
        added += ([LoggingHandler(metrics=self.train_metrics)] if lacks(LoggingHandler)  # type: ignore[list-item]
                  else [])
        if given:
            known = {id(m) for m in (*self.train_metrics, *self.val_metrics)}
            for h in handlers:
                _check_known(h, known)
        return sorted([*handlers, *added], key=_priority)


def _priority(handler: Any) -> float:
    return getattr(handler, "priority", 0)


def _call(handlers: Sequence[Any], kind: type, event: str, estimator: Estimator, **kwargs: Any) -> bool:
    """Call the handlers of an event; whether one of them wants to stop."""
    # a list: all of them are called
    return any([getattr(h, event)(estimator, **kwargs) for h in handlers if isinstance(h, kind)])


# ---- arguments
def _check_loss(loss: Any) -> Loss:
    if not isinstance(loss, Loss):
        raise AttributeValueError(f"loss must be a gluon.loss.Loss, got {loss!r:.60}")
    return loss


def _check_context(context: Any) -> list[Context]:
    if context is None:
        if num_gpus() > 1:
            warn_user("several GPUs are there: gpu(0) is used; pass context for others")
        return [gpu(0)] if num_gpus() else [cpu()]
    found = [context] if isinstance(context, Context) else context
    if not isinstance(found, (list, tuple)) or not found or not all(isinstance(c, Context) for c in found):
        raise AttributeValueError(f"context must be a device or a list of devices, as mx.cpu() or [mx.gpu(0), "
                                  f"mx.gpu(1)], got {context!r:.60}")
    return list(found)


def _check_processor(processor: Any) -> Any:
    if processor is None:
        return BatchProcessor()
    if not all(callable(getattr(processor, name, None)) for name in ("fit_batch", "evaluate_batch")):
        raise AttributeValueError(f"batch_processor must have fit_batch() and evaluate_batch(), got {processor!r:.60}")
    return processor


def _check_data(data: Any) -> None:
    if not isinstance(data, DataLoader):
        raise AttributeValueError(f"Estimator takes a gluon.data.DataLoader, got {type(data).__name__}: wrap the data "
                                  f"in one")


def _check_handlers(handlers: Any) -> list[Any]:
    found = [] if handlers is None else [handlers] if isinstance(handlers, EventHandler) else handlers
    if not isinstance(found, (list, tuple)) or not all(isinstance(h, EventHandler) for h in found):
        raise AttributeValueError(f"event_handlers must be an EventHandler or a list of them, got {handlers!r:.80}")
    return list(found)


def _check_known(handler: Any, known: set[int]) -> None:
    """A handler must watch the estimator's own metrics: others are never updated."""
    for m in [*(getattr(handler, "metrics", None) or []),
              *([handler.monitor] if getattr(handler, "monitor", None) is not None else [])]:
        if id(m) not in known:
            raise AttributeValueError(f"{type(handler).__name__} watches the metric {m.name!r}, which is none of "
                                      f"estimator.train_metrics and estimator.val_metrics: "
                                      "pass one of those objects")


__all__ = ["Estimator"]
