"""Losses, with the names, defaults and formulas of MXNet 1.9.1's ``gluon.loss``.
Each is a HybridBlock that takes a prediction, a target and, where it says so, a ``sample_weight``, and gives one value
a sample (mean or sum over all axes but ``batch_axis``). ``weight`` scales the whole loss. ``sample_weight`` must
broadcast to the shape of the loss before that mean, for example (batch, 1) for a prediction (batch, classes).

>>> loss = SoftmaxCrossEntropyLoss()
>>> loss(nd.array([[1, 2], [3, 1]]), nd.array([1, 0])).asnumpy()
array([0.31326166, 0.12692805], dtype=float32)
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import nd
from ..base import numeric_types, pending
from ..base.errors import AttributeValueError, DTypeError, ShapeError
from ..base.scope import SCOPE
from ..graph.symbol import known
from .hybrid_block import HybridBlock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import BlockOptions

__all__ = ["CTCLoss", "CosineEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss", "L1Loss", "L2Loss", "LogisticLoss",
           "Loss", "PoissonNLLLoss", "SDMLLoss",
           "SigmoidBCELoss", "SigmoidBinaryCrossEntropyLoss", "SoftmaxCELoss", "SoftmaxCrossEntropyLoss",
           "SquaredHingeLoss", "TripletLoss"]


def _shapes_known(*values: Any) -> bool:
    """Whether all shapes are known: of arrays and traced values always, of a Symbol built from ``sym.var`` seldom."""
    if other := [type(v).__name__ for v in values if not hasattr(v, "shape")]:
        raise DTypeError(f"a loss takes arrays (prediction, target, sample_weight), got {other[0]}: make one with "
                         f"nd.array(...)")
    return all(known(v.shape) for v in values)


def _apply_weighting(F: Any, loss: Any, weight: Any = None, sample_weight: Any = None) -> Any:  # noqa: N803
    """loss * sample_weight * weight; each may be None.

    A sample_weight of as many axes as the loss or more may broadcast it, as in MXNet. Raises ShapeError when one of
    fewer axes would do so: (batch,) against (batch, 1) would silently give (batch, batch).
    """
    if sample_weight is not None:
        if (_shapes_known(loss, sample_weight) and len(sample_weight.shape) < len(loss.shape)
            and not _broadcasts(sample_weight.shape, loss.shape)):
            raise ShapeError(f"sample_weight of shape {sample_weight.shape} does not broadcast to the shape of the "
                             f"loss, {loss.shape}; to weight each sample "
                             f"give it one axis for each of the loss's, as "
                             f"sample_weight.reshape({(-1,) + (1,) * (len(loss.shape) - 1)})")
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        if not isinstance(weight, numeric_types):
            raise AttributeValueError(f"the weight of a loss must be a number or None, got {weight!r}; weights of "
                                      f"single samples go into sample_weight")
        loss = loss * weight
    return loss


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(s in (1, t) for s, t in zip(shape[::-1], to[::-1]))


def _reshape_like(F: Any, x: Any, y: Any) -> Any:  # noqa: N803
    """x in the shape of y."""
    if _shapes_known(x, y):
        if math.prod(x.shape) != math.prod(y.shape):
            raise ShapeError(f"prediction and target of a loss need the same number of elements, got shapes {y.shape} "
                             f"and {x.shape}")
        long = [[n for n in v.shape if n != 1] for v in (x, y)]
        if len(long[0]) == len(long[1]) and long[0] != long[1]:
            raise ShapeError(f"prediction and target of a loss have as many elements, but their axes do not belong "
                             f"together: {y.shape} and {x.shape}")
        if F is nd:
            return x if x.shape == y.shape else x.reshape(y.shape)
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """Base of all losses: ``weight`` (a number or None) and ``batch_axis``."""

    def __init__(self, weight: Any, batch_axis: int, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _careful_call(self, *args: Any, **kwargs: Any) -> Any:
        def ordinary() -> Any:
            return HybridBlock._careful_call(self, *args, **kwargs)
        d = self.__dict__
        if (pending.WATCHED[0] and not d["_active"] and not SCOPE.traces and type(self).__module__ == __name__
            and not d["_forward_hooks"] and not d["_forward_pre_hooks"] and not d["_backward_hooks"]):
            return pending.LATER[0].loss(self, args, kwargs, ordinary)
        return ordinary()

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
        """The loss of a prediction; override it."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward(self, F, pred, label, …)")

    def _mean(self, F: Any, loss: Any, sample_weight: Any, weight: Any = None) -> Any:  # noqa: N803
        """Weighted, then averaged over all axes but the batch's."""
        return F.mean(_apply_weighting(F, loss, self._weight if weight is None else weight, sample_weight),
                      axis=self._batch_axis, exclude=True)


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
    """|label − pred|, averaged over each sample.

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
    pred, label: of the same shape; sample_weight: optional. Returns (batch,).
    """

    def __init__(self, from_logits: bool = True, axis: int = -1, weight: Any = None, batch_axis: int = 0,
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        if _shapes_known(pred, label) and tuple(pred.shape) != tuple(label.shape):
            raise ShapeError(f"pred and label of KLDivLoss must have the same shape, got {pred.shape} and {label.shape}")  # noqa: E501
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        loss = label * (F.log(label + 1e-12) - pred)
        return F.sum(_apply_weighting(F, loss, self._weight, sample_weight), axis=self._batch_axis, exclude=True)


class HuberLoss(Loss):
    """|e| − rho / 2 where |e| > rho, e² / (2 rho) elsewhere, for e = label − pred; averaged over each sample.

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


class TripletLoss(Loss):
    """max(0, |positive − pred|² − |negative − pred|² + margin), the squares summed over each sample.

    pred, positive, negative: the same number of elements. Returns (batch,).
    """

    def __init__(self, margin: float = 1, weight: Any = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, positive: Any, negative: Any) -> Any:  # noqa: N803
        positive, negative = _reshape_like(F, positive, pred), _reshape_like(F, negative, pred)
        loss = F.sum(F.square(positive - pred) - F.square(negative - pred), axis=self._batch_axis, exclude=True)
        return _apply_weighting(F, F.relu(loss + self._margin), self._weight, None)


class PoissonNLLLoss(Loss):
    """Negative log likelihood of counts ``target`` under a Poisson distribution, averaged over everything.

    exp(pred) − target · pred when ``from_logits`` (pred is the log of the mean, the default), else
    pred − target · log(pred + epsilon). compute_full adds Stirling's approximation of log(target!) where target > 1:
    target · log target − target + log(2 π target) / 2.

    pred, target: the same number of elements; sample_weight: optional. Returns (1,).
    """

    def __init__(self, weight: Any = None, from_logits: bool = True, batch_axis: int = 0, compute_full: bool = False,
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(self, F: Any, pred: Any, target: Any, sample_weight: Any = None,
                       epsilon: float = 1e-08) -> Any:  # noqa: N803
        target = _reshape_like(F, target, pred)
        loss = F.exp(pred) - target * pred if self._from_logits else pred - target * F.log(pred + epsilon)
        if self._compute_full:
            above = F.maximum(target, 1)                         # the logarithm of counts of 0 is not asked for
            stirling = target * F.log(above) - target + 0.5 * F.log(2 * math.pi * above)
            loss = loss + F.where(target > 1, stirling, F.zeros_like(stirling))
        return F.mean(_apply_weighting(F, loss, self._weight, sample_weight))


class CosineEmbeddingLoss(Loss):
    """1 − cos(input1, input2) for pairs of label 1, max(0, cos(input1, input2) − margin) for pairs of label −1.

    input1, input2: (batch, length), the same number of elements; label: (batch,) of 1 and −1; sample_weight: optional,
    (batch, 1). Returns (batch, 1).
    """

    def __init__(self, weight: Any = None, batch_axis: int = 0, margin: float = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, input1: Any, input2: Any, label: Any,
                       sample_weight: Any = None) -> Any:  # noqa: N803
        input1 = _reshape_like(F, input1, input2)
        if _shapes_known(input2, label) and math.prod(label.shape) != math.prod(input2.shape[:-1]):
            raise ShapeError(f"CosineEmbeddingLoss needs one label for each pair of vectors, got inputs of shape "
                             f"{input2.shape} and labels of shape {label.shape}")
        label = label.reshape((-1, 1))
        cosine = self._cosine_similarity(F, input1, input2)
        loss = (1 - cosine) * (label == 1) + F.maximum((label == -1) * (cosine - self._margin), 0)
        return _apply_weighting(F, loss, self._weight, sample_weight)

    def _cosine_similarity(self, F: Any, x: Any, y: Any, axis: int = -1) -> Any:  # noqa: N803
        norms = F.norm(x, axis=axis).reshape((-1, 1)) * F.norm(y, axis=axis).reshape((-1, 1))
        return F.sum(x * y, axis=axis).reshape((-1, 1)) / F.maximum(norms, 1e-12)


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


class CTCLoss(Loss):
    """Connectionist temporal classification (Graves et al., ICML 2006): −log of the label's probability over all
    alignments.

    layout: NTC or TNC, the axes of pred (batch, time, alphabet; the last class is the blank). label_layout: NT or TN.
    pred: scores before the softmax; labels: class numbers padded with −1; pred_lengths, label_lengths: (batch,), how
    much of each row counts. Returns (batch,). A compiled program holds every time step: it takes about 40 ms a step to
    compile.
    """

    def __init__(self, layout: str = "NTC", label_layout: str = "NT", weight: Any = None,
                 **kwargs: Unpack[BlockOptions]):
        if layout not in ("NTC", "TNC"):
            raise AttributeValueError(f"CTCLoss: the layout of pred is NTC or TNC, got {layout!r}")
        if label_layout not in ("NT", "TN"):
            raise AttributeValueError(f"CTCLoss: the layout of labels is NT or TN, got {label_layout!r}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout = layout
        self._label_layout = label_layout

    def hybrid_forward(self, F: Any, pred: Any, label: Any, pred_lengths: Any = None,
                       label_lengths: Any = None,  # noqa: N803
                       sample_weight: Any = None) -> Any:
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        loss = F.CTCLoss(pred, label, pred_lengths, label_lengths, use_data_lengths=pred_lengths is not None,
                         use_label_lengths=label_lengths is not None, blank_label="last")
        return _apply_weighting(F, loss, self._weight, sample_weight)
