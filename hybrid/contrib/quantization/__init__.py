"""Inference in 8-bit integers (MXNet's ``contrib.quantization``)."""
from __future__ import annotations

from .api import quantize_model, quantize_net, quantize_net_v2

__all__ = ["quantize_model", "quantize_net", "quantize_net_v2"]
