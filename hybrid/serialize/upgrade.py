"""What older MXNet left out of symbol files or wrote in another place, put where 1.9.1 has it."""
from __future__ import annotations

from ..ops import registry
from .json_graph import JsonGraph, JsonNode

# Before 1.0 these stood without underscores, also as <input>_<key> on the operator
_HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
_AUX_INIT = {"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'}


def is_hidden(key: str) -> bool:
    """Whether an attribute is a note on the node (``__shape__``) and no parameter of its operator."""
    return key.startswith("__") and key.endswith("__")


def upgrade(graph: JsonGraph) -> JsonGraph:
    """The graph with hidden keys in their underscores and with the variables that old files leave implicit."""
    nodes: list[JsonNode] = []
    place: list[int] = []                       # old number -> new number
    for old in graph.nodes:
        node = JsonNode(old.op, old.name, dict(old.attrs), [(place[n], k, v) for n, k, v in old.inputs], [upgrade(g) for g in old.subgraphs])
        _name_hidden(node, nodes)
        _add_implicit_inputs(node, nodes)
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


def _add_implicit_inputs(node: JsonNode, nodes: list[JsonNode]) -> None:
    """Before 0.9 a file did not list auxiliary states; MXNet adds whatever required input is missing as a variable."""
    known = registry.OPS.get(node.op)
    if known is None or known.variadic or not node.inputs:
        return
    for name in known.inputs[len(node.inputs):]:
        full = f"{node.name}_{name}"
        if name in known.optional or any(n.is_variable and n.name == full for n in nodes):
            return
        nodes.append(JsonNode("null", full, {"__init__": _AUX_INIT[name]} if name in known.aux and name in _AUX_INIT else {}))
        node.inputs.append((len(nodes) - 1, 0, 0))
