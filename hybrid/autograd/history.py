"""What the tape recorded, as an operator graph (``autograd.get_symbol``)."""
from __future__ import annotations

from typing import Any

from ..buffers.array import NDArray
from ..base.errors import DTypeError, HybridError
from ..ir.node import inputs_first
from ..ops.registry import OPS
from ..graph.symbol import Symbol, var
from ..graph.symnode import SymNode
from ..buffers.tape import Entry


def as_symbol(x: NDArray) -> Symbol:
    """The graph of a recorded array: operators ``node_0``, ``node_1``, …, variables ``var0``, … for what was not
    recorded."""
    if not isinstance(x, NDArray):
        raise DTypeError(f"get_symbol takes an array, got {type(x).__name__}")
    if x._ag is None or x._ag.entry is None:
        raise HybridError("get_symbol: this array was not computed inside autograd.record() from an array with "
                          "attach_grad()")
    return _History().of(x)


class _History:
    def __init__(self) -> None:
        self.made: dict[int, list[tuple[SymNode, int]]] = {}           # outputs by id of the entry
        self.variables: dict[int, Symbol] = {}
        self.nodes = 0

    def of(self, x: NDArray) -> Symbol:
        """The value of an array."""
        last: Any = x._ag.entry                              # type: ignore[union-attr]
        for entry in inputs_first([last], Entry.before):
            self.made[id(entry)] = self._entry(entry)
        return Symbol([self._value(x, x._ag)])

    def _value(self, x: NDArray, slot: Any) -> tuple[SymNode, int]:
        if slot is not None and slot.entry is not None:
            return self.made[id(slot.entry)][slot.index]
        if id(x) not in self.variables:
            self.variables[id(x)] = var(f"var{len(self.variables)}", shape=x.shape, dtype=x._data.dtype)
        return self.variables[id(x)]._one()

    def _entry(self, entry: Entry) -> list[tuple[SymNode, int]]:
        if entry.origin is None:
            raise HybridError("get_symbol: an autograd.Function (or a gradient) is part of the recorded computation, "
                              "which no operator stands for")
        inputs = [self._value(x, s) for x, s in zip(entry.inputs, entry.sources)]
        if len(entry.origin) == 2:
            results, variables = entry.origin
            return self._graph(results, variables, inputs)
        d, attrs, present = entry.origin
        node = self._node(d, attrs, inputs[:sum(present)])
        return [(node, k) for k in range(len(entry.outputs))]

    def _node(self, d: Any, attrs: Any, inputs: list[tuple[SymNode, int]]) -> SymNode:
        node = SymNode(d, f"node_{self.nodes}", attrs, inputs)
        self.nodes += 1
        return node

    def _graph(self, results: Symbol, variables: list[SymNode],
               inputs: list[tuple[SymNode, int]]) -> list[tuple[SymNode, int]]:
        """A traced graph over other values."""
        new: dict[tuple[int, int], tuple[SymNode, int]] = {(id(v), 0): i for v, i in zip(variables, inputs)}
        for n in results.nodes():
            if n.opdef is None:
                continue
            if OPS.get(n.opdef.name) is not n.opdef:
                raise HybridError(f"get_symbol: the hybridized code holds {n.opdef.name}, which is no operator of a "
                                  f"graph file")
            node = self._node(n.opdef, n.attrs, [new[(id(m), k)] for m, k in n.inputs])
            new.update({(id(n), k): (node, k) for k in range(n.outputs)})
        return [new[(id(n), k)] for n, k in results.entries]
