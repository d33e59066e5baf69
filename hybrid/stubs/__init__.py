"""Stub files (``.pyi``) for type checkers, generated from the registry of operators: ``python -m hybrid.stubs``.

The functions of ``nd``, ``sym``, ``np`` and ``npx``, and the fluent methods of arrays, come from tables when they are
asked for; a type checker sees them in the stub files that stand beside the modules. ``texts`` gives every file,
``stale`` those that differ from what is on disk.
"""
from __future__ import annotations

from pathlib import Path

import hybrid
from . import numpy_files, operator_files, package

__all__ = ["stale", "texts", "write"]

ROOT = Path(hybrid.__file__).absolute().parent


def texts() -> dict[str, str]:
    """The contents of every stub file, by its path in the package."""
    return {**operator_files.texts(), **numpy_files.texts(), **package.texts()}


def stale() -> list[str]:
    """The stub files that are missing, or hold something else than the registry says."""
    return [name for name, text in texts().items()
            if not (ROOT / name).exists() or (ROOT / name).read_text(encoding="utf-8") != text]


def write() -> list[str]:
    """Write the stub files that are stale; their paths in the package."""
    given, changed = texts(), stale()
    for name in changed:
        path = ROOT / name
        beside = path.with_name(path.name + ".new")
        beside.write_text(given[name], encoding="utf-8")
        beside.replace(path)
    return changed
