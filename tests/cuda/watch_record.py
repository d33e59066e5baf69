"""What plugins of pytest found right about kernels, by the names of their texts: kept in the file that HYBRID_WATCHED
names, and left out while the texts and whoever looks at them are the same."""
from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from hybrid.runtime import cache
from hybrid.runtime.cuda import sources

from ..paths import TESTS

known: set[str] = set()                                    # here or in an earlier run
on_purpose: set[str] = set()                               # the test, where its kernels are wrong on purpose


def pytest_runtest_setup(item: Any) -> None:
    """A hook of those plugins: tests whose kernels are wrong on purpose are left alone."""
    on_purpose.clear()
    on_purpose.update(item.nodeid for _ in item.iter_markers("unwatched"))


@lru_cache(None)
def state_of(files: str) -> str:
    """A name of the emulator, the headers of kernels, and the files of this folder with a pattern."""
    watcher = sources.kernels_folder() / "emulator" / "emu_watch.cpp"
    texts = [p.read_text() for p in (watcher, *sorted((TESTS / "cuda").glob(files)))]
    return cache.digest(*sources.emulator_headers().values(), *sources.device_headers().values(), *texts)


def key_of(files: str, text: str, launch: Any = None) -> str:
    """A name of a kernel, or of a launch of it, and of those who look at it: the files with a pattern."""
    grid = () if launch is None else (launch.grid, launch.block, launch.shared, launch.cooperative)
    return cache.digest(state_of(files), text, str(grid))[:24]


def read() -> None:
    """What earlier runs found right."""
    file = Path(os.environ.get("HYBRID_WATCHED", "") or os.devnull)
    known.update(file.read_text().split() if file.exists() else ())


def note(*keys: str) -> None:
    """Kernels or launches were found right."""
    new = [k for k in keys if k not in known]
    known.update(new)
    if new and os.environ.get("HYBRID_WATCHED"):
        with open(os.environ["HYBRID_WATCHED"], "a") as file:
            file.write("".join(k + "\n" for k in new))
