"""Headers and sources that generated programs are compiled with."""
from __future__ import annotations

import os
import re
from typing import Any


def text(*path: str) -> str:
    """A file of this package, also from an archive: ``text("c", "vector.h")``.

    importlib.resources would take longer to load than all else of a cached start, and loads modules of which a fork in
    the middle has locks.
    """
    loader: Any = __spec__.loader                            # type: ignore[name-defined]
    return loader.get_data(os.path.join(__path__[0], *path)).decode()             # type: ignore[no-any-return]


def self_contained(*path: str) -> str:
    """A C file of this package with its headers pasted in, also those of headers: ``self_contained("c",
    "launcher.c")`` compiles in any folder."""
    *folder, _ = path
    found, count = text(*path), 1
    while count:
        found, count = re.subn(r'^#include "(\w+\.h)"$', lambda m: text(*folder, m[1]), found, flags=re.MULTILINE)
    return found
