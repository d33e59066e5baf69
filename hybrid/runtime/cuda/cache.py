"""Files of compiled CUDA modules, named by what they were made of.

The folder is private (mode 0700, owned by this user): a module is code that this process will run. Files are written
under another name and renamed, so that several processes can fill one folder. A folder that is full or cannot be
written costs one warning and a compile in each process, nothing else.
"""
from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Iterable

from hybrid import config

_lock = threading.RLock()
_state: dict[str, Path] = {}
_warned: set[str] = set()


def digest(parts: Iterable[str]) -> str:
    """Name of a module: 32 hexadecimal digits of SHA-256 over the parts, boundaries included."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()[:32]


def private_folder() -> Path:
    """A temporary folder of this process, removed when it ends."""
    with _lock:
        key = f"private {os.getpid()}"                     # a forked child gets its own
        if key not in _state:
            _state[key] = Path(tempfile.mkdtemp(prefix="hybrid-"))
            atexit.register(shutil.rmtree, _state[key], ignore_errors=True)
        return _state[key]


def _usable(folder: Path) -> str:
    """Why a folder cannot hold compiled code, or an empty string."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as e:
        return str(e)
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        return f"{folder} belongs to another user"
    if found.st_mode & 0o077:
        try:
            folder.chmod(0o700)
        except OSError as e:
            return str(e)
    return ""


def _warn(reason: str) -> None:
    text = f"{config.cache_dir()}: {reason}"
    if text not in _warned:
        _warned.add(text)
        warnings.warn(f"compiled CUDA modules are not kept on disk ({reason}); set HYBRID_CACHE to a folder that "
                      "this user can write", RuntimeWarning, stacklevel=3)


def folder() -> Path:
    """The cache folder, or this process's private one where that cannot be used."""
    wanted = config.cache_dir() / "cuda"
    reason = _usable(wanted)
    if not reason:
        return wanted
    _warn(reason)
    return private_folder()


def find(name: str) -> Path | None:
    """A file stored before, here or by another process."""
    for where in (folder(), private_folder()):
        if (where / name).is_file():
            return where / name
    return None


def store(name: str, data: bytes) -> Path:
    """Write a file; returns where it is, which is the private folder when the cache folder is full or read-only."""
    try:
        return _write(folder(), name, data)
    except OSError as e:
        _warn(str(e))
    return _write(private_folder(), name, data)


def _write(where: Path, name: str, data: bytes) -> Path:
    number, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=where)
    try:
        with os.fdopen(number, "wb") as f:
            f.write(data)
        os.replace(temporary, where / name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return where / name
