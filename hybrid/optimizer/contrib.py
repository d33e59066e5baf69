"""Optimizers under MXNet's ``optimizer.contrib``."""
from __future__ import annotations

from .adam import AdamW
from .adaptive import GroupAdaGrad

adamw = AdamW

__all__ = ["AdamW", "GroupAdaGrad", "adamw"]
