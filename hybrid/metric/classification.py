"""Metrics of classes: accuracy, scores of confusion matrices, likelihoods."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy

from ..base.errors import AttributeValueError
from .base import EvalMetric, alias, mismatch, pairs, register

Names = Sequence[str] | None


def _class_numbers(metric: EvalMetric, label: numpy.ndarray, pred: numpy.ndarray,
                   axis: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Labels and predicted classes, flat. A prediction of the label's shape holds classes, else scores along an
    axis."""
    classes = pred
    if pred.shape != label.shape:
        if not -pred.ndim <= axis < pred.ndim:
            raise mismatch(metric, label, pred,
                           f"classes of the labels' shape, or scores with classes along axis {axis}")
        classes = pred.argmax(axis=axis)
    if classes.size != label.size:
        raise mismatch(metric, label, pred, "one prediction for each label")
    return label.ravel().astype(numpy.int64), classes.ravel().astype(numpy.int64)


@register
@alias("acc")
class Accuracy(EvalMetric):
    """The share of labels that are predicted.

    Predictions are classes in the labels' shape, or scores whose largest along ``axis`` is the class.

    >>> metric = Accuracy()
    >>> metric.update(nd.array([0, 1, 1]), nd.array([[0.3, 0.7], [0, 1], [0.4, 0.6]])); metric.get()
    ('accuracy', 0.6666666666666666)
    """

    def __init__(self, axis: int = 1, name: str = "accuracy", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names, axis=axis, has_global_stats=True)
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        """labels: class numbers; preds: class numbers or scores."""
        for label, pred in pairs(labels, preds):
            true, found = _class_numbers(self, label, pred, self.axis)
            self._add(int((true == found).sum()), true.size)


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """The share of labels that are among the ``top_k`` largest scores. top_k: 2 or more."""

    def __init__(self, top_k: int = 1, name: str = "top_k_accuracy", output_names: Names = None,
                 label_names: Names = None):
        if top_k <= 1:
            raise AttributeValueError(f"TopKAccuracy: top_k must be more than 1, got {top_k}. Please use Accuracy if "
                                      f"top_k is no more than 1")
        super().__init__(name, output_names, label_names, top_k=top_k, has_global_stats=True)
        self.top_k = top_k
        self._given = self.name
        if self.name != f"top_k_accuracy_{top_k}":               # the name in a config
            self.name += f"_{top_k}"

    def get_config(self) -> dict[str, Any]:
        """What ``create(**config)`` makes the same metric from: a name of one's own is there as it was given."""
        config = super().get_config()
        return config if self._given == "top_k_accuracy" else {**config, "name": self._given}

    def update(self, labels: Any, preds: Any) -> None:
        """labels: (batch,) class numbers; preds: (batch, classes) scores."""
        for label, pred in pairs(labels, preds):
            if pred.ndim != 2 or label.size != pred.shape[0]:
                raise mismatch(self, label, pred, "labels (batch,) and predictions (batch, classes)")
            k = min(self.top_k, pred.shape[1])
            best = numpy.argpartition(pred.astype(numpy.float32), -k)[:, -k:]
            self._add(int((best == label.reshape(-1, 1).astype(numpy.int64)).sum()), label.size)


class _Counts:
    """A confusion matrix of two classes: true and false positives, false and true negatives."""

    def __init__(self) -> None:
        self.tp = self.fp = self.fn = self.tn = 0

    def add(self, true: numpy.ndarray, found: numpy.ndarray) -> None:
        """More labels and predictions; both are True for positives."""
        self.tp += int((true & found).sum())
        self.fp += int((~true & found).sum())
        self.fn += int((true & ~found).sum())
        self.tn += int((~true & ~found).sum())

    @property
    def total(self) -> int:
        """How many pairs."""
        return self.tp + self.fp + self.fn + self.tn

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 where there is nothing to divide by."""
        return 2 * self.tp / (2 * self.tp + self.fp + self.fn) if self.tp else 0.0

    @property
    def mcc(self) -> float:
        """Matthews' correlation coefficient, with zero factors of the denominator taken as one."""
        factors = (self.tp + self.fp, self.tp + self.fn, self.tn + self.fp, self.tn + self.fn)
        return (self.tp * self.tn - self.fp * self.fn) / math.sqrt(math.prod(f for f in factors if f))


class _Binary(EvalMetric):
    """A score of two classes, averaged over updates ("macro") or of all counts together ("micro")."""

    def __init__(self, name: str, output_names: Names = None, label_names: Names = None, average: str = "macro"):
        if average not in ("macro", "micro"):
            raise ValueError(f"{type(self).__name__}: average is macro or micro, got {average!r}")
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True,
                         **({} if average == "macro" else {"average": average}))

    def _score(self, counts: _Counts) -> float:
        raise NotImplementedError

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._local, self._total = _Counts(), _Counts()

    def reset_local(self) -> None:
        """Forget what came since the last reset, but not for ``get_global``."""
        super().reset_local()
        self._local = _Counts()

    def update(self, labels: Any, preds: Any) -> None:
        """labels: (batch,) of 0 and 1; preds: (batch, 2) scores."""
        batch = _Counts()
        for label, pred in pairs(labels, preds):
            if pred.ndim != 2 or label.size != pred.shape[0]:
                raise mismatch(self, label, pred, "labels (batch,) and predictions (batch, 2)")
            classes = label.ravel().astype(numpy.int64)
            if len(numpy.unique(classes)) > 2:
                raise ValueError(f"{type(self).__name__} currently only supports binary classification, got labels "
                                 f"{numpy.unique(classes)[:10].tolist()}")
            for counts in (batch, self._local, self._total):
                counts.add(classes == 1, pred.argmax(axis=1) == 1)
        if self.average == "macro":
            self._add(self._score(batch), 1)
        else:
            self.num_inst, self.global_num_inst = self._local.total, self._total.total
            self.sum_metric = self._score(self._local) * self.num_inst
            self.global_sum_metric = self._score(self._total) * self.global_num_inst


@register
class F1(_Binary):
    """2 · precision · recall / (precision + recall) of a classification into two classes; class 1 is the positive one.

    average: "macro", the mean of each update's score, or "micro", the score of all counts together.

    >>> metric = F1()
    >>> metric.update(nd.array([0, 1, 1]), nd.array([[0.3, 0.7], [0, 1], [0.4, 0.6]])); metric.get()
    ('f1', 0.8)
    """

    def __init__(self, name: str = "f1", output_names: Names = None, label_names: Names = None, average: str = "macro"):
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: _Counts) -> float:
        return counts.f1


@register
class MCC(_Binary):
    """Matthews' correlation coefficient of a classification into two classes: 1 right, 0 unrelated, −1 inverted.

    (TP · TN − FP · FN) / √((TP + FP)(TP + FN)(TN + FP)(TN + FN)), zero factors taken as one. average: as for F1.
    """

    def __init__(self, name: str = "mcc", output_names: Names = None, label_names: Names = None,
                 average: str = "macro"):
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: _Counts) -> float:
        return counts.mcc


@register
class PCC(EvalMetric):
    """Matthews' coefficient for any number of classes: Pearson's correlation of the confusion matrix of all updates.

    J. Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient" (2004). nan where all
    labels or all predictions are one class.
    """

    def __init__(self, name: str = "pcc", output_names: Names = None, label_names: Names = None,
                 has_global_stats: bool = True):
        self.k = 2
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    # predicted class, label: since reset_local, since reset
    lcm: numpy.ndarray
    gcm: numpy.ndarray

    def _grow(self, inc: int) -> None:
        self.lcm, self.gcm = numpy.pad(self.lcm, (0, inc)), numpy.pad(self.gcm, (0, inc))
        self.k += inc

    def update(self, labels: Any, preds: Any) -> None:
        """labels: class numbers; preds: class numbers of the same shape, or scores with classes along axis 1."""
        for label, pred in pairs(labels, preds):
            true, found = _class_numbers(self, label, pred, 1)
            if true.size and min(true.min(), found.min()) < 0:
                raise ValueError(f"PCC: class numbers must not be negative, got {min(true.min(), found.min())}")
            most = int(max(true.max(), found.max())) if true.size else 0
            if most >= self.k:
                self._grow(most + 1 - self.k)
            batch = numpy.zeros((self.k, self.k))
            numpy.add.at(batch, (found, true), 1)
            self.lcm, self.gcm = self.lcm + batch, self.gcm + batch
        self.num_inst += 1
        self.global_num_inst += 1

    @staticmethod
    def _calc_mcc(matrix: numpy.ndarray) -> float:
        n, x, y = matrix.sum(), matrix.sum(axis=1), matrix.sum(axis=0)
        xx, yy = (x * (n - x)).sum(), (y * (n - y)).sum()
        return float((matrix.diagonal() * n - x * y).sum() / math.sqrt(xx * yy)) if xx and yy else float("nan")

    @property
    def sum_metric(self) -> float:                               # type: ignore[override]
        """The coefficient times the number of updates."""
        return self._calc_mcc(self.lcm) * self.num_inst

    @property
    def global_sum_metric(self) -> float:                        # type: ignore[override]
        """The same since the last ``reset``."""
        return self._calc_mcc(self.gcm) * self.global_num_inst

    def reset(self) -> None:
        """Forget everything."""
        self.global_num_inst = 0
        self.gcm = numpy.zeros((self.k, self.k))
        self.reset_local()

    def reset_local(self) -> None:
        """Forget what came since the last reset, but not for ``get_global``."""
        self.num_inst = 0
        self.lcm = numpy.zeros((self.k, self.k))


def _chosen(metric: EvalMetric, label: numpy.ndarray, pred: numpy.ndarray, axis: int, ignore: Any = None,
            clip: bool = False) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The probability of each label's class, and the labels, flat; without labels that are to be ignored.

    Labels count from the end where they are negative, as indices do; clip: those out of range are the nearest class.
    """
    expected = f"one label for each row of class probabilities along axis {axis}"
    if not -pred.ndim <= axis < pred.ndim or not pred.shape[axis] or label.size * pred.shape[axis] != pred.size:
        raise mismatch(metric, label, pred, expected)
    rows, classes = numpy.moveaxis(pred, axis, -1).reshape(-1, pred.shape[axis]), label.ravel()
    if ignore is not None:
        rows, classes = rows[classes != ignore], classes[classes != ignore]
    index, count = classes.astype(numpy.int64), rows.shape[1]
    if clip:
        index = index.clip(0, count - 1)
    if index.size and not (-count <= index.min() and index.max() < count):
        raise ValueError(f"{type(metric).__name__}: labels must be classes from 0 to {count - 1}, got {index.min()} "
                         f"to {index.max()}")
    return rows[numpy.arange(index.size), index].astype(numpy.float64), index


@register
class Perplexity(EvalMetric):
    """exp of the mean of −log p[label]: how many equally likely classes the prediction amounts to.

    ignore_label: a label that is not counted, or None. axis: where the classes are. Probabilities below 1e-10 count as
    that. A label out of range counts as the nearest class, as in MXNet's ``pick``.

    >>> metric = Perplexity(ignore_label=None)
    >>> metric.update(nd.array([0, 1, 1]), nd.array([[0.3, 0.7], [0, 1], [0.4, 0.6]])); round(metric.get()[1], 5)
    1.7711
    """

    def __init__(self, ignore_label: int | None, axis: int = -1, name: str = "perplexity", output_names: Names = None,
                 label_names: Names = None):
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, has_global_stats=True,
                         **({} if axis == -1 else {"axis": axis}))
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        """labels: class numbers; preds: probabilities along ``axis``."""
        for label, pred in pairs(labels, preds):
            prob, index = _chosen(self, label, pred, self.axis, self.ignore_label, clip=True)
            self._add(-float(numpy.log(numpy.maximum(prob, 1e-10)).sum()), index.size)

    def _result(self, total: Any, count: Any) -> Any:
        return math.exp(total / count) if count else float("nan")


class _LogLikelihood(EvalMetric):
    """The mean of −log(p[label] + eps)."""

    def __init__(self, eps: float, name: str, output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names, eps=eps, has_global_stats=True)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        """labels: (batch,) class numbers; preds: (batch, classes) probabilities."""
        for label, pred in pairs(labels, preds):
            prob, index = _chosen(self, label, pred, -1)
            with numpy.errstate(divide="ignore"):
                self._add(-float(numpy.log(prob + self.eps).sum()), index.size)


@register
@alias("ce")
class CrossEntropy(_LogLikelihood):
    """Cross entropy of labels and predicted probabilities: the mean of −log(p[label] + eps).

    >>> metric = CrossEntropy()
    >>> metric.update(nd.array([0, 1, 1]), nd.array([[0.3, 0.7], [0, 1], [0.4, 0.6]])); round(metric.get()[1], 5)
    0.5716
    """

    def __init__(self, eps: float = 1e-12, name: str = "cross-entropy", output_names: Names = None,
                 label_names: Names = None):
        super().__init__(eps, name, output_names, label_names)


@register
@alias("nll_loss")
class NegativeLogLikelihood(_LogLikelihood):
    """The mean of −log(p[label] + eps): the same number as CrossEntropy under another name."""

    def __init__(self, eps: float = 1e-12, name: str = "nll-loss", output_names: Names = None,
                 label_names: Names = None):
        super().__init__(eps, name, output_names, label_names)
