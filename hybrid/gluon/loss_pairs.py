"""Losses of pairs and triples of samples, of sequences, and of counts."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..base.errors import AttributeValueError, ShapeError
from .loss_base import Loss, _apply_weighting, _reshape_like, _shapes_known

if TYPE_CHECKING:
    from typing_extensions import Unpack
    from .options import BlockOptions


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
