"""hybrid: models written eagerly over NumPy or CuPy arrays, compiled by ``@hybridize``. Speaks MXNet's Gluon API.

>>> import hybrid as mx
>>> from hybrid import nd, sym, gluon, autograd, np, npx
"""
from __future__ import annotations

import importlib
import os
from typing import Any

# In a checkout that is imported from its own folder, codegen and kernels lie beside this package, not in it.
_BESIDE = os.path.join(__path__[0], "..")
if not os.path.isdir(os.path.join(__path__[0], "kernels")) and os.path.isdir(os.path.join(_BESIDE, "kernels")):
    __path__.append(os.path.dirname(__path__[0]))

from .base import device as context, errors, former_paths, names as attribute, names as name, rng as random
from .base.device import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus
from .base.errors import HybridError, MXNetError
from .base.names import AttrScope
from .base.other_names import (LIBRARY as _LIBRARY, MissingNameError as _MissingNameError,
                               import_error_with_hint as _with_hint)
from .base.shown_errors import install as _show_errors
from .base.system import check_lock as _check_lock
from . import autograd, base, nd, numpy, serialize
from .autograd import custom as operator, legacy_operator
from .buffers.array import NDArray
from .graph import of_symbols, symbol
from .graph.symbol import Symbol
from .nd import methods, waitall
from .numpy import extension as numpy_extension
from .numpy.symbolic import SymbolSpace
from .mxnet import executor, initializer, util
from .mxnet.util import is_np_array, is_np_shape, np_array, np_shape, set_np_shape, use_np, use_np_array, use_np_shape
from .jit.api import hybridize
from .jit.determinism import deterministic
from .jit.dims import Dim
from .base.pytree import register_pytree
from .transforms import checkpoint, grad, hessian, jacobian, jvp, value_and_grad, vjp, vmap

init, ndarray, np, npx, sym = initializer, nd, numpy, numpy_extension, symbol

methods.BACKWARD.append(autograd.backward)
random.NAMESPACE.append(nd.random)
symbol.FUNCTIONS.update(nd.symbol_functions())
operator.NDArrayOp, operator.NumpyOp, operator.PythonOp = (  # type: ignore[attr-defined]
    legacy_operator.NDArrayOp, legacy_operator.NumpyOp, legacy_operator.PythonOp)
symbol.FUNCTIONS["Custom"], nd.Custom = operator.symbolic_custom, operator.Custom       # type: ignore[attr-defined]
symbol.attach_files(serialize.symbol_json)
nd.attach_files(serialize)
of_symbols.hide()
# F.np and F.npx in hybrid_forward
nd.np, symbol.np = numpy, SymbolSpace("hybrid.sym.np", numpy)
nd.npx, symbol.npx = numpy_extension, SymbolSpace("hybrid.sym.npx", numpy_extension)
__version__ = "0.1.0"

__all__ = [
    "AttrScope", "Context", "Dim", "HybridError", "MXNetError", "NDArray", "Symbol", "attribute", "autograd", "base",
    "checkpoint", "context", "cpu", "cpu_pinned", "current_context", "deterministic", "errors", "executor", "gluon",
    "gpu", "gpu_memory_info", "grad", "hessian", "hybridize", "init", "initializer", "is_np_array", "is_np_shape",
    "jacobian", "jvp", "name", "nd", "ndarray", "np", "np_array", "np_shape", "npx", "num_gpus", "numpy",
    "numpy_extension", "operator", "random", "register_pytree", "set_np_shape", "sym", "symbol", "use_np",
    "use_np_array",
    "use_np_shape", "util", "value_and_grad", "vjp", "vmap", "waitall"]

former_paths.install(__all__)
# the names by which MXNet's programs know the two spaces that ``hybrid_forward`` is given as F
nd.__name__, symbol.__name__ = "hybrid.ndarray", "hybrid.symbol"

_check_lock()
_show_errors()

# modules that are loaded when they are asked for
_LAZY = ("as_mxnet", "callback", "contrib", "debug", "distributed", "engine", "features", "gluon", "image", "io",
         "kvstore", "libinfo", "log", "lr_scheduler", "metric", "model", "module", "monitor", "onnx", "optimizer",
         "profiler", "recordio", "registry", "rnn", "test_utils", "viz")
_SHORT = {"mod": "module", "mon": "monitor", "visualization": "viz", "kv": "kvstore", "rnd": "random", "img": "image",
          "runtime": "features"}


if base.config.nan():
    importlib.import_module("hybrid.debug").check_finite()


@_with_hint
def __getattr__(name: str) -> Any:
    if name in _SHORT:
        return __getattr__(_SHORT[name]) if _SHORT[name] not in globals() else globals()[_SHORT[name]]
    if name in _LAZY or name in former_paths.FORMER:
        return importlib.import_module(f"hybrid.{name}")
    if name == "explain":
        return importlib.import_module("hybrid.debug").explain
    raise _MissingNameError(f"module 'hybrid' has no attribute {name!r}", name, _LIBRARY.get(name), __dir__)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY, *_SHORT, "__version__", "explain"})
