"""MXNet's ``gluon.contrib``."""
from __future__ import annotations

import importlib
from typing import Any

from ...base.other_names import MissingNameError as _MissingNameError, import_error_with_hint as _with_hint
from . import nn

__all__ = ["nn"]
_LAZY = ("cnn", "data", "estimator", "rnn")                                        # loaded when they are asked for


@_with_hint
def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"hybrid.gluon.contrib.{name}")
    raise _MissingNameError(f"module 'hybrid.gluon.contrib' has no attribute {name!r}", name, None,
                            lambda: [*__all__, *_LAZY])
