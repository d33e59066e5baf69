"""Dicts that count their changes: children and operator settings of blocks, which compiled programs depend on."""
from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any

from .parameter import VERSION

CHANGING = ("__setitem__", "__delitem__", "clear", "pop", "popitem", "setdefault", "update", "move_to_end", "__ior__")


def _noting(cls: type) -> type:
    """The class with methods that count each change of a dict."""
    for name in CHANGING:
        method = getattr(cls, name, None)
        if method is not None:
            setattr(cls, name, _counted(method))
    return cls


def _counted(method: Any) -> Any:
    @functools.wraps(method)
    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.changes += 1
        VERSION[0] += 1
        return method(self, *args, **kwargs)
    return change


@_noting
class Children(OrderedDict[str, Any]):
    """The layers in a block, by name."""
    changes = 0


@_noting
class Settings(dict[str, Any]):
    """The parameters that a layer gives to its operator, by name."""
    changes = 0
