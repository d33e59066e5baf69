"""A ``dataclass`` decorator that takes a third of the time of Python's: about a hundred classes are made at import.

Python compiles a text for each method of each class. Here ``__init__`` alone has one; the other methods are the same
functions for all classes.
"""
from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Callable


def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...], frozen: bool) -> Callable[..., None]:
    missing = dataclasses.MISSING
    own = "_"                                                # what no field's name begins with
    while any(f.name.startswith(own) for f in fields):
        own += "_"
    names: dict[str, Any] = {f"{own}missing": missing, f"{own}set": object.__setattr__}
    parameters, lines = [f"{own}self"], []
    for f in fields:
        name, value, made = f.name, f.name, f.default_factory is not missing
        if f.init:
            default = f"{own}missing" if made else "" if f.default is missing else f"{own}default_{name}"
            parameters.append(f"{name}={default}" if default else name)
            names[f"{own}default_{name}"] = f.default
        if made:
            names[f"{own}make_{name}"] = f.default_factory
            value = f"{own}make_{name}()"
            value = f"{value} if {name} is {own}missing else {name}" if f.init else value
        if f.init or made:                                   # else __post_init__ gives it its value
            lines.append(f"{own}set({own}self, '{name}', {value})" if frozen else f"{own}self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(f"{own}self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(lines or ["pass"]), names)      # noqa: S102
    init: Callable[..., None] = names["__init__"]
    init.__annotations__ = {**{f.name: f.type for f in fields if f.init}, "return": None}
    return init


def _frozen(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {name!r}: a {type(self).__name__} is frozen")


def _repr(shown: tuple[str, ...]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
    return __repr__


def _compared(names: list[str]) -> Callable[[Any], Any]:
    """Returns a function that gives what of an object is compared: a tuple of its fields, or the value of the field
    where there is only one."""
    return attrgetter(*names) if names else lambda self: ()


def _equality(of: Callable[[Any], Any]) -> Callable[[Any, object], Any]:
    def __eq__(self: Any, other: object) -> Any:
        return of(self) == of(other) if other.__class__ is self.__class__ else NotImplemented
    return __eq__


def _hash(of: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(of(self))
    return __hash__


def _methods(cls: type, frozen: bool, eq: bool) -> dict[str, Any]:
    fields = dataclasses.fields(cls)                         # type: ignore[arg-type]
    made: dict[str, Any] = {"__init__": _init(cls, fields, frozen),
                            "__repr__": _repr(tuple(f.name for f in fields if f.repr))}
    if eq:
        of = _compared([f.name for f in fields if f.compare])
        made |= {"__eq__": _equality(of), "__hash__": _hash(of) if frozen else None}
    if frozen:
        made |= {"__setattr__": _frozen, "__delattr__": _frozen}
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    def dataclass(cls=None, *, frozen=False, eq=True):
        """Make a class one of fields, by its annotations: ``dataclasses.fields`` and ``replace`` take it. Methods that
        it has itself stay. Not supported: Python's other options, keyword-only fields and ``InitVar``."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq)
        own = {name for name, value in vars(cls).items() if value is not None or name != "__hash__"}
        dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        for name, method in _methods(cls, frozen, eq).items():
            if name not in own:
                setattr(cls, name, method)
        return cls
