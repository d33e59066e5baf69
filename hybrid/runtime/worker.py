"""A process that compiles programs for another one (background.py), which it reads from its standard input.

Each line is a job: the program's text, which inputs are frozen, the settings. The answer to a job is the key under
which the disk cache holds the program now, or an empty line where it could not be compiled: the other process tries
itself, and says what is wrong.
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


def main() -> None:
    """Compile what comes until the other process ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                            # nothing else may write between answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs: "queue.Queue[str]" = queue.Queue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    from ..ir.text import from_text  # noqa: F401, PLC0415  what the first job wants
    from . import build, cpu, plans  # noqa: F401, PLC0415
    gc.freeze()                                              # these live as long as the process: not to be scanned
    gc.enable()
    print(file=answers, flush=True)
    while True:
        job = json.loads(jobs.get())
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


def _compile(job: dict[str, Any]) -> str:
    from ..ir.text import from_text  # noqa: PLC0415  this module is small for those that only start it
    from . import cpu, plans  # noqa: PLC0415

    for name in [k for k in os.environ if k.startswith("HYBRID_")]:
        del os.environ[name]
    os.environ.update(job["settings"], HYBRID_COMPILE="now")
    with contextlib.suppress(OSError):
        os.chdir(job["folder"])
    program = from_text(job["text"])
    frozen = frozenset(job["frozen"])
    program.memo["frozen"] = frozen
    if plans.key(program, frozen) != job["key"]:
        return ""                                            # this process would make another program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cpu.compiled(program)
    return job["key"] if plans.read(job["key"]) is not None else ""
