"""A temporary folder of this process: where compilers work, and where programs go that the disk cache cannot take.

It goes with the process. One whose process was killed is removed by a later one: as long as a process lives it holds a
lock on its folder, so nothing of a running process is touched, also where process numbers mean something else
(containers that share /tmp).
"""
from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from typing import Iterator

from ..base import forking, system
from ..base.errors import CompileError
from . import trust

PREFIX = "hybrid-run-"
_OTHER_PLACES = ("/tmp", "/var/tmp", "/dev/shm")             # where TMPDIR can be changed by other users
_lock = forking.lock(again=True)
_made: dict[int, tuple[str, int]] = {}                       # by process: its folder, and what holds the lock


def _hold(path: str) -> int | None:
    """A descriptor that locks a folder until this process ends; None where another process holds it, or it is not
    there."""
    try:
        if system.WINDOWS:                                   # folders are not opened, nor locked
            return os.open(os.devnull, os.O_RDONLY)
        fd = os.open(path, system.FOLDER)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        if system.take_folder(fd):
            return fd
    os.close(fd)
    return None


def sweep(where: str) -> None:
    """Remove the folders that processes which were killed left in a folder."""
    if not system.LOCKS:                                     # nothing tells whether their processes live
        return
    with contextlib.suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            if (not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False)
                or entry.stat(follow_symlinks=False).st_uid != system.user()):
                continue
            # of the process that this one was forked from, which may share the lock
            if any(entry.path == path for path, _ in _made.values()):
                continue
            fd = _hold(entry.path)
            if fd is not None:
                shutil.rmtree(entry.path, ignore_errors=True)
                os.close(fd)


def _places() -> list[str]:
    places = []
    with contextlib.suppress(OSError):
        places.append(tempfile.gettempdir())
    return [place for place in dict.fromkeys((*places, *_OTHER_PLACES)) if os.path.isdir(place)]


def sweep_places() -> None:
    """Remove what killed processes left wherever they may have worked."""
    for place in _places():
        sweep(place)


def _new() -> tuple[str, int]:
    reasons = []
    for place in _places():
        try:
            where = trust.real(place)
            sweep(where)
            for _ in range(100):
                path = tempfile.mkdtemp(prefix=PREFIX, dir=where)
                fd = _hold(path)
                if fd is not None:
                    return path, fd
        except OSError as err:
            reasons.append(str(err))
    raise CompileError("there is no folder where programs can be compiled safely: "
                       f"{'; '.join(reasons)}. Set TMPDIR to a folder of your own.")


def folder() -> str:
    """This process's temporary folder, which nobody else can read or write."""
    with _lock:
        process = os.getpid()
        found = _made.get(process)
        if found is None or not os.path.isdir(found[0]):     # a cleaner of /tmp took it
            if found is not None:
                os.close(found[1])
            else:
                atexit.register(_remove, process)
            found = _made[process] = _new()
        return found[0]


@contextmanager
def work() -> Iterator[str]:
    """A folder for one run of a compiler. Where that is cut off while it writes, what is left goes with the process."""
    with tempfile.TemporaryDirectory(prefix="compile-", dir=folder(), ignore_cleanup_errors=True) as path:
        yield path


def _remove(process: int) -> None:
    """At the end of the process that made it, not of one that was forked from that."""
    if os.getpid() == process and process in _made:
        path, fd = _made.pop(process)
        shutil.rmtree(path, ignore_errors=True)
        os.close(fd)
