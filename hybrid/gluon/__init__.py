"""Gluon: blocks, parameters, layers."""
from __future__ import annotations

from typing import Any

from . import contrib, nn, parameter
from .block import Block
from .hybrid_block import HybridBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from .symbol_block import SymbolBlock

__all__ = ["Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter", "ParameterDict", "SymbolBlock", "contrib", "nn", "parameter"]

_NOT_YET = ("Trainer", "loss", "data", "rnn", "model_zoo", "utils", "metric", "probability")


def __getattr__(name: str) -> Any:
    """MXNet's parts that are not here yet say so."""
    if name in _NOT_YET:
        raise AttributeError(f"hybrid.gluon.{name} is not there yet: this version has blocks, parameters, layers, autograd and compiled programs")
    raise AttributeError(f"module 'hybrid.gluon' has no attribute {name!r}")
