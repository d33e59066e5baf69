"""Programs that are planned and printed and not yet compiled. A process may end meanwhile: the recipe, the C text and
the object files of units that were compiled stay in the disk cache, and later processes go on from there.

A recipe waits in a file of its own until its library is compiled; then it is kept as that of any other program. Where
what programs depend on is not what it was, the recipe has another name, and nobody goes on with it.
"""
from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Callable

from ..base.errors import CompileError
from . import cache, plan_names, plans, shared_objects, tune
from .once import once
from .recipe import Recipe, library_of, to_text

TITLE = "unfinished"


def _path(key: str) -> Path:
    return cache.folder() / f"{TITLE}-{key}.txt"


def keep(key: str | None, recipe: Recipe, head: str = "") -> None:
    """Put the recipe of a printed program into the disk cache. head: what is before it in the text that ``plans`` keeps
    when its library is compiled."""
    if key is None:
        return
    with contextlib.suppress(OSError, ValueError):
        text = json.dumps([plans.conditions(), tune.names_deferred(), head + to_text(recipe)])
        cache.write(_path(key), f"{cache.digest(key, text)}\n{text}".encode())


def _read(key: str) -> tuple[str, list[str], str] | None:
    """What programs depended on when a recipe was put there, the choices that were deferred, and the recipe's text."""
    try:
        check, _, text = cache.read_text(_path(key)).partition("\n")
        if check != cache.digest(key, text):
            return None
        around, deferred, whole = json.loads(text)
        return around, deferred, whole
    except (OSError, ValueError):
        return None


def drop(key: str | None) -> None:
    """Remove what is there of a program: it is compiled, or cannot be."""
    if key is not None:
        with contextlib.suppress(OSError):
            _path(key).unlink()


def finish(key: str | None) -> bool:
    """Compile a program that an earlier process printed, and keep its recipe. Whether there was one. The caller holds
    ``once(key)``."""
    found = _read(key) if key is not None else None
    if key is None or found is None:
        return False
    _, deferred, text = found
    done = False
    with contextlib.suppress(CompileError, OSError, ValueError):        # what prints it anew tells why
        if shared_objects.finish(library_of(text)):
            plans.keep_text(key, text)
            tune.defer(deferred)
            done = True
    drop(key)
    return done


def go_on(stop: Callable[[], Any]) -> bool:
    """Compile one of the programs that ended processes left, the one that was printed last. Nothing of a program that
    another process works on. stop: called between units, and may raise. Whether there was one."""
    for key in _left():
        found = _read(key)
        if found is None or found[0] != plans.conditions():
            continue
        with once(key, patience=0.0) as alone:
            if alone and _compile(key, found, stop):
                return True
    return False


def _left() -> list[str]:
    """The keys of unfinished programs, the newest first."""
    found: list[tuple[float, str]] = []
    for path in cache.folder().glob(f"{TITLE}-*.txt"):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime, path.stem.partition("-")[2]))
    return [key for _, key in sorted(found, reverse=True)]


def _compile(key: str, found: tuple[str, list[str], str], stop: Callable[[], Any]) -> bool:
    """Compile the library of a program. Whether there was anything to do. Of a program with deferred choices the recipe
    waits on: who asks for that program defers them again."""
    _, deferred, text = found
    with contextlib.suppress(CompileError, OSError, ValueError):
        name = library_of(text)
        if plan_names.path(key).exists() or deferred and shared_objects.intact(cache.folder() / name):
            return False
        if shared_objects.finish(name, stop):
            if deferred:
                return True
            plans.keep_text(key, text)
    drop(key)
    return True
