"""Files that appear whole or not at all: written under a temporary name, then renamed."""
from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import MissingFileError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file to write, which takes ``path``'s place when the block ends without an error.

    A reader never sees half a file, and an error (a full disk, an exception in the block) leaves what
    stood there before untouched. A symbolic link keeps pointing where it did; a pipe or a device, which
    has no contents to protect, is written directly.

    >>> with replacing("net-0000.params") as out:       # doctest: +SKIP
    ...     out.write(b"...")
    """
    target = Path(os.path.realpath(os.fspath(path)))
    if target.exists() and not target.is_file() and not target.is_dir():
        with open(target, "wb") as out:
            yield out
        return
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise MissingFileError(f"cannot write {target}: there is no folder {target.parent}")
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    # O_EXCL: never write through a link somebody put there; 0o666 lets the umask decide the mode
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(descriptor, "wb") as out:
            yield out
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def existing(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The path of a file that is there; MissingFileError otherwise."""
    if not os.path.lexists(path):
        raise MissingFileError(f"there is no file {os.fspath(path)!r}")
    return path


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path``, whole or not at all."""
    with replacing(path) as out:
        out.write(data)
