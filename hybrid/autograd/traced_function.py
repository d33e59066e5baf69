"""``autograd.Function`` inside hybridized code: its forward and its backward become part of the program.

Where they cannot be traced (``asnumpy()`` in them) they are called from within the program: host_function.py.
"""
from __future__ import annotations

import itertools
from typing import Any, Sequence

from . import host_function
from .. import ir
from ..base.errors import HybridError, TraceError, user_location
from ..ir import Node
from ..ir.vjp import register_grad
from ..base.scope import SCOPE, tracing
from ..graph.symbol import Symbol
from ..graph.symnode import SymNode
from .traced_grad import inline

_rules: dict[int, "Rule"] = {}
_numbers = itertools.count()


class Rule:
    """A traced backward: results from cotangents and from values of the trace that it uses."""

    def __init__(self, results: Sequence[Symbol], cotangents: Sequence[SymNode]):
        self.results, self.cotangents = results, cotangents
        self.order = Symbol([s._one() for s in results]).nodes()
        below: set[int] = {id(n) for n in cotangents}
        for n in self.order:
            if any(id(m) in below for m, _ in n.inputs):
                below.add(id(n))
        self.below = below
        used = [e for n in self.order if id(n) in below for e in n.inputs if id(e[0]) not in below]
        used += [s._one() for s in results if id(s._one()[0]) not in below]
        self.outside = list(dict.fromkeys(used))         # (node, output) of other values of the trace

    def apply(self, cotangents: Sequence[Node], outside: Sequence[Node]) -> list[Node]:
        """The results as primitives."""
        value: dict[Any, Node] = {(id(n), k): v for (n, k), v in zip(self.outside, outside)}
        value.update({(id(n), 0): v for n, v in zip(self.cotangents, cotangents)})
        for n in self.order:
            if id(n) not in self.below or n.opdef is None:
                continue
            nodes: list[Any] = [value[(id(m), k)] for m, k in n.inputs]
            if not n.opdef.variadic:
                nodes += [None] * (len(n.opdef.inputs) - len(nodes))
            for k, out in enumerate(n.opdef.lower(nodes, n.attrs,  # type: ignore[arg-type]
                                                  bool(n.train)).outputs):
                value[(id(n), k)] = out
        return [value[(id(n), k)] for n, k in (s._one() for s in self.results)]


@register_grad("Function")
def _pull(g: Node, attrs: Any, value: Node, *inputs: Node) -> tuple[Node | None, ...]:
    number, shapes, count = attrs
    rule = _rules[number]
    cotangents, at = [], 0
    for shape in shapes:
        size = _size(shape)
        cotangents.append(ir.reshape(ir.slice(g, (at,), (size,)), shape))
        at += size
    found = rule.apply(cotangents, inputs[count:])
    return (*(ir.cast(f, x.dtype) if f is not None else None for f, x in zip(found, inputs)),
            *(None for _ in inputs[count:]))


def _size(shape: Sequence[int]) -> int:
    out = 1
    for s in shape:
        out *= s
    return out


def call(function: Any, inputs: Sequence[Any], run: Any) -> Any:
    """A Function on traced values. run: its ``forward``, outside of the recording."""
    trace = tracing()
    symbols = [x if isinstance(x, Symbol) else trace.capture(x) for x in inputs]
    before, refused = [list(h.entries) for h, _ in trace.handles], len(trace.refused)
    try:
        return _traced(function, symbols, run)
    except TraceError:                                    # its code wants real arrays
        for (handle, _), entries in zip(trace.handles, before):
            handle.entries = entries
        del trace.refused[refused:]
        return host_function.call(function, symbols)


def _traced(function: Any, symbols: Sequence[Symbol], run: Any) -> Any:
    out = run(*symbols)
    outputs = list(out) if isinstance(out, (list, tuple)) else [out]
    if not all(isinstance(o, Symbol) for o in outputs):
        raise TraceError(f"{type(function).__name__}.forward gives {', '.join(type(o).__name__ for o in outputs)}, "
                         f"which no traced value went into")
    if not SCOPE.recording:
        return out
    if len({str(o.dtype) for o in outputs}) != 1:
        raise TraceError(f"{user_location()}: {type(function).__name__} gives results of several dtypes, which "
                         f"hybridized code cannot differentiate; "
                         "run this code without hybridize")
    rule, shapes = _trace_backward(function, symbols, outputs)
    number = next(_numbers)
    _rules[number] = rule
    k, n = len(outputs), len(symbols)

    def lowering(nodes: list[Node]) -> list[Node]:
        flat = [ir.reshape(o, (_size(o.shape),)) for o in nodes[:k]]
        joined = ir.with_grad(ir.concat(flat, 0) if k > 1 else flat[0], nodes[k:], "Function", (number, shapes, n))
        parts, at = [], 0
        for shape in shapes:
            parts.append(ir.reshape(ir.slice(joined, (at,), (_size(shape),)), shape))
            at += _size(shape)
        return parts
    results = inline(type(function).__name__, [*outputs, *symbols, *(Symbol([e]) for e in rule.outside)], lowering,
                     [o._one()[0].info[o._one()[1]] for o in outputs])
    return results[0] if not isinstance(out, (list, tuple)) else type(out)(results)


def _trace_backward(function: Any, symbols: Sequence[Symbol],
                    outputs: Sequence[Symbol]) -> tuple[Rule, tuple[tuple[int, ...], ...]]:
    nodes = []
    for i, o in enumerate(outputs):
        node = SymNode(None, f"cotangent{i}", None, ())
        entry, k = o._one()
        node.info = [entry.info[k]]
        nodes.append(node)
    old, SCOPE.recording = SCOPE.recording, False
    try:
        found = function.backward(*(Symbol([(n, 0)]) for n in nodes))
    finally:
        SCOPE.recording = old
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    if len(found) != len(symbols):
        raise HybridError(f"{type(function).__name__}.backward returned {len(found)} gradients for {len(symbols)} "
                          f"inputs")
    found = [f if isinstance(f, Symbol) else tracing().capture(f) for f in found]
    return Rule(found, nodes), tuple(tuple(o.shape) for o in outputs)
