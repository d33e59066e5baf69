"""Events of an Estimator's training, and the handlers for stopping, updating, metrics, validation, logging and early
stopping."""
from __future__ import annotations

import math
import time
from typing import Any, Callable

from ....base.errors import AttributeValueError, warn_user
from ....metric import CompositeEvalMetric, EvalMetric, Loss


class EventHandler:
    """Base of handlers. Those with a smaller ``priority`` (0 by default) are called first."""


class TrainBegin(EventHandler):
    """Called before the first epoch."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Override it."""


class TrainEnd(EventHandler):
    """Called after the last epoch."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Override it."""


class EpochBegin(EventHandler):
    """Called before each epoch."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Override it."""


class EpochEnd(EventHandler):
    """Called after each epoch."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """Override it; True ends the training."""
        return False


class BatchBegin(EventHandler):
    """Called before each batch, with ``batch``."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Override it."""


class BatchEnd(EventHandler):
    """Called after each batch, with ``batch``, ``pred``, ``label`` and ``loss``."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """Override it; True ends the training."""
        return False


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends the training after a number of epochs or of batches."""

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None):
        self.max_epoch, self.max_batch = max_epoch, max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Counts from 0, up to what ``fit`` was told."""
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether it was the last batch."""
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether it was the last epoch."""
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


class GradientUpdateHandler(BatchEnd):
    """Updates the weights after each batch; ``priority``: before the metrics, by default."""

    def __init__(self, priority: float = -2000):
        self.priority = priority

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """``trainer.step`` with the number of samples."""
        loss = kwargs["loss"]
        losses = loss if isinstance(loss, (list, tuple)) else [loss]
        estimator.trainer.step(sum(value.shape[0] for value in losses))


class MetricHandler(EpochBegin, BatchEnd):
    """Resets metrics at the beginning of an epoch and updates them after each batch."""

    def __init__(self, metrics: Any, priority: float = -1000):
        self.metrics = check_metrics(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Reset."""
        for m in self.metrics:
            m.reset()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Update."""
        for m in self.metrics:
            if isinstance(m, Loss):
                m.update(0, kwargs["loss"])
            else:
                m.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Calls ``eval_fn(val_data=…)`` every ``epoch_period`` epochs and every ``batch_period`` batches."""

    def __init__(self, val_data: Any, eval_fn: Callable[..., Any], epoch_period: int | None = 1,
                 batch_period: int | None = None, priority: float = -1000,
                 event_handlers: Any = None):
        self.val_data, self.eval_fn = val_data, eval_fn
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_batch = self.current_epoch = 0
        self.priority, self.event_handlers = priority, event_handlers

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from 0."""
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Evaluate if it is time."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._evaluate(estimator)

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Evaluate if it is time."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._evaluate(estimator)

    def _evaluate(self, estimator: Any) -> None:
        self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs metrics and times each epoch (``log_interval='epoch'``) or every few batches (a number)."""

    def __init__(self, log_interval: Any = "epoch", metrics: Any = None, priority: float = math.inf):
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise AttributeValueError(f"LoggingHandler: log_interval must be 'epoch' or a number of batches, got "
                                      f"{log_interval!r}")
        self.metrics = check_metrics(metrics)
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.priority, self.log_interval, self.log_interval_time = priority, log_interval, 0.0
        self.train_start = self.epoch_start = self.batch_start = time.time()

    def _values(self) -> str:
        return "".join("{}: {:.4f}, ".format(*m.get()) for m in self.metrics).rstrip(", ")

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Logs the optimizer and how long it will train."""
        self.train_start = time.time()
        trainer = estimator.trainer
        estimator.logger.info("Training begin: using optimizer %s with current learning rate %.4f ",
                              type(trainer.optimizer).__name__, trainer.learning_rate)
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self.current_epoch = self.batch_index = self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Logs the whole time."""
        text = (f"Train finished using total {int(time.time() - self.train_start)}s with {self.current_epoch} epochs. "
                f"{self._values()}")
        estimator.logger.info(text)

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Logs the learning rate, or that it is a validation."""
        self.epoch_start = time.time()
        if any("training" in str(m.name) for m in self.metrics) or not self.metrics:
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch,
                                  estimator.trainer.learning_rate)
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Logs time and metrics."""
        estimator.logger.info(f"[Epoch {self.current_epoch}] Finished in {time.time() - self.epoch_start:.3f}s, "
                              f"{self._values()}".rstrip(", "))
        self.current_epoch += 1
        self.batch_index = 0

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Takes the time."""
        self.batch_start = time.time()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Logs every few batches."""
        if isinstance(self.log_interval, int):
            self.log_interval_time += time.time() - self.batch_start
            self.processed_samples += len(kwargs["batch"][0])
            if self.batch_index % self.log_interval == 0:
                estimator.logger.info(f"[Epoch {self.current_epoch}][Batch {self.batch_index}][Samples "
                                      f"{self.processed_samples}] "
                                      f"time/interval: {self.log_interval_time:.3f}s {self._values()}")
                self.log_interval_time = 0.0
        self.batch_index += 1


class Improvement:
    """Whether a metric got better. mode: 'min', 'max' or 'auto' (more is better for names with 'acc' or 'f1')."""

    def __init__(self, who: str, monitor: Any, mode: str):
        if mode not in ("auto", "min", "max"):
            warn_user(f"{who}: mode must be auto, min or max, got {mode!r}: auto is taken")
            mode = "auto"
        more = mode == "max" or mode == "auto" and any(part in str(monitor.get()[0]) for part in ("acc", "f1"))
        self.sign = 1.0 if more else -1.0
        self.best = -math.inf * self.sign

    def better(self, value: float, than: float | None = None) -> bool:
        """Whether a value is better than the best so far."""
        return self.sign * value > self.sign * (self.best if than is None else than)


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends the training when a metric has not improved by ``min_delta`` for ``patience`` epochs (or over
    ``baseline``)."""

    def __init__(self, monitor: Any, min_delta: float = 0, patience: int = 0, mode: str = "auto",
                 baseline: float | None = None):
        self.monitor = _one_metric("EarlyStoppingHandler", monitor)
        self.baseline, self.patience, self.min_delta, self.mode = baseline, patience, abs(min_delta), mode
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self._improvement = Improvement("EarlyStoppingHandler", monitor, mode)

    @property
    def best(self) -> float:
        """The best value so far."""
        return self._improvement.best

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Forget what was before."""
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self._improvement = Improvement("EarlyStoppingHandler", self.monitor, self.mode)
        if self.baseline is not None:
            self._improvement.best = self.baseline

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether to stop."""
        name, value = self.monitor.get()
        if math.isnan(value):
            warn_user(f"{name} is not updated: pass one of the metric objects in estimator.train_metrics and "
                      f"estimator.val_metrics as monitor")
        elif self._improvement.better(value - self._improvement.sign * self.min_delta):
            self._improvement.best, self.wait = value, 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch, self.stop_training = self.current_epoch, True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Logs that it stopped early."""
        if self.stop_training:
            estimator.logger.info("[Epoch %d] EarlyStoppingHandler: early stopping due to %s not improving",
                                  self.stopped_epoch, self.monitor.get()[0])


# ---- arguments
def check_metrics(metrics: Any) -> list[Any]:
    """A list of metrics from one, several or none."""
    if isinstance(metrics, CompositeEvalMetric):
        return [m for part in metrics.metrics for m in check_metrics(part)]
    found = [metrics] if isinstance(metrics, EvalMetric) else metrics if metrics is not None else []
    if not isinstance(found, (list, tuple)) or not all(isinstance(m, EvalMetric) for m in found):
        raise AttributeValueError(f"metrics must be a metric or a list of metrics (mx.metric), got {metrics!r:.80}")
    return list(found)


def _one_metric(who: str, monitor: Any) -> Any:
    if not isinstance(monitor, EvalMetric):
        raise AttributeValueError(f"{who}: monitor must be one of the metric objects in estimator.train_metrics and "
                                  f"estimator.val_metrics, got {monitor!r:.60}")
    return monitor


__all__ = ["BatchBegin", "BatchEnd", "EarlyStoppingHandler", "EpochBegin", "EpochEnd", "EventHandler",
           "GradientUpdateHandler", "LoggingHandler", "MetricHandler",
           "StoppingHandler", "TrainBegin", "TrainEnd", "ValidationHandler"]
