"""Metrics in TensorBoard's files: a callback of Module.fit, as MXNet's. It writes through mxboard or tensorboardX,
whichever is installed; ``pip install tensorboardX``."""
from __future__ import annotations

from typing import Any

from ..gluon.contrib.estimator.tensorboard import summary_writer


class LogMetricsCallback:
    """Writes the values of a metric after a batch or an epoch, as scalars named after it, at the epoch's number.

    Parameters: logging_dir (a folder), prefix (before each name, "train-accuracy"). For ``batch_end_callback`` and
    ``eval_end_callback`` of ``Module.fit``.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None):
        self.prefix, self.step = prefix, 0
        self.summary_writer = summary_writer(logging_dir)

    def __call__(self, param: Any) -> None:
        self.step += 1
        if param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                self.summary_writer.add_scalar(f"{self.prefix}-{name}" if self.prefix else name, value,
                                               global_step=param.epoch)


__all__ = ["LogMetricsCallback", "summary_writer"]
