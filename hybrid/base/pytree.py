"""Nested arguments and results as a flat list and a hashable structure."""
from __future__ import annotations

import dataclasses
import functools
import sys
from collections import OrderedDict, defaultdict
from enum import Enum
from math import copysign
from typing import Any, Callable, Hashable, Sequence

from .names import module_of
from .errors import AttributeValueError

LEAF = "*"
# classes of register_pytree: (value -> (children, what else it is made of), the way back)
_REGISTERED: dict[type, tuple[Callable[[Any], tuple[Sequence[Any], Hashable]],
                              Callable[[Hashable, Sequence[Any]], Any]]] = {}


def register_pytree(cls: type, flatten: Callable[[Any], tuple[Sequence[Any], Hashable]],
                    unflatten: Callable[[Hashable, Sequence[Any]], Any]) -> type:
    """Make objects of a class nested arguments and results, like lists and dicts: of hybridized functions, and of grad,
    vmap and the others.

    flatten(value) gives the children (arrays, or nested values) and what else the value is made of, which must be
    hashable and is a constant of the compiled program; unflatten(rest, children) makes a value again. Dataclasses and
    attrs classes need no registration. Returns cls. AttributeValueError where cls is no class of the user's own.

    >>> import hybrid
    >>> from hybrid import nd
    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> _ = hybrid.register_pytree(Point, lambda p: ((p.x, p.y), None), lambda rest, children: Point(*children))
    >>> mirrored = hybrid.hybridize(lambda p: Point(p.y, p.x))
    >>> mirrored(Point(nd.array([1]), nd.array([2]))).x.asscalar()
    2.0
    """
    if not isinstance(cls, type) or issubclass(cls, (dict, list, tuple, str, int, float)):
        raise AttributeValueError(f"register_pytree takes a class of your own that is no list, tuple, dict, text or "
                                  f"number, "
                                  f"got {cls!r}")
    _REGISTERED[cls] = flatten, unflatten
    return cls


def fields(cls: type) -> tuple[str, ...] | None:
    """The names of a dataclass' or attrs class' fields; None for other classes."""
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls))
    attributes = getattr(cls, "__attrs_attrs__", None)
    return tuple(a.name for a in attributes) if attributes is not None else None


def opens(value: Any) -> bool:
    """Whether a value is an object that can be taken apart: of a registered class, a dataclass or an attrs class."""
    return type(value) in _REGISTERED or not isinstance(value, type) and fields(type(value)) is not None


def _object(value: Any) -> tuple[Sequence[Any], Any]:
    """Children of such an object, and what else it is made of."""
    if type(value) in _REGISTERED:
        return _REGISTERED[type(value)][0](value)
    names = fields(type(value)) or ()
    known = tuple(n for n in names if hasattr(value, n))
    return [getattr(value, n) for n in known], known


def _made(cls: type, rest: Any, children: Sequence[Any]) -> Any:
    """An object again; of a dataclass without what its ``__init__`` would do."""
    if cls in _REGISTERED:
        return _REGISTERED[cls][1](rest, children)
    made: Any = object.__new__(cls)
    for name, child in zip(rest, children):
        object.__setattr__(made, name, child)                # of frozen ones too
    return made


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


def flatten(value: Any, is_leaf: Callable[[Any], bool], leaves: list[Any], by_identity: bool = False,
            objects: Callable[[Any], bool] | None = None) -> Any:
    """Structure of a value; leaves are appended to the list, everything else is part of the structure.

    by_identity: what cannot be hashed, or has an equality of its own class, is so by its identity; else it is a
    TypeError. objects: which dataclasses and attrs objects are taken apart (registered ones always are); None for none
    of them.
    """
    if is_leaf(value):
        leaves.append(value)
        return LEAF
    if isinstance(value, (dict, list, tuple)) and type(value) not in (dict, list, tuple):
        own = _own(value)
        if own is not None:
            return ("with", (_container(value, is_leaf, leaves, by_identity, objects),
                             ("value", type(None), None) if own is value
                             else flatten(own, is_leaf, leaves, by_identity, objects)),
                    own is value)
    return _container(value, is_leaf, leaves, by_identity, objects)


def _own(value: Any) -> Any:
    """The attributes of a container's object, None where there are none; the container itself where it holds them."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return own or None


def _container(value: Any, is_leaf: Callable[[Any], bool], leaves: list[Any], by_identity: bool,
               objects: Callable[[Any], bool] | None) -> Any:
    """Structure of a value, without the attributes that a container has beside its items."""
    if isinstance(value, ById):                           # the very object
        return ("object", type(value.value), value)
    if isinstance(value, dict):
        items = tuple((k, flatten(v, is_leaf, leaves, by_identity, objects)) for k, v in value.items())
        factory = value.default_factory if isinstance(value, defaultdict) else None
        return ("dict", items) if type(value) is dict else ("dict", items, type(value), factory)
    if isinstance(value, (list, tuple)):
        items = tuple(flatten(v, is_leaf, leaves, by_identity, objects) for v in value)
        if type(value) is list or type(value) is tuple:
            return ("list" if type(value) is list else "tuple", items)
        return (type(value), items) if hasattr(value, "_fields") else ("row", items, type(value))
    if type(value) in _REGISTERED or objects is not None and opens(value) and objects(value):
        children, rest = _object(value)
        return ("made", tuple(flatten(v, is_leaf, leaves, by_identity, objects) for v in children), type(value), rest)
    if type(value) is float and value == 0 and copysign(1, value) < 0:
        return ("value", float, value, "negative")        # equal to 0.0, and another number
    try:
        hash(value)
    except (TypeError, ValueError):                       # ValueError: of a memoryview that can be written
        if not by_identity and not (objects is not None and opens(value)):
            raise
        return ("object", type(value), ById(value))
    if by_identity and _compares(type(value)):    # type: ignore[arg-type]
        names = fields(type(value))
        if names is None:
            return ("object", type(value), ById(value)) if _own(value) or not isinstance(value, _VALUES) else (
                "value", type(value), value)
        parts = flatten([getattr(value, n, None) for n in names], lambda v: False, [], by_identity)
        more = tuple((k, ById(v)) for k, v in (_own(value) or {}).items() if k not in names)
        return ("fields", (), value, parts, more)
    return ("value", type(value), value)


_VALUES = (int, float, complex, str, bytes, frozenset)


@functools.lru_cache(4096)
def _compares(cls: type) -> bool:
    """Whether objects of a user's class may be equal and yet hold different things."""
    if cls.__eq__ is object.__eq__ or issubclass(cls, Enum):
        return False
    top = module_of(cls).split(".")[0]
    return top not in sys.stdlib_module_names and top not in ("hybrid", "numpy") or top == "__main__"


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
    if kind in ("value", "fields"):
        return structure[2]
    if kind == "with":
        made = unflatten(rest[0], leaves)
        object.__setattr__(made, "__dict__", made if structure[2] else unflatten(rest[1], leaves))
        return made
    if kind == "object":
        return structure[2].value
    if kind == "dict":
        made = {k: unflatten(v, leaves) for k, v in rest}
        return made if len(structure) == 2 else like(structure[2], structure[3], made)
    items = [unflatten(v, leaves) for v in rest]
    if kind == "made":
        return _made(structure[2], structure[3], items)
    if kind == "row":
        return _again(structure[2], items)
    return items if kind == "list" else tuple(items) if kind == "tuple" else kind(*items)


def builder(structure: Any) -> Callable[[Sequence[Any]], Any]:
    """A function that does ``unflatten`` of a list of leaves into a structure; into a flat named tuple it is
    quicker."""
    kind, rest = structure[0], structure[1]
    if isinstance(kind, type) and all(part == LEAF for part in rest):
        return lambda leaves: kind(*leaves)
    return lambda leaves: unflatten(structure, iter(leaves))


def _again(cls: Any, items: list[Any]) -> Any:
    """A list or tuple of a class with some items, without what its ``__init__`` would do."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, items)
    made: Any = list.__new__(cls)
    list.extend(made, items)
    return made
