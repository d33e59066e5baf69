"""Running an operator graph call by call, eagerly or into another graph; watching each operator."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ..autograd.dispatch import invoke
from ..base.scope import SCOPE
from ..graph.symbol import Symbol
from ..graph.symnode import SymNode, effective

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
        results[id(n)] = list(out) if isinstance(out,
                                                 list) or isinstance(out, Symbol) and len(out.entries) > 1 else [out]
        if watch is not None:
            watch(n, inputs, results[id(n)])
        if eager:
            for m, _ in n.inputs:
                if last[id(m)] == i and id(m) not in keep:
                    results.pop(id(m), None)
    found = [results[id(n)][k] for n, k in outputs.entries]
    return found[0] if len(found) == 1 else found


# operators that do not go by the rule of ``watcher``, as MXNet 1.9.1 names them
_PLAIN_INPUT = {"Activation", "Flatten", "Reshape", "Cast", "SoftmaxActivation", "BlockGrad"}
_NAMED_INPUT = {"softmax", "log_softmax", "squeeze", "tile", "one_hot", "repeat", "reverse", "_contrib_quadratic",
                "cumsum", "_np_cumsum", "diag", "moments",
                "_contrib_BilinearResize2D"}
_PLAIN_OUTPUT = {"Flatten", "Reshape", "Cast", "BlockGrad", "Embedding"}
_NAMED_OUTPUT = {"softmax", "softmin", "elemwise_add"}
_INPUTS, _OUTPUTS = {"cumsum": ["a"]}, {"make_loss": ["loss"]}


def watcher(hooks: Sequence[tuple[Callable[..., Any], bool]]) -> Watch:
    """For ``run_graph``: calls hook(name, operator, array), with names as bytes, for each result, and each input where
    a hook wants them.

    MXNet's names: ``fc_data``, ``fc_weight``, ``fc_output`` for operators that name their inputs and results,
    ``relu0_input0`` and ``relu0_0`` for the plain functions.
    """
    def watch(n: SymNode, inputs: list[Any], outputs: list[Any]) -> None:
        assert n.opdef is not None
        op = n.opdef.name
        layer = op[:1].isupper()
        given = list(n.opdef.inputs) if not n.opdef.variadic else [f"arg{i}" for i in range(len(inputs))]
        if len(inputs) == 1 and (not layer or op in _PLAIN_INPUT) and op not in _NAMED_INPUT:
            given = ["input0"]
        given = _INPUTS.get(op, given)
        named = (layer or op in _NAMED_OUTPUT) and op not in _PLAIN_OUTPUT
        if len(outputs) == 1:
            gives = ["output" if named else "0"]
        else:
            gives = [f"output{i}" if named else str(i) for i in range(len(outputs))]
        gives = _OUTPUTS.get(op, gives)
        for hook, everything in hooks:
            for name, x in zip(given, inputs if everything else []):
                hook(f"{n.name}_{name}".encode(), op.encode(), x)
            for name, x in zip(gives, outputs):
                hook(f"{n.name}_{name}".encode(), op.encode(), x)
    return watch
