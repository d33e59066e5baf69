"""The package ``onnx``, which is optional: it is imported when a file is written or read."""
from __future__ import annotations

from typing import Any

from ...base.errors import HybridError

OPSETS = range(13, 18)                  # the forms that are written are the same in these


def onnx() -> Any:
    """The module ``onnx``; HybridError, saying what to install, where it is missing."""
    try:
        import onnx as found  # noqa: PLC0415
    except ImportError as err:
        raise HybridError("ONNX files are written and read with the package onnx, which is not installed: pip install "
                          "hybridize[onnx]") from err
    return found


def evaluator() -> Any:
    """The package's own evaluator of nodes on NumPy's arrays."""
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415
    return ReferenceEvaluator


def inliner() -> Any:
    """The package's function that writes out functions (since onnx 1.15)."""
    from onnx.inliner import inline_selected_functions  # noqa: PLC0415
    return inline_selected_functions
