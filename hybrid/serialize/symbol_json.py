"""``-symbol.json``: a Symbol as MXNet 1.9.1 writes it, node for node, and back."""
from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from ..base import dtype as dtypes
from ..base.errors import AttributeValueError, FileFormatError, HybridError
from ..ops import registry
from ..ops.attributes import Shape
from ..ops.registry import OpDef
from ..base.scope import SCOPE
from ..graph.subgraph import GRAPH_OPS, Entry, GraphOp, Subgraph
from ..graph.symbol import Symbol, SymNode
from ..graph.node_notes import output_name
from ..base.atomic import existing, write_bytes
from .json_graph import JsonGraph, JsonNode, parse, render
from .upgrade import is_hidden, upgrade

_CASTS = ("amp_cast", "amp_multicast")
# Where broadcasting stands in a graph under the name that does not broadcast in MXNet
_BROADCAST = {f"elemwise_{f}": f"broadcast_{f}" for f in ("add", "sub", "mul", "div")}


# Operators of their own in MXNet which are the same as another one here: they keep their names from file to file
_KEPT = frozenset("""
    BatchNorm_v1 Convolution_v1 Pooling_v1 _np_copy _np_cumsum _np_squeeze _np_transpose _npi_absolute _npi_arange
    _npi_arccos _npi_arccosh _npi_arcsin _npi_arcsinh _npi_arctan _npi_arctanh _npi_cbrt _npi_ceil _npi_cholesky
    _npi_cos _npi_cosh _npi_degrees _npi_exp _npi_expm1 _npi_eye _npi_fix _npi_flip _npi_floor _npi_log _npi_log10
    _npi_log1p _npi_log2 _npi_negative _npi_ones _npi_radians _npi_reciprocal _npi_rint _npi_sign _npi_sin _npi_sinh
    _npi_sqrt _npi_square _npi_stack _npi_tan _npi_tanh _npi_trunc _npi_zeros _npx_relu
    _npx_sigmoid""".split())


@functools.cache
def _as_named(found: OpDef, name: str) -> OpDef:
    """An operator under the name that it has in a file."""
    return dataclasses.replace(found, name=name, cache={}) if name in _KEPT and name != found.name else found


# ---- reading
def load(path: str | os.PathLike[str]) -> Symbol:
    """The Symbol in a ``-symbol.json`` file; FileFormatError or AttributeValueError, naming the file, otherwise."""
    return loads(Path(existing(path)).read_bytes(), os.fspath(path))


def loads(text: str | bytes, source: str = "<json>") -> Symbol:
    """The Symbol in a JSON text. ``source`` names the text in errors.

    >>> loads('{"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[0, 0, 0]]}').list_arguments()
    ['x']
    """
    return Symbol(_built(upgrade(parse(text, source)), source))


def _built(graph: JsonGraph, source: str) -> list[Entry]:
    """The outputs of a graph."""
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
    return [(built[n], k) for n, k, _ in graph.heads]


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
    if node.op in GRAPH_OPS:
        return _graph_operator(node, inputs, where)
    if node.subgraphs:
        raise FileFormatError(f"{where}: operator {node.op!r} has subgraphs; known with subgraphs: "
                              f"{', '.join(GRAPH_OPS)}")
    # MXNet also loads an operator under the names it has in nd
    found = registry.OPS.get(node.op) or registry.namespace("nd").get(node.op) or _named(where, registry.find, node.op)
    found = _as_named(found, node.op)
    given = {key: value for key, value in node.attrs.items() if not is_hidden(key)}
    if not found.attrs:
        given.pop("dtype", None)                           # zeros_like(x, dtype=…): MXNet writes it and ignores it
    attrs = _named(where, found.parse, given)
    _check_inputs(found, len(inputs), given, where)
    extra = {key: value for key, value in node.attrs.items() if is_hidden(key)}
    try:
        return SymNode(found, node.name, attrs, inputs, extra)     # infers shapes where the variables say theirs
    except HybridError as err:
        raise FileFormatError(f"{where}: {_shortened(str(err))}") from err


def _graph_operator(node: JsonNode, inputs: list[Entry], where: str) -> SymNode:
    """A loop or branch."""
    kind = GRAPH_OPS[node.op]
    given = {key: value for key, value in node.attrs.items() if not is_hidden(key)}
    if len(node.subgraphs) != len(kind.parts):
        raise FileFormatError(f"{where}: operator {node.op} has {len(kind.parts)} subgraphs, the file gives "
                              f"{len(node.subgraphs)}")
    empty = kind(*(Subgraph((), (), ()) for _ in kind.parts))
    attrs = _named(where, empty.parse, given)
    graphs = []
    for part, g, places in zip(kind.parts, node.subgraphs, kind.places(attrs)):
        roots = _built(g, f"{where}: {part}")
        variables = [n for n in Symbol(roots).nodes() if n.opdef is None] if roots else []
        if sorted(places) != list(range(len(variables))) or not all(0 <= i < len(inputs) for i in places.values()):
            raise FileFormatError(f"{where}: the subgraph {part!r} has {len(variables)} variables and the operator "
                                  f"{len(inputs)} inputs, "
                                  f"which its lists of places do not fit: {_shortened(str(given))}")
        graphs.append(Subgraph(tuple(roots), tuple((v, 0) for v in variables),
                               tuple(places[k] for k in range(len(variables)))))
    made = kind(*graphs)
    try:
        made.check(attrs)
        return SymNode(made, node.name, attrs, inputs,
                       {key: value for key, value in node.attrs.items() if is_hidden(key)})
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
            raise AttributeValueError(f"{where}: __shape__ is {shape!r:.80}; sizes are positive, or 0 or -1 where "
                                      f"unknown")
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
    """The JSON text of a Symbol, byte for byte as MXNet 1.9.1 writes it; without the casts of mixed precision if need
    be.

    Addition, subtraction, multiplication and division are ``elemwise_*`` where the shapes are equal or unknown
    and ``broadcast_*`` where they differ, since MXNet's ``elemwise_*`` do not broadcast.
    """
    symbol = without_casts(symbol) if remove_amp_cast else symbol
    graph = _graph_of(symbol.entries)
    graph.np_shape = SCOPE.np_shape
    return render(graph)


def _graph_of(heads: Sequence[Entry], cuts: Sequence[Entry] = ()) -> JsonGraph:
    """The graph below some outputs; entries at which it is cut are variables in it."""
    cut = {(id(n), k) for n, k in cuts}
    order = in_order(heads, cut)
    place = {_place_of(node, k, cut): number for number, (node, k) in enumerate(order)}
    versions: dict[int, int] = {}              # how often each variable has been updated so far
    nodes = [JsonNode("null", output_name(node, k)) if node.opdef is not None and (id(node), k) in cut
             else _json_node(node, place, versions, cut)
             for node, k in order]
    return JsonGraph(nodes, [(place[_place_of(node, k, cut)], _output_of(node, k, cut), 0) for node, k in heads],
                     counts=[1 if (id(node), k) in cut else _count(node) for node, k in order])


def _place_of(node: SymNode, k: int, cut: Set[tuple[int, int]]) -> tuple[int, int]:
    return (id(node), k) if (id(node), k) in cut else (id(node), -1)


def _output_of(node: SymNode, k: int, cut: Set[tuple[int, int]]) -> int:
    return 0 if (id(node), k) in cut else k


def in_order(heads: Sequence[Entry], cut: Set[tuple[int, int]] = frozenset()) -> list[Entry]:
    """Inputs before their users, in the order of a depth-first walk from the outputs, as MXNet numbers nodes.

    cut: entries (by id and output number) below which the walk does not go. An entry names an output only where it is
    cut.
    """
    seen: set[tuple[int, int]] = set()
    out: list[Entry] = []
    for head, output in heads:
        key = _place_of(head, output, cut)
        if key in seen:
            continue
        seen.add(key)
        stack = [(head, output, 0)]
        while stack:
            node, output, k = stack.pop()
            if k == len(node.inputs) or (id(node), output) in cut:
                out.append((node, output))
                continue
            stack.append((node, output, k + 1))
            below = node.inputs[k]
            if _place_of(*below, cut) not in seen:
                seen.add(_place_of(*below, cut))
                stack.append((*below, 0))
    return out


def _json_node(node: SymNode, place: dict[tuple[int, int], int], versions: dict[int, int],
               cut: Set[tuple[int, int]]) -> JsonNode:
    inputs = []
    states = node.opdef.states(node.attrs,
                               len(node.inputs)) if node.opdef is not None and node.attrs is not None else ()
    for k, (source, output) in enumerate(node.inputs):
        if k in states:
            versions[id(source)] = versions.get(id(source), 0) + 1
        inputs.append((place[_place_of(source, output, cut)], _output_of(source, output, cut),
                       versions.get(id(source), 0)))
    if node.opdef is None or node.attrs is None:
        return JsonNode("null", node.name, dict(node.extra), inputs)
    attrs = {**node.extra, **node.attrs.given()}
    if node.opdef.arity_attr:
        attrs[node.opdef.arity_attr] = str(len(inputs))
    attrs = {**_implied(node.opdef.name, attrs, len(inputs)), **attrs}
    found = JsonNode(_written_name(node, node.opdef.name), node.name, attrs, inputs)
    if isinstance(node.opdef, GraphOp):
        if any(isinstance(places, tuple) and -1 in places for places in node.attrs.asdict().values()):
            raise AttributeValueError(f"node {node.name!r}: the body of a loop does not use all of its slices and "
                                      f"states, which MXNet's files cannot hold; "
                                      "use each of them, or leave it out")
        found.subgraphs = [_graph_of(g.roots, g.cuts) for g in node.opdef.graphs]
    return found


def _implied(name: str, given: Mapping[str, str], count: int) -> dict[str, str]:
    """What MXNet's functions write beside what was given."""
    if name == "_npi_average":
        return {"weighted": str(count > 1)}
    if name == "_npi_norm" and "ord" not in given:
        return {"ord": "2", "flag": "1" if given.get("axis", "None") != "None" else "-2"}
    return {}


def _written_name(node: SymNode, name: str) -> str:
    if name == "squeeze" and SCOPE.np_shape:
        return "_np_squeeze"                     # the other one leaves an axis, always
    if name in _BROADCAST and len(node.inputs) == 2:
        shapes = [source.info[k][0] for source, k in node.inputs]
        if all(s is not None and all(size > 0 for size in s) for s in shapes) and shapes[0] != shapes[1]:
            return _BROADCAST[name]
    return name


# Outputs that MXNet's operators have and never show: they count in node_row_ptr.
_HIDDEN_OUTPUTS: dict[str, int] = {
    "BatchNorm": 3, "_contrib_SyncBatchNorm": 3, "LayerNorm": 3, "InstanceNorm": 3, "GroupNorm": 3,
    "L2Normalization": 2,
    "LRN": 2, "Dropout": 2, "sort": 2, "BilinearSampler": 2, "SpatialTransformer": 3, "GridGenerator": 2, "CTCLoss": 2,
    "ROIPooling": 2, "Correlation": 3, "_contrib_box_nms": 2, "moments": 2,
    "_npi_std": 2, "_npi_var": 2, "_npi_average": 2, "_npi_norm": 4, "_linalg_det": 3, "_npi_det": 3,
    "_linalg_slogdet": 4, "_npi_slogdet": 4, "_npi_normal": 2,
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
