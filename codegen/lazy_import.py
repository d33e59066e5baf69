"""Functions whose modules most programs do not need: these load at the first call, since all together are half of the
memory that compiling a small network takes.
"""
from __future__ import annotations

import importlib
from typing import Any, Callable

from hybrid.base import forking


def later(path: str) -> Callable[..., Any]:
    """What calls a function or class of hybrid.codegen, given by its path; the module is imported at the first call."""
    module, _, name = f"hybrid.codegen.{path}".rpartition(".")

    def call(*given: Any) -> Any:
        with forking.IMPORTS:
            found = getattr(importlib.import_module(module), name)
        return found(*given)
    return call
