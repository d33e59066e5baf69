"""Losses, with the names, defaults and formulas of MXNet 1.9.1's ``gluon.loss``.
Each is a HybridBlock that takes a prediction, a target and, where it says so, a ``sample_weight``, and gives one value
a sample (mean or sum over all axes but ``batch_axis``). ``weight`` scales the whole loss. ``sample_weight`` must
broadcast to the shape of the loss before that mean, for example (batch, 1) for a prediction (batch, classes).

>>> loss = SoftmaxCrossEntropyLoss()
>>> loss(nd.array([[1, 2], [3, 1]]), nd.array([1, 0])).asnumpy()
array([0.31326166, 0.12692805], dtype=float32)
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import ShapeError, warn_user
from ..base.other_names import LOSSES as _LOSSES, hinted as _hinted
from .loss_pairs import CTCLoss, CosineEmbeddingLoss, PoissonNLLLoss, TripletLoss
from .loss_base import Loss, _apply_weighting, _broadcasts, _reshape_like, _shapes_known

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import BlockOptions

__all__ = ["CTCLoss", "CosineEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss", "L1Loss", "L2Loss", "LogisticLoss",
           "Loss", "PoissonNLLLoss", "SDMLLoss",
           "SigmoidBCELoss", "SigmoidBinaryCrossEntropyLoss", "SoftmaxCELoss", "SoftmaxCrossEntropyLoss",
           "SquaredHingeLoss", "TripletLoss"]


class L2Loss(Loss):
    """weight / 2 · (label − pred)², averaged over each sample.

    pred, label: the same number of elements; sample_weight: optional. Returns (batch,).
    """

    def __init__(self, weight: Any = 1.0, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        label = _reshape_like(F, label, pred)
        return self._mean(F, F.square(label - pred), sample_weight, 0.5 if self._weight is None else self._weight / 2)


class L1Loss(Loss):
    """Absolute differences |label − pred|, averaged over each sample.

    pred, label: the same number of elements; sample_weight: optional. Returns (batch,).
    """

    def __init__(self, weight: Any = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        label = _reshape_like(F, label, pred)
        return self._mean(F, F.abs(label - pred), sample_weight)


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Cross entropy of yes-no decisions, averaged over each sample. Also called SigmoidBCELoss.

    With p = sigmoid(pred), or p = pred when ``from_sigmoid``: −(pos_weight · label · log p + (1 − label) · log(1 − p)).
    Without from_sigmoid it is computed from pred in a form that does not overflow.

    pred, label: the same number of elements, label in [0, 1]; sample_weight: optional; pos_weight: optional, broadcast
    to pred, for example (1, classes). Returns (batch,).
    """

    def __init__(self, from_sigmoid: bool = False, weight: Any = None, batch_axis: int = 0,
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None,
                       pos_weight: Any = None) -> Any:  # noqa: N803
        label = _reshape_like(F, label, pred)
        if pos_weight is not None and _shapes_known(pos_weight, pred) and not _broadcasts(pos_weight.shape, pred.shape):
            raise ShapeError(f"pos_weight of shape {pos_weight.shape} does not broadcast to pred of shape {pred.shape}")
        loss = self._of_probabilities(F, pred, label,
                                      pos_weight) if self._from_sigmoid else self._of_scores(F, pred, label, pos_weight)
        return self._mean(F, loss, sample_weight)

    def _of_scores(self, F: Any, pred: Any, label: Any, pos_weight: Any) -> Any:  # noqa: N803
        if pos_weight is None:           # max(x, 0) − x z + log(1 + exp(−|x|))
            return F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        log_weight = 1 + F.broadcast_mul(pos_weight - 1, label)
        return pred - pred * label + log_weight * (F.Activation(-F.abs(pred), act_type="softrelu") + F.relu(-pred))

    def _of_probabilities(self, F: Any, pred: Any, label: Any, pos_weight: Any) -> Any:  # noqa: N803
        eps = 1e-12
        yes = F.log(pred + eps) * label
        if pos_weight is not None:
            yes = F.broadcast_mul(yes, pos_weight)
        return -(yes + F.log(1.0 - pred + eps) * (1.0 - label))


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """Cross entropy of a softmax over ``axis``, averaged over each sample. Also called SoftmaxCELoss.

    sparse_label: label holds class numbers, −log p[label]; its shape is pred's without ``axis`` (or with length 1
    there). Otherwise label holds probabilities in pred's shape, −Σ label · log p. from_logits: pred is log p already.
    A class number outside of the range is moved to its ends, as MXNet's ``pick`` does.

    pred: scores with classes along ``axis``; sample_weight: optional, broadcast to pred's shape with length 1 at
    ``axis``. Returns (batch,).
    """

    def __init__(self, axis: int = -1, sparse_label: bool = True, from_logits: bool = False, weight: Any = None,
                 batch_axis: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._from_logits = from_logits

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        self._check(pred, label)
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -(pred * _reshape_like(F, label, pred)).sum(axis=self._axis, keepdims=True)
        return self._mean(F, loss, sample_weight)

    def _check(self, pred: Any, label: Any) -> None:
        if not self._sparse_label or not _shapes_known(pred, label):
            return
        shape, ndim = tuple(pred.shape), len(pred.shape)
        if not -ndim <= self._axis < ndim:
            raise ShapeError(f"{type(self).__name__}: pred of shape {shape} has no axis {self._axis}")
        axis = self._axis % ndim
        if tuple(label.shape) not in (shape[:axis] + shape[axis + 1:], shape[:axis] + (1,) + shape[axis + 1:]):
            raise ShapeError(f"{type(self).__name__}: class numbers for pred of shape {shape} have shape "
                             f"{shape[:axis] + shape[axis + 1:]}, "
                             f"the label has {tuple(label.shape)}"
                             + ("; for labels of probabilities pass sparse_label=False" if label.shape == pred.shape
                                else ""))


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """Kullback-Leibler divergence: label · (log label − log p), summed over each sample.

    log p = pred when ``from_logits`` (the default), log_softmax(pred, axis) otherwise.
    pred, label: of the same shape (others broadcast, with a warning); sample_weight: optional. Returns (batch,).
    """

    def __init__(self, from_logits: bool = True, axis: int = -1, weight: Any = None, batch_axis: int = 0,
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        if _shapes_known(pred, label) and tuple(pred.shape) != tuple(label.shape):
            warn_user(f"pred and label of KLDivLoss have different shapes and broadcast: {pred.shape} and "
                      f"{label.shape}")
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        loss = label * (F.log(label + 1e-12) - pred)
        return F.sum(_apply_weighting(F, loss, self._weight, sample_weight), axis=self._batch_axis, exclude=True)


class HuberLoss(Loss):
    """For e = label − pred: |e| − rho / 2 where |e| > rho, e² / (2 rho) elsewhere; averaged over each sample.

    pred, label: the same number of elements; sample_weight: optional. Returns (batch,).
    """

    def __init__(self, rho: float = 1, weight: Any = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        label = _reshape_like(F, label, pred)
        loss = F.abs(label - pred)
        loss = F.where(loss > self._rho, loss - 0.5 * self._rho, (0.5 / self._rho) * F.square(loss))
        return self._mean(F, loss, sample_weight)


class HingeLoss(Loss):
    """max(0, margin − pred · label) with labels −1 and 1, averaged over each sample.

    pred, label: the same number of elements; sample_weight: optional. Returns (batch,).
    """

    def __init__(self, margin: float = 1, weight: Any = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        label = _reshape_like(F, label, pred)
        return self._mean(F, F.relu(self._margin - pred * label), sample_weight)


class SquaredHingeLoss(HingeLoss):
    """max(0, margin − pred · label)² with labels −1 and 1, averaged over each sample; inputs as for HingeLoss."""

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        label = _reshape_like(F, label, pred)
        return self._mean(F, F.square(F.relu(self._margin - pred * label)), sample_weight)


class LogisticLoss(Loss):
    """log(1 + exp(−pred · label)) averaged over each sample.

    label_format: "signed" for labels −1 and 1, "binary" for 0 and 1.
    pred, label: the same number of elements; sample_weight: optional. Returns (batch,).
    """

    def __init__(self, weight: Any = None, batch_axis: int = 0, label_format: str = "signed",
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, received {label_format!r}")
        self._label_format = label_format

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._mean(F, loss, sample_weight)


class SDMLLoss(Loss):
    """Smoothed deep metric learning: row i of x1 belongs to row i of x2; all other rows of the batch are its negatives.

    KL divergence between softmax(−|x1ᵢ − x2ⱼ|²) over j and a one-hot row smoothed by ``smoothing_parameter``
    (Bonadiman, Kumar and Mittal, arXiv:1905.12786). As in MXNet, ``weight`` is kept but not used.

    x1, x2: (batch, length) with at least two rows. Returns (batch,).
    """

    def __init__(self, smoothing_parameter: float = 0.3, weight: Any = 1.0, batch_axis: int = 0,
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:  # noqa: N803
        if not _shapes_known(x1, x2):
            raise ShapeError("SDMLLoss needs the shapes of its inputs: call it on arrays, or give the variables "
                             "shapes, sym.var(name, shape=(batch, length))")
        if x1.shape != x2.shape or len(x1.shape) != 2 or x1.shape[0] < 2:
            raise ShapeError(f"SDMLLoss takes two arrays of the same shape (batch, length) with two rows or more, got "
                             f"{x1.shape} and {x2.shape}")
        distances = F.square(F.broadcast_sub(F.expand_dims(x1, axis=1), F.expand_dims(x2, axis=0))).sum(axis=2)
        return self.kl_loss(F.log_softmax(-distances, axis=1), self._labels(F, x1))

    def _labels(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Ones on the diagonal, smoothed: rows sum to one."""
        n, s = x.shape[0], self.smoothing_parameter
        gold = F.eye(n, ctx=x.context, dtype=np.dtype(x.dtype).name if x.dtype is not None else None)
        gold = gold.as_np_ndarray() if getattr(x, "np_semantics", False) else gold
        return gold * (1 - s - s / (n - 1)) + s / (n - 1)


_hinted(globals(), _LOSSES)
