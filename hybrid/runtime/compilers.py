"""Which C compiler there is, and how it is started: ``HYBRID_CC``, else gcc, clang or cc on the path, else the one that
``pip install ziglang`` brings (its ``zig cc`` is a clang)."""
from __future__ import annotations

import importlib.util
import os
import shutil
from functools import lru_cache
from pathlib import Path

from ..base import forking
from . import cache

NAMES = ("gcc", "clang", "cc")
GET_ONE = ("pip install ziglang brings one; or install it for the system (Debian, Ubuntu: apt install "
           "gcc; macOS: xcode-select --install)")
# without -O zig links a checker of undefined behaviour into what it makes
ZIG = ("cc", "-fno-sanitize=undefined")


@lru_cache(maxsize=8)
def find(wanted: str | None, path: str | None, useless: frozenset[str]) -> str | None:
    """The full path of the compiler to use. wanted: HYBRID_CC; path: the PATH that is looked through; useless:
    compilers that were tried in vain."""
    if wanted == "none":
        return None
    for name in ((wanted,) if wanted else NAMES):
        found = shutil.which(name, path=path)
        if found and os.path.abspath(found) not in useless:
            return os.path.abspath(found)
    found = packaged() if not wanted else None
    return found if found not in useless else None


def packaged() -> str | None:
    """The compiler of the package ``ziglang``, where that is installed; it is not imported."""
    with forking.IMPORTS:
        try:
            spec = importlib.util.find_spec("ziglang")
        except (ImportError, ValueError):                # somebody put None into sys.modules
            return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = shutil.which("zig", path=folder)
        if found:
            return os.path.abspath(found)
    return None


def _is_zig(cc: str) -> bool:
    return Path(cc).stem == "zig"


def command(cc: str) -> list[str]:
    """The words that start a compiler: its path, and for zig, which has other uses, which one is meant."""
    return [cc, *ZIG] if _is_zig(cc) else [cc]


def patience(cc: str) -> int:
    """How many times longer a compiler may take than others: zig first builds what its programs are linked with."""
    return 10 if _is_zig(cc) else 1


def environment(cc: str, folder: str | None) -> dict[str, str]:
    """The variables that a compiler runs with. folder: for its temporary files.

    What zig builds for itself once (the functions that a processor lacks) is kept in the cache folder.
    """
    out = dict(os.environ)
    if folder:
        out["TMPDIR"] = folder
    if _is_zig(cc):
        out.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache.folder() / "zig"))
        if folder:
            out["ZIG_LOCAL_CACHE_DIR"] = folder
    return out


def missing(wanted: str | None) -> str:
    """What to say where there is none, and how to get one."""
    if wanted and wanted != "none":
        return f"HYBRID_CC={wanted!r} names no program (it is one name or path, without options)"
    return "no C compiler was found"
