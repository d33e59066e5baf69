"""Where programs may lie that were compiled beforehand (warmed.py)."""
from __future__ import annotations

import os

import hybrid.kernels

# where HYBRID_WARM is not set, a folder of this name beside the kernels is taken
BESIDE = "compiled"


def named() -> tuple[str, bool]:
    """The folder's path, and whether HYBRID_WARM names it; else it need not be there."""
    given = os.environ.get("HYBRID_WARM", "")
    return given or os.path.join(next(iter(hybrid.kernels.__path__)), "..", BESIDE), bool(given)


def exists() -> bool:
    """Whether there is such a folder, for this machine or another one."""
    path, given = named()
    return given or os.path.isdir(path)
