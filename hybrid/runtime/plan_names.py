"""The names of recipes (plans.py) in the disk cache: which a thread asks for, and whether they are there. Looking for
them loads nothing that plans or compiles."""
from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Iterator, Sequence

from . import cache


class _Asked(threading.local):
    names: list[str] | None = None


_asked = _Asked()


def path(name: str) -> Path:
    """The file of a recipe."""
    return cache.folder() / f"plan-{name}.txt"


def all_there(names: Sequence[str]) -> bool:
    """Whether there are files of all these recipes, whole or not."""
    return all(path(name).exists() for name in names)


def note(name: str) -> None:
    """Note that a recipe is asked for."""
    if _asked.names is not None:
        _asked.names.append(name)


@contextlib.contextmanager
def asked_for() -> Iterator[list[str]]:
    """Scope of a list that gets the names of the recipes that this thread asks for."""
    before, _asked.names = _asked.names, []
    try:
        yield _asked.names
    finally:
        _asked.names = before
