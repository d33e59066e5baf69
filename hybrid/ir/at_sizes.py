"""A program with symbolic sizes (size.py) at one set of their values.

What is expensive (gradients, plans, compiled code) is made once of the symbolic program, for all sizes (``shared``);
the nodes for the sizes of one call are made where something asks for them, and most calls never do.
"""
from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Callable, Mapping, TypeVar

import numpy as np

from .asked import Asked
from .build import input as input_leaf
from .build import make
from .node import Node, toposort
from .program import Program
from .scan import Body
from .size import Size, fixed, hint

T = TypeVar("T")
_OPEN = ("open inputs",)                   # in a symbolic program's memo: which of its inputs have symbolic sizes


class AtSizes(Program):
    """A symbolic program for concrete sizes. whole: the symbolic one. values: of its dimensions, by name."""
    whole: Program
    values: Mapping[str, int]

    def __init__(self, whole: Program, values: Mapping[str, int]):
        memo = {k: whole.memo[k] for k in ("frozen", "name", "origins") if k in whole.memo}
        vars(self).update(memo=memo, whole=whole, values=values)

    @cached_property
    def inputs(self) -> tuple[Node, ...]:                    # type: ignore[override]
        """The inputs for these sizes."""
        inputs = list(self.whole.inputs)
        for i in self.whole.memo.get(_OPEN) or self.whole.memo.setdefault(_OPEN, _open(self.whole)):
            inputs[i] = input_leaf(i, at_values(inputs[i].shape, self.values), inputs[i].dtype)
        return tuple(inputs)

    def spec(self, slot: int) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of an input."""
        leaf = self.whole.inputs[slot]
        return at_values(leaf.shape, self.values), leaf.dtype

    @cached_property
    def _roots(self) -> list[Node]:
        return nodes_at(self.whole, self.values)

    @property
    def outputs(self) -> tuple[Node, ...]:                   # type: ignore[override]
        """The outputs for these sizes."""
        return tuple(self._roots[:self.count])

    @property
    def updates(self) -> tuple[tuple[int, Node], ...]:       # type: ignore[override]
        """The updates for these sizes."""
        return tuple(zip(self.written, self._roots[self.count:]))

    @property
    def count(self) -> int:
        """The number of outputs."""
        return len(self.whole.outputs)

    @property
    def written(self) -> tuple[int, ...]:
        """The slots that are updated."""
        return self.whole.written

    def shared(self, key: Any, make: Callable[[], T]) -> T | None:
        """What is made once of the symbolic program, for all sizes. None where it cannot be, or where this size does
        not pass the guards that were noted meanwhile: then it is to be made for this size alone."""
        found = self.whole.memo.get(("any size", key))
        if found is None:
            asked, made, why = Asked(), None, ""
            try:
                with asked.answering(False):
                    made = make()
            except Exception as err:                         # noqa: BLE001  what is made for one size tells the error
                why = str(err)
            found = self.whole.memo["any size", key] = made, asked, why
        made, asked, _ = found
        return made if made is not None and asked.hold(self.values) else None

    def alone(self) -> Program:
        """A program for these sizes that knows nothing of others."""
        return Program(self.inputs, self.outputs, self.updates,
                       {k: self.memo[k] for k in ("frozen", "name") if k in self.memo})


def _open(whole: Program) -> list[int]:
    return [i for i, n in enumerate(whole.inputs) if not all(map(fixed, n.shape))]


class OfSize:
    """A function of one number, which is a size: called before each call of a program with the size of that call."""

    def __init__(self, function: Callable[[Any], None], size: Any):
        self.function, self.size = function, size

    def __call__(self) -> None:
        self.function(hint(self.size))

    def at(self, values: Mapping[str, int]) -> Callable[[], None]:
        """The same for these sizes."""
        return partial(self.function, at_values(self.size, values))


def guards(whole: Program) -> list[str]:
    """The guards that were noted when something was made of a symbolic program, or of its forward and backward pass,
    as text."""
    return [g for k, v in list(whole.memo.items()) if k[0] in ("any size", "partition")
            for g in (v[1].lines() if k[0] == "any size" else [g for part in v.asked_for() for g in guards(part)])]


def serves(whole: Program, values: Mapping[str, int]) -> bool:
    """Whether all that was made of a symbolic program so far is right for these sizes."""
    return all(v[0] is not None and v[1].hold(values) if k[0] == "any size" else
               all(serves(part, values) for part in v.asked_for())
               for k, v in list(whole.memo.items()) if k[0] in ("any size", "partition"))


def refused(whole: Program) -> list[str]:
    """Why what was to be made of a symbolic program, or of its forward and backward pass, is made for each size alone,
    as text."""
    return [why for k, v in list(whole.memo.items()) if k[0] in ("any size", "partition")
            for why in ([v[2]] * (v[0] is None) if k[0] == "any size" else
                        [each for part in v.asked_for() for each in refused(part)])]


def nodes_at(program: Program, values: Mapping[str, int]) -> list[Node]:
    """The roots of a symbolic program for concrete sizes."""
    new: dict[Node, Node] = {}
    for n in toposort(program.roots):
        attrs = {k: at_values(v, values) for k, v in n.attrs.items()}
        new[n] = make(n.prim, tuple([new[a] for a in n.args]), **attrs)
    return [new[r] for r in program.roots]


def at_values(value: Any, values: Mapping[str, int]) -> Any:
    """A shape or an attribute with numbers in the place of sizes."""
    if type(value) is Size:
        return value.value(values)
    if type(value) is tuple:
        return tuple([at_values(v, values) for v in value])
    if type(value) is Body:
        inputs = tuple(input_leaf(i, at_values(n.shape, values), n.dtype) for i, n in enumerate(value.inputs))
        return Body(inputs, tuple(nodes_at(value, values)))
    return value
