"""Metrics of predictions, with the names, defaults and results of MXNet 1.9.1's ``mx.metric``. They run on NumPy.

>>> metric = create('acc')
>>> metric.update([label], [prediction])
>>> metric.get()
('accuracy', 0.5)
"""
from __future__ import annotations

from .. import nd as ndarray  # noqa: F401  its place in MXNet
from ..base.other_names import hinted as _hinted
from .base import CompositeEvalMetric, CustomMetric, EvalMetric, alias, check_label_shapes, create, np, register
from .classification import F1, MCC, PCC, Accuracy, CrossEntropy, NegativeLogLikelihood, Perplexity, TopKAccuracy
from .regression import MAE, MSE, RMSE, Caffe, Loss, PearsonCorrelation, Torch

__all__ = ["Accuracy", "Caffe", "CompositeEvalMetric", "CrossEntropy", "CustomMetric", "EvalMetric", "F1", "Loss",
           "MAE", "MCC", "MSE", "NegativeLogLikelihood",
           "PCC", "PearsonCorrelation", "Perplexity", "RMSE", "TopKAccuracy", "Torch", "alias", "check_label_shapes",
           "create", "np", "register"]

_hinted(globals())
