"""What MXNet keeps in ``contrib``: mixed precision (``contrib.amp``), and ``nd.contrib`` and ``sym.contrib`` under
their older names."""
from __future__ import annotations

import importlib
from typing import Any

from ..base.other_names import MissingNameError as _MissingNameError, import_error_with_hint as _with_hint
from ..nd import functions
from . import amp

__all__ = ["amp"]
_SPACES = {"nd": "nd", "ndarray": "nd", "sym": "sym", "symbol": "sym"}
_SHORT = {"quant": "quantization"}                       # MXNet's short names of modules
# loaded when they are asked for
_LAZY = ("autograd", "io", "onnx", "quantization", "svrg_optimization", "tensorboard", "text")


@_with_hint
def __getattr__(name: str) -> Any:
    if name in _SPACES:
        return functions.resolve(_SPACES[name], "contrib")
    name = _SHORT.get(name, name)
    if name in _LAZY:
        return importlib.import_module(f"hybrid.contrib.{name}")
    raise _MissingNameError(f"module 'hybrid.contrib' has no attribute {name!r}", name, None,
                            lambda: [*__all__, *_LAZY])
