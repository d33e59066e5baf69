"""The stub file of the package itself: its public names, those that are loaded when they are asked for too."""
from __future__ import annotations

import importlib
import inspect
from typing import Any

import hybrid
from .operator_files import NOTE, exported

# where the types of a namespace stand, when it is not the module itself
STANDS_FOR = {"hybrid.graph.symbol": "hybrid.graph.sym"}


def imported(name: str, value: Any) -> str:
    """The line that gives a name its meaning."""
    if inspect.ismodule(value):
        path = value.__spec__.name if value.__spec__ else value.__name__
        path = STANDS_FOR.get(path, path).removeprefix("hybrid.")
        room, _, last = path.rpartition(".")
        return f"from .{room} import {last} as {name}\n"
    return f"from {value.__module__.replace('hybrid', '', 1)} import {value.__name__} as {name}\n"


def texts() -> dict[str, str]:
    """``__init__.pyi``."""
    module: Any = hybrid
    names = sorted({*hybrid.__all__, *module._LAZY, *module._SHORT})
    lines = ["from .debug import explain as explain\n"]
    for name in names:
        value = getattr(hybrid, name)
        if name in ("gluon", "contrib"):
            value = importlib.import_module(f"hybrid.{name}")
        lines.append(imported(name, value))
    names = sorted({*names, "explain"})
    return {"__init__.pyi": NOTE + "".join(lines) + "\n__version__: str\n" + exported([*names, "__version__"])}
