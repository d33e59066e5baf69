"""Recipes of compiled programs on disk, so that a program seen before is neither planned nor printed again.

A recipe is found by what it depends on: the program (each primitive, its attributes, shapes and dtypes), this library's
own files, the compiler with its flags, the processor, NumPy, Python, and the environment's HYBRID_ variables. Where
anything of it is not what it was, or the file is damaged, the program is built anew.
"""
from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

import hybrid.codegen
from hybrid.codegen.schedule import registered
import hybrid.kernels

from ..base import collector, config
from .. import ir
from ..ir import Program
from ..ir import scalar
from ..ir.asked import Asked
from ..ir.build import Const
from ..ir.scan import Body
from ..ir.size import Dim, Size
from ..ir.size_text import as_key, plain_guards, rich_guards
from . import cache, plan_names, shared_objects, tiles, toolchain
from .once import once
from .recipe import Recipe, from_text, to_text

Guard = tuple[str, Size, bool]           # what was asked of a size, and the answer (ir/asked.py)
_PLAIN = (str, int, float, bool, bytes, type(None), np.dtype)
_NO_MATTER = frozenset({"HYBRID_CACHE", "HYBRID_CACHE_SIZE", "HYBRID_DEBUG", "HYBRID_VERIFY", "HYBRID_NUM_THREADS",
                        "HYBRID_DEVICE", "HYBRID_SIGNATURES", "HYBRID_COMPILE", "HYBRID_WARM",
                        "HYBRID_NAN", "HYBRID_PROGRESS", "HYBRID_CC"})                   # the last is in the flags
# folders of this library that a compiled program comes from
_PARTS = ("base", "ir", "ops", "passes", "graph", "buffers", "runtime", "jit")


def _with_below(folder: str) -> Iterator[str]:
    """A folder and all packages in it; OSError where there is none."""
    yield folder
    with os.scandir(folder) as entries:
        below = sorted(e.path for e in entries if e.name != "__pycache__" and e.is_dir())
    for path in below:
        yield from _with_below(path)


def _own_folders() -> list[str]:
    """The folders of this library that a compiled program comes from."""
    root = os.path.dirname(os.path.abspath(ir.__file__ or "")) + "/.."
    folders = [*(os.path.join(root, part) for part in _PARTS),
               *(d for p in hybrid.codegen.__path__ for d in _with_below(p))]
    kernels = [d for base in hybrid.kernels.__path__
               for d in (base, *(os.path.join(base, k) for k in ("c", "include")))]
    return [*folders, *kernels]


@lru_cache(maxsize=1)
def own_contents() -> str:
    """A name for what this library's own files hold, wherever and whenever they were installed, or "" where there are
    none to look at."""
    parts: list[bytes] = []
    try:
        for folder in _own_folders():
            with os.scandir(folder) as entries:
                found = sorted((e.name, e.path) for e in entries if e.name.endswith((".py", ".c", ".h")))
            parts += [x for name, path in found for x in (name.encode(), Path(path).read_bytes())]
    except OSError:
        return ""
    return cache.digest(*parts)


@lru_cache(maxsize=1)
def own_files() -> str:
    """A name for the state of this library's own files, or "" where there are none to look at."""
    lines = []
    try:
        for folder in _own_folders():
            with os.scandir(folder) as entries:
                found = sorted((e.name, e.stat()) for e in entries if e.name.endswith((".py", ".c", ".h", ".pyc")))
            lines += [f"{folder} {name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in found]
    except OSError:
        return ""
    return cache.digest("\n".join(lines))


def _text(value: Any) -> str:
    """An attribute as text that tells it from every other one. TypeError for objects that are no plain data."""
    kind = type(value)
    if kind is tuple:
        return f"({','.join(map(_text, value))})"
    if kind in _PLAIN:
        return repr(value)
    if kind is Const:
        return value.hex()
    if isinstance(value, np.generic):
        return f"{value.dtype.str}{value.tobytes()!r}"
    if isinstance(value, np.dtype):
        return repr(value)
    if kind is Size:
        return as_key(value)
    if kind is Body:
        return f"<{program_text(value)}>"
    raise TypeError(f"{kind.__name__} has no text")


def program_text(program: Program) -> str:
    """The program as text that no other program has: shorter than ir.text's, and not to be parsed."""
    number: dict[Any, int] = {}
    lines = []
    for n in (*program.inputs, *program.order()):
        if n not in number:
            number[n] = len(number)
            attrs = ";".join([f"{k}={_text(v)}" for k, v in sorted(n.attrs.items())])
            lines.append(f"{n.prim}{[number[a] for a in n.args]}{attrs}")
    lines.append(f"{[number[n] for n in program.outputs]}{[(slot, number[n]) for slot, n in program.updates]}")
    return "\n".join(lines)


@lru_cache(maxsize=8)
def _digest(cc: str, flags: tuple[str, ...], variables: tuple[tuple[str, str], ...], vector: int,
            in_tiles: bool, target: tuple[str, str], added: str) -> str:
    return cache.digest("recipe 1", own_files(), toolchain.compiler_version(cc), " ".join(flags),
                        toolchain.cpu_features(), str(vector), str(in_tiles), np.__version__,
                        sys.version, repr(variables), *target, added)


def conditions() -> str | None:
    """What all programs of this process depend on; None where that cannot be told, or where there is no compiler."""
    cc = toolchain.found_compiler()
    if cc is None or not own_files():
        return None
    return _digest(cc, (*toolchain.flags(cc), *toolchain.quick(cc)), variables(), toolchain.vector_bytes(),
                   tiles.wanted(toolchain.cpu_features().split()),
                   (toolchain.target().name, toolchain.target().before()), scalar.added() + registered.added())


def variables() -> tuple[tuple[str, str], ...]:
    """The settings that programs depend on."""
    return tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith("HYBRID_") and k not in _NO_MATTER))


@collector.waits
def key(program: Program, frozen: frozenset[int]) -> str | None:
    """The name of a program's recipe; None where it has none: its passes are to be seen or checked, or it holds what is
    no plain data."""
    around = None if config.verify() or config.debug_level() else conditions()
    if around is None:
        return None
    try:
        name = cache.digest(around, repr(sorted(frozen)), program_text(program))
    except TypeError:
        return None
    plan_names.note(name)
    return name


@collector.waits
def read(name: str | None) -> Recipe | None:
    """The recipe of a name, if the disk cache holds it whole."""
    text = content(name)
    try:
        return from_text(text) if text is not None else None
    except ValueError:
        return None


def holds(name: str) -> bool:
    """Whether the disk cache holds what was kept under a name."""
    return content(name) is not None


def content(name: str | None) -> str | None:
    """What was kept under a name, if it is whole."""
    if name is None:
        return None
    try:
        path = plan_names.path(name)
        check, _, text = cache.read_text(path).partition("\n")
        if check != cache.digest(name, text):
            return None
        cache.used(path)
        return text
    except (OSError, ValueError):
        return None


def read_sized(name: str | None, known: Mapping[str, Dim]) -> tuple[Recipe, list[str], list[Guard]] | None:
    """The recipe of a name for any size, the dimensions that its calls give, in their order, and what was asked of
    sizes, if the disk cache holds it whole and all that has the same answer for the values at trace now."""
    text = content(name)
    return of_sized_text(text, known) if text is not None else None


def of_sized_text(text: str, known: Mapping[str, Dim]) -> tuple[Recipe, list[str], list[Guard]] | None:
    """What ``read_sized`` gives, of what a file holds."""
    try:
        head, _, body = text.partition("\n")
        names, asked = json.loads(head)
        guards = rich_guards(asked, known)
        holds = all((x.hint == 0 if kind == "==" else x.hint < 0) == answer for kind, x, answer in guards)
        return (from_text(body, known), [known[n].name for n in names], guards) if holds else None
    except (KeyError, TypeError, ValueError):
        return None


def sized_head(dims: Sequence[Dim], asked: Asked) -> str:
    """What is before a recipe for any size in its text: the dimensions that calls give, and what was asked of sizes."""
    return json.dumps([[d.name for d in dims], plain_guards(asked)], separators=(",", ":")) + "\n"


def keep_sized(name: str | None, recipe: Recipe, dims: Sequence[Dim], asked: Asked) -> None:
    """Put a recipe for any size into the disk cache."""
    _keep(name, recipe, sized_head(dims, asked))


def keep(name: str | None, recipe: Recipe) -> None:
    """Put a recipe into the disk cache, if it can be written and its library is there."""
    _keep(name, recipe, "")


def _keep(name: str | None, recipe: Recipe, head: str) -> None:
    if name is None or not (cache.folder() / recipe.library).exists():
        return
    try:
        keep_text(name, head + to_text(recipe))
    except (OSError, ValueError):
        return


def keep_text(name: str, text: str) -> None:
    """Put the text of a recipe, with what is before it, into the disk cache. OSError where that cannot be written."""
    cache.write(plan_names.path(name), f"{cache.digest(name, text)}\n{text}".encode())


def _note(title: str) -> Path | None:
    around = conditions()
    return cache.folder() / f"{title}-{cache.digest(title, around)}.txt" if around is not None else None


def known(title: str) -> Path | None:
    """A library of this library's own that an earlier process made, or None."""
    note = _note(title)
    try:
        so = note.parent / cache.read_text(note) if note is not None else None
        return (so if so is not None and note is not None and so.suffix == ".so" and so.parent == note.parent
                and shared_objects.intact(so) else None)
    except (OSError, ValueError):
        return None


def remembered(title: str, make: Callable[[], Path | None]) -> Path | None:
    """A library of this library's own: the one that an earlier process made, or what ``make`` gives. Other processes
    that want it wait meanwhile."""
    so = known(title)
    if so is not None:
        return so
    with once(title):
        so = known(title)                                # made by the process that was waited for
        if so is not None:
            return so
        made, note = make(), _note(title)
        if made is not None and note is not None and made.parent == note.parent:
            cache.write(note, made.name.encode())
        return made
