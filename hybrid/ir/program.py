"""A Program: input leaves, output nodes, and the inputs that are overwritten when it has run."""
from __future__ import annotations

from dataclasses import field
from typing import Any, Sequence

import numpy as np

from ..base.records import dataclass
from ..base.errors import HybridError
from .node import Node, toposort
from .size import Dim, Size, dims


@dataclass(frozen=True, eq=False)
class Program:
    """``inputs[i]`` is the leaf of slot i. ``updates`` are pairs (slot, node): after a call the array in that slot
    holds the node's value (BatchNorm's statistics, arrays changed in place).
    """
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    updates: tuple[tuple[int, Node], ...] = ()
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)      # derived things: gradients, compiled forms

    def __post_init__(self) -> None:
        for i, leaf in enumerate(self.inputs):
            if leaf.prim != "input" or leaf.attrs["slot"] != i:
                raise HybridError(f"input {i} of a program must be the input leaf of slot {i}, got {leaf!r}")
        for slot, node in self.updates:
            if node.shape != self.inputs[slot].shape or node.dtype != self.inputs[slot].dtype:
                raise HybridError(f"an update of slot {slot} is {node.dtype}{node.shape}, "
                                  f"the array is {self.inputs[slot].dtype}{self.inputs[slot].shape}")

    def spec(self, slot: int) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of an input."""
        leaf = self.inputs[slot]
        return leaf.shape, leaf.dtype

    @property
    def count(self) -> int:
        """The number of outputs."""
        return len(self.outputs)

    @property
    def written(self) -> tuple[int, ...]:
        """The slots that are updated."""
        return tuple(slot for slot, _ in self.updates)

    @property
    def roots(self) -> tuple[Node, ...]:
        """Outputs, then update values."""
        return self.outputs + tuple(n for _, n in self.updates)

    def order(self) -> list[Node]:
        """All nodes, arguments first."""
        if "order" not in self.memo:
            self.memo["order"] = toposort(self.roots)
        return self.memo["order"]

    def dims(self) -> list[Dim]:
        """The dimensions of symbolic sizes, in inputs and in what is computed from them, by name."""
        if "dims" not in self.memo:
            found = {d for n in {*self.inputs, *self.order()} for d in dims_in(n)}
            self.memo["dims"] = sorted(found, key=lambda d: d.name)
        return list(self.memo["dims"])

    def with_roots(self, roots: Sequence[Node]) -> "Program":
        """The same inputs with other roots, given in the order of ``roots``."""
        n = len(self.outputs)
        return Program(self.inputs, tuple(roots[:n]), tuple((s, r) for (s, _), r in zip(self.updates, roots[n:])))


def dims_in(n: Node) -> set[Dim]:
    """The dimensions of symbolic sizes in a value's shape and attributes."""
    found: set[Dim] = set()
    for value in (n.shape, *n.attrs.values()):
        _collect(value, found)
    return found


def _collect(value: Any, found: set[Dim]) -> None:
    if isinstance(value, tuple):
        for v in value:
            if type(v) is not int:                           # as nearly all are
                _collect(v, found)
    elif type(value) is Size:
        found.update(dims(value))
    elif isinstance(value, Program):
        found.update(value.dims())
