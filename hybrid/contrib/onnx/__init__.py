"""ONNX files: ``export_model`` writes a Symbol with its parameters, ``import_model`` and ``import_to_gluon`` read one.
Needs the package ``onnx``."""
from __future__ import annotations

from .export import export_model, get_operator_support
from .importer import get_model_metadata, import_model, import_to_gluon

__all__ = ["export_model", "get_model_metadata", "get_operator_support", "import_model", "import_to_gluon"]
