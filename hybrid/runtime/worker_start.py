"""Starts processes that compile (worker.py)."""
from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from .switch_interval import SWITCH_INTERVAL

if TYPE_CHECKING:
    import subprocess

# packages without what their users need of them: half of what loading them takes
PACKAGES = ("hybrid", "hybrid.runtime")
CODE = """import gc, json, sys, types
gc.disable()
sys.path[:], packages = json.loads(sys.stdin.readline())
for name, path in packages.items():
    made = sys.modules[name] = types.ModuleType(name)
    made.__path__ = path
from hybrid.runtime import worker
worker.main()
"""


def folders() -> str:
    """The line that the process reads first: where it finds modules."""
    return json.dumps([sys.path, {name: [*sys.modules[name].__path__] for name in PACKAGES}]) + "\n"


def _without_site() -> list[str]:
    """``-S``: the process is sent ``sys.path`` and needs no site.py. Nothing where NumPy's folder is not on that path:
    then a hook that site.py installs finds it."""
    import numpy  # noqa: PLC0415  loaded already

    return ["-S"] if os.path.dirname(os.path.dirname(numpy.__file__)) in sys.path else []


def start() -> subprocess.Popen[str]:
    """A process that compiles, once it has begun. Interrupts of the terminal do not reach it: its parent ends it."""
    with SWITCH_INTERVAL.shortened():
        process = _new_process()
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _new_process() -> subprocess.Popen[str]:
    import subprocess  # noqa: PLC0415  slow, and needed by nobody who finds all compiled
    process = subprocess.Popen([sys.executable, *_without_site(), "-c", CODE], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
                               env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})   # its threads spin at first
    assert process.stdin is not None
    process.stdin.write(folders())
    process.stdin.flush()
    return process
