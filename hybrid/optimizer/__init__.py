"""Optimizers, with MXNet's names, defaults and results. Each says its update once; all parameters are updated by one
program.

>>> from hybrid import optimizer
>>> optimizer.create("adam", learning_rate=0.01)
Adam(learning_rate=0.01, wd=0.0)
"""
from __future__ import annotations

import sys

from ..base.other_names import OPTIMIZERS as _OPTIMIZERS, hinted as _hinted
from . import contrib
from .adam import LAMB, Adam, AdamW, Adamax, Nadam
from .adaptive import FTML, AdaDelta, AdaGrad, Ftrl, GroupAdaGrad, RMSProp
from .base import Optimizer, create, register
from .sgd import DCASGD, LARS, LBSGD, NAG, SGD, SGLD, SignSGD, Signum, Test, ccSGD
from .step import Step
from .updater import Updater, get_updater

opt = optimizer = sys.modules[__name__]              # mx.optimizer.optimizer.SGD and mx.optimizer.opt.SGD, as in MXNet

__all__ = ["AdaDelta", "AdaGrad", "Adam", "AdamW", "Adamax", "DCASGD", "FTML", "Ftrl", "GroupAdaGrad", "LAMB", "LARS",
           "LBSGD", "NAG", "Nadam",
           "Optimizer", "RMSProp", "SGD", "SGLD", "SignSGD", "Signum", "Step", "Test", "Updater", "ccSGD", "contrib",
           "create", "get_updater", "register"]

_hinted(globals(), _OPTIMIZERS)
