"""Printers that most programs do not need: they load when the first kernel asks for them, since all together are half
of the memory that compiling a small network takes.
"""
from __future__ import annotations

import importlib
from typing import Any

from hybrid.base import forking


class Later:
    """A module of hybrid.codegen, which loads when something of it is wanted."""

    def __init__(self, name: str):
        self._name = f"hybrid.codegen.{name}"

    def __getattr__(self, attribute: str) -> Any:
        with forking.IMPORTS:
            return getattr(importlib.import_module(self._name), attribute)
