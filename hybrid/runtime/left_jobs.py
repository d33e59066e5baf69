"""Programs that were asked for and are not printed yet. A process may end meanwhile: the disk cache holds each as a job
of worker.py, from when a compiling process begins with it, or the process that wants it ends, until its text is printed
(unfinished.py says what becomes of it then) or its program is there.

A note says that a script left programs that are not compiled. When it runs again, a compiling process goes on with them
before the first call asks for any.
"""
from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Iterator

from ..base import config
from . import cache

TITLE, NOTE = "job", "left"
MOST_TRIES = 2                           # later processes that begin to print a program and end before that is done


def _path(key: str) -> Path:
    return cache.folder() / f"{TITLE}-{key}.json"


def keep(job: dict[str, Any]) -> None:
    """Put a job into the disk cache, if that can be written."""
    with contextlib.suppress(OSError, ValueError):
        cache.write(_path(job["key"]), json.dumps(job).encode())


def drop(key: str) -> None:
    """Remove a job from the disk cache, if it is there."""
    with contextlib.suppress(OSError):
        _path(key).unlink()


@contextlib.contextmanager
def begun(job: dict[str, Any]) -> Iterator[None]:
    """Scope of the work on a job: the disk cache holds it where the process is ended within."""
    keep(job)
    try:
        yield
    finally:
        drop(job["key"])


def next_one() -> dict[str, Any] | None:
    """The newest job of the disk cache, which counts as tried once more then; None where there is none. Jobs that were
    tried too often, or are damaged, are removed."""
    found: list[tuple[float, Path]] = []
    for path in cache.folder().glob(f"{TITLE}-*.json"):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime, path))
    for _, path in sorted(found, reverse=True):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            job: dict[str, Any] = json.loads(cache.read_text(path))
            job["tries"] = job.get("tries", 0) + 1
            if job["tries"] <= MOST_TRIES and path == _path(job["key"]):
                keep(job)
                return job
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def _note() -> str | None:
    """The file name of this script's note; None where no file is run."""
    script = sys.argv[0] if sys.argv else ""
    if not os.path.isfile(script):
        return None
    return f"{NOTE}-{cache.digest(NOTE, os.path.abspath(script))}.txt"


def note() -> None:
    """Note that this script has programs that are not compiled."""
    if (name := _note()) is not None:
        cache.mark(cache.folder() / name)


def forget() -> None:
    """Note that this script leaves no such programs."""
    if (name := _note()) is not None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(config.cache_dir(), name))


def noted() -> bool:
    """Whether this script left such programs when it ran before. Not in processes that load it once more to help it."""
    name, processes = _note(), sys.modules.get("multiprocessing.process")
    return (name is not None and os.path.exists(os.path.join(config.cache_dir(), name))
            and (processes is None or processes.parent_process() is None))
