"""Functions that ``Module.fit`` and ``score`` call after batches and epochs; they print through ``logging``."""
from __future__ import annotations

import logging
import math
import time
from typing import Any, Callable

from . import checkpoint
from .checkpoint import save_checkpoint  # noqa: F401  its place in MXNet


def module_checkpoint(mod: Any, prefix: str, period: int = 1,
                      save_optimizer_states: bool = False) -> Callable[..., None]:
    """An epoch_end_callback that saves the module every ``period`` epochs."""
    period = max(1, int(period))

    def callback(epoch: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (epoch + 1) % period == 0:
            mod.save_checkpoint(prefix, epoch + 1, save_optimizer_states)
    return callback


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """An epoch_end_callback that writes ``prefix-symbol.json`` and ``prefix-%04d.params`` every ``period`` epochs.

    >>> mod.fit(train, num_epoch=4, epoch_end_callback=do_checkpoint("net", 2))                 # doctest: +SKIP
    """
    period = max(1, int(period))

    def callback(epoch: int, sym: Any, arg: Any, aux: Any) -> None:
        if (epoch + 1) % period == 0:
            checkpoint.save_checkpoint(prefix, epoch + 1, sym, arg, aux)
    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """A batch_end_callback that logs the metric every ``period`` batches."""
    def callback(param: Any) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()
    return callback


class Speedometer:
    """A batch_end_callback that logs samples a second and the metric every ``frequent`` batches.

    auto_reset: the metric is of the last ``frequent`` batches, else of the epoch so far.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True):
        self.batch_size, self.frequent, self.auto_reset = batch_size, frequent, auto_reset
        self.init, self.tic, self.last_count = False, 0.0, 0

    def __call__(self, param: Any) -> None:
        count = param.nbatch
        if self.last_count > count:                       # a new epoch
            self.init = False
        self.last_count = count
        if not self.init:
            self.init, self.tic = True, time.time()
            return
        if count % self.frequent:
            return
        speed = self.frequent * self.batch_size / max(time.time() - self.tic, 1e-9)
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
        else:
            found = param.eval_metric.get_name_value()
            first = count - self.frequent if self.auto_reset else 0
            if self.auto_reset:
                param.eval_metric.reset_local()
            values = "".join(f"\t{name}={value:f}" for name, value in found)
            logging.info("Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s", param.epoch, first, count, speed, values)
        self.tic = time.time()


class ProgressBar:
    """A batch_end_callback that logs a bar. total: batches of an epoch; length: of the bar."""

    def __init__(self, total: int, length: int = 80):
        self.bar_len, self.total = length, total

    def __call__(self, param: Any) -> None:
        done = round(self.bar_len * param.nbatch / self.total)
        logging.info("[%s] %s%%\r", "=" * done + "-" * (self.bar_len - done),
                     math.ceil(100.0 * param.nbatch / self.total))


class LogValidationMetricsCallback:
    """An eval_end_callback that logs the metric."""

    def __call__(self, param: Any) -> None:
        if param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)


__all__ = ["LogValidationMetricsCallback", "ProgressBar", "Speedometer", "do_checkpoint", "log_train_metric",
           "module_checkpoint"]
