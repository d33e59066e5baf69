"""The form of a function that its calls are compiled in, for what looks at one call."""
from __future__ import annotations

from typing import Any, Callable

from ..base.errors import user_location
from ..jit.api import HybridFunction, ObjectCall, hybridize


def name_of(f: Callable[..., Any]) -> str:
    """A function's name, without those of the functions around it, or a block's."""
    name = getattr(f, "__qualname__", None) or getattr(f, "name", None) or type(f).__name__
    return str(name).rsplit("<locals>.", 1)[-1]


def compiling(f: Callable[..., Any], tool: str) -> Any:
    """f itself where it is hybridized; else, for this call alone, a hybridized function of its name that calls it."""
    if not callable(f):
        raise TypeError(f"{user_location()}: {tool} calls a function or a block itself: give it f and then its "
                        f"arguments, as in {tool}(f, x), not a {type(f).__name__}")
    if isinstance(f, (HybridFunction, ObjectCall)) or getattr(f, "_active", False):
        return f

    def call(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)
    call.__name__ = call.__qualname__ = name_of(f)
    return hybridize(call)
