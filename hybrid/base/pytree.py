"""Nested arguments and results as a flat list and a hashable structure."""
from __future__ import annotations

from typing import Any, Callable

LEAF = "*"


def flatten(value: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> Any:
    """Structure of a value; leaves are appended to the list, everything else is part of the structure.

    TypeError when a value that is no leaf cannot be hashed.
    """
    if is_leaf(value):
        leaves.append(value)
        return LEAF
    if isinstance(value, dict):
        return ("dict", tuple((k, flatten(v, is_leaf, leaves)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else type(value) if hasattr(value, "_fields") else "tuple"
        return (kind, tuple(flatten(v, is_leaf, leaves) for v in value))
    hash(value)
    return ("value", type(value), value)


def unflatten(structure: Any, leaves: Any) -> Any:
    """The value again; ``leaves`` is an iterator."""
    if structure == LEAF:
        return next(leaves)
    kind, rest = structure[0], structure[1]
    if kind == "value":
        return structure[2]
    if kind == "dict":
        return {k: unflatten(v, leaves) for k, v in rest}
    items = [unflatten(v, leaves) for v in rest]
    return items if kind == "list" else tuple(items) if kind == "tuple" else kind(*items)
