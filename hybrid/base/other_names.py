"""Names of PyTorch, JAX and NumPy that are not here, and what does the same: error messages about them say so."""
from __future__ import annotations

import functools
import sys
from opcode import opmap
from types import FrameType
from typing import Any, Callable, Iterable, Mapping

from .names import nearest

_DTYPES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32", "long": "int64", "bool": "bool"}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# of arrays x
ARRAYS = {
    **{name: f'x.astype("{dtype}")' for name, dtype in _DTYPES.items()},
    **{name: f"x {sign} y" for name, sign in {**_OPERATORS, **_COMPARISONS}.items()},
    **{f"{name}_": f"x {sign}= y" for name, sign in _OPERATORS.items()},
    **dict.fromkeys(("numpy", "to_numpy"), "x.asnumpy()"), **dict.fromkeys(("requires_grad", "requires_grad_"),
                                                                           "x.attach_grad()"),
    **dict.fromkeys(("view_as", "reshape_as"), "x.reshape(y.shape)"), **dict.fromkeys(("numel", "nelement"), "x.size"),
    **dict.fromkeys(("mm", "bmm", "matmul"), "np.matmul(x, y)"), **dict.fromkeys(("chunk", "unbind"), "np.split(x, n)"),
    "at": "x[index] = y", "block_until_ready": "x.wait_to_read()", "cat": "np.concatenate([x, y])",
    "clamp": "x.clip(low, high)", "clone": "x.copy()", "contiguous": "x, whose rows always lie in order",
    "copy_": "x[:] = y", "cpu": "x.as_in_context(hybrid.cpu())", "cuda": "x.as_in_context(hybrid.gpu())",
    "devices": "x.ctx", "dim": "x.ndim", "expand": "x.broadcast_to(shape)",
    **dict.fromkeys(("fill", "fill_"), "x[:] = number"), "put": "x[index] = y", "resize": "np.resize(x, shape)",
    "gather": "np.take_along_axis(x, index, axis)", "index_select": "x.take(index, axis)",
    "is_cuda": 'x.ctx.device_type == "gpu"', "masked_fill": "np.where(mask, number, x)", "masked_select": "x[mask]",
    "neg": "-x", "permute": "x.transpose(axes)", "repeat_interleave": "x.repeat(n, axis)", "t": "x.T",
    "to": "x.as_in_context(device), or x.astype(dtype)", "type": "x.astype(dtype)", "type_as": "x.astype(y.dtype)",
    "unsqueeze": "x.expand_dims(axis)", "view": "x.reshape(shape)", "zero_": "x[:] = 0"}
# of networks
BLOCKS = {
    **dict.fromkeys(("parameters", "named_parameters", "buffers", "named_buffers"), "net.collect_params()"),
    **dict.fromkeys(("train", "eval"), "autograd.record(): code inside of it trains, other code does not"),
    **dict.fromkeys(("to", "cpu", "cuda"), "net.collect_params().reset_ctx(device)"),
    **{name: f'net.cast("{_DTYPES[name]}")' for name in ("half", "float", "double")},
    "compile": "net.hybridize()", "load_state_dict": "net.load_parameters(file)",
    "state_dict": "net.save_parameters(file), or net.collect_params()", "training": "autograd.is_training()"}
LAYERS = {
    **{f"{name}{n}d": f"nn.{name}{n}D" for name in ("Conv", "MaxPool", "AvgPool") for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": f"nn.Conv{n}DTranspose" for n in (1, 2, 3)},
    **{f"{name}{n}d": f"nn.{name}" for name in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)},
    **{f"AdaptiveAvgPool{n}d": f"nn.GlobalAvgPool{n}D, for one number a channel" for n in (1, 2, 3)},
    **{name: f'nn.Activation("{name.lower()}")' for name in ("ReLU", "Sigmoid", "Tanh")},
    **{name: f"gluon.rnn.{name}" for name in ("RNN", "LSTM", "GRU")},
    "CrossEntropyLoss": "gluon.loss.SoftmaxCrossEntropyLoss", "Dropout2d": "nn.Dropout(rate, axes=(2, 3))",
    "LogSoftmax": "npx.log_softmax(x)", "Linear": "nn.Dense(units, flatten=False)", "MSELoss": "gluon.loss.L2Loss",
    "Module": "nn.HybridBlock", "ModuleList": "nn.HybridSequential", "MultiheadAttention": "nn.MultiHeadAttention",
    "Parameter": "gluon.Parameter", "Softmax": "npx.softmax(x)", "functional": "npx", "init": "hybrid.init"}
LOSSES = {
    "BCELoss": "loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)",
    "BCEWithLogitsLoss": "loss.SigmoidBinaryCrossEntropyLoss()", "CrossEntropyLoss": "loss.SoftmaxCrossEntropyLoss()",
    "MSELoss": "loss.L2Loss(), half of the mean square", "NLLLoss": "loss.SoftmaxCrossEntropyLoss(from_logits=True)",
    "SmoothL1Loss": "loss.HuberLoss()"}
GRADIENTS = {
    **dict.fromkeys(("no_grad", "inference_mode"),
                    "autograd.pause(); outside of autograd.record() nothing is recorded"),
    "enable_grad": "autograd.record()", "hessian": "hybrid.hessian(f)", "jacobian": "hybrid.jacobian(f)",
    "set_grad_enabled": "autograd.set_recording(flag)"}
# of the library, and of the modules with functions of arrays
LIBRARY = {
    **dict.fromkeys(("tensor", "as_tensor"), "np.array(values)"), "Device": "hybrid.Context", "Tensor": "np.ndarray",
    "bmm": "np.matmul(x, y)", "cat": "np.concatenate([x, y])", "clamp": "np.clip(x, low, high)",
    "compile": "hybrid.hybridize(f)", "cuda": "hybrid.gpu()", "device": "hybrid.Context", "from_numpy": "np.array(a)",
    "functional": "npx", "grad": "hybrid.grad(f)", "jit": "hybrid.hybridize(f)", "manual_seed": "hybrid.random.seed(n)",
    "mm": "np.matmul(x, y)", "nn": "gluon.nn", "no_grad": GRADIENTS["no_grad"], "optim": "hybrid.optimizer",
    "permute": "x.transpose(axes)", "rand": "np.random.uniform(size=shape)", "randn": "np.random.normal(size=shape)",
    "relu": "npx.relu(x)", "sigmoid": "npx.sigmoid(x)", "softmax": "npx.softmax(x)", "unsqueeze": "x.expand_dims(axis)",
    "vmap": "hybrid.vmap(f)"}
GLUON = {**LAYERS, "DataLoader": "gluon.data.DataLoader", "Module": "nn.HybridBlock", "losses": "gluon.loss",
         "optim": "gluon.Trainer"}
OPTIMIZERS = {"SparseAdam": "optimizer.Adam(lazy_update=True)", "lr_scheduler": "hybrid.lr_scheduler"}
DATA = {"Subset": "data.Dataset.take, .shard or .filter", "TensorDataset": "data.ArrayDataset"}


class MissingNameError(AttributeError):
    """The error about a name that an object or module lacks. Its text is put together only when it is read, since
    programs often ask whether a name is there. text: its first part. hint: what to use here instead. known: the names
    there are."""

    def __init__(self, text: str, name: str, hint: str | None, known: Callable[[], Iterable[str]]):
        super().__init__(text, name=name)
        self._hint, self._known = hint, known

    def __str__(self) -> str:
        hint = f"; here it is {self._hint}" if self._hint else nearest(str(self.name), self._known())
        return f"{self.args[0]}{hint}"

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


# tracebacks show the name that everybody knows
MissingNameError.__name__ = MissingNameError.__qualname__ = "AttributeError"
MissingNameError.__module__ = "builtins"


def import_error_with_hint(lookup: Callable[[str], Any]) -> Callable[[str], Any]:
    """Decorates a module's ``__getattr__``: within ``from module import name`` its MissingNameError becomes an
    ImportError with the same text, since Python replaces an AttributeError there by an ImportError of its own."""
    @functools.wraps(lookup)
    def found(name: str) -> Any:
        try:
            return lookup(name)
        except MissingNameError as error:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and str(frame.f_globals.get("__name__")).split(".")[0] == "hybrid":
                frame = frame.f_back if not _imports(frame) else None        # no import of the library's own
            if frame is None or not _imports(frame):
                raise
            text = f"cannot import {name!r}: {error}"
        raise ImportError(text, name=name)
    return found


def _imports(frame: FrameType) -> bool:
    """Whether a frame takes a name from a module that it has imported."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def public(names: Iterable[str]) -> list[str]:
    """Those of some names that are not private."""
    return [name for name in names if not name.startswith("_")]


def hinted(module: dict[str, Any], table: Mapping[str, str] | None = None) -> None:
    """Have a module raise errors that say what to use instead of a name that it lacks: what the table says, or the
    nearest name. module: its ``globals()``."""
    @import_error_with_hint
    def missing(name: str) -> Any:
        raise MissingNameError(f"module {module['__name__']!r} has no attribute {name!r}", name,
                               (table or {}).get(name), lambda: module.get("__all__") or public(module))
    module["__getattr__"] = missing


class Elsewhere:
    """A name that a class lacks: reading it raises an error that says what to use instead. If another base of a user's
    class has the name, that one is found."""

    def __init__(self, hint: str):
        self._hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._lacks = name, owner

    def __get__(self, instance: Any, owner: type) -> Any:
        order = owner.__mro__
        if any(self._name in vars(c) for c in order[order.index(self._lacks) + 1:]):
            return getattr(super(self._lacks, owner if instance is None else instance), self._name)  # type: ignore[misc]
        text = f"{owner.__name__!r} object has no attribute {self._name!r}"
        raise MissingNameError(text, self._name, self._hint, tuple)


def elsewhere(cls: type, table: Mapping[str, str]) -> None:
    """Have a class raise errors that say what to use instead of the names of a table; ``dir`` does not list them."""
    for name, hint in table.items():
        entry = Elsewhere(hint)
        entry.__set_name__(cls, name)
        setattr(cls, name, entry)

    def listed(self: Any) -> list[str]:
        return [n for n in object.__dir__(self) if n not in table or hasattr(self, n)]
    cls.__dir__ = listed  # type: ignore[method-assign, assignment]
