"""A Symbol run through another framework's operators."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import hybrid as mx

Table = Mapping[str, Callable[..., Any]]          # operator -> function(attributes, *values)


def traced(net: Any, inputs: int) -> tuple[Any, list[str]]:
    """The Symbol of a network and the names of its inputs."""
    names = [f"x{i}" for i in range(inputs)]
    return net(*[mx.sym.var(n) for n in names]), names


def weights_of(net: Any) -> dict[str, Any]:
    """Parameters by name, as NumPy arrays."""
    return {p.name: p.data().asnumpy() for p in net.collect_params().values()}


def program(symbol: Any, table: Table) -> Callable[[Mapping[str, Any]], Any]:
    """A function of the values of a Symbol's variables that gives its output; their order is found once."""
    place = {id(n): i for i, n in enumerate(symbol.nodes())}
    steps = [(n.name, None, None, []) if n.opdef is None
             else (n.name, table[n.opdef.name], n.attrs, [place[id(m)] for m, _ in n.inputs]) for n in symbol.nodes()]
    last = place[id(symbol.entries[0][0])]

    def call(values: Mapping[str, Any]) -> Any:
        made: list[Any] = []
        for name, function, attributes, inputs in steps:
            made.append(values[name] if function is None else function(attributes, *[made[i] for i in inputs]))
        return made[last]
    return call


def run(symbol: Any, table: Table, values: Mapping[str, Any]) -> Any:
    """The value of a Symbol's output. values: of its variables."""
    return program(symbol, table)(values)


def sizes(shape: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """MXNet's 0 in a reshape (as it was) replaced."""
    return [shape[i] if n == 0 else n for i, n in enumerate(wanted)]
