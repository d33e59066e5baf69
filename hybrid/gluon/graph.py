"""Running an operator graph call by call, eagerly or into another graph; watching each operator."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ..dispatch import invoke
from ..scope import SCOPE
from ..symbol import Symbol
from ..symnode import SymNode, effective

Watch = Callable[[SymNode, list[Any], list[Any]], None]


def run_graph(outputs: Symbol, value_of: Any, eager: bool, watch: Watch | None = None) -> Any:
    """Call every operator of a graph in order, on arrays or on Symbols; values are dropped after their last use.

    watch(node, inputs, outputs) is called after each operator.
    """
    results: dict[int, Any] = {}
    order = outputs.nodes()
    last = {id(m): i for i, n in enumerate(order) for m, _ in n.inputs}
    keep = {id(n) for n, _ in outputs.entries}
    for i, n in enumerate(order):
        if n.opdef is None:
            results[id(n)] = [value_of(n.name)]
            continue
        inputs = [results[id(m)][k] for m, k in n.inputs]
        attrs = effective(n) if eager or SCOPE.traces else n.attrs
        assert attrs is not None
        out = invoke(n.opdef, inputs, attrs._given, name=n.name)
        results[id(n)] = list(out) if isinstance(out, list) or isinstance(out, Symbol) and len(out.entries) > 1 else [out]
        if watch is not None:
            watch(n, inputs, results[id(n)])
        if eager:
            for m, _ in n.inputs:
                if last[id(m)] == i and id(m) not in keep:
                    results.pop(id(m), None)
    found = [results[id(n)][k] for n, k in outputs.entries]
    return found[0] if len(found) == 1 else found


def watcher(hooks: Sequence[tuple[Callable[..., Any], bool]]) -> Watch:
    """For ``run_graph``: calls hook(name, operator, array), with names as bytes, for each result, and each input where a hook wants them.

    MXNet's names: ``fc_data``, ``fc_weight``, ``fc_output`` for operators that name their inputs and results, ``relu0_input0``
    and ``relu0_0`` for the plain functions.
    """
    def watch(n: SymNode, inputs: list[Any], outputs: list[Any]) -> None:
        assert n.opdef is not None
        layer = n.opdef.name[:1].isupper()
        given = n.opdef.inputs if not n.opdef.variadic else [f"arg{i}" for i in range(len(inputs))]
        for hook, everything in hooks:
            for i, x in enumerate(inputs if everything else []):
                hook(f"{n.name}_{given[i] if layer or len(inputs) > 1 else f'input{i}'}".encode(), n.opdef.name.encode(), x)
            for i, x in enumerate(outputs):
                hook(f"{n.name}_{('output' if not i else f'output{i}') if layer else i}".encode(), n.opdef.name.encode(), x)
    return watch
