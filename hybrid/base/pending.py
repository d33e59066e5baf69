"""Work that was put off: calls of a training loop whose results are promises until somebody looks (jit/deferred).

Rooms below that one ask here before they read or change what such work depends on.
"""
from __future__ import annotations

from typing import Any

# rounds of training loops that are watched just now, in all threads: operators and ``backward`` tell of themselves
WATCHED = [0]
# how many of them have put something off; compiled calls that take the fast path compare it with 0, as they do with
# other counters
PUT_OFF = [0]
LATER: list[Any] = []                   # jit/deferred/entrances.py, put here when it is loaded
# what the thread watches (jit/deferred/followed.py), put here when that is loaded; callers read its ``track`` first
STATE: list[Any] = []


def settle(why: str) -> None:
    """Do now what all threads put off, if there is anything. why: what is about to happen, for reports."""
    if PUT_OFF[0]:
        LATER[0].settle_all(why)


def settle_for(why: str, arrays: Any = (), block: Any = None) -> None:
    """Do now what this thread put off, and what others put off that depends on some arrays or calls a block. Work of
    other threads that has nothing to do with these stays put off, so that the last bits of a training loop do not
    depend on other threads. why: as for ``settle``."""
    if PUT_OFF[0]:
        LATER[0].settle_for(why, arrays, block)


def before_write(raw: Any) -> None:
    """What was put off and depends on an array's memory, which is about to be written, is done now."""
    if PUT_OFF[0]:
        LATER[0].settle_all("an array that it reads was written before the step", raw)


def before_read(x: Any) -> None:
    """What was put off and may write the memory of an array, which is about to be read, is done now. The array is one
    that shares memory with another: an array that was itself put off fulfils its promise."""
    if PUT_OFF[0]:
        LATER[0].settle_written(x)


def before_draw() -> None:
    """What was put off and draws random numbers draws them before others do."""
    if PUT_OFF[0]:
        LATER[0].settle_all("random numbers were drawn before the step", drawn=True)


def given_up() -> None:
    """An exception leaves ``record``: what was put off is done now, and the round is over."""
    if WATCHED[0]:
        LATER[0].give_up()
