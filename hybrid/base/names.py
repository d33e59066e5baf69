"""Automatic names of graph nodes, as MXNet gives them: a hint and a counter, behind the prefix of the active scope;
notes on nodes."""
from __future__ import annotations

import copy
import threading
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Iterable, Mapping, TypeVar

F = TypeVar("F")


def module_of(value: Any) -> str:
    """The name of the module that a class or function was made in. Types of compiled code may keep a descriptor there:
    they are taken for Python's own; where a program has put another object, it is the program's."""
    module = getattr(value, "__module__", None)
    if isinstance(module, str):
        return module
    return "builtins" if isinstance(module, (GetSetDescriptorType, MemberDescriptorType)) else ""


def named(function: F, name: str, module: str, doc: str | None = None) -> F:
    """The function itself, made to stand under a (dotted) name in a public module, where pickles find it."""
    made: Any = function
    made.__name__, made.__qualname__, made.__module__ = name.rsplit(".", 1)[-1], name, module
    if doc is not None:
        made.__doc__ = doc
    return function


def nearest(name: str, known: Iterable[str]) -> str:
    """The text `` (nearest: x)``, where x is a known name that is like this one or has it as its initials (lr:
    learning_rate); an empty text if there is none."""
    import difflib  # noqa: PLC0415  for errors only

    known = list(known)
    cases: dict[str, list[str]] = {}                     # names that differ in case alone
    for k in known:
        cases.setdefault(k.lower(), []).append(k)
    near = ([max(cases[found], key=lambda k: sum(a == b for a, b in zip(k, name)))
             for found in difflib.get_close_matches(name.lower(), cases, 1)]
            or [k for k in known if "".join(word[:1] for word in k.split("_")) == name.lower()])
    return f" (nearest: {near[0]})" if near else ""


def among(name: Any, known: Iterable[str]) -> str:
    """The part of an error message about an unknown name: the name, the nearest known one, and all known ones."""
    known = sorted(known)
    return f"{name!r}{nearest(str(name), known)}; known: {', '.join(known)}"


class ClassProperty:
    """A property of a class; it can be assigned where the class is made by :class:`Assignable` and ``set`` is given."""

    def __init__(self, get: Any, set: Any = None):  # noqa: A002
        self._get, self.set = get, set

    def __get__(self, instance: Any, owner: type) -> Any:
        return self._get(owner)


class Assignable(type):
    """Makes classes whose :class:`ClassProperty` is not replaced but told when one is assigned:
    ``Context.default_ctx = gpu(0)``."""

    def __setattr__(cls, name: str, value: Any) -> None:
        own = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
        if isinstance(own, ClassProperty) and own.set is not None:
            own.set(value)
        else:
            super().__setattr__(name, value)


class Holder:
    """``.value`` of what MXNet keeps for each thread: read and assigned where it is kept here."""

    def __init__(self, get: Any, set: Any):  # noqa: A002
        self._get, self._set = get, set

    @property
    def value(self) -> Any:
        """What is current in this thread."""
        return self._get()

    @value.setter
    def value(self, new: Any) -> None:
        self._set(new)


class NameManager(metaclass=Assignable):
    """Counts hints: ``relu0``, ``relu1``, … Use it in a ``with`` block."""

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._old: NameManager | None = None

    # the active manager, also under MXNet's name
    current = ClassProperty(lambda cls: current(), lambda new: setattr(_state, "value", new))
    _current = Holder(lambda: current(), lambda new: setattr(_state, "value", new))

    def get(self, name: str | None, hint: str) -> str:
        """The name itself, or the hint with the next number."""
        if name:
            return name
        n = self._counter.get(hint, 0)
        self._counter[hint] = n + 1
        return f"{hint}{n}"

    def __enter__(self) -> "NameManager":
        self._old = current()
        _state.value = self
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._old is not None
        _state.value = self._old


class Prefix(NameManager):
    """Puts a prefix before every name."""

    def __init__(self, prefix: str):
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)


# notes that MXNet writes as __lr_mult__
PLAIN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope")


def hidden(given: Mapping[str, Any]) -> dict[str, Any]:
    """Notes as MXNet keeps them: ``lr_mult`` as ``__lr_mult__``."""
    return {f"__{k}__" if k in PLAIN else k: v for k, v in given.items()}


class AttrScope(metaclass=Assignable):
    """Notes on every node made in the ``with`` block: ``with AttrScope(lr_mult='0.1'):``."""

    def __init__(self, **kwargs: str):
        if not all(isinstance(v, str) for v in kwargs.values()):
            raise ValueError(f"AttrScope takes text, got {kwargs!r}")
        self._attr = hidden(kwargs)
        self._old: dict[str, str] = {}

    # the notes of all active scopes
    current = ClassProperty(lambda cls: AttrScope(**notes()), lambda new: setattr(_state, "notes", dict(new._attr)))
    _current = Holder(lambda: AttrScope(**notes()), lambda new: setattr(_state, "notes", dict(new._attr)))

    def get(self, attr: dict[str, str] | None) -> dict[str, str]:
        """A node's own notes together with the scope's; its own win."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> "AttrScope":
        self._old = _state.notes
        _state.notes = {**_state.notes, **self._attr}
        return self

    def __exit__(self, *_: Any) -> None:
        _state.notes = self._old


class _State(threading.local):
    def __init__(self) -> None:
        self.value: NameManager = NameManager()
        self.notes: dict[str, str] = {}


_state: _State = _State()


def current() -> NameManager:
    """The active manager of this thread."""
    return _state.value


def kept() -> NameManager:
    """A scope that leaves the counters of names alone: traces may happen any number of times, exports are counted."""
    scope = copy.copy(current())
    scope._counter = dict(scope._counter)
    return scope


def notes() -> dict[str, str]:
    """Notes for a new node of this thread."""
    return dict(_state.notes)
