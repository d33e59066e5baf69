"""Metrics of numbers: errors, correlation, and the mean of a loss."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy

from ..base.errors import warn_user
from .base import EvalMetric, alias, check_label_shapes, mismatch, pairs, register, to_numpy

Names = Sequence[str] | None


class _Error(EvalMetric):
    """The mean over updates of a number computed from label − prediction."""

    def __init__(self, name: str, output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, labels: Any, preds: Any) -> None:
        """labels, preds: arrays of the same shape; (batch,) counts as (batch, 1). Other shapes broadcast, as in MXNet,
        with a warning."""
        for label, pred in pairs(labels, preds):
            a, b = (v.astype(numpy.float64).reshape(-1, 1) if v.ndim == 1 else v.astype(numpy.float64)
                    for v in (label, pred))
            error = mismatch(self, label, pred, "equal shapes")
            try:
                difference = a - b
            except ValueError:
                raise error from None
            if a.shape != b.shape:
                warn_user(f"{error}; they broadcast to {difference.shape}")
            self._add(self._of(difference), 1)

    def _of(self, error: numpy.ndarray) -> float:
        raise NotImplementedError


@register
class MAE(_Error):
    """Mean absolute error of a batch, averaged over updates.

    >>> metric = MAE()
    >>> metric.update(nd.array([2.5, 0]), nd.array([3, -0.5])); metric.get()
    ('mae', 0.5)
    """

    def __init__(self, name: str = "mae", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _of(self, error: numpy.ndarray) -> float:
        return float(numpy.abs(error).mean())


@register
class MSE(_Error):
    """Mean squared error of a batch, averaged over updates."""

    def __init__(self, name: str = "mse", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _of(self, error: numpy.ndarray) -> float:
        return float((error ** 2).mean())


@register
class RMSE(_Error):
    """Root of the mean squared error of a batch, averaged over updates."""

    def __init__(self, name: str = "rmse", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _of(self, error: numpy.ndarray) -> float:
        return math.sqrt((error ** 2).mean())


class _Moments:
    """Running means and central second moments of pairs.

    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
    """

    def __init__(self) -> None:
        self.n = 0
        self.mean = numpy.zeros(2)
        self.square = numpy.zeros((2, 2))

    def add(self, x: numpy.ndarray, y: numpy.ndarray) -> None:
        """More pairs."""
        if not x.size:
            return
        both = numpy.stack([x, y])
        mean = both.mean(axis=1)
        c, step, n = both - mean[:, None], mean - self.mean, self.n + x.size
        self.square += c @ c.T + numpy.outer(step, step) * (self.n * x.size / n)
        self.mean += step * (x.size / n)
        self.n = n

    @property
    def correlation(self) -> float:
        """Pearson's coefficient; nan where one side does not vary."""
        spread = math.sqrt(self.square[0, 0] * self.square[1, 1]) if self.n > 1 else 0.0
        return float(self.square[0, 1] / spread) if spread else float("nan")


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation of labels and predictions of the same shape.

    average: "macro", the mean of each update's coefficient, or "micro", one coefficient over all pairs.
    """

    def __init__(self, name: str = "pearsonr", output_names: Names = None, label_names: Names = None,
                 average: str = "macro"):
        if average not in ("macro", "micro"):
            raise ValueError(f"PearsonCorrelation: average is macro or micro, got {average!r}")
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True,
                         **({} if average == "macro" else {"average": average}))

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._local, self._total = _Moments(), _Moments()

    def reset_local(self) -> None:
        """Forget what came since the last reset, but not for ``get_global``."""
        super().reset_local()
        self._local = _Moments()

    def update(self, labels: Any, preds: Any) -> None:
        """labels, preds: arrays of the same shape."""
        for label, pred in pairs(labels, preds):
            check_label_shapes(label, pred, False, True)
            x, y = label.ravel().astype(numpy.float64), pred.ravel().astype(numpy.float64)
            if self.average == "micro":
                self._local.add(x, y)
                self._total.add(x, y)
                self._add(0, 1)
            else:
                batch = _Moments()
                batch.add(x, y)
                self._add(batch.correlation, 1)

    def get(self) -> tuple[str, float]:
        """(name, coefficient)."""
        return super().get() if self.average == "macro" else (self.name, self._local.correlation)

    def get_global(self) -> tuple[str, float]:
        """(name, coefficient) since the last ``reset``."""
        return super().get_global() if self.average == "macro" else (self.name, self._total.correlation)


@register
class Loss(EvalMetric):
    """The mean of all elements of the predictions, which are losses; labels are not looked at.

    >>> metric = Loss()
    >>> metric.update(None, nd.array([1, 3])); metric.get()
    ('loss', 2.0)
    """

    def __init__(self, name: str = "loss", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, _: Any, preds: Any) -> None:
        """preds: an array or a list of arrays."""
        for pred in preds if isinstance(preds, (list, tuple)) else [preds]:
            values = to_numpy(pred)
            self._add(float(values.sum(dtype=numpy.float64)), values.size)


@register
class Torch(Loss):
    """``Loss`` under another name."""

    def __init__(self, name: str = "torch", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """``Loss`` under another name."""

    def __init__(self, name: str = "caffe", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)
