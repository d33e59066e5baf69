"""The graph of a block as a Symbol, for files and for looking inside."""
from __future__ import annotations

from typing import Any, Sequence

from ..base.pytree import flatten, unflatten
from ..base.scope import SCOPE
from ..graph.symbol import Group, Symbol, var
from ..graph.symnode import CONCRETE, SIZE_NAMES
from ..jit.changes import Changes
from ..jit.dims import names_of_axes


def input_names(count: int) -> list[str]:
    """MXNet's names of a block's inputs."""
    return ["data"] if count == 1 else [f"data{i}" for i in range(count)]


def graph_of(block: Any, form: tuple[Any, Sequence[Any]]) -> Symbol:
    """The outputs of a block's ``forward`` as Symbols of its inputs. form: the structure of a call's arguments, and
    (shape, dtype) of each array among them."""
    inputs = [var(name) for name in input_names(len(form[1]))]
    for v, info in zip(inputs, form[1]):                       # shapes are known in hybrid_forward, and not written
        v._one()[0].info, v._one()[0].holder = [info], CONCRETE
    args, kwargs = unflatten(form[0], iter(inputs))
    # F.np has arrays and Symbols in one: without inputs it makes Symbols here
    old, SCOPE.symbolic = SCOPE.symbolic, SCOPE.np_array
    SCOPE.exporting = True
    try:
        with Changes(None, block) as assigned:
            out = block.forward(*args, **kwargs)
            assigned.undo()
    finally:
        SCOPE.symbolic, SCOPE.exporting = old, False
    leaves: list[Any] = []
    flatten(out, lambda v: isinstance(v, Symbol), leaves)
    return leaves[0] if len(leaves) == 1 else Group(leaves)


def note_sizes(inputs: Sequence[Symbol], form: tuple[Any, Sequence[Any]], engine: Any) -> None:
    """Writes the names of sizes, as ``hybridize(dynamic=...)`` gave them, on the inputs of an exported graph."""
    structure, infos = form
    named = names_of_axes(engine, structure, [shape for shape, _ in infos])
    for s, axes, (shape, _) in zip(inputs, named, infos):
        node = s._one()[0]
        node.extra.pop(SIZE_NAMES, None)
        if axes:
            node.extra[SIZE_NAMES] = ",".join(axes.get(axis, "") for axis in range(len(shape)))
