"""Programs that were compiled beforehand, in a folder that comes with a container or a package (``python -m
hybrid.warm`` fills it; HYBRID_WARM names it).

The folder is only read. A program found there is copied into the disk cache, from which it is loaded as any other one.
Its name depends on what the machine code depends on: what this library's files hold, the processor, NumPy, Python, the
settings and the program; not on the compiler, which need not be there.
"""
from __future__ import annotations

import json
import os
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Mapping

import numpy as np

from ..base.errors import warn_user
from ..base import config
from ..ir import Program
from ..ir.size import Dim
from . import cache, plans, shared_objects, toolchain, trust, warm_folder
from .recipe import Recipe, from_text, to_text

MANIFEST = "made-for.json"
_into: list[Path] = []                   # the folder that is being filled
_collected: list[str] = []               # what went there, in words


def frozen(program: Program) -> frozenset[int]:
    """The inputs of a program that seldom change: parameters."""
    found: frozenset[int] = program.memo.get("frozen", frozenset())
    return found


def folder() -> Path | None:
    """The folder of programs that were compiled beforehand, if there is one for this machine and this library."""
    return _usable(*warm_folder.named())


@lru_cache(maxsize=8)
def _usable(path: str, asked: bool) -> Path | None:
    if not asked and not os.path.isdir(path):
        return None
    try:
        found = Path(trust.shared_folder(path))
        theirs, ours = json.loads(trust.shared(found / MANIFEST)), _made_for()
        differs = sorted(k for k in ours if theirs.get(k) != ours[k])
        if not plans.own_contents():
            why = "what this version of hybrid is cannot be told, since its files are not there to be read"
        elif not differs:
            return found
        else:
            why = f"its programs were made for another {', '.join(differs)}"
    except (OSError, ValueError, AttributeError) as err:
        why = str(err)
    if asked:
        warn_user(f"HYBRID_WARM={path}: the folder is not used: {why}. Programs are compiled as without it; fill "
                  f"it again here with python -m hybrid.warm, or leave HYBRID_WARM out", RuntimeWarning)
    return None


def _made_for() -> dict[str, str]:
    """What all programs depend on."""
    return {"version of hybrid": plans.own_contents(), "processor": toolchain.cpu_features(),
            "width of vectors": str(toolchain.vector_bytes()), "version of NumPy": np.__version__,
            "version of Python": sys.version}


def _name(program: Program) -> str | None:
    """The name of a program's recipe; None where it is compiled anew in every process."""
    if config.verify() or config.debug_level():
        return None
    try:
        return cache.digest("warmed 1", repr(plans.variables()), repr(sorted(frozen(program))),
                            plans.program_text(program))
    except TypeError:
        return None


def read(program: Program) -> Recipe | None:
    """The recipe of a program of the folder, whose libraries are in the disk cache now; None where it is not there, or
    not whole."""
    return _read(program, lambda text: from_text(text), lambda recipe: recipe)


def read_sized(program: Program, known: Mapping[str, Dim]) -> tuple[Recipe, list[str], list[plans.Guard]] | None:
    """The same for a program for any size; the result is that of ``plans.read_sized``."""
    return _read(program, lambda text: plans.of_sized_text(text, known), lambda found: found[0])


def _read(program: Program, of_text: Callable[[str], Any], recipe_of: Callable[[Any], Recipe]) -> Any:
    where, name = folder(), _name(program)
    if where is None or name is None:
        return None
    try:
        check, _, text = trust.shared(where / f"plan-{name}.txt").decode().partition("\n")
        found = of_text(text) if check == cache.digest(name, text) else None
        return found if found and all(_fetched(where, so) for so in _libraries(recipe_of(found))) else None
    except (OSError, ValueError):
        return None


def _libraries(recipe: Recipe) -> list[str]:
    return [recipe.library, *(_libraries(recipe.prepare) if recipe.prepare is not None else [])] * bool(recipe.library)


def _fetched(where: Path, name: str) -> Path | None:
    """A shared object of the folder in the disk cache; None where it is not whole."""
    own = cache.folder() / name
    if own.parent != cache.folder() or own.suffix != ".so":
        return None
    if shared_objects.intact(own):
        return own
    content = trust.shared(where / name)
    if trust.shared((where / name).with_suffix(".txt")).decode() != cache.checksum(content):
        return None
    kept = shared_objects.keep(own, content)
    return kept if kept == own else None


def _library(title: str) -> Path | None:
    """A library of this library's own (launcher, threads) from the folder, or None."""
    where = folder()
    try:
        return _fetched(where, trust.shared(where / f"{title}.txt").decode()) if where is not None else None
    except (OSError, ValueError):
        return None


def known(title: str) -> Path | None:
    """A library of this library's own that an earlier process made, or that was made beforehand; None without one."""
    return plans.known(title) or _library(title)


def remembered(title: str, make: Callable[[], Path | None]) -> Path | None:
    """Such a library, or else what ``make`` gives."""
    made = plans.remembered(title, lambda: _library(title) or make())
    if made is not None and _into:
        _keep(_into[0], made)
        _write(_into[0] / f"{title}.txt", made.name.encode())
    return made


# ---- filling a folder
def begin(path: str) -> Path:
    """Copy every program that this process compiles or loads from now on into a folder as well."""
    where = Path(path).absolute()
    where.mkdir(parents=True, exist_ok=True)
    where.chmod(0o755)
    where = Path(trust.shared_folder(str(where)))
    _write(where / MANIFEST, json.dumps(_made_for(), indent=1).encode())
    _into[:], _collected[:] = [where], []
    return where


def end() -> list[str]:
    """Copy no more: what was copied, in words."""
    _into.clear()
    return list(_collected)


def collect(program: Program, recipe: Recipe, text: str | None = None) -> None:
    """Copy a program into the folder that is being filled, if one is. text: what the disk cache holds of it, where that
    is more than its recipe."""
    name = _name(program) if _into else None
    if name is None:
        return
    path = _into[0] / f"plan-{name}.txt"
    sizes = sum(_keep(_into[0], cache.folder() / so) for so in _libraries(recipe))
    text = to_text(recipe) if text is None else text
    _write(path, f"{cache.digest(name, text)}\n{text}".encode())
    inputs = ", ".join(f"{n.dtype}{list(n.shape)}" for i, n in enumerate(program.inputs) if i not in frozen(program))
    _collected.append(f"{program.memo.get('name') or 'a program'}({inputs}): {sizes / 1024:.0f} KB")


def _keep(where: Path, so: Path) -> int:
    content = cache.read(so)
    _write(where / so.name, content)
    _write((where / so.name).with_suffix(".txt"), cache.checksum(content).encode())
    return len(content)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, for everybody to read."""
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
