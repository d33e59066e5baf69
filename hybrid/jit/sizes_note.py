"""A note in the disk cache on the sizes that a function was called with when a program for any size was made, so that a
later process knows which sizes vary before it has seen two of them.

It is asked only where compilers work in the background: with ``HYBRID_COMPILE=now`` the same calls have the same
programs, whatever earlier processes did.
"""
from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from ..base import config
from ..runtime import cache
from .first_call import note_name

if TYPE_CHECKING:
    from .trace import Hybridized

Shape = tuple[Any, ...]


def _path(owner: "Hybridized", kind: Any) -> Path | None:
    """The note's file; None where no notes are used. kind: of the calls, as in any_size.py."""
    name = note_name("sizes", owner, (kind[1], kind[3:6])) if config.compile_mode() == "background" else None
    return cache.folder() / name if name is not None else None


def read(owner: "Hybridized", kind: Any, shapes: Sequence[Shape]) -> list[list[Shape]]:
    """Shapes of the arrays in earlier processes' calls of a kind; none where none is known. shapes: of this call, whose
    sizes stand for those that did not vary: the same code computes with other parameters, too."""
    path = _path(owner, kind)
    found = _noted(path) if path is not None else []
    if any(list(map(len, call)) != list(map(len, shapes)) for call in found):
        return []
    varied = _varied(found)
    return [[tuple(n if (k, i) in varied else shapes[k][i] for i, n in enumerate(s)) for k, s in enumerate(call)]
            for call in found]


def write(owner: "Hybridized", kind: Any, calls: Sequence[Sequence[Shape]], least: int = 0) -> None:
    """Note the shapes of calls of a kind, the latest last, where other sizes vary in them than is noted, or where fewer
    than ``least`` calls are noted."""
    path = _path(owner, kind)
    if path is None:
        return
    noted = _noted(path)
    if not _varied(calls) <= _varied(noted) or len(noted) < least:
        with contextlib.suppress(OSError):
            cache.write(path, json.dumps(calls).encode())


def _noted(path: Path) -> list[list[Shape]]:
    """The calls of a note; none where there is none, or a damaged one."""
    with contextlib.suppress(OSError, ValueError, TypeError, OverflowError, RecursionError):
        found = [[tuple(map(int, s)) for s in call] for call in json.loads(cache.read_text(path))]
        if all(list(map(len, call)) == list(map(len, found[0])) for call in found):
            return found                                         # type: ignore[return-value]
    return []


def _varied(calls: Sequence[Sequence[Shape]]) -> set[tuple[int, int]]:
    """The places, array and axis, whose sizes differ between calls of equally many arrays and axes."""
    return {(k, i) for call in calls for k, s in enumerate(call) for i, n in enumerate(s) if n != calls[0][k][i]}
