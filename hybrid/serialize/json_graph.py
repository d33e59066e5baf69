"""The text of a ``-symbol.json`` file and the checked graph in it; knows no operators.

``parse`` refuses everything that is not a graph in topological order, so that what follows can trust its indices.
``render`` writes byte for byte what MXNet 1.9.1 writes: ``, `` before each line break, one line for an object with
one key and for a list of up to ten numbers or entries.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import FileFormatError
from .kinds import looks_like

VERSION = 10901                        # of the MXNet whose format this is
_LONG = 10                             # more elements than this go on a line each
_TOP_KEYS = "nodes, arg_nodes, heads"


@dataclass
class JsonNode:
    """One node: ``op`` is ``"null"`` for a variable; an input is (node, output, version). ``subgraphs``: of a loop or
    branch."""
    op: str
    name: str
    attrs: dict[str, str] = field(default_factory=dict)
    inputs: list[tuple[int, int, int]] = field(default_factory=list)
    subgraphs: list[JsonGraph] = field(default_factory=list)

    @property
    def is_variable(self) -> bool:
        return self.op == "null"


@dataclass
class JsonGraph:
    """Nodes in topological order, and which of their outputs are the graph's outputs.

    ``version`` is of the MXNet that wrote the file (800 where the file does not say). ``counts``, for writing: each
    node's number of outputs, the hidden ones included. ``np_shape``: whether 0 and () are shapes, not unknown ones
    (``npx.set_np``).
    """
    nodes: list[JsonNode]
    heads: list[tuple[int, int, int]]
    version: int = VERSION
    counts: list[int] = field(default_factory=list)
    np_shape: bool = False


def parse(text: str | bytes, source: str = "<json>") -> JsonGraph:
    """The graph in a JSON text; FileFormatError, naming ``source`` and the node, for anything else.

    >>> parse('{"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[0, 0, 0]]}').nodes[0].name
    'x'
    """
    return _graph(_decode(text, source), source)


def _graph(document: dict[str, Any], source: str) -> JsonGraph:
    listed = document.get("nodes")
    if not isinstance(listed, list):
        raise FileFormatError(f"{source}: this is no symbol file: expected the keys {_TOP_KEYS}")
    nodes = [_node(item, number, source) for number, item in enumerate(listed)]
    heads = [_entry(item, len(nodes), f"{source}: head {k}") for k, item in enumerate(_list(document, "heads", source))]
    if not heads:
        raise FileFormatError(f"{source}: the graph has no outputs ('heads' is empty or missing)")
    for item in _list(document, "arg_nodes", source):
        if not _is_index(item) or item >= len(nodes) or not nodes[item].is_variable:
            raise FileFormatError(f"{source}: 'arg_nodes' lists {item!r:.40}, which is no variable of the graph")
    _unique_variables(nodes, source)
    notes = document.get("attrs")
    return JsonGraph(nodes, heads, _version(document), np_shape=isinstance(notes, dict) and "is_np_shape" in notes)


def _decode(text: str | bytes, source: str) -> dict[str, Any]:
    try:
        if isinstance(text, (bytes, bytearray)):
            text = bytes(text).decode("utf-8")
        # MXNet writes control characters as they are, hence strict=False
        document = json.loads(text, strict=False, parse_constant=_no_constant)
    except UnicodeDecodeError as err:
        raise FileFormatError(f"{source}: the file is not UTF-8 (offset {err.start}){looks_like(err.object[:8])}") from err  # noqa: E501
    except RecursionError:
        raise FileFormatError(f"{source}: the JSON is nested too deeply for a symbol file") from None
    except ValueError as err:                   # malformed JSON, or a number with thousands of digits
        raise FileFormatError(f"{source}: this is not JSON: {err}") from err
    if not isinstance(document, dict):
        raise FileFormatError(f"{source}: a symbol file holds an object, not a {type(document).__name__}")
    return document


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _list(where: dict[str, Any], key: str, source: str) -> list[Any]:
    found = where.get(key, [])
    if not isinstance(found, list):
        raise FileFormatError(f"{source}: {key!r} is {found!r:.40}; expected a list")
    return found


def _is_index(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and item >= 0


def _node(item: Any, number: int, source: str) -> JsonNode:
    where = f"{source}: node {number}"
    if not isinstance(item, dict):
        raise FileFormatError(f"{where} is {item!r:.40}; expected an object with the keys op, name, inputs")
    op, name = (_string(item.get(key), f"{where}: {key!r}") for key in ("op", "name"))
    where += f" ({name!r:.80})"
    subgraphs = [_graph(g, f"{where}: subgraph {k}") if isinstance(g, dict) else _no_graph(g, where)
                 for k, g in enumerate(_list(item, "subgraphs", where))]
    attrs: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):      # MXNet before 0.9, before 1.0, and since
        attrs.update(_attrs(item.get(key), f"{where}: {key!r}"))
    inputs = [_entry(entry, number, f"{where}: input {k}") for k, entry in enumerate(_list(item, "inputs", where))]
    if op == "null" and inputs:
        raise FileFormatError(f"{where}: a variable (op 'null') has inputs")
    return JsonNode(op, name, attrs, inputs, subgraphs)


def _no_graph(found: Any, where: str) -> JsonGraph:
    raise FileFormatError(f"{where}: a subgraph is {found!r:.40}; expected an object with the keys {_TOP_KEYS}")


def _string(found: Any, where: str) -> str:
    if not isinstance(found, str):
        raise FileFormatError(f"{where} is {found!r:.40}; expected a string")
    try:
        found.encode("utf-8")
    except UnicodeEncodeError as err:
        raise FileFormatError(f"{where} holds half of a surrogate pair, which is no character") from err
    return found


def _attrs(found: Any, where: str) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise FileFormatError(f"{where} is {found!r:.40}; expected an object of strings")
    return {_string(key, where): _string(value, f"{where}: {key!r:.80}") for key, value in found.items()}


def _entry(item: Any, limit: int, where: str) -> tuple[int, int, int]:
    """[node, output] or [node, output, version], of a node before ``limit``."""
    if not isinstance(item, list) or len(item) not in (2, 3) or not all(map(_is_index, item)):
        raise FileFormatError(f"{where} is {item!r:.60}; expected [node, output, version]")
    if item[0] >= limit:
        raise FileFormatError(f"{where} refers to node {str(item[0])[:20]}, which does not come before it: "
                              "the graph has a cycle, or the file is damaged")
    return item[0], item[1], item[2] if len(item) == 3 else 0


def _unique_variables(nodes: list[JsonNode], source: str) -> None:
    seen: dict[str, int] = {}
    for number, node in enumerate(nodes):
        if node.is_variable and seen.setdefault(node.name, number) != number:
            raise FileFormatError(f"{source}: nodes {seen[node.name]} and {number} are both a variable named "
                                  f"{node.name!r:.80}")


def _version(document: dict[str, Any]) -> int:
    attrs = document.get("attrs")
    found = attrs.get("mxnet_version") if isinstance(attrs, dict) else None
    return found[1] if isinstance(found, list) and len(found) == 2 and _is_index(found[1]) else 800


def render(graph: JsonGraph) -> str:
    """The text of a graph with its ``counts``."""
    version = f'"mxnet_version": ["int", {VERSION}]'
    notes = _block("{", ['"is_np_shape": ["int", 1]', version], 2) if graph.np_shape else "{" + version + "}"
    return _render(graph, 0, ['"attrs": ' + notes])


def _render(graph: JsonGraph, indent: int, notes: list[str]) -> str:
    pointers = [0]
    for count in graph.counts:
        pointers.append(pointers[-1] + count)
    variables = [str(k) for k, node in enumerate(graph.nodes) if node.is_variable]
    return _block("{", [
        '"nodes": ' + _block("[", [_render_node(node, indent + 4) for node in graph.nodes], indent + 2),
        '"arg_nodes": ' + _numbers(variables, indent + 2),
        '"node_row_ptr": ' + _numbers([str(p) for p in pointers], indent + 2),
        '"heads": ' + _numbers([_entry_text(entry) for entry in graph.heads], indent + 2), *notes], indent)


def _render_node(node: JsonNode, indent: int) -> str:
    lines = [f'"op": {_quoted(node.op)}', f'"name": {_quoted(node.name)}']
    if node.attrs:
        rows = [f"{_quoted(key)}: {_quoted(node.attrs[key])}" for key in sorted(node.attrs, key=str.encode)]
        lines.append('"attrs": ' + (_block("{", rows, indent + 2) if len(rows) > 1 else "{" + rows[0] + "}"))
    lines.append('"inputs": ' + _numbers([_entry_text(entry) for entry in node.inputs], indent + 2))
    if node.subgraphs:
        lines.append('"subgraphs": ' + _block("[", [_render(g, indent + 4, []) for g in node.subgraphs], indent + 2))
    return _block("{", lines, indent)


def _entry_text(entry: tuple[int, int, int]) -> str:
    return f"[{entry[0]}, {entry[1]}, {entry[2]}]"


def _block(opening: str, lines: list[str], indent: int) -> str:
    if not lines:
        return "[]"
    inner = "\n" + " " * (indent + 2)
    return opening + inner + f", {inner}".join(lines) + "\n" + " " * indent + {"{": "}", "[": "]"}[opening]


def _numbers(items: list[str], indent: int) -> str:
    return _block("[", items, indent) if len(items) > _LONG else "[" + ", ".join(items) + "]"


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _quoted(text: str) -> str:
    return '"' + text.translate(_ESCAPES) + '"'       # MXNet's reader knows these escapes and no others
