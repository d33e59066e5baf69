"""The disk cache of compiled programs: named by content, written under a temporary name and renamed, and kept below a
size: what was not used for longest goes first (``tidy``).
"""
from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import tempfile
import time
import warnings
from pathlib import Path

from ..base import config, forking

_lock = forking.lock()
_fallback: list[tempfile.TemporaryDirectory] = []
# (name)(end of a temporary one); nothing else is ever removed
_OWN = re.compile(r"((?:[a-z]+-)?[0-9a-f]{32})\.(?:so|c|txt|cu|cpp|cubin|log)(\.[a-z0-9_]{8})?")
_DAY = 86400.0
_at_exit: set[Path] = set()              # folders to look at when the process ends


def digest(*parts: str | bytes) -> str:
    """A name for some content."""
    h = hashlib.sha256()
    for p in parts:
        raw = p.encode() if isinstance(p, str) else p
        h.update(len(raw).to_bytes(8, "little") + raw)
    return h.hexdigest()[:32]


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="probe-") as f:
            f.write(b"x" * 64)
            f.flush()
        return True
    except OSError:
        return False


def folder() -> Path:
    """The cache folder; where it cannot be written, a temporary one that goes with the process (one warning)."""
    wanted = config.cache_dir()
    if wanted.is_dir() and os.access(wanted, os.W_OK | os.X_OK):
        return wanted
    if _usable(wanted):
        return wanted
    return _temporary(wanted)


def _temporary(wanted: Path) -> Path:
    with _lock:
        if not _fallback:
            _fallback.append(tempfile.TemporaryDirectory(prefix="hybrid-"))
            warnings.warn(f"the cache folder {wanted} cannot be written; compiled programs are kept for this process "
                          f"only. "
                          "Set HYBRID_CACHE to a folder that can be written.", RuntimeWarning, stacklevel=4)
        return Path(_fallback[0].name)


def write(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all. On a full disk it goes to the temporary folder instead."""
    for target in (path, None):
        if target is None:
            target = _temporary(path.parent) / path.name
        try:
            fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name + ".")
        except OSError:
            continue
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(content)
            os.replace(temporary, target)
            _look_later(target.parent)
            return target
        except OSError:
            Path(temporary).unlink(missing_ok=True)
    raise OSError(f"neither {path.parent} nor the temporary folder can be written")


def used(path: Path) -> None:
    """Note that a file of the cache was used now."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _look_later(where: Path) -> None:
    """See to a folder's size when this process ends: its results do not wait for that. Once a day is enough."""
    if where in _at_exit:
        return
    _at_exit.add(where)
    with contextlib.suppress(OSError):
        if time.time() - (where / ".tidied").stat().st_mtime < _DAY:
            return
    atexit.register(_last_look, where, os.getpid())


def _last_look(where: Path, process: int) -> None:
    if os.getpid() == process and where.is_dir():
        with contextlib.suppress(OSError):
            (where / ".tidied").touch()
            tidy(where, config.cache_bytes())


def tidy(where: Path, limit: int) -> int:
    """Remove programs that were not used for longest until a folder's own files take four fifths of ``limit`` bytes, if
    they take more than that (0: no limit), and what writes that were cut off left a day ago. Bytes that remain.

    Another process may be about to load what goes: it finds the file gone and compiles again.
    """
    programs: dict[str, tuple[float, int, list[str]]] = {}
    now = time.time()
    with os.scandir(where) as entries:
        for entry in entries:
            own = _OWN.fullmatch(entry.name)
            if own is None:
                continue
            with contextlib.suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                if not own[2]:
                    last, size, names = programs.get(own[1], (0.0, 0, []))
                    programs[own[1]] = max(last, stat.st_mtime), size + stat.st_size, [*names, entry.path]
                elif now - stat.st_mtime > _DAY:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in programs.values())
    if not limit or total <= limit:
        return total
    for _, size, names in sorted(programs.values()):
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(name)
        total -= size
        if total <= limit * 4 // 5:
            break
    return total
