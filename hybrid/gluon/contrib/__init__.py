"""MXNet's ``gluon.contrib``."""
from __future__ import annotations

import importlib
from typing import Any

from ...base.other_names import MissingNameError as _MissingNameError, told_on_import as _told
from . import nn

__all__ = ["nn"]
_LAZY = ("cnn", "data", "estimator", "rnn")                                        # loaded when they are asked for


@_told
def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"hybrid.gluon.contrib.{name}")
    raise _MissingNameError(f"module 'hybrid.gluon.contrib' has no attribute {name!r}", name, None,
                            lambda: [*__all__, *_LAZY])
