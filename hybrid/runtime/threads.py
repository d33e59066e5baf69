"""The threads of compiled CPU programs (kernels/c/pool.c): one pool for the process, built once by the C compiler."""
from __future__ import annotations

import contextlib
import functools
import threading
from pathlib import Path
from typing import Any

from hybrid.kernels import text as kernel_text

from ..base import config, forking, system
from ..base.errors import CompileError
from . import background, shared_objects, warmed
from .libraries import opened
from .net_ffi import ffi

MOST_THREADS = 256                       # of a loop, as in pool.c
_pool: list[Any] = []
_lock = forking.lock()


def built() -> Path | None:
    """The pool's shared object."""
    return warmed.remembered("pool", lambda: shared_objects.build(kernel_text("c", "pool.c"))[0])


def prepare() -> None:
    """Start building the pool in the background, beside the compilation of a program; not where an earlier process
    built it, or a process that compiles programs for this one does."""
    if not _pool and config.num_threads() > 1 and not background.working() and warmed.known("pool") is None:
        threading.Thread(target=_quietly, name="hybrid-pool").start()


def _quietly() -> None:
    with contextlib.suppress(CompileError, OSError):     # said where the pool is needed
        built()


def _load() -> Any:
    """The pool's library, never unloaded: its threads wait in its code for work. None where it does not compile."""
    try:
        so = built()
        if so is None:
            return None
        pool = opened(so, system.FOR_EVER)
    except (CompileError, OSError):
        return None
    background.CALLS.follow(functools.partial(_leave_room, pool))
    return pool


def _leave_room(pool: Any, compilers: int) -> None:
    """Leave cores to processes that compile, as many as there are: on the same core these get next to no time."""
    pool.hy_pool_most = max(1, config.usable_cores() - compilers) if compilers else MOST_THREADS


def _shared_pool() -> Any:
    """The pool's library, built or loaded by the first program that has parallel loops; None where it cannot be."""
    with _lock:
        if not _pool or _pool[0] is None:
            _pool[:] = [_load()]
        return _pool[0]


def _allow(program: Any, count: int, pool: Any = None) -> None:
    """Write a number of threads and the pool's functions into a program's library. What is there already is not written
    again: another thread may be reading it, in a program that both have loaded.
    """
    link = program.hy_link
    if pool is not None:
        for place, name in ((link.me, "hy_pool_me"), (link.pool, "hy_pool_run")):
            function = ffi.cast("void *", ffi.addressof(pool, name))
            if place[0] != function:
                place[0] = function
    parts = count * link.parts if count > 1 else 1
    if link.threads[0] != parts:
        link.threads[0] = parts


def share(program: Any) -> None:
    """Give a program's library the threads it may use: HYBRID_NUM_THREADS, or a thread for each core."""
    count = config.num_threads()
    if program.hy_link.pool:                             # null where no loop is parallel
        pool = _shared_pool() if count > 1 else None
        _allow(program, count if pool is not None else 1, pool)
