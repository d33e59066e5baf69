"""MXNet's ``mod``: training and prediction with a Symbol, as programs from before Gluon do it."""
from __future__ import annotations

from .base import BatchEndParam, BaseModule
from .bucketing import BucketingModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential import SequentialModule

__all__ = ["BaseModule", "BatchEndParam", "BucketingModule", "Module", "PythonLossModule", "PythonModule",
           "SequentialModule"]
