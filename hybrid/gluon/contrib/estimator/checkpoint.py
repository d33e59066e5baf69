"""CheckpointHandler: saves network and trainer while an Estimator trains, and goes on from where they were."""
from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from ....base.errors import AttributeValueError, warn_user
from ....metric import EvalMetric
from ...hybrid_block import HybridBlock
from .event_handler import BatchEnd, EpochEnd, Improvement, TrainBegin


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Writes ``<model_prefix>-epoch<e>batch<b>.params`` and ``.states`` every epoch_period epochs and every
    batch_period batches.

    monitor, save_best: also ``<model_prefix>-best`` whenever a metric improves (mode: 'min', 'max', 'auto'). The graph
    of a hybridized network goes to ``<model_prefix>-symbol.json``. max_checkpoints: older ones are removed.
    resume_from_checkpoint: the newest one in ``model_dir`` is loaded first, and its epochs or batches count as done.
    verbose: 1 logs what is saved.
    """

    def __init__(self, model_dir: Any, model_prefix: str = "model", monitor: Any = None, verbose: int = 0,
                 save_best: bool = False, mode: str = "auto",
                 epoch_period: int | None = 1, batch_period: int | None = None, max_checkpoints: int = 5,
                 resume_from_checkpoint: bool = False):
        if save_best and not isinstance(monitor, EvalMetric):
            raise AttributeValueError("CheckpointHandler: to save the best model, monitor must be one of the metric "
                                      "objects in estimator.train_metrics and "
                                      f"estimator.val_metrics, got {monitor!r:.60}")
        self.model_dir, self.model_prefix, self.monitor, self.verbose, self.save_best = str(
                model_dir), model_prefix, monitor, verbose, save_best
        self.epoch_period, self.batch_period, self.max_checkpoints = epoch_period, batch_period, max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.current_batch = self.current_epoch = 0
        self.trained_epoch, self.trained_batch = -1, 0
        self.saved_checkpoints: list[str] = []
        self._symbol_saved = False
        self._improvement = Improvement("CheckpointHandler", monitor, mode) if save_best else None

    @property
    def best(self) -> float:
        """The best value so far."""
        return self._improvement.best if self._improvement is not None else math.nan

    # ---- events
    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Makes the folder, and loads the newest checkpoint if it is to go on from there."""
        Path(self.model_dir).mkdir(parents=True, exist_ok=True)
        self.current_batch = self.current_epoch = 0
        self.trained_epoch, self.trained_batch, self._symbol_saved = -1, 0, False
        if self.resume_from_checkpoint:
            self._resume(estimator)

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Saves if it is time."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Saves if it is time, and what is best."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save(estimator)
        self.current_epoch += 1

    # ---- saving
    def _say(self, estimator: Any, text: str) -> None:
        if self.verbose > 0:
            estimator.logger.info("[Epoch %d] CheckpointHandler: %s", self.current_epoch, text)

    def _save(self, estimator: Any) -> None:
        name = (f"{self.model_prefix}-epoch{self.current_epoch + self.trained_epoch + 1}batch{self.current_batch + self.trained_batch}")  # noqa: E501
        self._say(estimator,
                  f"trained total {self.current_batch + 1} batches, saving model at {self.model_dir} with prefix: "
                  f"{name}")
        self._save_files(estimator, name)
        self.saved_checkpoints.append(name)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            self._remove(self.saved_checkpoints.pop(0))
        if self._improvement is not None:
            self._save_best(estimator)

    def _save_best(self, estimator: Any) -> None:
        assert self._improvement is not None
        name, value = self.monitor.get()
        if math.isnan(value):
            warn_user(f"CheckpointHandler: {name} is not updated; pass one of the metric objects in "
                      f"estimator.train_metrics and estimator.val_metrics "
                      "as monitor")
        elif self._improvement.better(value):
            self._say(estimator,
                      f"{name} improved from {self.best:.5f} to {value:.5f}, updating best model at {self.model_dir} "
                      f"with prefix: {self.model_prefix}-best")
            self._improvement.best = value
            self._save_files(estimator, f"{self.model_prefix}-best")
        else:
            self._say(estimator, f"{name} did not improve from {self.best:.5f}, skipping updating best model")

    def _path(self, name: str, ending: str) -> str:
        return str(Path(self.model_dir) / f"{name}.{ending}")

    def _save_files(self, estimator: Any, name: str) -> None:
        estimator.net.save_parameters(self._path(name, "params"))
        estimator.trainer.save_states(self._path(name, "states"))

    def _remove(self, name: str) -> None:
        for ending in ("params", "states"):
            Path(self._path(name, ending)).unlink(missing_ok=True)

    def _save_symbol(self, estimator: Any) -> None:
        net = estimator.net
        if isinstance(net, HybridBlock) and net._active:
            net._symbol().save(str(Path(self.model_dir) / f"{self.model_prefix}-symbol.json"))
        elif self.verbose > 0:
            estimator.logger.info("CheckpointHandler: the graph is not saved since the network is not hybridized; its "
                                  "parameters are")

    # ---- going on
    def _resume(self, estimator: Any) -> None:
        pattern = re.compile(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params")
        found = [m for m in (pattern.fullmatch(p.name) for p in Path(self.model_dir).iterdir()) if m]
        if not found:
            estimator.logger.info("CheckpointHandler: no checkpoint of %r in %s, training from the start",
                                  self.model_prefix, self.model_dir)
            return
        newest = max(found, key=lambda m: (int(m[1]), int(m[2])))
        self.trained_epoch, self.trained_batch = int(newest[1]), int(newest[2])
        name = newest[0][:-len(".params")]
        if not Path(self._path(name, "states")).is_file():
            raise AttributeValueError(f"CheckpointHandler: {self._path(name, 'params')} is there, but the trainer's "
                                      f"states {name}.states are not")
        left = "epochs", estimator.max_epoch
        if estimator.max_epoch:
            estimator.max_epoch -= self.trained_epoch + 1
            left = "epochs", estimator.max_epoch
        elif estimator.max_batch:
            estimator.max_batch -= self.trained_batch + 1
            left = "batches", estimator.max_batch
        if not left[1] or left[1] <= 0:
            raise AttributeValueError(f"CheckpointHandler: {name} has been trained for as many {left[0]} as asked for "
                                      f"already: ask for more, or train without resuming")
        estimator.net.load_parameters(self._path(name, "params"), ctx=estimator.context)
        estimator.trainer.load_states(self._path(name, "states"))
        estimator.logger.info("CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for %d "
                              "%s ",
                              self.trained_epoch, self.trained_batch, left[1], left[0])


__all__ = ["CheckpointHandler"]
