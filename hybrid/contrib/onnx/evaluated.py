"""ONNX networks with nodes that graphs of this library cannot say (lengths that depend on values, strings, sequences,
dtypes of ONNX alone): those nodes are computed by the ``onnx`` package's own evaluator on NumPy's arrays, and the
nodes between them are compiled."""
from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from ... import gluon, nd
from ...base import dtype as dt
from ...base.errors import AttributeValueError, FileFormatError, HybridError
from ...autograd import is_recording
from ...buffers.array import NDArray
from ...graph.symbol import var
from . import library
from .open_lengths import read
from .reader import FOLDED_NEVER, MOST_FOLDED, elements_of

MOST_PLANS = 64                         # sets of shapes for which a network keeps its compiled parts
DRAWS = (*FOLDED_NEVER, "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout")


def needs(node: Any) -> Iterator[str]:
    """Names of the values that a node reads, also those that graphs within it read from around them."""
    yield from (name for name in node.input if name)
    for a in node.attribute:
        for graph in ([a.g] if a.HasField("g") else list(a.graphs)):
            own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
            own |= {o for n in graph.node for o in n.output}
            yield from (name for n in graph.node for name in needs(n) if name not in own)
            yield from (o.name for o in graph.output if o.name not in own)


class NodeEvaluator:
    """One node, computed by the package's own evaluator."""

    def __init__(self, model: Any, node: Any):
        onnx = library.onnx()
        self.node, self.names = node, list(dict.fromkeys(needs(node)))
        infos = [onnx.helper.make_value_info(k, onnx.TypeProto()) for k in self.names]
        outputs = [onnx.helper.make_value_info(o, onnx.TypeProto()) for o in node.output if o]
        one, imports = _current(onnx, model, node)
        graph = onnx.helper.make_graph([one], "one", infos, outputs)
        try:
            made = onnx.helper.make_model(graph, opset_imports=imports, functions=model.functions)
            own = [library.loop(), library.optional(), library.suppression()]
            self.run = library.evaluator()(made, new_ops=own).run
        except Exception as err:                           # noqa: BLE001  the evaluator's errors are of many kinds
            raise AttributeValueError(f"ONNX {self._where()} is not known here, nor to the onnx package's evaluator: "
                                      f"{str(err)[:200]}") from err

    def _where(self) -> str:
        return f"node {self.node.op_type}{f' {self.node.name!r}' if self.node.name else ''}"

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        given = {k: _host(values[k]) for k in self.names}
        self._limit(given)
        try:
            with np.errstate(all="ignore"):
                found = self.run(None, given)
        except Exception as err:                           # noqa: BLE001  the same
            raise AttributeValueError(f"ONNX {self._where()} cannot be computed: {type(err).__name__}: "
                                      f"{str(err)[:300]}") from err
        return dict(zip((o for o in self.node.output if o), found))

    def _limit(self, given: Mapping[str, Any]) -> None:
        """Refuses a result that is far larger than what it is made of."""
        try:
            size = elements_of(self.node.op_type, [given.get(k) for k in self.node.input])
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            return                                         # inputs that are wrong are the evaluator's to name
        if size > 64 * MOST_FOLDED:
            raise AttributeValueError(f"ONNX {self._where()}: its result would have {size} elements")


def _current(onnx: Any, model: Any, node: Any) -> tuple[Any, Any]:
    """The node and its opsets, where Scatter has its newer name ScatterElements."""
    if node.op_type != "Scatter":
        return node, model.opset_import
    out = onnx.NodeProto()
    out.CopyFrom(node)
    out.op_type = "ScatterElements"
    return out, [onnx.helper.make_opsetid("", 11)]


def _host(value: Any) -> Any:
    return value.asnumpy() if isinstance(value, NDArray) else value


def _signature(value: Any) -> Any:
    return (value.shape, str(value.dtype)) if isinstance(value, (NDArray, np.ndarray, np.generic)) else type(value)


class EvaluatedNet(gluon.Block):
    """An ONNX network of compiled parts and of nodes that are evaluated one by one; for inference.

    It is called with one value for each input of the file: NDArrays, NumPy's arrays (for strings and dtypes that
    NDArrays do not have), lists (for sequences) or None (for optionals), and gives the same. The parts are made at the
    first call for each set of shapes.
    """
    constants: dict[str, Any]
    device: Any
    evaluators: dict[int, Any]
    input_names: list[str]
    live: list[Any]
    model: Any
    nodes: list[Any]
    onnx: Any
    output_names: list[str]
    plans: dict[Any, Any]
    shapes: Any

    def __init__(self, model: Any, ctx: Any, shapes: Mapping[str, Sequence[int]] | None = None):
        super().__init__(prefix="")
        d = self.__dict__
        d["model"], d["onnx"], d["shapes"] = model, library.onnx(), dict(shapes or {})
        d["device"] = ctx[0] if isinstance(ctx, (list, tuple)) else ctx
        d["constants"] = self._initializers()
        d["input_names"] = [i.name for i in model.graph.input if i.name not in d["constants"]]
        d["output_names"] = [o.name for o in model.graph.output]
        d["nodes"] = self._folded()
        d["evaluators"], d["plans"] = {}, {}
        d["live"] = self._live()

    def _initializers(self) -> dict[str, Any]:
        out = {}
        helper = self.onnx.numpy_helper
        try:
            for t in self.model.graph.initializer:
                out[t.name] = helper.to_array(t)
            for s in self.model.graph.sparse_initializer:
                dense = np.zeros(tuple(s.dims), helper.to_array(s.values).dtype)
                where = helper.to_array(s.indices)
                dense[np.unravel_index(where, dense.shape) if where.ndim == 1 else tuple(where.T)] = helper.to_array(
                    s.values)
                out[s.values.name] = dense
        except (KeyError, TypeError, ValueError, IndexError, MemoryError) as err:
            raise FileFormatError(f"the numbers of an initializer in the ONNX model are damaged: {err}") from err
        return out

    def _folded(self) -> list[Any]:
        """The nodes that remain when what depends on constants alone is computed."""
        left = []
        for node in self.model.graph.node:
            if node.op_type not in DRAWS and all(name in self.constants for name in needs(node)):
                try:
                    self.constants.update(NodeEvaluator(self.model, node)(self.constants))
                    continue
                except HybridError:
                    pass                                   # a compiled part may still know it
            left.append(node)
        known = {*self.constants, *self.input_names, *(o for n in left for o in n.output)}
        lacking = next((k for n in left for k in needs(n) if k not in known), None) or next(
            (k for k in self.output_names if k not in known), None)
        if lacking is not None:
            raise FileFormatError(f"the ONNX graph uses {lacking!r}, which nothing in it computes")
        return left

    def _live(self) -> list[set[str]]:
        """Before each node, and at the end: the values that are read from there on, constants left out."""
        out = [set(self.output_names) - set(self.constants)]
        for node in reversed(self.nodes):
            out.append((out[-1] - set(node.output)) | (set(needs(node)) - set(self.constants)))
        return out[::-1]

    def __call__(self, *inputs: Any) -> Any:
        """The values of the outputs; blocks need an input, and these networks do not."""
        return super().__call__(*inputs) if inputs else self.forward()

    def forward(self, *inputs: Any) -> Any:
        """The values of the outputs."""
        if is_recording():
            raise AttributeValueError("this ONNX network has nodes that are evaluated without gradients: call it "
                                      "outside autograd.record()")
        if len(inputs) != len(self.input_names):
            raise AttributeValueError(f"the ONNX network takes {len(self.input_names)} inputs "
                                      f"({', '.join(self.input_names)}), and was called with {len(inputs)}")
        values: dict[str, Any] = dict(zip(self.input_names, inputs))
        for name, shape in self.shapes.items():
            if getattr(values.get(name), "shape", None) != tuple(shape):
                raise AttributeValueError(f"input {name!r} was read for shape {tuple(shape)}, and is of shape "
                                          f"{getattr(values.get(name), 'shape', None)}")
        at = 0
        while at < len(self.nodes):
            at = self._part(at, values)
            for name in [k for k in values if k not in self.live[at]]:
                del values[name]
        return self._results(values)

    def _results(self, values: Mapping[str, Any]) -> Any:
        out = [self._array(values[k] if k in values else self.constants[k]) for k in self.output_names]
        return out[0] if len(out) == 1 else out

    def _array(self, value: Any) -> Any:
        """A value as an NDArray, or as it is where NDArrays do not have its dtype."""
        if isinstance(value, (np.ndarray, np.generic)) and np.asarray(value).dtype in dt.SUPPORTED:
            try:
                return nd.array(np.asarray(value), dtype=value.dtype, ctx=self.device)
            except HybridError:                            # a shape that NDArrays have in np_shape alone
                return value
        return value

    def _part(self, at: int, values: dict[str, Any]) -> int:
        """Computes the next part, by its plan if there is one, and gives the number of the node after it."""
        names = sorted(self.live[at] & set(values))
        key = (at, *(_signature(values[k]) for k in names))
        end, block = self.plans.get(key, (None, None))
        if end is None:
            end, block = self._planned(at, values)
            if len(self.plans) >= MOST_PLANS * (1 + len(self.nodes)):
                self.plans.clear()
            self.plans[key] = end, block
        elif block is None:
            values.update(self._evaluator(at)({**self.constants, **values}))
        else:
            values.update(block(values))
        return end

    def _evaluator(self, at: int) -> NodeEvaluator:
        if at not in self.evaluators:
            self.evaluators[at] = NodeEvaluator(self.model, self.nodes[at])
        return self.evaluators[at]

    def _planned(self, at: int, values: dict[str, Any]) -> tuple[int, Any]:
        """The longest part from a node on that can be compiled for these values, or the node alone, evaluated; its
        results are added to the values."""
        end = next((i for i in range(at, len(self.nodes)) if any(
            k in values and not _in_graphs(values[k]) for k in needs(self.nodes[i]))), len(self.nodes))
        while end > at:
            try:
                block = CompiledPart(self, at, end, values)
                values.update(block(values))
                return end, block
            except HybridError as err:
                number = getattr(err, "onnx_node", None)
                end = at + number if number is not None and at + number < end else at + (end - at) // 2
        values.update(self._evaluator(at)({**self.constants, **values}))
        return at + 1, None


def _in_graphs(value: Any) -> bool:
    return isinstance(value, (NDArray, np.ndarray, np.generic)) and np.dtype(value.dtype) in dt.CODE_OF


class CompiledPart:
    """Some nodes of a network as one hybridized block, for inputs of given shapes and dtypes."""

    def __init__(self, net: EvaluatedNet, start: int, end: int, values: Mapping[str, Any]):
        nodes = net.nodes[start:end]
        used = list(dict.fromkeys(k for n in nodes for k in needs(n)))
        given = [k for k in used if k in values]
        made = dict.fromkeys(o for n in nodes for o in n.output)
        self.net, self.outputs = net, [o for o in made if o in net.live[end]]
        if not self.outputs or not given:
            raise AttributeValueError("a part without inputs or without results")
        helper = net.onnx.helper
        infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(np.dtype(values[k].dtype)),
                                               values[k].shape) for k in given]
        graph = helper.make_graph(
            nodes, "part", infos, [helper.make_empty_tensor_value_info(o) for o in self.outputs],
            [_tensor(net.onnx, net.constants[k], k) for k in used if k in net.constants])
        model = helper.make_model(graph, opset_imports=net.model.opset_import)
        symbol, params, self.inputs = read(model, {k: tuple(values[k].shape) for k in given})
        if not self.inputs:
            raise AttributeValueError("a part whose results depend on shapes alone")
        self.block = gluon.SymbolBlock(symbol, [var(k) for k in self.inputs])
        self.block.collect_params().load_dict({k: nd.array(v, dtype=v.dtype) for k, v in params.items()},
                                              net.device, cast_dtype=True, dtype_source="saved")
        self.block.hybridize()

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        device = self.net.device
        given = [v if isinstance(v, NDArray) else nd.array(np.asarray(v), dtype=v.dtype, ctx=device)
                 for v in (values[k] for k in self.inputs)]
        found: Any = self.block(*given)
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        return dict(zip(self.outputs, found))


def _tensor(onnx: Any, value: Any, name: str) -> Any:
    if not isinstance(value, np.ndarray):
        raise AttributeValueError(f"the constant {name!r} is no array")
    try:
        return onnx.numpy_helper.from_array(value, name)
    except Exception as err:                               # noqa: BLE001  dtypes that the helper does not write
        raise AttributeValueError(f"the constant {name!r} of dtype {value.dtype} is in no graph") from err
