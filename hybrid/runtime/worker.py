"""A process that compiles programs for another one (background.py), which it reads from its standard input.

Each line is a job: the program's text, which inputs are frozen, the settings. The answer to a job is the key under
which the disk cache holds the program now, or an empty line where it could not be compiled: the other process tries
itself, and says what is wrong. The program that prepares values is left out (by_primitives.py), except in jobs with
"whole".

Autotuning (tune.py) is deferred until no job has come for a while. Files in the disk cache hold these jobs, so that
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
from typing import Any, Iterator

from . import left_jobs
from .job import UNITS

NICE = 10                                # of these processes where others have cores of their own to use
SILENCE = 1.0                            # seconds without jobs, after which it tunes
PAUSE = 0.1                              # seconds without jobs, after which it goes on with what ended processes left
PENDING_TUNE = "untuned-*.json"          # files of jobs whose tuning is deferred; * is the key


def main() -> None:
    """Compile what comes until the other process ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                            # nothing else may write between answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs: "queue.Queue[str]" = queue.Queue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    _lower_priority()
    load()
    gc.freeze()                                              # these live as long as the process: not to be scanned
    print(file=answers, flush=True)
    may_have_pending = False                                 # whether there may be deferred tuning
    while True:
        job = _next(jobs, may_have_pending)
        may_have_pending = True
        try:
            with _told(answers), left_jobs.begun(job) if not job.get("whole") else contextlib.nullcontext():
                answer = _compile(job)
        except Exception:                                    # noqa: BLE001  whatever it is, the other process sees it
            answer = ""
        answers.write(answer + "\n")
        answers.flush()
        gc.collect()                                         # garbage waits until the program is there


@contextlib.contextmanager
def _told(answers: Any) -> Iterator[None]:
    """Scope in which the other process is told how many units of a program are compiled."""
    from . import shared_objects  # noqa: PLC0415  this module is small for those that only start it

    def tell(done: int, count: int) -> None:
        answers.write(f"{UNITS}{done} {count}\n")
        answers.flush()
    shared_objects.watchers.append(tell)
    try:
        yield
    finally:
        shared_objects.watchers.remove(tell)


class _JobCame(Exception):
    """A job is there: it comes before what nobody waits for."""


def _next(jobs: "queue.Queue[str]", may_have_pending: bool) -> dict[str, Any]:
    """The next job. Until it comes, what ended processes left is compiled, and what was deferred is tuned."""
    from . import unfinished  # noqa: PLC0415

    def stop() -> None:
        if not jobs.empty():
            raise _JobCame
    may_have_left = True
    while may_have_left or may_have_pending:
        with contextlib.suppress(queue.Empty):
            return json.loads(jobs.get(timeout=PAUSE if may_have_left else SILENCE))     # type: ignore[no-any-return]
        with contextlib.suppress(_JobCame):
            if may_have_left:
                may_have_left = unfinished.go_on(stop) or _print_left()
            else:
                may_have_pending = _tune_deferred()
    return json.loads(jobs.get())                                    # type: ignore[no-any-return]


def load() -> None:
    """Load what the first job wants."""
    from ..ir.text import from_text  # noqa: F401, PLC0415  this module is small for those that only start it
    from . import build, compiler_process, cpu, launcher, plans, sized  # noqa: F401, PLC0415
    launcher.do_without()
    compiler_process.OWN_SESSION[0] = False                  # the other process ends this session, with its compilers


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
    with Asked().answering(False):                           # from the sizes' hints; the other process has the guards
        program = from_text(job["text"])
    program.memo["frozen"] = frozen = frozenset(job["frozen"])
    return program if plans.key(program, frozen) == job["key"] else None


def _compile(job: dict[str, Any]) -> str:
    """Compile the program of a job: the key under which the disk cache holds it, or nothing."""
    from . import plans  # noqa: PLC0415

    _make(job)
    return job["key"] if plans.holds(job["key"]) else ""


def _print_left() -> bool:
    """Plan and print a program that an ended process wanted. Whether there was one that no other process works on."""
    from . import unfinished  # noqa: PLC0415
    from .once import once  # noqa: PLC0415

    job = left_jobs.next_one()
    if job is None:
        return False
    with once(job["key"], patience=0.0) as alone:
        if alone:
            with contextlib.suppress(Exception), unfinished.only_printed():      # who asks for it says what is wrong
                _make(job)
            left_jobs.drop(job["key"])
    return alone


def _make(job: dict[str, Any]) -> None:
    """Have the program of a job in the disk cache, if it can be compiled."""
    from . import by_primitives, cache, cpu, sized, tune  # noqa: PLC0415

    program = _program(job)
    if program is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left_out = contextlib.nullcontext() if job.get("whole") else by_primitives.left_out()
        if sized.sized(program):
            with left_out:
                sized.SizedProgram(program)
        else:
            with tune.deferred() as choices, left_out:
                cpu.compiled(program)
            if choices:
                cache.write(cache.folder() / PENDING_TUNE.replace("*", job["key"]), json.dumps(job).encode())


def _tune_deferred() -> bool:
    """Tune a program whose tuning was deferred, and build it again. Whether there was one."""
    from . import cache, cpu  # noqa: PLC0415

    pending = next(cache.folder().glob(PENDING_TUNE), None)
    if pending is None:
        return False
    with contextlib.suppress(Exception), warnings.catch_warnings():          # what is there goes on to be used
        warnings.simplefilter("ignore")
        job = json.loads(cache.read_text(pending))
        pending.unlink()
        if (program := _program(job)) is not None:
            cpu.built_again(program)
    with contextlib.suppress(OSError):
        pending.unlink()
    return True
