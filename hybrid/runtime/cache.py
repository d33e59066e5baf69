"""The disk cache of compiled programs: named by content, written under a temporary name and renamed, and kept below a
size: what was not used for longest goes first (``tidy``). What is in it runs as this process, so only a folder that is
the user's alone is used, and only files that nobody else can write (trust.py).
"""
from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import tempfile
import time
from pathlib import Path

try:
    from _blake2 import blake2b          # what hashlib gives, which loads OpenSSL first: 2 ms
except ImportError:
    from hashlib import blake2b

from ..base.errors import warn_user
from ..base import config, forking, system
from . import scratch, trust

_lock = forking.lock()
_fallback: list[str] = []                # folders of no use, in whose place is a temporary one, as was said
# folders that were found fit: what they were then, and where they really are
_checked: dict[str, tuple[tuple[int, ...], Path]] = {}
# (name)(end of a temporary one); nothing else is ever removed
_OWN = re.compile(r"((?:[a-z]+-)?[0-9a-f]{32})\.(?:so|o|c|txt|json|cu|cpp|cubin|log)(\.[a-z0-9_]{8})?")
_DAY = 86400.0
_SOON = 3600.0                           # seconds after which a folder is looked at again
_PART = 8                                # what a process writes before it looks: the limit's eighth part
_written: dict[Path, int] = {}           # bytes that went to a folder since it was looked at
_at_exit: set[Path] = set()              # folders to look at when the process ends


def digest(*parts: str | bytes) -> str:
    """A name for some content. Text may hold bytes that are no UTF-8, as paths do."""
    h = blake2b(digest_size=16)
    for p in parts:
        raw = p.encode("utf-8", "surrogatepass") if isinstance(p, str) else p
        h.update(len(raw).to_bytes(8, "little") + raw)
    return h.hexdigest()


def encoded(text: str) -> bytes:
    """Text as bytes; it may hold some that are no UTF-8, as paths do."""
    return text.encode("utf-8", "surrogatepass")


def checksum(content: bytes) -> str:
    """Tells whether a content is whole: its length and a hash."""
    return f"{len(content)} {blake2b(content, digest_size=16).hexdigest()}"


def _identity(path: Path) -> tuple[int, ...]:
    """What a folder is: another one in its place, another mode or another user of this process makes it differ."""
    s = os.lstat(path)
    return s.st_dev, s.st_ino, s.st_mode, s.st_uid, s.st_gid, system.user()


def folder() -> Path:
    """The cache folder; where it cannot be used, a temporary one that goes with the process (one warning)."""
    wanted = ""
    try:
        wanted = str(config.cache_dir())
        known = _checked.get(wanted)
        with contextlib.suppress(OSError):
            if known is not None and _identity(known[1]) == known[0]:
                return known[1]
        found = Path(trust.own_folder(wanted))
        if not os.access(found, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(found))
        _checked[wanted] = _identity(found), found
        return found
    except OSError as err:
        return _temporary(wanted, err)


def _why(reason: OSError) -> tuple[str, str]:
    """Why a folder is of no use, and what to do."""
    if isinstance(reason, trust.Distrusted):
        return (f"is not used, because what lies in it could be another user's: {reason}",
                "Set HYBRID_CACHE to a folder that is yours alone (mode 700), all folders above it being yours or the "
                "administrator's; with sudo, give -H")
    return f"cannot be written ({reason.strerror or reason})", "Set HYBRID_CACHE to a folder that can be written"


def _temporary(wanted: str, reason: OSError) -> Path:
    """The folder that takes the cache's place."""
    path = Path(scratch.folder(), "cache")
    path.mkdir(mode=0o700, exist_ok=True)
    with _lock:
        new = wanted not in _fallback
        if new:
            _fallback.append(wanted)
    if new:
        why, then = _why(reason)
        warn_user(f"the cache folder {wanted} {why}; compiled programs are kept for this process only. {then}.",
                  RuntimeWarning)
    return path


def write(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all. On a full disk it goes to the temporary folder instead."""
    reason = OSError("it could not be written")
    for target in (path, None):
        if target is None:
            target = _temporary(str(path.parent), reason) / path.name
        try:
            fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name + ".")
        except OSError as err:
            reason = err
            continue
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(content)
            os.replace(temporary, target)
            _look_later(target.parent)
            _look_now(target.parent, len(content))
            return target
        except OSError as err:
            reason = err
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    raise OSError(f"neither {path.parent} nor the temporary folder can be written: {reason}")


def mark(path: Path) -> None:
    """Make an empty file, which says by being there what it says."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600))
        _look_later(path.parent)


def read(path: Path) -> bytes:
    """What a file of the cache holds. OSError where it is not there, or is none that only this user can have
    written."""
    return trust.read(path)


def read_text(path: Path) -> str:
    """What such a file holds as text. ValueError where it is none."""
    return trust.text(path)


def used(path: Path) -> None:
    """Note that a file of the cache was used now."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _look_later(where: Path) -> None:
    """See to a folder's size when this process ends: its results do not wait for that. Once an hour is enough."""
    if where in _at_exit:
        return
    _at_exit.add(where)
    with contextlib.suppress(OSError):
        if time.time() - os.lstat(where / ".tidied").st_mtime < _SOON:
            return
    atexit.register(_last_look, where, os.getpid())


def _look_now(where: Path, size: int) -> None:
    """See to a folder's size as soon as this process has written much: one that runs for weeks never ends."""
    limit = config.cache_bytes()
    with _lock:
        _written[where] = _written.get(where, 0) + size
        if not limit or _written[where] * _PART < limit:
            return
        _written[where] = 0
    with contextlib.suppress(OSError):
        tidy(where, limit)
        (where / ".tidied").touch()


def _last_look(where: Path, process: int) -> None:
    if os.getpid() == process and where.is_dir():
        with contextlib.suppress(OSError):
            (where / ".tidied").touch()
            tidy(where, config.cache_bytes())
            scratch.sweep_places()


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
