"""Passes from a traced program to fused kernels; the pipeline is a list (pipeline.py)."""
from __future__ import annotations

from . import loop_gradient            # it gives loops their gradient

__all__ = ["loop_gradient"]
