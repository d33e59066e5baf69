"""What older MXNet left out of symbol files or wrote in another place, put where 1.9.1 has it."""
from __future__ import annotations

from ..base.errors import HybridError
from ..base.scope import SCOPE
from ..ops import registry
from ..ops.attributes import Shape
from .json_graph import JsonGraph, JsonNode

# Before 1.0 these stood without underscores, also as <input>_<key> on the operator
_HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
_AUX_INIT = {"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'}
# versions since which variables name their initializer, and argmax counts a negative axis
_INIT, _ARG = 904, 905


def is_hidden(key: str) -> bool:
    """Whether an attribute is a note on the node (``__shape__``) and no parameter of its operator."""
    return key.startswith("__") and key.endswith("__")


def upgrade(graph: JsonGraph, version: int | None = None, legacy_unknown_zero: bool | None = None) -> JsonGraph:
    """The graph with hidden keys in their underscores and with the variables that old files leave implicit.

    version: of the MXNet that wrote it; the graph's own unless it is inside another one.
    legacy_unknown_zero: whether 0 stands for an unknown length in the file, which was written with np_shape off, but
    would be read as a length, as np_shape is on now. Those become -1.
    """
    version = graph.version if version is None else version
    if legacy_unknown_zero is None:
        legacy_unknown_zero = SCOPE.np_shape and not graph.np_shape
    nodes: list[JsonNode] = []
    place: list[int] = []                       # old number -> new number
    for old in graph.nodes:
        node = JsonNode(old.op, old.name, dict(old.attrs), [(place[n], k, v) for n, k, v in old.inputs],
                        [upgrade(g, version, legacy_unknown_zero) for g in old.subgraphs])
        if legacy_unknown_zero:
            _name_unknown_lengths(node)
        _name_hidden(node, nodes)
        _add_implicit_inputs(node, nodes)
        if version < _INIT:
            _name_initializers(node, nodes)
        if version < _ARG and node.op in ("argmax", "argmin") and node.attrs.get("axis") == "-1":
            del node.attrs["axis"]              # it meant all elements
        place.append(len(nodes))
        nodes.append(node)
    return JsonGraph(nodes, [(place[n], k, v) for n, k, v in graph.heads], graph.version)


def _name_hidden(node: JsonNode, nodes: list[JsonNode]) -> None:
    for key in list(node.attrs):
        if key in _HIDDEN:
            node.attrs[f"__{key}__"] = node.attrs.pop(key)
            continue
        suffix = next((h for h in _HIDDEN if key.endswith("_" + h)), None)
        known = registry.OPS.get(node.op)
        if suffix is None or known is None or known.variadic or key in known.attrs:
            continue
        owner = key[:-len(suffix) - 1]
        if owner in known.inputs[:len(node.inputs)]:
            target = nodes[node.inputs[known.inputs.index(owner)][0]]
            if target.is_variable:
                target.attrs[f"__{suffix}__"] = node.attrs.pop(key)


def _name_unknown_lengths(node: JsonNode) -> None:
    """-1 instead of 0 in the shape of a variable, and no shape instead of (). What is no shape stays: it is told when
    the variable is made."""
    try:
        sizes = Shape().convert(node.attrs.get("__shape__", ()))
    except (ValueError, TypeError):
        return
    if sizes:
        node.attrs["__shape__"] = "[" + ",".join(str(size or -1) for size in sizes) + "]"
    else:
        node.attrs.pop("__shape__", None)


def _add_implicit_inputs(node: JsonNode, nodes: list[JsonNode]) -> None:
    """Before 0.9 a file did not list auxiliary states; MXNet adds whatever required input is missing as a variable with
    the operator's attributes."""
    known = registry.OPS.get(node.op)
    if known is None or known.variadic or not node.inputs or len(node.inputs) >= len(known.inputs):
        return
    try:
        attrs = known.parse({k: v for k, v in node.attrs.items() if not is_hidden(k)})
    except HybridError:                         # is told when the operator is made
        return
    # MXNet leaves the others out: what is behind moves up
    inputs = [n for n in known.inputs if n not in known.takes or known.takes[n](attrs)]
    for name in inputs[len(node.inputs):]:
        full = f"{node.name}_{name}"
        if name in known.optional and name not in known.takes or any(n.is_variable and n.name == full for n in nodes):
            return
        nodes.append(JsonNode("null", full, dict(node.attrs)))
        node.inputs.append((len(nodes) - 1, 0, 0))
        if name in known.aux and name in _AUX_INIT:
            nodes[-1].attrs["__init__"] = _AUX_INIT[name]


def _name_initializers(node: JsonNode, nodes: list[JsonNode]) -> None:
    """Initializers that MXNet has since written on variables of these operators."""
    known = registry.OPS.get(node.op)
    if known is None or known.variadic:
        return
    prelu = '["Constant", {"value": 0.25}]' if node.op == "LeakyReLU" and node.attrs.get(
            "act_type") == "prelu" else None
    for name, (n, _, _) in zip(known.inputs, node.inputs):
        init = _AUX_INIT.get(name) if name in known.aux else prelu if name == "gamma" else None
        if init is not None and nodes[n].is_variable:
            nodes[n].attrs.setdefault("__init__", init)
