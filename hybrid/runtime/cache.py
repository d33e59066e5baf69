"""The disk cache of compiled programs: named by content, written under a temporary name and renamed."""
from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import hybrid.kernels

from .. import config, forking

_lock = forking.lock()
_fallback: list[tempfile.TemporaryDirectory] = []


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
            warnings.warn(f"the cache folder {wanted} cannot be written; compiled programs are kept for this process only. "
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
            return target
        except OSError:
            Path(temporary).unlink(missing_ok=True)
    raise OSError(f"neither {path.parent} nor the temporary folder can be written")


def kernel_text(*path: str) -> str:
    """A file of hybrid.kernels, also from an archive."""
    loader: Any = hybrid.kernels.__spec__.loader                 # importlib.resources would take longer to load than all else of a cached start
    return loader.get_data(os.path.join(hybrid.kernels.__path__[0], *path)).decode()
