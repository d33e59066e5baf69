"""Inference in 8-bit integers (MXNet's ``contrib.quantization``)."""
from __future__ import annotations

from .api import quantize_model, quantize_model_mkldnn, quantize_net, quantize_net_v2
from .calibration import combine_histogram
from .in_steps import calib_graph, quantize_graph

__all__ = ["calib_graph", "combine_histogram", "quantize_graph", "quantize_model", "quantize_model_mkldnn",
           "quantize_net", "quantize_net_v2"]
