"""MXNet's ``gluon.contrib``."""
from __future__ import annotations

import importlib
from typing import Any

from . import nn

__all__ = ["nn"]


def __getattr__(name: str) -> Any:
    if name in ("cnn", "data", "estimator", "rnn"):                                  # loaded when they are asked for
        return importlib.import_module(f"hybrid.gluon.contrib.{name}")
    raise AttributeError(f"module 'hybrid.gluon.contrib' has no attribute {name!r}")
