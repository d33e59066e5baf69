"""Images of a Symbol: ``print_summary``, a table of layers, and ``plot_network``, a drawing by graphviz."""
from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

import numpy as np

from ..base.errors import AttributeValueError, ShapeError, warn_user
from ..graph.symbol import Symbol

_WEIGHTS = ("_weight", "_bias", "_beta", "_gamma", "_moving_var", "_moving_mean", "_running_var", "_running_mean")
_COLOURS = {"null": "#8dd3c7", "Convolution": "#fb8072", "FullyConnected": "#fb8072", "Activation": "#ffffb3",
            "LeakyReLU": "#ffffb3", "BatchNorm": "#bebada",
            "Pooling": "#80b1d3", "Concat": "#fdb462", "Flatten": "#fdb462", "Reshape": "#fdb462", "Softmax": "#b3de69"}
_OTHER = "#fccde5"


class _Graph:
    """A Symbol's nodes as in its JSON, with the shapes and dtypes of all values that are known."""

    def __init__(self, what: str, symbol: Any, shape: Mapping[str, Any] | None, dtype: Mapping[str, Any] | None = None):
        if not isinstance(symbol, Symbol):
            raise TypeError(f"{what} takes a Symbol, got {type(symbol).__name__}: of a Gluon network, "
                            f"net(sym.var('data')) is one, and net.summary(x) prints a table")
        document = json.loads(symbol.tojson())            # type: ignore[attr-defined]
        self.nodes: list[dict[str, Any]] = document["nodes"]
        self.heads = {h[0] for h in document["heads"]}
        inside = symbol.get_internals()
        names = inside.list_outputs()
        self.shapes = dict(zip(names, _known(what, inside, shape)))
        self.types = dict(zip(names, inside.infer_type(**dtype)[1] or ())) if dtype is not None else {}

    def of(self, table: Mapping[str, Any], node: int, output: int = 0) -> Any:
        """What a table says about a node's output, or None."""
        n = self.nodes[node]
        if n["op"] == "null":
            return table.get(n["name"])
        return table.get(f"{n['name']}_output", table.get(f"{n['name']}_output{output}"))


def _known(what: str, inside: Symbol, shape: Mapping[str, Any] | None) -> list[Any]:
    if shape is None:
        return inside.infer_shape_partial()[1]
    found = inside.infer_shape(**shape)[1]
    if found is None:
        partly = inside.infer_shape_partial(**shape)
        missing = [n for n, s in zip(inside.list_arguments(), partly[0]) if not s or 0 in s]
        raise ShapeError(f"{what}: Input shape is incomplete: {dict(shape)} does not tell the shape of "
                         f"{', '.join(missing)}")
    return found


def print_summary(symbol: Symbol, shape: Mapping[str, Any] | None = None, line_length: int = 120,
                  positions: Sequence[float] = (.44, .64, .74, 1.)) -> None:
    """Print a table of the layers: name and operator, shape of the result for one sample, number of parameters, what
    comes before.

    shape: of the inputs, by name; without it only what the Symbol says itself is known. positions: where the columns
    end, as parts of the line or in characters. Parameters are counted by their shapes, also where MXNet's own table
    miscounts them (a dense layer on images, a transposed convolution); auxiliary states are no parameters.

    >>> x = sym.FullyConnected(sym.var('data'), num_hidden=3, name='fc')
    >>> print_summary(x, {'data': (1, 4)}, 40)              # doctest: +SKIP
    """
    if len(positions) != 4:
        raise AttributeValueError(f"print_summary: positions must have four entries, got {list(positions)}")
    graph = _Graph("print_summary", symbol, shape)
    ends = [int(line_length * p) for p in positions] if positions[-1] <= 1 else [int(p) for p in positions]
    states = set(symbol.list_auxiliary_states())
    print("_" * line_length)
    print(_row(["Layer (type)", "Output Shape", "Param #", "Previous Layer"], ends))
    print("=" * line_length)
    total = 0
    counted: set[int] = set()
    for i, node in enumerate(graph.nodes):
        if node["op"] == "null" and i > 0:
            continue
        before = [graph.nodes[j]["name"] for j, *_ in node["inputs"] if graph.nodes[j]["op"] != "null" or j == 0
                  or j in graph.heads]
        own = {j for j, *_ in node["inputs"] if j and graph.nodes[j]["op"] == "null"
               and graph.nodes[j]["name"] not in states and _is_parameter(graph, j, shape)}
        fresh = own - counted                                  # a shared one counts where it is used first
        sizes = [_size(graph.of(graph.shapes, j)) for j in fresh]
        count = sum(sizes) if all(sizes) else max(sum(sizes), _said(node))
        counted |= own
        total += count
        size = graph.shapes.get(node["name"] if node["op"] == "null"
                                else f"{node['name']}_output") if shape is not None else None
        print(_row([f"{node['name']}({node['op']})", "x".join(map(str, (size or ())[1:])), count,
                    before[0] if before else ""], ends))
        for name in before[1:]:
            print(_row(["", "", "", name], ends))
        print(("=" if i == len(graph.nodes) - 1 else "_") * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


def _is_parameter(graph: _Graph, j: int, given: Mapping[str, Any] | None) -> bool:
    """Whether a variable is trained: no input whose shape was given, no label."""
    name = graph.nodes[j]["name"]
    return name not in (given or {}) and not name.endswith("label")


def _said(node: Mapping[str, Any]) -> int:
    """How many parameters a layer has by its attributes alone, where shapes are not known."""
    attrs = node.get("attrs", {})
    if node["op"] == "Embedding":
        return int(attrs["input_dim"]) * int(attrs["output_dim"])
    if node["op"] in ("Convolution", "FullyConnected") and attrs.get("no_bias") not in ("True", "1", "true"):
        return int(attrs["num_filter" if node["op"] == "Convolution" else "num_hidden"])
    return 0


def _size(shape: Any) -> int:
    return int(np.prod(shape, dtype=np.int64)) if shape else 0


def _row(fields: Sequence[Any], ends: Sequence[int]) -> str:
    line = ""
    for field, end in zip(fields, ends):
        line = (line + str(field))[:end].ljust(end)
    return line


def plot_network(symbol: Symbol, title: str = "plot", save_format: str = "pdf", shape: Mapping[str, Any] | None = None,
                 dtype: Mapping[str, Any] | None = None,
                 node_attrs: Mapping[str, str] | None = None, hide_weights: bool = True) -> Any:
    """A drawing of the graph, a ``graphviz.Digraph``: ``.render()`` writes a file, in a notebook it shows itself.

    title: the file's name. save_format: pdf, svg, png … shape, dtype: of the inputs, by name; then the arrows are
    labelled with those of the values. node_attrs: graphviz attributes of all nodes. hide_weights: leave parameters out.
    Needs the packages graphviz (``pip install graphviz``) and, to render, the program dot.
    """
    try:
        from graphviz import Digraph  # noqa: PLC0415  optional
    except ImportError:
        raise ImportError("plot_network draws with graphviz: pip install graphviz (and, to render, Debian's package "
                          "graphviz)") from None
    graph = _Graph("plot_network", symbol, shape, dtype)
    names = [n["name"] for n in graph.nodes]
    if len(names) != len(set(names)):
        repeated = sorted({n for n in names if names.count(n) > 1})
        warn_user(f"several nodes have the same name, which are one in the drawing: {', '.join(repeated)}",
                  RuntimeWarning)
    dot = Digraph(name=title, format=save_format)
    style = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034", "style": "filled",
             **(node_attrs or {})}
    weights = {n["name"] for n in graph.nodes if n["op"] == "null" and n["name"].endswith(_WEIGHTS)}
    for n in graph.nodes:
        if n["name"] not in weights:
            oval = {"shape": "oval"} if n["op"] == "null" else {}
            dot.node(name=n["name"], label=_label(n), **{**style, **oval, "fillcolor": _COLOURS.get(n["op"], _OTHER)})
    for n in graph.nodes:
        inputs = n["inputs"][:1] if n["op"] == "_contrib_BilinearResize2D" else n["inputs"]
        for j, k, *_ in inputs:
            if not (hide_weights and names[j] in weights):
                dot.edge(tail_name=n["name"], head_name=names[j], dir="back", arrowtail="open",
                         label=_value(graph, j, k, shape is not None))
    return dot


def _value(graph: _Graph, node: int, output: int, shapes: bool) -> str:
    """The label of an arrow: the shape for one sample and the dtype, as far as they are wanted."""
    size = "x".join(map(str, (graph.of(graph.shapes, node, output) or ())[1:])) if shapes else ""
    kind = graph.of(graph.types, node, output)
    return size + (f"({np.dtype(kind).name})" if kind is not None else "")


def _label(node: Mapping[str, Any]) -> str:
    op, attrs = node["op"], node.get("attrs", {})
    if op == "Convolution":
        return f"Convolution\n{_times(attrs['kernel'])}/{_times(attrs.get('stride', '1'))}, {attrs['num_filter']}"
    if op == "FullyConnected":
        return f"FullyConnected\n{attrs['num_hidden']}"
    if op == "Activation":
        return f"Activation\n{attrs['act_type']}"
    if op == "LeakyReLU":
        return f"LeakyReLU\n{attrs.get('act_type', 'Leaky')}"
    if op == "Pooling":
        return (f"Pooling\n{attrs.get('pool_type', 'max')}, "
                f"{_times(attrs.get('kernel', '[]'))}/{_times(attrs.get('stride', '1'))}")
    return attrs["op_type"] if op == "Custom" else node["name"]


def _times(text: str) -> str:
    """(3, 3) as 3x3."""
    return "x".join(part.strip() for part in text.strip("()").split(",") if part.strip())


__all__ = ["plot_network", "print_summary"]
