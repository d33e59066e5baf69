"""How objects that stand for functions are pickled: by name, as functions are, or from what they are made of."""
from __future__ import annotations

import sys
from types import FrameType
from typing import Any


def name_of(value: Any) -> str | None:
    """The name under which another process finds an object in its module, as it finds a function; None without one, and
    where a pickler writes down the functions of that module by value."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or taken_by_value(module):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is value else None


def taken_by_value(module: str) -> bool:
    """Whether a pickler such as cloudpickle's is at work that writes down the functions of a module, so that another
    process has them without it: of ``__main__``, and of modules registered for that."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if "cloudpickle" in name.split("."):
            registered: Any = getattr(sys.modules[name], "list_registry_pickle_by_value", set)()
            return module == "__main__" or any(module == m or module.startswith(f"{m}.") for m in registered)
        frame = frame.f_back
    return False
