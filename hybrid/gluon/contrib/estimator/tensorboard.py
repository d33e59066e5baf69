"""Metrics of an Estimator in TensorBoard's files."""
from __future__ import annotations

import importlib
from typing import Any

from ....base.errors import HybridError, user_location
from .event_handler import BatchEnd, EpochEnd, TrainEnd


def summary_writer(logging_dir: str) -> Any:
    """A SummaryWriter of mxboard, tensorboardX or torch, the first that is installed. HybridError where none is."""
    for module in ("mxboard", "tensorboardX", "torch.utils.tensorboard"):
        try:
            return importlib.import_module(module).SummaryWriter(logging_dir)
        except ImportError:
            continue
    raise HybridError(f"{user_location()}: TensorBoard's files are written by tensorboardX or mxboard, and neither is "
                      "installed: pip install tensorboardX")


class TensorBoardHandler(BatchEnd, EpochEnd, TrainEnd):
    """Writes the training metrics after every ``log_interval`` batches, and all metrics after each epoch.

    Parameters: logging_dir (a folder), log_interval (batches; 0: epochs alone). Names are those of the metrics, with
    "batch/" before those of batches; steps count batches or epochs. It needs tensorboardX, mxboard or torch.
    """

    def __init__(self, logging_dir: str, log_interval: int = 0):
        self.writer, self.log_interval = summary_writer(logging_dir), log_interval
        self.batch = self.epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Writes the running training metrics."""
        self.batch += 1
        if self.log_interval and self.batch % self.log_interval == 0:
            for metric in estimator.train_metrics:
                self.writer.add_scalar(f"batch/{metric.get()[0]}", metric.get()[1], global_step=self.batch)

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Writes the metrics of the epoch."""
        self.epoch += 1
        for metric in [*estimator.train_metrics, *estimator.val_metrics]:
            name, value = metric.get()
            if value == value:                                # nothing was measured: nan
                self.writer.add_scalar(name, value, global_step=self.epoch)

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Closes the file."""
        self.writer.close()


__all__ = ["TensorBoardHandler", "summary_writer"]
