"""From a Symbol with shapes and parameters to an ONNX graph: operator after operator, each by its form or by its
primitives."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from ... import ir
from ...ir.evaluate import run
from ...base.errors import AttributeValueError, HybridError, ShapeError
from ...graph.inference import shapes_of
from ...graph.lower import mode_of
from ...ops.registry import OPS, OpDef
from ...graph.symbol import Symbol
from ...graph.symnode import SymNode, effective, known
from . import algorithms, loops, recurrent  # noqa: F401  they have forms
from .builder import Graph, Value
from .forms import FORMS
from .primitives import NoForm, emit
from .quantized import planned, program_of, written


def build(symbol: Symbol, shapes: Mapping[str, Sequence[int]], types: Mapping[str, np.dtype],
          params: Mapping[str, np.ndarray], opset: int) -> tuple[Graph, list[Value]]:
    """The graph and its outputs. shapes, types: of the variables that are inputs. params: numbers of the others."""
    g = Graph(opset)
    symbol = _loose(symbol)
    order, plan = symbol.nodes(), planned(symbol, params)
    complete = shapes_of(order, {**{k: v.shape for k, v in params.items()}, **shapes})
    for name in (*params, *shapes):                          # so that no value within takes their names
        g.taken[name] = 1
    values: dict[tuple[int, int], Value] = {}
    for n in order:
        if n.opdef is None:
            values[(id(n), 0)] = _variable(n, complete.get(id(n)), types, params)
            continue
        inputs = [values[(id(m), k)] for m, k in n.inputs]
        for k, v in enumerate(written(g, plan, n, inputs) or _operator(g, n, inputs)):
            values[(id(n), k)] = v
    return g, [_output(g, symbol, n, k, values[(id(n), k)]) for n, k in symbol.entries]


def _loose(symbol: Symbol) -> Symbol:
    """First states of recurrent layers that are zeros fit every batch: a trace has written its own batch into them."""
    order = symbol.nodes()
    states = {id(m) for n in order if n.opdef is not None and OPS.get(n.opdef.name) is OPS["RNN"]
              for m, _ in n.inputs[2:]}
    if not any(id(n) in states and n.opdef is not None and n.opdef.name == "_zeros" for n in order):
        return symbol
    new: dict[int, SymNode] = {}
    for n in order:
        if n.opdef is None:
            new[id(n)] = n
            continue
        attrs: Any = n.attrs
        if id(n) in states and n.opdef.name == "_zeros" and len(attrs.shape) == 3:
            attrs = n.opdef.parse({**attrs.given(), "shape": (attrs.shape[0], 0, attrs.shape[2])})
        new[id(n)] = SymNode(n.opdef, n.name, attrs, [(new[id(m)], k) for m, k in n.inputs], dict(n.extra))
    return Symbol([(new[id(n)], k) for n, k in symbol.entries])


def _variable(n: SymNode, shape: Any, types: Mapping[str, np.dtype], params: Mapping[str, np.ndarray]) -> Value:
    if n.name in params:
        array = params[n.name]
        return Value(n.name, array.shape, array.dtype, array)
    if not known(shape):
        raise AttributeValueError(f"the shape of input {n.name!r} is not known: give it in in_shapes, or its numbers "
                                  f"in params")
    return Value(n.name, tuple(shape), types.get(n.name, n.info[0][1] or np.dtype(np.float32)))


def _operator(g: Graph, n: SymNode, inputs: list[Value]) -> list[Value]:
    d, a = n.opdef, effective(n)
    assert d is not None
    g.owner = n.name
    try:
        train = mode_of(n, False)
        if d.random(a, train):
            raise NoForm("it draws random numbers")
        program = program_of(n, inputs, train)
        if all(v.array is not None for v in inputs) or not any(x.size for x in program.outputs):
            return _computed(g, n, program, [np.zeros(v.shape, v.dtype) if v.array is None else v.array
                                             for v in inputs])
        names = _written(g, d, a, program, inputs)
    except (NoForm, ShapeError) as err:
        raise HybridError(f"operator {d.name} (node {n.name!r}) cannot be written as ONNX: {err}") from None
    if len(names) == 1:
        names = [_named(g, n.name, names[0])]
    return [Value(name, node.shape, node.dtype) for name, node in zip(names, program.outputs)]


def _written(g: Graph, d: OpDef, a: Any, program: ir.Program, inputs: Sequence[Value]) -> list[str]:
    """The nodes of one operator; names of its outputs (the visible ones, at least)."""
    g.start = len(g.nodes)
    form = FORMS.get(OPS[d.name].name) if d.name in OPS else None
    found = form(g, a, *inputs) if form is not None else None
    if found is None:
        del g.nodes[g.start:], g.owners[g.start:]
        return emit(g, program, [lambda v=v: g.use(v) for v in inputs])          # type: ignore[misc]
    return found if isinstance(found, list) else [found]


def _named(g: Graph, want: str, name: str) -> str:
    return g.rename(g.start, name, want)


def _computed(g: Graph, n: SymNode, program: ir.Program, arrays: Sequence[Any]) -> list[Value]:
    """An operator on parameters alone is computed now."""
    found, _ = run(program, arrays, np)
    many = len(found) > 1
    return [Value(g.fresh(f"{n.name}{k}" if many else n.name), x.shape, x.dtype,
                  np.ascontiguousarray(x).reshape(x.shape)) for k, x in enumerate(found)]


def _output(g: Graph, symbol: Symbol, n: SymNode, k: int, v: Value) -> Value:
    """An output under the name MXNet gives it: the node's, with a number where it has several."""
    count = 1 if n.opdef is None else n.opdef.num_visible(n.attrs)                 # type: ignore[arg-type]
    want = f"{n.name}{k}" if count > 1 else n.name
    g.owner = n.name
    if v.name == want and v.array is None and n.opdef is not None and sum((m, j) == (n, k)
                                                                          for m, j in symbol.entries) == 1:
        return v
    name = g.fresh(want)
    g.node("Identity", [g.use(v)], [name])
    return Value(name, v.shape, v.dtype)
