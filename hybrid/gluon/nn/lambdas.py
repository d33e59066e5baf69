"""Layers of functions."""
from __future__ import annotations

from typing import Any

from ... import nd
from ...graph import symbol
from ..block import Block
from ..hybrid_block import HybridBlock
from .basic_layers import _known


class Lambda(Block):
    """A function, or the name of one in ``nd``, as a block."""

    def __init__(self, function: Any, prefix: str | None = None):
        super().__init__(prefix=prefix)
        self._func = _known(function, nd) if isinstance(function, str) else function
        if not callable(self._func):
            raise ValueError(f"Lambda takes a function or the name of one, got {function!r}")

    def forward(self, *args: Any) -> Any:
        return self._func(*args)

    def __repr__(self) -> str:
        return f"Lambda({getattr(self._func, '__name__', self._func)})"


class HybridLambda(HybridBlock):
    """A function of (F, x), or the name of an operator, as a HybridBlock."""

    def __init__(self, function: Any, prefix: str | None = None):
        super().__init__(prefix=prefix)
        self._func_name = function if isinstance(function, str) else getattr(function, "__name__", "function")
        if isinstance(function, str):
            _known(function, nd), _known(function, symbol)
            self._func = lambda F, *args: getattr(F, function)(*args)
        elif callable(function):
            self._func = function
        else:
            raise ValueError(f"HybridLambda takes a function or the name of one, got {function!r}")

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:     # type: ignore[override]
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"HybridLambda({self._func_name})"
