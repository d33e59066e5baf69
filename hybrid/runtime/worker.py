"""A process that compiles programs for another one (background.py), which it reads from its standard input.

Each line is a job: the program's text, which inputs are frozen, the settings. The answer to a job is the key under
which the disk cache holds the program now, or an empty line where it could not be compiled: the other process tries
itself, and says what is wrong.

What tune.py would measure waits until no job has come for a while. Notes in the disk cache hold the jobs, so that
another process does it where this one ends before it begins.
"""
from __future__ import annotations

import contextlib
import gc
import json
import os
import queue
import signal
import sys
import threading
import warnings
from typing import Any

NICE = 10                                # of these processes where others have cores of their own to use
SILENCE = 1.0                            # seconds without jobs, after which it measures
NOTES = "later-*.txt"


def main() -> None:
    """Compile what comes until the other process ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                            # nothing else may write between answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs: "queue.Queue[str]" = queue.Queue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    _lower_priority()
    from ..ir.text import from_text  # noqa: F401, PLC0415  what the first job wants
    from . import build, compiler_process, cpu, plans, sized  # noqa: F401, PLC0415
    compiler_process.APART[0] = False                        # the other process ends this session
    gc.freeze()                                              # these live as long as the process: not to be scanned
    gc.enable()
    print(file=answers, flush=True)
    noted = False                                            # whether there may be notes
    while True:
        try:
            job = json.loads(jobs.get(timeout=SILENCE if noted else None))
        except queue.Empty:
            noted = _measure()
            continue
        noted = True
        try:
            answer = _compile(job)
        except Exception:                                    # noqa: BLE001  whatever it is, the other process sees it
            answer = ""
        answers.write(answer + "\n")
        answers.flush()


def _read(jobs: "queue.Queue[str]") -> None:
    """Take jobs as they come; when the other process is gone, end this one and the compilers that it runs."""
    for line in sys.stdin:
        jobs.put(line)
    from ..base import system  # noqa: PLC0415

    with contextlib.suppress(OSError):
        system.kill_group(os.getpid())
    os._exit(1)


def _lower_priority() -> None:
    from ..base import config, system  # noqa: PLC0415

    if config.usable_cores() > 1:                            # on the only core it would hardly ever run
        system.give_way(os.getpid(), NICE)


def _program(job: dict[str, Any]) -> Any:
    """The program of a job, in the settings of the other process; None where this process would make another one."""
    from ..ir.asked import Asked  # noqa: PLC0415  this module is small for those that only start it
    from ..ir.text import from_text  # noqa: PLC0415
    from . import plans  # noqa: PLC0415

    for name in [k for k in os.environ if k.startswith("HYBRID_")]:
        del os.environ[name]
    os.environ.update(job["settings"], HYBRID_COMPILE="now")
    with contextlib.suppress(OSError):
        os.chdir(job["folder"])
    with Asked().answering(False):                           # the other process knows what was asked
        program = from_text(job["text"])
    program.memo["frozen"] = frozen = frozenset(job["frozen"])
    return program if plans.key(program, frozen) == job["key"] else None


def _compile(job: dict[str, Any]) -> str:
    from . import cache, cpu, plans, sized, tune  # noqa: PLC0415

    program = _program(job)
    if program is None:
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if sized.sized(program):
            sized.SizedProgram(program)
        else:
            with tune.put_off() as choices:
                cpu.compiled(program)
            if choices:
                cache.write(cache.folder() / NOTES.replace("*", job["key"]), json.dumps(job).encode())
    return job["key"] if plans.holds(job["key"]) else ""


def _measure() -> bool:
    """Build a program again whose choices were put off. Whether there was one."""
    from . import cache, cpu  # noqa: PLC0415

    note = next(cache.folder().glob(NOTES), None)
    if note is None:
        return False
    with contextlib.suppress(Exception), warnings.catch_warnings():          # what is there goes on to be used
        warnings.simplefilter("ignore")
        job = json.loads(cache.read_text(note))
        note.unlink()
        if (program := _program(job)) is not None:
            cpu.built_again(program)
    with contextlib.suppress(OSError):
        note.unlink()
    return True
