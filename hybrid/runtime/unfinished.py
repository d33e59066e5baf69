"""Programs that are planned and printed and not yet compiled. A process may end meanwhile: the recipe, the C text and
the object files of units that were compiled stay in the disk cache, and later processes go on from there.

A recipe waits in a file of its own until its library is compiled; then it is kept as that of any other program. Where
what programs depend on is not what it was, the recipe has another name, and nobody goes on with it. Nor does anybody
with a program that a compiler refuses, or that took ``MOST_TRIES`` processes with it, as where memory is short.
"""
from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

from ..base.errors import CompileError
from . import cache, plan_names, plans, shared_objects, tune
from .once import once
from .recipe import Recipe, library_of, to_text

TITLE = "unfinished"
MOST_TRIES = 2                  # later processes that begin to compile a program and end before any unit is there


class _Printed(NamedTuple):
    """What the disk cache holds of a program that is not compiled: what programs depended on when it was printed, the
    choices that were deferred, the recipe's text, and the tries since the last unit was compiled."""
    conditions: str | None
    deferred: list[str]
    text: str
    tries: int = 0


def _path(key: str) -> Path:
    return cache.folder() / f"{TITLE}-{key}.txt"


class _Kept(Exception):                                 # noqa: N818  no error: it ends the work on a program
    """The disk cache has what is printed of a program."""


_printing: list[None] = []                              # scopes of ``only_printed``


@contextlib.contextmanager
def only_printed() -> Iterator[None]:
    """Scope in which the work on a program that is planned and printed ends when the disk cache has it."""
    _printing.append(None)
    try:
        with contextlib.suppress(_Kept):
            yield
    finally:
        _printing.pop()


def keep(key: str | None, recipe: Recipe, head: str = "") -> None:
    """Put the recipe of a printed program into the disk cache. head: what is before it in the text that ``plans`` keeps
    when its library is compiled."""
    if key is None:
        return
    with contextlib.suppress(OSError, ValueError):
        _write(key, _Printed(plans.conditions(), tune.names_deferred(), head + to_text(recipe)))
    if _printing:
        raise _Kept


def _write(key: str, printed: _Printed) -> None:
    text = json.dumps(printed)
    cache.write(_path(key), f"{cache.digest(key, text)}\n{text}".encode())


def _read(key: str) -> _Printed | None:
    try:
        check, _, text = cache.read_text(_path(key)).partition("\n")
        return _Printed(*json.loads(text)) if check == cache.digest(key, text) else None
    except (OSError, TypeError, ValueError):
        return None


def _drop(key: str) -> None:
    with contextlib.suppress(OSError):
        _path(key).unlink()


@contextlib.contextmanager
def compiling(key: str | None) -> Iterator[None]:
    """Scope in which a program is printed, compiled and kept. Nothing of it is left over when it is compiled, nor when
    a compiler refuses it; what ends the scope otherwise leaves it to a later process."""
    try:
        yield
    except CompileError:
        if key is not None:
            _drop(key)
        raise
    if key is not None:
        _drop(key)


def finish(key: str | None) -> bool:
    """Compile a program that an earlier process printed, and keep its recipe. Whether there was one. The caller holds
    ``once(key)``."""
    found = _read(key) if key is not None else None
    if key is None or found is None:
        return False
    done = False
    with contextlib.suppress(OSError):
        if _compile(key, found, lambda: None):
            plans.keep_text(key, found.text)
            tune.defer(found.deferred)
            done = True
    _drop(key)
    return done


def go_on(stop: Callable[[], Any]) -> bool:
    """Compile one of the programs that a process left unfinished when it ended, the one whose file is the newest.
    Nothing of a program that another process works on. stop: called between units, and may raise. Whether there was
    one."""
    for key in _keys():
        with once(key, patience=0.0) as alone:
            found = _read(key) if alone else None
            if found is not None and found.conditions == plans.conditions() and _go_on(key, found, stop):
                return True
    return False


def _keys() -> list[str]:
    """The keys of unfinished programs, the newest first."""
    found: list[tuple[float, str]] = []
    for path in cache.folder().glob(f"{TITLE}-*.txt"):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime, path.stem.partition("-")[2]))
    return [key for _, key in sorted(found, reverse=True)]


def _go_on(key: str, found: _Printed, stop: Callable[[], Any]) -> bool:
    """Compile the library of a program. Whether there was anything to do. Of a program with deferred choices the recipe
    waits on: who asks for that program defers them again."""
    if plan_names.path(key).exists():
        _drop(key)
        return False
    if found.deferred and _is_there(found):
        return False
    done = _compile(key, found, stop)
    if done and found.deferred:
        return True
    with contextlib.suppress(OSError):
        if done:
            plans.keep_text(key, found.text)
    _drop(key)
    return True


def _is_there(found: _Printed) -> bool:
    """Whether the library of a printed program is compiled."""
    try:
        return shared_objects.intact(cache.folder() / library_of(found.text))
    except ValueError:
        return False


def _compile(key: str, found: _Printed, stop: Callable[[], Any]) -> bool:
    """Compile the library of a printed program, if that is not done. False where it cannot be compiled, or where
    ``MOST_TRIES`` processes ended meanwhile; what prints it anew tells why. stop: called between units."""
    begun = [found.tries]

    def note(tries: int) -> None:
        if begun[0] != tries:
            begun[0] = tries
            with contextlib.suppress(OSError):
                _write(key, found._replace(tries=tries))

    def between_units() -> None:
        note(0)
        stop()
    if _is_there(found):
        return True
    if found.tries >= MOST_TRIES:
        return False
    with contextlib.suppress(CompileError, OSError, ValueError):
        note(found.tries + 1)
        return shared_objects.finish(library_of(found.text), between_units)
    return False
