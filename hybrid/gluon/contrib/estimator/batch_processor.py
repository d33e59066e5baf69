"""What an Estimator does with one batch; override it for networks with several inputs or losses."""
from __future__ import annotations

from typing import Any

from .... import autograd
from ...utils import split_and_load


class BatchProcessor:
    """``fit_batch`` and ``evaluate_batch`` of pairs (data, label)."""

    def _get_data_and_label(self, batch: Any, ctx: Any, batch_axis: int = 0) -> Any:
        data, label = batch[0], batch[1]
        return split_and_load(data, ctx_list=ctx,
                              batch_axis=batch_axis), split_and_load(label, ctx_list=ctx, batch_axis=batch_axis)

    def evaluate_batch(self, estimator: Any, val_batch: Any, batch_axis: int = 0) -> Any:
        """(data, label, predictions, losses) of a batch, lists with an array a device."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        return data, label, pred, [estimator.val_loss(p, y) for p, y in zip(pred, label)]

    def fit_batch(self, estimator: Any, train_batch: Any, batch_axis: int = 0) -> Any:
        """The same, and gradients of the losses. Weights are updated by GradientUpdateHandler."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(p, y) for p, y in zip(pred, label)]
        for value in loss:
            value.backward()
        return data, label, pred, loss


__all__ = ["BatchProcessor"]
