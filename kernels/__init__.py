"""Headers and sources that generated programs are compiled with."""
from __future__ import annotations

import os
from typing import Any


def text(*path: str) -> str:
    """A file of this package, also from an archive: ``text("c", "vector.h")``.

    importlib.resources would take longer to load than all else of a cached start, and loads modules of which a fork in
    the middle has locks.
    """
    loader: Any = __spec__.loader                            # type: ignore[name-defined]
    return loader.get_data(os.path.join(__path__[0], *path)).decode()             # type: ignore[no-any-return]
