"""Reading ONNX files: ``import_model``, ``import_to_gluon``, ``get_model_metadata``."""
from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Sequence

from ... import gluon, nd
from ...base.device import current_context
from ...base.errors import AttributeValueError, FileFormatError, HybridError
from ...base.atomic import existing
from ...graph.symbol import Symbol, var
from . import (  # noqa: F401  they register forms
    library, read_arrays, read_layers, read_loops, read_quantized, read_resize, recurrent,
)
from .evaluated import EvaluatedNet
from .any_length import AnyLengthNet
from .open_lengths import read, two_lengths
from .reader import inlined

REMARKS = ("doc_string", "metadata_props", "producer_name", "producer_version")    # fields that nothing here reads


def _model(model_file: Any) -> Any:
    onnx = library.onnx()
    path = os.fspath(existing(model_file))
    try:
        model = onnx.load(path)
    except Exception as err:                               # noqa: E501, BLE001  damaged files raise errors of several libraries
        raise FileFormatError(f"{path} is no valid ONNX model: {str(err)[:300]}") from err
    if not model.graph.output:
        raise FileFormatError(f"{path} is no valid ONNX model: its graph has no outputs")
    damaged = _not_utf8(model)
    if damaged is not None:
        raise FileFormatError(f"{path} is no valid ONNX model: the name {damaged!r} is no text in UTF-8")
    return inlined(model)


def _not_utf8(message: Any) -> bytes | None:
    """A name in a message, or in those in it, that is not in UTF-8: the parser gives its bytes."""
    left = [message]
    while left:
        for kind, value in left.pop().ListFields():
            if kind.name in REMARKS:
                continue
            values = [value] if isinstance(value, (str, bytes)) or hasattr(value, "ListFields") else value
            if kind.message_type is not None:
                left.extend(values)
            elif kind.type == kind.TYPE_STRING:
                damaged = next((v for v in values if isinstance(v, bytes)), None)
                if damaged is not None:
                    return damaged
    return None


@contextmanager
def _damaged(model_file: Any) -> Iterator[None]:
    """Errors that fields of a damaged file raise (text that is none, lengths below 0) as errors about the file."""
    try:
        yield
    except HybridError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as err:
        raise FileFormatError(f"{os.fspath(model_file)} is no valid ONNX model: {type(err).__name__}: "
                              f"{str(err)[:300]}") from err


def import_model(model_file: Any, input_shapes: Mapping[str,
                                                        Sequence[int]] | None = None) -> tuple[Symbol, dict[str, Any],
        dict[str, Any]]:
    """The network of an ONNX file: (Symbol, arguments by name, auxiliary states by name).

    input_shapes: shapes of inputs by name, where the file leaves lengths open and the network needs them.
    FileFormatError for a file that is damaged; AttributeValueError, naming the node, for an operator that is not known
    here.

    >>> symbol, arg_params, aux_params = import_model('net.onnx')                            # doctest: +SKIP
    """
    with _damaged(model_file):
        symbol, params, _ = _imported(model_file, input_shapes)
    aux = set(symbol.list_auxiliary_states())
    return symbol, {k: v for k, v in params.items() if k not in aux}, {k: v for k, v in params.items() if k in aux}


def _imported(model_file: Any, input_shapes: Mapping[str,
                                                     Sequence[int]] | None) -> tuple[Symbol, dict[str, Any], list[str]]:
    model = _model(model_file)
    known = [name for name, *_ in _metadata(model)["input_tensor_data"]]
    unknown = [k for k in input_shapes or {} if k not in known]
    if unknown:
        raise AttributeValueError(f"the model has no input {', '.join(map(repr, unknown))}; it has {', '.join(known)}")
    symbol, params, inputs = read(model, input_shapes or {})
    return symbol, {k: nd.array(v, dtype=v.dtype) for k, v in params.items()}, inputs


def import_to_gluon(model_file: Any, ctx: Any = None, input_shapes: Mapping[str, Sequence[int]] | None = None) -> Any:
    """The network of an ONNX file as a SymbolBlock on a device or a list of devices.

    Where a graph cannot say the network (lengths that depend on values, strings, sequences) it is an
    ``EvaluatedNet``, for inference: parts of it are compiled, and the other nodes are evaluated one by one.

    >>> net = import_to_gluon('net.onnx', ctx=mx.cpu()); net.hybridize()                     # doctest: +SKIP
    """
    with _damaged(model_file):
        return _as_block(model_file, ctx, input_shapes)


def _as_block(model_file: Any, ctx: Any, input_shapes: Mapping[str, Sequence[int]] | None) -> Any:
    net: Any
    try:
        symbol, params, inputs = _imported(model_file, input_shapes)
    except (HybridError, ArithmeticError, LookupError, TypeError, ValueError):
        net = _any_length(model_file, ctx, input_shapes) or _evaluated(model_file, ctx, input_shapes)
        if net is None:
            raise
        return net
    names = [name for name, *_ in get_model_metadata(model_file)["input_tensor_data"]]
    if not inputs:
        found = _evaluated(model_file, ctx, input_shapes)
        if found is not None:
            return found
    net = (gluon.SymbolBlock if names == inputs else _Chosen)(symbol, [var(name) for name in inputs])
    net.__dict__["given"] = names
    _load(net, params, model_file, ctx)
    return net


class _Chosen(gluon.SymbolBlock):
    """A SymbolBlock that may also be called with the inputs of the file which nothing uses."""

    def __call__(self, *inputs: Any) -> Any:
        d = self.__dict__
        if len(inputs) == len(d["given"]):
            inputs = tuple(dict(zip(d["given"], inputs))[name] for name in d["_inputs"])
        return super().__call__(*inputs)


def _any_length(model_file: Any, ctx: Any, input_shapes: Mapping[str, Sequence[int]] | None) -> AnyLengthNet | None:
    """The network as one that is read for each set of lengths; None where no length is open, or it cannot be."""
    model = _model(model_file)
    first, second = two_lengths(model, input_shapes or {})
    if first == second:
        return None
    try:
        net = AnyLengthNet(model, input_shapes or {})
    except (HybridError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    _load(net, net.__dict__.pop("numbers"), model_file, ctx)
    return net


def _load(net: gluon.SymbolBlock, params: Mapping[str, Any], model_file: Any, ctx: Any) -> None:
    net.collect_params().load_dict(params, ctx if ctx is not None else current_context(),
                                   filename=os.fspath(model_file), cast_dtype=True, dtype_source="saved")


def _evaluated(model_file: Any, ctx: Any, input_shapes: Mapping[str, Sequence[int]] | None) -> EvaluatedNet | None:
    """The network of compiled parts and evaluated nodes; None for a model that is not valid, or that has operators
    which ONNX does not define."""
    model, onnx = _model(model_file), library.onnx()
    names = [name for name, *_ in _metadata(model)["input_tensor_data"]]
    functions = {(f.domain, f.name) for f in model.functions}
    if any(k not in names for k in input_shapes or {}) or not all(
            onnx.defs.has(n.op_type, n.domain) or (n.domain, n.op_type) in functions for n in model.graph.node):
        return None
    checked = type(model)()
    checked.CopyFrom(model)
    for v in (*checked.graph.input, *checked.graph.output):
        if v.type.HasField("tensor_type"):
            v.type.tensor_type.shape.SetInParent()         # files may leave it out, which the checker does not allow
    try:
        onnx.checker.check_model(checked)
    except Exception:                                      # noqa: BLE001  the error of reading it says more
        return None
    return EvaluatedNet(model, ctx if ctx is not None else current_context(), input_shapes)


def get_model_metadata(model_file: Any) -> dict[str, Any]:
    """Names and shapes of a model's inputs and outputs, 0 for lengths that the file leaves open.

    ``input_tensor_data``: (name, shape, ONNX's number of the dtype) of each; ``output_tensor_data``: (name, shape).

    >>> get_model_metadata('net.onnx')                                                       # doctest: +SKIP
    {'input_tensor_data': [('data', (1, 3, 224, 224), 1)], 'output_tensor_data': [('fc', (1, 1000))]}
    """
    return _metadata(_model(model_file))


def _metadata(model: Any) -> dict[str, Any]:
    """The same of a model that is loaded."""
    constants = {t.name for t in model.graph.initializer}

    def shape(v: Any) -> tuple[int, ...]:
        return tuple(int(d.dim_value) for d in v.type.tensor_type.shape.dim)
    return {"input_tensor_data": [(v.name, shape(v), v.type.tensor_type.elem_type) for v in model.graph.input
                                  if v.name not in constants],
            "output_tensor_data": [(v.name, shape(v)) for v in model.graph.output]}
