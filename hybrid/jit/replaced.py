"""What programs have put into classes of this library in the place of what was there: methods replaced, added, deleted.

Compiled code has this library's methods in it, as they were when it was traced. So the classes of the objects that a
trace met are places of its guard, whose value is what differs from how the library made them. The launcher compares
CPython's own version number of a class, which changes with every assignment to it or to its bases.
"""
from __future__ import annotations

import operator
from functools import partial
from types import FunctionType
from typing import Any, Iterable, Iterator

from ..base import config
from ..base.names import module_of
from ..base.pytree import ById
from ..runtime import launcher
from .free_variables import GONE, Contents

# Python's own, made when somebody asks
_NOTES = frozenset({"__annotations__", "__annotations_cache__", "__annotate__", "__annotate_func__", "__doc__",
                    "__module__", "__abstractmethods__", "_abc_impl", "__signature__", "__static_attributes__",
                    "__firstlineno__"})
# how a value is shown or kept, which no program computes
SHOWN = frozenset({"__repr__", "__str__", "__format__", "__dir__", "__sizeof__", "__del__", "__reduce__",
                   "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__", "__hash__"})
MISSED = 256                    # times that the launcher is missed before it is loaded
_missed = [0]
_made: dict[type, dict[str, Any]] = {}         # what classes of this library held when they were first met
_known: dict[type, tuple[Any, Any]] = {}       # what was found then, by the version number or all that a class held


def of_library(cls: type) -> type | None:
    """The class of this library that a class is or comes from, None where there is none."""
    return next((b for b in cls.__mro__ if _is_ours(b)), None)


def classes_of(used: Any) -> tuple[type, ...]:
    """The classes whose methods run where something among those that a trace used is called."""
    return used.classes() if hasattr(used, "classes") else (type(used),)


def _is_ours(cls: type) -> bool:
    return module_of(cls).split(".")[0] == "hybrid"


def _by_library(value: Any) -> bool | None:
    """Whether a function in a class is this library's; None for what is no function."""
    function = getattr(value, "fget", None) or getattr(value, "__func__", value)
    if not isinstance(function, FunctionType):
        return None
    return str(function.__globals__.get("__name__")).split(".")[0] == "hybrid"       # wraps() copies __module__


def foreign(space: dict[str, Any], names: Iterable[str]) -> set[str]:
    """Names under which a module of this library has functions of a program's."""
    return {n for n in names if callable(v := space.get(n)) and not isinstance(v, type)
            and not (_by_library(v) or _is_ours(type(v)))}


def _differences(cls: type) -> Iterator[tuple[str, str, Any]]:
    for base in filter(_is_ours, cls.__mro__):
        own = vars(base)
        made = _made.get(base)
        if made is None:
            made = _made[base] = {k: v for k, v in own.items() if _by_library(v) is not False}
        for name in own.keys() | made.keys():
            value = own.get(name, GONE)
            if name in _NOTES or value is made.get(name, GONE) or name not in made and _by_library(value):
                continue                                     # what the library itself adds later is no difference
            yield base.__qualname__, name, value


def replaced(cls: type) -> tuple[tuple[str, str, ById], ...]:
    """(class, name, value) of all that differs in a class of this library and its bases from how they were made."""
    number = version(cls)
    known, found = _known.get(cls, (None, ()))
    if known is not None and (known == number if number else type(known) is list and _same(cls, known)):
        return found                                         # type: ignore[no-any-return]
    now = number or [x for b in filter(_is_ours, cls.__mro__) for x in (*vars(b), *vars(b).values())]
    found = tuple(sorted(((c, n, ById(v)) for c, n, v in _differences(cls)), key=lambda d: d[:2]))
    _known[cls] = now, found
    return found


def _same(cls: type, held: list[Any]) -> bool:
    now = [x for b in filter(_is_ours, cls.__mro__) for x in (*vars(b), *vars(b).values())]
    return len(now) == len(held) and all(map(operator.is_, now, held))


def version(cls: type) -> int:
    """CPython's number of the state of a class; 0 where it has none or nobody can tell. The launcher knows it, without
    which classes are compared as a whole: that is loaded when it was missed a while."""
    ask = launcher.part("class_version")
    if ask is None:
        _missed[0] += 1
        if _missed[0] % MISSED == 0 and config.compile_mode() != "never":
            launcher.soon()
    return ask(cls) if ask is not None else 0                # type: ignore[no-any-return]


class LibraryClass(Contents):
    """A class of this library as a place of a guard."""
    __slots__ = ()

    @property
    def key(self) -> Any:
        """What tells one place from others."""
        return id(self.where), "class"

    def get(self) -> Any:
        """What differs now from how it was made."""
        return replaced(self.where)

    def pinned(self, value: Any) -> tuple[Any, Any, Any]:
        """The launcher compares the version number, or asks."""
        number = version(self.where)
        if number and replaced(self.where) == value:
            return self.where, None, number
        return partial(self._holds, value), None, None
