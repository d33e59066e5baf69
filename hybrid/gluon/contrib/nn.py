"""MXNet's ``gluon.contrib.nn``: layers that stand in ``gluon.nn`` here."""
from __future__ import annotations

from ..nn.basic_layers import Concurrent, HybridConcurrent, Identity, SyncBatchNorm

__all__ = ["Concurrent", "HybridConcurrent", "Identity", "SyncBatchNorm"]
