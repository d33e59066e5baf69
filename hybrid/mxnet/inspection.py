"""What a monitor sees of an executor: every value inside of a run, and every gradient of its backward."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

from .. import autograd
from ..autograd.dispatch import invoke
from ..buffers import tape
from ..buffers.array import NDArray, full_like, wrap
from ..graph.symbol import Symbol
from ..graph.symnode import SymNode, effective
from ..passes.differentiate import heads_read, reaches

Named = Iterator[tuple[str, NDArray]]


@dataclass
class Call:
    """One operator of a run: its inputs, each with a gradient of its own, and its results."""
    node: SymNode
    inputs: list[NDArray]
    outputs: list[NDArray]


def calls_of(symbol: Symbol, values: Mapping[str, NDArray], train: bool) -> list[Call]:
    """Run a graph operator by operator, each recorded by itself. values: of the variables, which stay as they are."""
    found: dict[int, list[NDArray]] = {}
    calls = []
    for n in symbol.nodes():
        if n.opdef is None:
            found[id(n)] = [values[n.name]]
            continue
        a = effective(n)
        states = n.opdef.states(a, len(n.inputs))
        inputs = [_handle(found[id(m)][k], i in states) for i, (m, k) in enumerate(n.inputs)]
        with tape.flags(True, train):
            out = invoke(n.opdef, inputs, a._given, name=n.name)
        calls.append(Call(n, inputs, list(out) if isinstance(out, list) else [out]))
        found[id(n)] = calls[-1].outputs
    return calls


def _handle(x: NDArray, state: bool) -> NDArray:
    """An input that collects its own gradient; a copy of a state, which the operator may write."""
    if state or x.stype != "default":
        return x.copy()
    x = wrap(x._data, x._ctx, type(x))
    x.attach_grad()
    return x


def values_inside(calls: Sequence[Call], everything: bool) -> Named:
    """Names and arrays of every operator's results, with ``everything`` of the inputs too: ``fc_data``, ``fc_weight``,
    ``fc_output``."""
    for c in calls:
        n = c.node
        assert n.opdef is not None and n.attrs is not None
        names = n.opdef.inputs if not n.opdef.variadic else [f"arg{i}" for i in range(len(c.inputs))]
        for name, (m, _), x in zip(names, n.inputs, c.inputs) if everything else ():
            if m.opdef is None:
                yield m.name, x
            yield f"{n.name}_{name}", x
        for k, x in enumerate(c.outputs):
            yield f"{n.name}_{n.opdef.output_name(k, n.attrs)}", x


def gradients_inside(symbol: Symbol, calls: Sequence[Call], heads: Sequence[NDArray | None],
                     wanted: frozenset[str]) -> Named:
    """Names and arrays of what the backward of each operator gives, the last operator's first: ``fc_backward_output0``
    is the gradient of the first input. Only operators that depend on a variable in ``wanted`` have one. heads:
    gradients of the outputs."""
    reached: set[int] = set()
    for n in symbol.nodes():
        if n.name in wanted if n.opdef is None else any(id(m) in reached for m, _ in n.inputs):
            reached.add(id(n))
    recorded = {id(c.node): (c.outputs[0]._ag.entry, *_flow(c.outputs[0]._ag.entry)) for c in calls
                if id(c.node) in reached and c.outputs[0]._ag is not None}
    collected: dict[tuple[int, int], list[NDArray]] = {}
    for i, ((n, k), g) in enumerate(zip(symbol.entries, heads)):
        if g is not None and n.opdef is not None:
            if recorded.get(id(n), (None, False))[1]:
                yield f"_head_grad_{i}_id_output", g
            collected.setdefault((id(n), k), []).append(g)
    for c in reversed(calls):
        _, reads, told = recorded.get(id(c.node), (None, False, []))
        rows = [collected.get((id(c.node), k), []) for k in range(len(c.outputs))]
        if not told or not any(rows) and reads:
            continue
        for row in rows:
            if len(row) > 1:
                row[:] = [sum(row[1:], row[0])]
                yield "sum_grad_output", row[0]
        autograd.backward(c.outputs, [row[0] if row else full_like(o, 0) for row, o in zip(rows, c.outputs)])
        for j, i in enumerate(told):
            g = c.inputs[i].grad
            assert g is not None
            yield f"{c.node.name}_backward_output{j if len(told) > 1 else ''}", g
            m, k = c.node.inputs[i]
            if id(m) in reached and m.opdef is not None:
                collected.setdefault((id(m), k), []).append(g)


def _flow(entry: Any) -> tuple[bool, list[int]]:
    """Of a recorded call: whether its gradients depend on those of its results (of a loss they do not), and the inputs
    that have one (of a loss all)."""
    own = [i for i, slot in enumerate(entry.sources) if slot is not None]
    if entry.program is None:
        return True, own
    reads = any(heads_read(entry.program, tape.wanted(entry.program, entry.sources, entry.raws)))
    into = [i for i in own if reaches(entry.program, i)]
    return reads, into if reads else own if into else []
