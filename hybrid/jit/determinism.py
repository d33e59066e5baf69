"""One switch for results that are the same, bit for bit, on every run.

Programs round differently where a kernel's form is chosen by its measured time (HYBRID_TUNE), where factors of zero
are left out (HYBRID_SKIP_ZEROS), where a call may come before or after the compiler is ready
(HYBRID_COMPILE=background), and where ranks add in the order in which MPI likes to (HYBRID_DETERMINISTIC_SUMS). The
switch settles all of them; each is asked for by its own function (config.py, collective/world.py). No generated kernel
uses atomic additions or another order that is not fixed, on the CPU or on the GPU.
"""
from __future__ import annotations

import os

from .. import runtime
from ..base import config
from ..base.scope import CASTS_VERSION
from ..buffers.array import REBINDS
from .debug import LAST_CHANGE


def deterministic(on: bool = True) -> None:
    """Give the same bits on every run of a program with the same seed, machine and number of threads, from now on, or
    (on=False) no more. HYBRID_DETERMINISTIC=1 does the same from the start.

    What was compiled before is compiled again when it is called next. Processes that are started later inherit it.
    All ranks of a distributed job must agree.

    >>> hybrid.deterministic(True)
    """
    if not isinstance(on, bool):
        raise TypeError(f"deterministic(on) takes True or False, got {on!r}")
    if on == config.deterministic():
        return
    os.environ["HYBRID_DETERMINISTIC"] = "1" if on else "0"
    runtime.SETTINGS_CHANGED[0] += 1
    CASTS_VERSION[0] += 1                               # of which signatures are made
    LAST_CHANGE[0] = "hybrid.deterministic"             # what the reports of cache misses name
    REBINDS[0] += 1                                     # calls that take the fast path look at this
