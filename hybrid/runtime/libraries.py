"""Libraries of compiled programs, opened by any name that a file system knows."""
from __future__ import annotations

import os
from typing import Any

from ..base import system
from .net_ffi import ffi


def opened(path: Any, flags: int = system.AT_ONCE) -> Any:
    """The library in a file. cffi takes names in UTF-8 alone: one of other bytes is opened by its descriptor."""
    name = str(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        number = os.open(path, os.O_RDONLY)
        try:
            return ffi.dlopen(f"/proc/self/fd/{number}", flags)
        finally:
            os.close(number)
    return ffi.dlopen(name, flags)
