"""``-symbol.json``: a Symbol as MXNet 1.9.1 writes it, node for node, and back."""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .. import dtype as dtypes
from ..errors import AttributeValueError, FileFormatError, HybridError
from ..ops import registry
from ..ops.attributes import Shape
from ..ops.registry import OpDef
from ..symbol import Symbol, SymNode
from .atomic import write_bytes
from .json_graph import JsonGraph, JsonNode, parse, render
from .upgrade import is_hidden, upgrade

_CASTS = ("amp_cast", "amp_multicast")
# Where broadcasting stands in a graph under the name that does not broadcast in MXNet
_BROADCAST = {f"elemwise_{f}": f"broadcast_{f}" for f in ("add", "sub", "mul", "div")}


# ---- reading
def load(path: str | os.PathLike[str]) -> Symbol:
    """The Symbol in a ``-symbol.json`` file; FileFormatError or AttributeValueError, naming the file, otherwise."""
    return loads(Path(path).read_bytes(), os.fspath(path))


def loads(text: str | bytes, source: str = "<json>") -> Symbol:
    """The Symbol in a JSON text. ``source`` names the text in errors.

    >>> loads('{"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[0, 0, 0]]}').list_arguments()
    ['x']
    """
    graph = upgrade(parse(text, source))
    built: list[SymNode] = []
    counts: list[int] = []
    for number, node in enumerate(graph.nodes):
        where = f"{source}: node {number} ({node.name!r:.80})"
        for k, entry in enumerate(node.inputs):
            _check_output(entry, counts, f"{where}: input {k}")
        inputs = [(built[n], k) for n, k, _ in node.inputs]
        made = _variable(node, where) if node.is_variable else _operator(node, inputs, where)
        built.append(made)
        counts.append(made.outputs)
    for k, entry in enumerate(graph.heads):
        _check_output(entry, counts, f"{source}: head {k}")
    return Symbol([(built[n], k) for n, k, _ in graph.heads])


def _check_output(entry: tuple[int, int, int], counts: list[int], where: str) -> None:
    if entry[1] >= counts[entry[0]]:
        raise FileFormatError(f"{where} takes output {entry[1]!s:.20} of node {entry[0]}, which has {counts[entry[0]]}")


def _named(where: str, call: Callable[..., Any], *args: Any) -> Any:
    """``call``, with the file and the node before the message of an AttributeValueError."""
    try:
        return call(*args)
    except AttributeValueError as err:
        raise AttributeValueError(f"{where}: {_shortened(str(err))}") from None


def _shortened(text: str) -> str:
    return text if len(text) <= 500 else text[:300] + " … " + text[-150:]


def _operator(node: JsonNode, inputs: list[tuple[SymNode, int]], where: str) -> SymNode:
    # MXNet also loads an operator under the names it has in nd
    found = registry.OPS.get(node.op) or registry.namespace("nd").get(node.op) or _named(where, registry.find, node.op)
    given = {key: value for key, value in node.attrs.items() if not is_hidden(key)}
    attrs = _named(where, found.parse, given)
    _check_inputs(found, len(inputs), given, where)
    extra = {key: value for key, value in node.attrs.items() if is_hidden(key)}
    try:
        return SymNode(found, node.name, attrs, inputs, extra)     # infers shapes where the variables say theirs
    except HybridError as err:
        raise FileFormatError(f"{where}: {_shortened(str(err))}") from err


def _check_inputs(found: OpDef, count: int, given: Mapping[str, str], where: str) -> None:
    if found.variadic:
        stated = given.get(found.arity_attr or "", str(count))
        if stated != str(count):
            raise FileFormatError(f"{where}: {found.arity_attr} is {stated!r:.40}, but the node has {count} inputs")
        return
    least = len([name for name in found.inputs if name not in found.optional])
    most = len(found.inputs)
    if not least <= count <= most:
        expected = str(most) if least == most else f"{least} to {most}"
        raise FileFormatError(f"{where}: operator {found.name} takes {expected} input(s) "
                              f"({', '.join(found.inputs) or 'none'}), but the node has {count}")


def _variable(node: JsonNode, where: str) -> SymNode:
    shape = node.attrs.get("__shape__")
    if shape is not None:
        try:
            sizes = Shape().convert(shape)
        except (ValueError, TypeError) as err:
            raise AttributeValueError(f"{where}: __shape__ is {shape!r:.80}, which is no shape: {err}") from None
        if len(sizes) > 32 or any(size < -1 for size in sizes):
            raise AttributeValueError(f"{where}: __shape__ is {shape!r:.80}; sizes are positive, or 0 or -1 where unknown")
    code = node.attrs.get("__dtype__")
    if code is not None and code not in map(str, (-1, *dtypes.MX_CODES)):
        known = ", ".join(f"{number} ({kind.name})" for number, kind in dtypes.MX_CODES.items())
        raise AttributeValueError(f"{where}: __dtype__ is {code!r:.40}; known: {known}")
    return SymNode(None, node.name, None, (), dict(node.attrs))


# ---- writing
def save(symbol: Symbol, path: str | os.PathLike[str], remove_amp_cast: bool = True) -> None:
    """Write ``-symbol.json``; the file appears whole or not at all."""
    write_bytes(path, dumps(symbol, remove_amp_cast).encode("utf-8"))


def without_casts(symbol: Symbol) -> Symbol:
    """The graph without the casts of mixed precision."""
    order = symbol.nodes()
    if not any(n.opdef is not None and n.opdef.name in _CASTS for n in order):
        return symbol
    new: dict[tuple[int, int], tuple[SymNode, int]] = {}
    for n in order:
        inputs = [new[id(m), k] for m, k in n.inputs]
        if n.opdef is not None and n.opdef.name in _CASTS:
            outs = inputs
        else:
            same = all(a == b for a, b in zip(inputs, n.inputs))
            made = n if same else SymNode(n.opdef, n.name, n.attrs, inputs, dict(n.extra))
            outs = [(made, k) for k in range(n.outputs)]
        new.update({(id(n), k): out for k, out in enumerate(outs)})
    return Symbol([new[id(n), k] for n, k in symbol.entries])


def dumps(symbol: Symbol, remove_amp_cast: bool = False) -> str:
    """The JSON text of a Symbol, byte for byte as MXNet 1.9.1 writes it; without the casts of mixed precision if need be.

    Addition, subtraction, multiplication and division are ``elemwise_*`` where the shapes are equal or unknown
    and ``broadcast_*`` where they differ, since MXNet's ``elemwise_*`` do not broadcast.
    """
    symbol = without_casts(symbol) if remove_amp_cast else symbol
    order = in_order(symbol)
    place = {id(node): number for number, node in enumerate(order)}
    versions: dict[int, int] = {}              # how often each variable has been updated so far
    nodes = [_json_node(node, place, versions) for node in order]
    heads = [(place[id(node)], k, 0) for node, k in symbol.entries]
    return render(JsonGraph(nodes, heads), [_count(node) for node in order])


def in_order(symbol: Symbol) -> list[SymNode]:
    """Inputs before their users, in the order of a depth-first walk from the outputs, as MXNet numbers nodes."""
    seen: set[int] = set()
    out: list[SymNode] = []
    for head, _ in symbol.entries:
        stack = [(head, 0)]
        if id(head) in seen:
            continue
        seen.add(id(head))
        while stack:
            node, k = stack.pop()
            if k == len(node.inputs):
                out.append(node)
                continue
            stack.append((node, k + 1))
            below = node.inputs[k][0]
            if id(below) not in seen:
                seen.add(id(below))
                stack.append((below, 0))
    return out


def _json_node(node: SymNode, place: dict[int, int], versions: dict[int, int]) -> JsonNode:
    inputs = []
    for k, (source, output) in enumerate(node.inputs):
        if node.opdef is not None and not node.opdef.variadic and node.opdef.inputs[k] in node.opdef.aux:
            versions[id(source)] = versions.get(id(source), 0) + 1
        inputs.append((place[id(source)], output, versions.get(id(source), 0)))
    if node.opdef is None or node.attrs is None:
        return JsonNode("null", node.name, dict(node.extra), inputs)
    attrs = {**node.extra, **node.attrs.given()}
    if node.opdef.arity_attr:
        attrs[node.opdef.arity_attr] = str(len(inputs))
    return JsonNode(_written_name(node, node.opdef.name), node.name, attrs, inputs)


def _written_name(node: SymNode, name: str) -> str:
    if name in _BROADCAST and len(node.inputs) == 2:
        shapes = [source.info[k][0] for source, k in node.inputs]
        if all(s is not None and all(size > 0 for size in s) for s in shapes) and shapes[0] != shapes[1]:
            return _BROADCAST[name]
    return name


# Outputs that MXNet's operators have and never show: they count in node_row_ptr.
_HIDDEN_OUTPUTS: dict[str, int] = {
    "BatchNorm": 3, "_contrib_SyncBatchNorm": 3, "LayerNorm": 3, "InstanceNorm": 3, "GroupNorm": 3, "L2Normalization": 2,
    "LRN": 2, "Dropout": 2, "sort": 2, "BilinearSampler": 2, "SpatialTransformer": 3, "GridGenerator": 2, "CTCLoss": 2,
    "ROIPooling": 2, "Correlation": 3, "_contrib_box_nms": 2, "moments": 2,
}
_WORKSPACE_LAYOUTS = {1: (None, "NCW"), 2: (None, "NCHW"), 3: (None, "NCDHW")}


def _count(node: SymNode) -> int:
    """How many outputs MXNet gives the node, hidden ones included."""
    if node.opdef is None or node.attrs is None:
        return 1
    name, a = node.opdef.name, node.attrs
    if name == "Pooling":                       # its CPU library keeps where the maximum was
        kernel = a.kernel or ()
        layout = getattr(a, "layout", None)
        return 2 if a.pool_type == "max" and layout in _WORKSPACE_LAYOUTS.get(len(kernel), ()) else 1
    if name == "LeakyReLU":
        return 2 if a.act_type == "rrelu" else 1
    if name == "topk":
        return 1 if a.ret_typ in ("indices", "mask") else 2
    return max(_HIDDEN_OUTPUTS.get(name, 1), node.outputs)
