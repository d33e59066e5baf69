"""Which sizes may vary, as the user says it: ``hybridize(dynamic={"data": {0: "batch"}})``."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Mapping

from ..base.records import dataclass
from ..base.errors import user_location
from ..base.pytree import LEAF
from ..ir.size import Dim as Symbol

if TYPE_CHECKING:
    from .trace import Hybridized

LEAST = 2                       # smallest value of a symbol: 0 is empty and 1 broadcasts
MOST = Symbol("n").high


@dataclass(frozen=True)
class Dim:
    """A size that may vary: its name, and the least and greatest value that its one program is made for; other values
    have programs of their own, as 0 and 1 always do. ValueError for what is no name or no range.

    >>> from hybrid import Dim, hybridize, nd
    >>> @hybridize(dynamic={"x": {0: Dim("batch", 1, 512)}})
    ... def total(x):
    ...     return x.sum(axis=1)
    >>> for n in (3, 4, 5): y = total(nd.ones((n, 2)))
    >>> [p.sizes for p in total.programs]
    [('float32[3, 2]',), ('float32[n_batch, 2]',)]
    """
    name: str
    low: int = LEAST
    high: int = MOST

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier() or not self.name.isascii():
            raise ValueError(f"the name of a size is a word of letters, digits and underscores, got {self.name!r}")
        if type(self.low) is not int or type(self.high) is not int or not 0 <= self.low <= self.high <= MOST:
            raise ValueError(f"Dim({self.name!r}, {self.low!r}, {self.high!r}): the least and the greatest value are "
                             f"integers from 0 to {MOST}, the least one first")

    def symbol(self, value: int, serial: int) -> Symbol | None:
        """The symbol of a trace with this value; None where the value is beyond the range."""
        low = max(self.low, LEAST)
        return Symbol(f"n_{self.name}", low, self.high, value, serial) if low <= value <= self.high else None


def checked(value: Any) -> Any:
    """True, False, or for arguments by name or place their axes and ``Dim``. ValueError for others."""
    if isinstance(value, Mapping) and all(isinstance(axes, Mapping) and isinstance(k, (str, int))
                                          for k, axes in value.items()):
        found = {k: {axis: d if isinstance(d, Dim) else Dim(d) for axis, d in axes.items()}
                 for k, axes in value.items()}
        if all(type(axis) is int for axes in found.values() for axis in axes):
            return found
    elif value is True or value is False:
        return value
    raise ValueError(f"hybridize(dynamic=...) takes True (a size that came with a second value is a symbol of one "
                     f"program for all), False (each size is a program) or which sizes of which arguments vary, as in "
                     f'{{"data": {{0: "batch"}}}}, got {value!r}')


class Varying:
    """What a function's option says of the arrays of its calls."""

    def __init__(self, owner: "Hybridized"):
        self._given = owner.options.get("dynamic", True)
        self.any = isinstance(self._given, bool)             # whether any size may vary
        self._names = [] if self.any else _parameters(owner)
        self._owner = owner

    def axes(self, structure: Any, shapes: list[tuple[int, ...]]) -> list[dict[int, Dim]] | None:
        """For each array of a call its axes that may vary; None where all may."""
        if self.any:
            return None
        found, labels = [], _labels(structure)
        self._refuse_strangers(labels)
        for k, (label, shape) in enumerate(zip(labels, shapes)):
            name = self._names[label] if type(label) is int and label < len(self._names) else label
            axes = {**self._given.get("data" if len(labels) == 1 else f"data{k}", {}),
                    **self._given.get(label, {}), **self._given.get(name, {})}
            found.append({axis % len(shape): d for axis, d in axes.items() if -len(shape) <= axis < len(shape)})
        return found + [{}] * (len(shapes) - len(found))

    def _refuse_strangers(self, labels: list[Any]) -> None:
        """ValueError for a name that no argument can have."""
        if len(self._names) < 1 or _takes_any_name(self._owner):
            return
        known = {*self._names, *labels, *(f"data{k}" for k in range(len(labels))), "data"}
        for name in self._given:
            if isinstance(name, str) and name not in known:
                raise ValueError(f"{user_location()}: hybridize(dynamic={{{name!r}: ...}}) names an argument that "
                                 f"{self._owner.name} does not have; its arguments are {', '.join(self._names)} (or "
                                 f"by place: 0, 1, ...)")


def names_of_axes(owner: "Hybridized", structure: Any, shapes: list[tuple[int, ...]]) -> list[dict[int, str]]:
    """For each array of a call the names of its sizes that ``hybridize(dynamic=...)`` names, by axis."""
    found = Varying(owner).axes(structure, shapes)
    return [{axis: d.name for axis, d in axes.items()} for axes in found] if found is not None else [{} for _ in shapes]


def _labels(structure: Any) -> list[Any]:
    """Of each array of a call the place or name of the argument that it is in."""
    (_, by_position), (_, by_name) = structure[1]
    return [label for label, s in (*enumerate(by_position), *by_name) for _ in range(_arrays(s))]


def _arrays(structure: Any) -> int:
    if structure == LEAF:
        return 1
    if structure[0] in ("value", "object", "number"):
        return 0
    return sum(_arrays(v) for _, v in structure[1]) if structure[0] == "dict" else sum(map(_arrays, structure[1]))


def _codes(owner: "Hybridized") -> list[tuple[Any, int]]:
    """The user's functions that a call may run, and how many parameters come before the arguments."""
    block = owner.owner
    found = ((getattr(block, "forward", None), 0), (getattr(block, "hybrid_forward", None), 1), (owner.fn, 0))
    return [(code, first) for code, first in found if code is not None]


def _takes_any_name(owner: "Hybridized") -> bool:
    """Whether the code has ``**kwargs`` or parameters that are given by name alone."""
    return any(p.kind in (p.VAR_KEYWORD, p.KEYWORD_ONLY) for code, _ in _codes(owner)
               for p in inspect.signature(code).parameters.values())


def _parameters(owner: "Hybridized") -> list[str]:
    """Names of the parameters of the user's code, or of the inputs of a Symbol, by place."""
    if inputs := getattr(owner.owner, "__dict__", {}).get("_inputs"):
        return list(inputs)
    for code, first in _codes(owner):
        names = [n for n, p in inspect.signature(code).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        if len(names) > first:
            return names[first:]
    return []
