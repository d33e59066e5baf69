"""MXNet's ``mx.registry``: classes by name, for factories of one's own."""
from __future__ import annotations

import json
from typing import Any, Callable

from .errors import AttributeValueError, warn_user

_tables: dict[type, dict[str, type]] = {}


def get_registry(base_class: type) -> dict[str, type]:
    """A copy of the classes registered for a base class, by name in small letters."""
    return dict(_tables.get(base_class, {}))


def get_register_func(base_class: type, nickname: str) -> Callable[..., type]:
    """A function ``register(cls, name=None)``, also a decorator. nickname: what messages call such a class.

    >>> class Animal: pass
    >>> register = get_register_func(Animal, "animal")
    >>> @register
    ... class Dog(Animal): pass
    >>> type(get_create_func(Animal, "animal")("dog")).__name__
    'Dog'
    """
    table = _tables.setdefault(base_class, {})

    def register(klass: type, name: str | None = None) -> type:
        if not (isinstance(klass, type) and issubclass(klass, base_class)):
            raise TypeError(f"only subclasses of {base_class.__name__} can be registered, got {klass!r}")
        key = (name or klass.__name__).lower()
        if table.get(key, klass) is not klass:
            warn_user(f"{nickname} {key!r} was {table[key].__qualname__}, now it is {klass.__qualname__}")
        table[key] = klass
        return klass
    register.__doc__ = f"Register a {nickname}."
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Callable[[type], type]]:
    """A decorator ``alias('name', 'other')`` that registers a class under several names."""
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[type], type]:
        def add(klass: type) -> type:
            for name in aliases:
                register(klass, name)
            return klass
        return add
    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """A function that makes an instance: of a name and arguments, a JSON text ``["name", {…}]`` or ``{"nickname": …}``,
    a dict; an instance is handed through."""
    table = _tables.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> Any:
        if not args and nickname not in kwargs:
            raise AttributeValueError(f"create: give the {nickname}'s name; known: {', '.join(sorted(table)) or 'none'}")  # noqa: E501
        name, rest = (args[0], args[1:]) if args else (kwargs.pop(nickname), ())
        if isinstance(name, base_class):
            if rest or kwargs:
                raise AttributeValueError(f"{name!r} is a {nickname} already: it takes no further arguments")
            return name
        if isinstance(name, dict):
            return create(**name)
        if not isinstance(name, str):
            raise AttributeValueError(f"a {nickname} is given by its name, got {type(name).__name__}")
        if name[:1] in ("[", "{"):
            return _from_text(name, nickname, create)
        if name.lower() not in table:
            raise AttributeValueError(f"no {nickname} {name!r} is registered; known: "
                                      f"{', '.join(sorted(table)) or 'none'}")
        return table[name.lower()](*rest, **kwargs)
    create.__doc__ = f"Make a {nickname} from its name."
    return create


def _from_text(text: str, nickname: str, create: Callable[..., Any]) -> Any:
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            return create(**found)
        name, options = found
        return create(name, **options)
    except (json.JSONDecodeError, TypeError, ValueError) as err:
        if isinstance(err, AttributeValueError):
            raise
        raise AttributeValueError(f"a {nickname} as text is [\"name\", {{options}}], got {text[:80]!r}: {err}") from None  # noqa: E501
