"""``sym.np`` and ``sym.npx``: the same functions, which make Symbols also where no Symbol is among their arguments."""
from __future__ import annotations

from types import ModuleType
from typing import Any

from ..base.names import named
from ..nd.functions import MODULES
from ..nd.random_functions import symbolic
from ..base.scope import SCOPE
from ..graph.symbol import Symbol


class SymbolSpace(ModuleType):
    """A namespace whose functions make Symbols. Within hybridized code they are the plain ones."""

    def __init__(self, name: str, source: Any):
        super().__init__(name, source.__doc__)
        self._source = source
        self._kept: dict[str, tuple[Any, Any]] = {}        # functions that were asked for, and those made of them

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "_Symbol":                             # MXNet has a class of its own for Symbols under NumPy's rules
            return Symbol
        found = getattr(self._source, name)
        if isinstance(found, ModuleType):
            return SymbolSpace(f"{self.__name__}.{name}", found)
        if SCOPE.traces or isinstance(found, type) or not callable(found):
            return found
        source, made = self._kept.get(name, (None, None))
        if source is not found:
            made = named(symbolic(found), f"{self.__name__.removeprefix('hybrid.sym.')}.{name}", MODULES["sym"])
            self._kept[name] = found, made
        return made

    def __dir__(self) -> list[str]:
        return dir(self._source)


__all__ = ["SymbolSpace"]
