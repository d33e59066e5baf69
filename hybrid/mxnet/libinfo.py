"""MXNet's ``libinfo``: where the library is. There is no shared library of operators here: programs are compiled as
they are needed."""
from __future__ import annotations

from pathlib import Path

from .. import kernels

__version__ = "1.9.1"                    # the MXNet whose behaviour is followed


def find_lib_path(prefix: str = "libmxnet") -> list[str]:
    """Shared libraries of the package: none."""
    return []


def find_include_path() -> str:
    """Folder of the header files of generated programs."""
    return str(Path(kernels.__path__[0]).resolve() / "include")


__all__ = ["find_include_path", "find_lib_path"]
