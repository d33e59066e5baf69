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


def run(symbol: Any, table: Table, values: Mapping[str, Any]) -> Any:
    """The value of a Symbol's output. values: of its variables."""
    made: dict[int, Any] = {}
    for n in symbol.nodes():
        made[id(n)] = (values[n.name] if n.opdef is None
                       else table[n.opdef.name](n.attrs, *(made[id(m)] for m, _ in n.inputs)))
    return made[id(symbol.entries[0][0])]


def sizes(shape: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """MXNet's 0 in a reshape (as it was) replaced."""
    return [shape[i] if n == 0 else n for i, n in enumerate(wanted)]
