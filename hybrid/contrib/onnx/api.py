"""``mx.onnx``: writing ONNX files. Reading them is in ``mx.contrib.onnx``."""
from __future__ import annotations

from .export import export_model, get_operator_support

__all__ = ["export_model", "get_operator_support"]
