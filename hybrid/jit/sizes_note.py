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
    """kind: of the calls, as any_size.py tells kinds apart."""
    name = note_name("sizes", owner, (kind[1], kind[3:6])) if config.compile_mode() == "background" else None
    return cache.folder() / name if name is not None else None


def read(owner: "Hybridized", kind: Any, shapes: Sequence[Shape]) -> list[list[Shape]]:
    """Shapes of the arrays in earlier processes' calls of a kind; none where none is known. shapes: of this call."""
    path = _path(owner, kind)
    with contextlib.suppress(OSError, ValueError, TypeError):
        found = [[tuple(map(int, s)) for s in call] for call in json.loads(cache.read_text(path))] if path else []
        if all(list(map(len, call)) == list(map(len, shapes)) for call in found):
            return found                                         # type: ignore[return-value]
    return []


def write(owner: "Hybridized", kind: Any, calls: Sequence[Sequence[Shape]]) -> None:
    """Note the shapes of calls of a kind, the latest last."""
    path = _path(owner, kind)
    with contextlib.suppress(OSError):
        if path is not None and not path.exists():
            cache.write(path, json.dumps(calls).encode())
