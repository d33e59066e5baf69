"""hybrid: models written eagerly over NumPy or CuPy arrays, compiled by ``@hybridize``. Speaks MXNet's Gluon API.

>>> import hybrid as mx
>>> from hybrid import nd, sym, gluon, autograd, np, npx
"""
from __future__ import annotations

import importlib
import os
from typing import Any

# A checkout that is imported from its own folder, not installed: codegen and kernels lie beside this package, not in
# it.
if not os.path.isdir(os.path.join(__path__[0],
                                  "kernels")) and os.path.isfile(os.path.join(__path__[0], "..", "kernels", "__init__.py")):  # noqa: E501
    __path__.append(os.path.dirname(__path__[0]))

from .base import errors
from .base.errors import HybridError, MXNetError
from .base import device as context
from .base.device import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus
from . import nd as ndarray, autograd, numpy
from .graph import symbol
from .nd import methods
from .base import rng, names as name
from .numpy import extension
from . import nd
from .graph import symbol as sym
from . import numpy as np
from .numpy import extension as npx
from .numpy.symbolic import SymbolSpace
from . import base, serialize
from .mxnet import executor, initializer, util
from .mxnet import initializer as init
from .buffers.array import NDArray
from .graph.symbol import Symbol
from .base import names as attribute
from .base.names import AttrScope
from .nd import waitall
from .autograd import custom
from .mxnet.util import is_np_array, is_np_shape, np_array, np_shape, set_np_shape, use_np, use_np_array, use_np_shape
from .jit.api import hybridize

methods.BACKWARD.append(autograd.backward)
rng.NAMESPACE.append(ndarray.random)
symbol.FUNCTIONS.update(ndarray.symbol_functions())
symbol.FUNCTIONS["Custom"], ndarray.Custom = custom.symbolic_custom, custom.Custom       # type: ignore[attr-defined]
symbol.attach_files(serialize.symbol_json)
ndarray.attach_files(serialize)
# F.np and F.npx in hybrid_forward
ndarray.np, symbol.np = numpy, SymbolSpace("hybrid.sym.np", numpy)
ndarray.npx, symbol.npx = extension, SymbolSpace("hybrid.sym.npx", extension)
__version__ = "0.1.0"

__all__ = ["AttrScope", "Context", "HybridError", "MXNetError", "NDArray", "Symbol", "attribute", "autograd", "base",
           "context", "cpu", "cpu_pinned",
           "current_context", "errors", "executor", "gluon", "gpu", "gpu_memory_info", "hybridize", "init",
           "initializer", "is_np_array", "is_np_shape", "name", "nd",
           "ndarray", "np", "np_array", "np_shape", "npx", "num_gpus", "numpy", "numpy_extension", "operator",
           "random", "set_np_shape", "sym", "symbol",
           "use_np", "use_np_array", "use_np_shape", "util", "waitall"]

# modules that are loaded when they are asked for
_LAZY = ("as_mxnet", "callback", "contrib", "engine", "features", "gluon", "image", "io", "kvstore", "libinfo", "log",
         "lr_scheduler", "metric", "model", "module",
         "monitor", "onnx", "optimizer", "profiler", "recordio", "registry", "rnn", "test_utils", "viz")
_SHORT = {"mod": "module", "mon": "monitor", "visualization": "viz", "kv": "kvstore", "rnd": "random", "img": "image",
          "runtime": "features"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"hybrid.{name}")
    if name in _SHORT:
        return importlib.import_module(f"hybrid.{_SHORT[name]}")
    raise AttributeError(f"module 'hybrid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_SHORT})
