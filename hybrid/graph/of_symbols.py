"""Attributes that Symbols have and arrays lack: code that is traced does not see them, as it does not eagerly."""
from __future__ import annotations

import sys
from typing import Any

from ..base.errors import given_symbols, of_user
from ..base.scope import SCOPE
from ..buffers.array import NP_CLASS, NDArray
from .symbol import Symbol

_KEPT = frozenset({"entries"})                     # not wrapped: it is read too often


class OfSymbols:
    """An attribute of Symbol that is not there for traced code of the user's, whose values stand for arrays."""

    def __init__(self, name: str, inner: Any):
        self.name, self.inner, self.__doc__ = name, inner, inner.__doc__

    def __get__(self, value: Any, cls: Any = None) -> Any:
        if value is not None and SCOPE.traces and _hidden(self.name, sys._getframe(1)):
            raise AttributeError(f"an array has no attribute {self.name!r}", name=self.name, obj=value)
        return self.inner.__get__(value, cls)

    def __set__(self, value: Any, new: Any) -> None:
        raise AttributeError(f"attribute {self.name!r} of a Symbol cannot be set", name=self.name, obj=value)


def _hidden(name: str, frame: Any) -> bool:
    array = NP_CLASS[0] if SCOPE.traces[-1].np_semantics else NDArray
    return of_user(frame) and not hasattr(array, name) and not given_symbols(frame)


def hide() -> None:
    """Wrap every public attribute of Symbol that NDArray lacks. To be called once both classes are complete."""
    for name in dir(Symbol):
        if not name.startswith("_") and name not in _KEPT and not hasattr(NDArray, name):
            owner = next(c for c in Symbol.__mro__ if name in vars(c))
            setattr(owner, name, OfSymbols(name, vars(owner)[name]))
