"""Which folders and files this process may believe: those that nobody but its own user and the administrator can
change.

What is loaded from the disk cache runs as this process, so whoever can write there runs code as its user.
"""
from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Callable

from ..base import system

_LINKS = 40                              # that a path may lead through
_NOBODY = 65534                          # owner of what belongs to users that a container does not know
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Distrusted(OSError):
    """A folder or file that somebody else can change, or that belongs to somebody else."""


def _writers(status: os.stat_result) -> bool:
    """Whether others may write. A user's own group, which has the user's number, is nobody else."""
    others = status.st_mode & _OTHERS if system.OWNERS else 0
    if others == stat.S_IWGRP and status.st_gid == os.getegid() == system.user():
        return False
    return bool(others)


def _outside() -> bool:
    """Whether the administrator of the machine is a user that this process's user namespace does not know."""
    with contextlib.suppress(OSError, ValueError):
        lines = [[int(number) for number in line.split()]
                 for line in Path("/proc/self/uid_map").read_text().splitlines()]
        return all(not first <= 0 < first + count for first, _, count in lines)
    return False


def _trusted_owner(owner: int) -> bool:
    return owner in (0, system.user()) or owner == _NOBODY and _outside()


def _check_way(path: str, status: os.stat_result) -> None:
    """A folder on the way: who could rename what is in it must be trusted. In a sticky one (/tmp) only an entry's owner
    can."""
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if not _trusted_owner(status.st_uid):
        raise Distrusted(f"{path} belongs to user {status.st_uid}, and this process runs as user {system.user()}")
    if _writers(status) and not status.st_mode & stat.S_ISVTX:
        raise Distrusted(f"{path} can be written by other users (mode {stat.S_IMODE(status.st_mode):o})")


def real(path: str) -> str:
    """The path without links, where nobody else can change what it leads to; what does not exist yet is left as it is.
    Distrusted names the folder or link on the way that somebody else owns or can write to.
    """
    if not system.OWNERS:                                    # folders of a user are that user's alone on Windows
        return os.path.realpath(path)
    at, links = "/", 0
    todo = os.path.abspath(path).split("/")[::-1]
    _check_way(at, os.stat(at))
    while todo:
        name = todo.pop()
        if name in ("", ".", ".."):
            at = os.path.dirname(at) if name == ".." else at
            continue
        step = os.path.join(at, name)
        try:
            status = os.lstat(step)
        except FileNotFoundError:
            return os.path.normpath(os.path.join(step, *reversed(todo)))
        if not stat.S_ISLNK(status.st_mode):
            _check_way(step, status)
            at = step
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if not _trusted_owner(status.st_uid):
            raise Distrusted(f"the link {step} belongs to user {status.st_uid}, and this process runs as user {system.user()}")  # noqa: E501
        target = os.readlink(step)
        at = "/" if target.startswith("/") else at
        todo += target.split("/")[::-1]
    return at


def _check_own(path: str, status: os.stat_result) -> None:
    if status.st_uid != system.user():
        raise Distrusted(f"{path} belongs to user {status.st_uid}, and this process runs as user {system.user()}")
    if _writers(status):
        raise Distrusted(f"{path} can be written by other users (mode {stat.S_IMODE(status.st_mode):o})")


def own_folder(path: str) -> str:
    """The real path of a folder that is this user's alone, made (mode 0700) where it is not there. OSError where it is
    not or cannot be made."""
    found = real(path)
    os.makedirs(os.path.dirname(found), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(found, 0o700)
    found = real(found)                                      # another process may have made it meanwhile
    _check_own(found, os.lstat(found))
    return found


def read(path: "Path | str", check: Callable[[str, os.stat_result], None] = _check_own) -> bytes:
    """The content of a file of this user's, in a folder that can be trusted. OSError where it is a link, no regular
    file, somebody else's, or can be written by others: what was checked is what is read.
    """
    fd = os.open(path, system.FILE)
    with open(fd, "rb") as f:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Distrusted(f"{path} is no regular file")
        check(str(path), status)
        return f.read()


def shared_folder(path: str) -> str:
    """The real path of a folder that this user or the administrator has made, and that nobody else can write to, for
    files that ``shared`` reads. OSError where it is not there, or others can change it."""
    found = real(path)
    _check_shared(found, os.lstat(found))
    return found


def _check_shared(path: str, status: os.stat_result) -> None:
    if not _trusted_owner(status.st_uid):
        raise Distrusted(f"{path} belongs to user {status.st_uid}, and this process runs as user {system.user()}")
    if _writers(status):
        raise Distrusted(f"{path} can be written by other users (mode {stat.S_IMODE(status.st_mode):o})")


def shared(path: "Path | str") -> bytes:
    """The content of a file of this user's or the administrator's; else as ``read``."""
    return read(path, _check_shared)


def text(path: "Path | str") -> str:
    """The content of such a file as text. ValueError where it is none."""
    return read(path).decode("utf-8", "surrogatepass")
