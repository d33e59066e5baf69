"""``gluon.contrib.estimator``: a training loop with handlers of its events (checkpoints, early stopping, logging,
validation)."""
from __future__ import annotations

from . import batch_processor, checkpoint, estimator, event_handler
from .batch_processor import BatchProcessor
from .checkpoint import CheckpointHandler
from .estimator import Estimator
from .event_handler import (BatchBegin, BatchEnd, EarlyStoppingHandler, EpochBegin, EpochEnd, EventHandler,
                            GradientUpdateHandler, LoggingHandler, MetricHandler,
                            StoppingHandler, TrainBegin, TrainEnd, ValidationHandler)
from .tensorboard import TensorBoardHandler

event_handler.CheckpointHandler = CheckpointHandler                      # type: ignore[attr-defined]  # where MXNet has it  # noqa: E501

__all__ = ["BatchBegin", "BatchEnd", "BatchProcessor", "CheckpointHandler", "EarlyStoppingHandler", "EpochBegin",
           "EpochEnd", "Estimator", "EventHandler",
           "GradientUpdateHandler", "LoggingHandler", "MetricHandler", "StoppingHandler", "TensorBoardHandler",
           "TrainBegin", "TrainEnd",
           "ValidationHandler",
           "batch_processor", "checkpoint", "estimator", "event_handler"]
