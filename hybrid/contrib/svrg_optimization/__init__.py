"""Stochastic variance-reduced gradients for Modules."""
from __future__ import annotations

from . import svrg_module, svrg_optimizer
from .svrg_module import SVRGModule

__all__ = ["SVRGModule", "svrg_module", "svrg_optimizer"]
