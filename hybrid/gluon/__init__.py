"""Gluon: blocks, parameters, layers, losses."""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import contrib, nn, parameter
from ..base.other_names import BLOCKS, GLUON, MissingNameError, elsewhere, import_error_with_hint
from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from ..runtime import background
from .block import Block
from .hybrid_block import HybridBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from .symbol_block import SymbolBlock

__all__ = ["Block", "Constant", "DeferredInitializationError", "ExponentialMovingAverage", "HybridBlock", "Parameter",
           "ParameterDict",
           "SymbolBlock", "Trainer", "block", "contrib", "data",
           "loss", "model_zoo", "nn", "parameter", "rnn", "tensor_types", "trainer", "utils"]

tensor_types = (Symbol, NDArray)
elsewhere(Block, BLOCKS)
background.begin_early()                          # while the script loads data and makes its network

_LAZY = {"data": "hybrid.gluon.data", "loss": "hybrid.gluon.loss", "utils": "hybrid.gluon.utils",
         "metric": "hybrid.metric",
         # loaded when they are asked for
         "model_zoo": "hybrid.gluon.model_zoo", "rnn": "hybrid.gluon.rnn", "trainer": "hybrid.gluon.trainer"}
_CLASSES = {"Trainer": "hybrid.gluon.trainer", "ExponentialMovingAverage": "hybrid.gluon.averaging"}
_NOT_YET = ("probability",)


if TYPE_CHECKING:
    from .. import metric as metric
    from . import block, data, loss, model_zoo, rnn, trainer, utils
    from .averaging import ExponentialMovingAverage
    from .trainer import Trainer
else:
    @import_error_with_hint
    def __getattr__(name: str) -> Any:
        """Loads a part when it is first asked for; MXNet's parts that are not here yet say so."""
        if name in _LAZY:
            globals()[name] = importlib.import_module(_LAZY[name])
            return globals()[name]
        if name in _CLASSES:
            globals()[name] = getattr(importlib.import_module(_CLASSES[name]), name)
            return globals()[name]
        if name in _NOT_YET:
            raise AttributeError(f"hybrid.gluon.{name} is not there yet: this version has blocks, parameters, layers, "
                                 f"autograd and compiled programs")
        raise MissingNameError(f"module 'hybrid.gluon' has no attribute {name!r}", name, GLUON.get(name), __dir__)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY})
