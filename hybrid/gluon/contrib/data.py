"""Samplers that MXNet 1.x keeps in ``contrib``."""
from __future__ import annotations

from ..data import sampler
from ..data.sampler import IntervalSampler

__all__ = ["IntervalSampler", "sampler"]
