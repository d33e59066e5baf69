"""Writing ONNX files: ``export_model``."""
from __future__ import annotations

import logging
import os
from typing import Any, Mapping, Sequence

import numpy as np

from ...base import dtype as dt
from ... import serialize
from ...base.errors import AttributeValueError
from ...ops.registry import OPS
from ...base.atomic import write_bytes
from ...graph.symbol import Symbol
from ...graph.symnode import SIZE_NAMES
from . import library
from .builder import Graph, Value
from .dynamic import varying
from .graph import build

log = logging.getLogger(__name__)
LIMIT = 2**31 - 1                        # bytes of a protobuf message


def export_model(sym: Any, params: Any, in_shapes: Any = None, in_types: Any = np.float32,
                 onnx_file_path: str = "model.onnx", verbose: bool = False,
                 dynamic: bool = False, dynamic_input_shapes: Any = None, run_shape_inference: bool = False,
                 input_type: Any = None,
                 input_shape: Any = None, opset_version: int = 17) -> str:
    """Write a Symbol with its parameters as an ONNX file, for inference; the path of the file.

    sym: a Symbol or the path of a ``-symbol.json`` file. params: arrays by name (with or without ``arg:`` and
    ``aux:``), a list of two such dicts, or the path of a ``.params`` file. in_shapes: shapes of the inputs in the order
    of the graph (labels of losses may be left out); in_types: their dtype, or a list. dynamic: lengths may differ when
    the model runs; dynamic_input_shapes: shapes where None or a name stands for such a length (without it, every length
    that can). Without either, the lengths vary which ``hybridize(dynamic={"data": {0: "batch"}})`` named when the files
    were exported. In the file such a length is a ``dim_param``: the name, or else ``n0``, ``n1`` and so on.
    run_shape_inference: note shapes within the graph. input_type, input_shape: older names of in_types and in_shapes.
    opset_version: 13 to 17.

    Every operator that does not draw random numbers or run an algorithm of its own is written, by ONNX's operator of
    that kind or by simpler ones; HybridError names one that cannot be. What depends on parameters alone is computed
    now.

    >>> net.export('net')                                                                   # doctest: +SKIP
    >>> export_model('net-symbol.json', 'net-0000.params', [(1, 3, 224, 224)], np.float32, 'net.onnx')      # doctest: +SKIP
    'net.onnx'
    """  # noqa: E501
    onnx = library.onnx()
    if opset_version not in library.OPSETS:
        raise AttributeValueError(f"opset_version={opset_version!r}: opsets {library.OPSETS[0]} to "
                                  f"{library.OPSETS[-1]} are written")
    symbol = _symbol(sym)
    arrays = _arrays(params)
    shapes = _shapes(symbol, arrays, in_shapes if input_shape is None else input_shape)
    types = _types(list(shapes), in_types if input_type is None else input_type)
    wanted = _named_lengths(symbol, shapes) if not dynamic and dynamic_input_shapes is None else dynamic_input_shapes

    def make(sizes: Mapping[str, tuple[int, ...]]) -> tuple[Graph, list[Value]]:
        return build(symbol, sizes, types, arrays, opset_version)
    declared: Mapping[str, Sequence[Any]] = shapes
    if dynamic or wanted is not None:
        graph, outputs, declared = varying(make, shapes, wanted)
    else:
        graph, outputs = make(shapes)
    model = _model(onnx, graph, declared, types, outputs, opset_version)
    if run_shape_inference:
        model = onnx.shape_inference.infer_shapes(model)
    data = model.SerializeToString()
    onnx.checker.check_model(data)
    if verbose:
        log.info("%s", onnx.helper.printable_graph(model.graph))
    write_bytes(onnx_file_path, data)
    return onnx_file_path


def _symbol(sym: Any) -> Symbol:
    symbol = serialize.symbol_json.load(sym) if isinstance(sym, (str, os.PathLike)) else sym
    if not isinstance(symbol, Symbol):
        raise AttributeValueError(f"export_model takes a Symbol or the path of a symbol file, got "
                                  f"{type(sym).__name__}; net.export() writes both files of a network")
    return symbol


def _arrays(params: Any) -> dict[str, np.ndarray]:
    """Parameters by name, as NumPy's arrays."""
    if isinstance(params, (str, os.PathLike)):
        params = serialize.load(params)
    dicts = params if isinstance(params, (list, tuple)) else [params]
    if not all(isinstance(d, Mapping) for d in dicts):
        raise AttributeValueError(f"params must be a dict of arrays, a list of two, or the path of a params file; got "
                                  f"{type(params).__name__}")
    found = {(k[4:] if k[:4] in ("arg:", "aux:") else k): v for d in dicts for k, v in d.items()}
    return {k: np.ascontiguousarray(v.asnumpy() if hasattr(v, "asnumpy") else v) for k, v in found.items()}


def _labels(symbol: Symbol) -> set[str]:
    """Variables that are labels of losses and nothing else."""
    users: dict[str, list[str]] = {}
    for n in symbol.nodes():
        for k, (m, _) in enumerate(n.inputs):
            if m.opdef is None and n.opdef is not None:
                users.setdefault(m.name, []).append("data" if n.opdef.variadic else n.opdef.inputs[k])
    return {name for name, uses in users.items() if set(uses) == {"label"}}


def _shapes(symbol: Symbol, arrays: Mapping[str, np.ndarray], given: Any) -> dict[str, tuple[int, ...]]:
    """Shapes by the names of the inputs."""
    free = [name for name in symbol.list_inputs() if name not in arrays]
    labels = _labels(symbol)
    wanted = [name for name in free if name not in labels]
    if given is None:
        raise AttributeValueError(f"in_shapes is missing: a list of the shapes of {', '.join(wanted)}")
    given = [given] if given and all(isinstance(d, (int, np.integer)) for d in given) else list(given)
    if len(given) not in (len(wanted), len(free)):
        raise AttributeValueError(f"in_shapes has {len(given)} shapes, but the graph has {len(wanted)} inputs that "
                                  f"are not among the parameters: {', '.join(wanted)}")
    names = free if len(given) == len(free) else wanted
    return {name: tuple(int(d) for d in shape) for name, shape in zip(names, given)}


def _named_lengths(symbol: Symbol, shapes: Mapping[str, tuple[int, ...]]) -> list[list[Any]] | None:
    """The inputs' shapes with the names of lengths that ``net.export`` noted; None where there are none."""
    notes = {n.name: n.extra[SIZE_NAMES].split(",") for n in symbol.nodes() if SIZE_NAMES in n.extra}
    found: list[list[Any]] = [[name or d for name, d in zip(notes.get(k, ()), shape)]
                              if len(notes.get(k, ())) == len(shape) else list(shape) for k, shape in shapes.items()]
    return found if any(isinstance(d, str) for row in found for d in row) else None


def _types(names: Sequence[str], given: Any) -> dict[str, np.dtype]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given] * len(names)
    if len(listed) == 1:
        listed *= len(names)
    if len(listed) < len(names):
        raise AttributeValueError(f"in_types has {len(listed)} dtypes for {len(names)} inputs: {', '.join(names)}")
    return {name: dt.as_dtype(t) for name, t in zip(names, listed)}


def _model(onnx: Any, g: Graph, declared: Mapping[str, Sequence[Any]], types: Mapping[str, np.dtype],
           outputs: Sequence[Value], opset: int) -> Any:
    nodes, wanted = _needed(g.nodes, {v.name for v in outputs})
    constants = {name: a for name, a in g.constants.items() if name in wanted}
    size = sum(a.nbytes for a in constants.values())
    if size > LIMIT:
        raise AttributeValueError(f"the parameters take {size} bytes, and a single ONNX file has less than 2 "
                                  f"GiB: export in float16")
    h = onnx.helper
    inputs = [g.info(name, types[name], shape) for name, shape in declared.items()]
    tensors = [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()]
    made = h.make_graph(nodes, "hybrid_model", inputs, [g.info(v.name, v.dtype, v.shape) for v in outputs], tensors)
    imports = [h.make_opsetid("", opset)]
    return h.make_model(made, producer_name="hybrid", opset_imports=imports,
                        ir_version=h.find_min_ir_version_for(imports))


def _needed(nodes: Sequence[Any], wanted: set[str]) -> tuple[list[Any], set[str]]:
    """The nodes that outputs need, and all names that they use."""
    kept = []
    for n in reversed(nodes):
        if wanted.intersection(n.output):
            wanted |= _uses(n)
            kept.append(n)
    return kept[::-1], wanted


def _uses(n: Any) -> set[str]:
    """Names that a node uses, also within its loop."""
    return {*n.input, *(name for a in n.attribute if a.HasField("g") for inner in a.g.node for name in _uses(inner))}


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """Names of the operators that can be written: those that neither draw random numbers nor update an optimizer's
    states.

    A few of them are algorithms (a factorisation, a greedy choice of boxes), which export_model refuses when it meets
    them.
    """
    return sorted(name for name, d in OPS.items() if "key" not in d.needs or d.draws is not None)
