"""Nested arguments and results as a flat list and a hashable structure."""
from __future__ import annotations

from collections import OrderedDict, defaultdict
from math import copysign
from typing import Any, Callable

LEAF = "*"


class ById:
    """A value that is part of a structure or signature by its identity, whatever its class says about equality and
    hashes."""
    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value) >> 4

    def __repr__(self) -> str:
        return (object.__repr__(self.value) if type(self.value).__repr__ is object.__repr__
                else f"<{type(self.value).__name__}>")


def flatten(value: Any, is_leaf: Callable[[Any], bool], leaves: list[Any], by_identity: bool = False) -> Any:
    """Structure of a value; leaves are appended to the list, everything else is part of the structure.

    by_identity: what cannot be hashed is so by its identity; else it is a TypeError.
    """
    if is_leaf(value):
        leaves.append(value)
        return LEAF
    if isinstance(value, dict):
        items = tuple((k, flatten(v, is_leaf, leaves, by_identity)) for k, v in value.items())
        factory = value.default_factory if isinstance(value, defaultdict) else None
        return ("dict", items) if type(value) is dict else ("dict", items, type(value), factory)
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else type(value) if hasattr(value, "_fields") else "tuple"
        return (kind, tuple(flatten(v, is_leaf, leaves, by_identity) for v in value))
    if type(value) is float and value == 0 and copysign(1, value) < 0:
        return ("value", float, value, "negative")        # equal to 0.0, and another number
    try:
        hash(value)
    except (TypeError, ValueError):                       # ValueError: of a memoryview that can be written
        if not by_identity:
            raise
        return ("object", type(value), ById(value))
    return ("value", type(value), value)


def like(cls: type, factory: Any, items: dict[Any, Any]) -> Any:
    """A dict of a class with some items, without what its ``__init__`` would do."""
    made: Any = cls.__new__(cls)  # type: ignore[call-overload]
    if isinstance(made, defaultdict):
        made.default_factory = factory
    (OrderedDict if isinstance(made, OrderedDict) else dict).update(made, items)
    return made


def unflatten(structure: Any, leaves: Any) -> Any:
    """The value again; ``leaves`` is an iterator."""
    if structure == LEAF:
        return next(leaves)
    kind, rest = structure[0], structure[1]
    if kind == "value":
        return structure[2]
    if kind == "object":
        return structure[2].value
    if kind == "dict":
        made = {k: unflatten(v, leaves) for k, v in rest}
        return made if len(structure) == 2 else like(structure[2], structure[3], made)
    items = [unflatten(v, leaves) for v in rest]
    return items if kind == "list" else tuple(items) if kind == "tuple" else kind(*items)
