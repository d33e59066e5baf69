"""ONNX files: ``export_model`` writes a Symbol with its parameters, ``import_model`` and ``import_to_gluon`` read one. Needs the package ``onnx``."""
from __future__ import annotations

from .export import export_model, get_operator_support

__all__ = ["export_model", "get_operator_support"]
