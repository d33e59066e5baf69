"""Runs of the C compiler: a process is started, waited for, and its words are read from a file."""
from __future__ import annotations

import contextlib
import os
import select
import tempfile
import threading
import time
from typing import Any, Callable, Iterator

from ..base import forking, system
from ..base.errors import CompileError
from . import compilers, scratch

LONG = 30.0                                       # seconds that a compiler takes for nothing small
COMPILER_NICE = 15     # added for compilers that are started within ``low_priority()``; worker processes have less
OWN_SESSION = [True]   # whether these compilers lead sessions of their own (``system.give_way`` says why)
_running: list[Any] = []                          # compilers, until they were waited for
_low_priority: list[Any] = []                     # those of low priority
forking.in_child(_running.clear)
forking.in_child(_low_priority.clear)


def _paper() -> int:
    """A file in memory, or else a temporary one, that a program may write to."""
    paper = system.paper()
    if paper is None:
        with tempfile.TemporaryFile(dir=scratch.folder()) as f:
            return os.dup(f.fileno())
    return paper


class _Hurry(threading.local):
    wanted = True


_hurry = _Hurry()


@contextlib.contextmanager
def low_priority() -> Iterator[None]:
    """Scope in which compilers that this thread starts have a low priority."""
    before, _hurry.wanted = _hurry.wanted, False
    try:
        yield
    finally:
        _hurry.wanted = before


def start(command: list[str], stream: int = 2, folder: str | None = None, yields: bool = True) -> tuple[Any, int]:
    """Start a program: its process, and a file with what it writes to a stream. CompileError where it is no program.
    folder: for its temporary files, which go with that also where it is killed. yields: whether
    ``end_low_priority`` may end it."""
    paper = _paper()
    try:
        own_session = OWN_SESSION[0] and not _hurry.wanted
        process = system.start(command, stream, paper, compilers.environment(command[0], folder), own_session)
        _running.append(process)
        if not _hurry.wanted and isinstance(process, int):
            if yields:
                _low_priority.append(process)
            system.give_way(process, COMPILER_NICE)
        return process, paper
    except OSError as err:
        os.close(paper)
        raise CompileError(f"{command[0]} cannot be run: {err.strerror}. Set HYBRID_CC to a C compiler, or to none.") from err  # noqa: E501


def ended(process: Any, doubt: Callable[[], None] | None = None, cc: str = "") -> int:
    """Wait for a process: its status, negative where a signal ended it. doubt: called where it takes very long for the
    compiler that it is; it may end the process."""
    try:
        _wait(process, doubt, LONG * compilers.patience(cc))
        return system.waited(process)
    except ChildProcessError:                            # somebody ignores SIGCHLD: the status is lost
        return 0
    finally:
        for processes in (_running, _low_priority):
            with contextlib.suppress(ValueError):
                processes.remove(process)


def end_compilers() -> None:
    """End the compilers that this process runs now: its threads do not wait for them any more."""
    for process in list(_running):
        system.kill(process)


def runs_low_priority() -> bool:
    """Whether this process runs compilers of low priority now."""
    return bool(_low_priority)


def end_low_priority() -> None:
    """End the compilers of low priority that this process runs now."""
    for process in list(_low_priority):
        system.kill(process)


def _wait(process: Any, doubt: Callable[[], None] | None, most: float) -> None:
    """Wait for a process, a tenth of a second at a time where the system can: a signal that arrives just before
    ``waitpid`` does not end that."""
    try:
        end = os.pidfd_open(process)
    except (AttributeError, OSError, TypeError):
        return
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        late = time.monotonic() + most
        while not poll.poll(100):
            if doubt is not None and time.monotonic() > late:
                doubt()
                doubt = None
    finally:
        os.close(end)


def said(paper: int) -> str:
    """All that was written to a file, which is closed."""
    return system.content(paper).decode(errors="replace")


def ask(command: list[str], stream: int = 1, folder: str | None = None) -> tuple[int, str]:
    """A short run of the compiler: its status, and what it prints. CompileError where it does not end. Nothing else
    interrupts it: its answer is kept."""
    process, paper = start(command, stream, folder, yields=False)

    def doubt() -> None:
        system.kill(process)
        late.append(True)
    late: list[bool] = []
    try:
        status = ended(process, doubt, command[0])
    finally:
        text = said(paper)
    if late:
        most = LONG * compilers.patience(command[0])
        raise CompileError(f"{command[0]} did not end within {most:.0f} seconds; is it a C compiler? Set HYBRID_CC to "
                           "one, or to none.")
    return status, text
