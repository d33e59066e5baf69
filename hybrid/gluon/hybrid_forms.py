"""How a block defines what it computes, and how functions of arrays become hybridized ones."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..buffers.array import NDArray
from ..graph.symbol import Symbol, var
from ..graph.symnode import CONCRETE
from ..graph.traced_number import of_this_call
from ..base.pytree import flatten
from ..base.scope import SCOPE
from .block import Block


def first_array(value: Any) -> Any:
    """The first array or Symbol in nested lists, tuples and dicts, or None."""
    if isinstance(value, (NDArray, Symbol)):
        return value
    if isinstance(value, (list, tuple)):
        return next((found for found in map(first_array, value) if found is not None), None)
    return first_array(list(value.values())) if isinstance(value, dict) else None


def _form_of(args: Any, kwargs: Any) -> Any:
    """How a call's arguments are nested, and shape and dtype of the arrays among them; None where the shape of a Symbol
    is not known."""
    leaves: list[Any] = []
    try:
        structure = flatten((args, kwargs), lambda v: isinstance(v, (NDArray, Symbol)), leaves)
    except TypeError:
        # an argument that no program can take: the arrays alone
        leaves = [a for a in args if isinstance(a, (NDArray, Symbol))]
        structure = flatten((tuple(leaves), {}), lambda v: isinstance(v, (NDArray, Symbol)), [])
    if any(x.shape is None for x in leaves):
        return None
    return structure, tuple((tuple(x.shape), np.dtype(x.dtype)) for x in leaves)


def form_of_traced(args: Any, kwargs: Any) -> Any:
    """The form of a call whose arguments are traced, with the sizes and numbers of the call that is traced; None where
    shapes are not known."""
    if SCOPE.numbers:
        args, kwargs = of_this_call(args), of_this_call(kwargs)
    return None if first_array((args, kwargs)) is None else _form_of(args, kwargs)


def _shadow(value: Any, leaves: list[Any], i: int) -> Any:
    """A variable of an array's shape and dtype."""
    if isinstance(value, NDArray):
        out = var(f"data{i}")
        out._one()[0].holder = CONCRETE                              # a 0 in its shape is a length
        out._one()[0].info = [(value.shape, value._data.dtype)]
        return out
    if isinstance(value, (list, tuple)):
        parts = [_shadow(v, leaves, i) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return {k: _shadow(v, leaves, i) for k, v in value.items()} if isinstance(value, dict) else value


def _decorate(cls: type, options: dict[str, Any]) -> Any:
    """@hybridize on a Block class: its instances are hybridized when they are made."""
    if not issubclass(cls, Block):
        return None
    original = cls.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        if type(self) is cls:
            self.hybridize(**{"active": True, **options})
    __init__.__wrapped__ = original                              # type: ignore[attr-defined]
    __init__.__doc__ = original.__doc__
    setattr(cls, "__init__", __init__)
    return cls
