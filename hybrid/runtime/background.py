"""Compiling beside the program: processes of low priority that build programs into the disk cache.

A program's text goes to a process that plans, prints and compiles it (worker.py); when it answers, the program is in
the disk cache, from which this process loads it. One process always goes on, more run where cores are idle. The program
that was called most is next. When this process ends, however it ends, they end too.
"""
from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from ..base import config, forking, system
from . import left_jobs
from .calls import CALLS
from .job import SILENCE, UNITS, Job, Units
from .switch_interval import SWITCH_INTERVAL
from .worker_start import start as _start

if TYPE_CHECKING:
    import subprocess

# seconds that a job which somebody waits for waits in the queue, at most: then this process builds the program itself
MAX_QUEUE_WAIT = 0.5
IDLE_SECONDS = 20.0                    # after which a process without work ends
# while a function is being traced, jobs that nobody waits for stay in the queue, at most so many seconds: its program
# may make them unnecessary
TRACE_SECONDS = 0.3
LAST_WAIT = 0.5                        # seconds at most that the end of this process waits for all programs together
_lock = forking.lock()


class _Compiler:
    """A process that compiles one job after the other, and the thread that waits for it."""

    def __init__(self, queue: "Queue", at_once: bool):
        self.queue, self.at_once = queue, at_once            # at_once: the process starts before there is a job
        self.process: subprocess.Popen[str] | None = None
        self.job: Job | None = None                          # that it works on
        self.began = 0.0                                     # when it began with that
        self.units = Units()                                 # what it has compiled of it

    def start(self) -> None:
        """Start the thread, for which a first answer does not wait."""
        SWITCH_INTERVAL.start_thread(self.run)

    def run(self) -> None:
        """Give jobs to the process until there are none for a while."""
        try:
            if not self._begin():
                return
            while self.queue.wait(self):
                with CALLS.compiling():
                    if self.process is None:
                        self.process = _start()          # takes a while: what is most wanted may be another job then
                    # before there is a job: other threads read its time
                    self.began, self.units = time.monotonic(), Units()
                    self.job = self.queue.take()
                    if self.job is not None:
                        self.job.end(failed=not self._compile(self.job))
        except Exception:                                    # noqa: BLE001  the caller compiles it, and raises its own
            if self.job is not None:
                self.job.end(failed=True)
        finally:
            self.queue.leave(self)
            self.stop()

    def _begin(self) -> bool:
        """Start the process where it is to be there before a job. False where there is no use for it."""
        if not self.at_once:
            return True
        if self.queue.is_closed() or not _has_compiler():
            return False
        with CALLS.compiling():
            self.process = _start()
        return True

    def _compile(self, job: Job) -> bool:
        with SWITCH_INTERVAL.shortened():                # not while it waits for the answer, which may take minutes
            key, text = job.key_and_text()
            if key is None or not text:
                return key is not None
            process = self.process
            assert process is not None and process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps({"key": key, "text": text, **job.around}) + "\n")
            process.stdin.flush()
            left_jobs.note()
        while (answer := process.stdout.readline()).startswith(UNITS):
            self.units.tell(*map(int, answer[len(UNITS):].split()))
        return answer.strip() == key

    def wait_for_job(self, now: float) -> None:
        """Wait for a program that is about to be there: from ``now`` on as long as it took until then, at most
        ``LAST_WAIT``. Nobody waits for one that will not be there by then: what is compiled of it is kept."""
        job = self.job
        if job is not None and (job.hurry or job.calls > 1) and self.units.seconds_left(now) < LAST_WAIT:
            job.ended.wait(now + min(now - self.began, LAST_WAIT) - time.monotonic())

    def stop(self) -> None:
        """End the process, with the compilers that it runs."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(OSError):
                system.kill_group(process.pid)       # its own session: it and what it started
            with contextlib.suppress(Exception):         # killed, it ends as soon as the system comes to it
                process.communicate(timeout=5)


def _has_compiler() -> bool:
    """Whether a process would find a C compiler."""
    with SWITCH_INTERVAL.shortened():
        with forking.IMPORTS:
            from . import toolchain  # noqa: PLC0415  loaded where something is compiled
        return toolchain.found_compiler() is not None


class Queue:
    """The jobs of this process and those that work on them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}                      # all that have not ended, by name
        self._aside: weakref.WeakValueDictionary[str, Job] = weakref.WeakValueDictionary()   # those set aside
        self._waiting: list[Job] = []
        self._compilers: list[_Compiler] = []
        self._closed = False
        self._expecting = False                              # ``expect`` was called, and no process has started since
        self._traces: dict[int, float] = {}                  # the time until which jobs stay, by the thread that traces

    def submit(self, job: Job) -> Job:
        """Queue a job; the one of the same program that is there already stands for it. The first one of a thread that
        traces is what it traced: other jobs need not stay for it any longer, and it counts as called, as it is about to
        be, for ``TRACE_SECONDS``."""
        with self._changed:
            now = time.monotonic()
            traced = now < self._traces.pop(threading.get_ident(), -math.inf)
            if traced:
                self._changed.notify_all()
            known = self._jobs.get(job.name)
            if known is not None and not known.ended.is_set():
                return known
            job = self._jobs[job.name] = self._aside.pop(job.name, job)
            job.aside = None
            self._waiting.append(job)
            if traced:
                job.called_until = now + TRACE_SECONDS
            self._changed.notify_all()
            if len(self._compilers) < (_most() if len(self._waiting) > 1 else 1):
                self._start(at_once=False)
        return job

    def set_aside(self, job: Job) -> None:
        """Take a job that no process works on from the queue, until its program is asked for again: programs that other
        calls need do not wait for it."""
        with self._changed:
            if job in self._waiting and not job.hurry:
                self._waiting.remove(job)
                self._aside[job.name] = self._jobs.pop(job.name)
                job.aside = self.submit

    def hurry(self, job: Job) -> None:
        """Put a job before others, also one that was set aside: somebody waits for it."""
        with self._changed:
            job.hurry = True
            if job.aside:
                self.submit(job)

    def all(self) -> list[Job]:
        """Its jobs, also those that were set aside."""
        return [*self._jobs.values(), *self._aside.values()]

    def expect(self, traced: bool = True) -> None:
        """Start a process, if there is none, because a job is about to come. traced: whether this thread traces its
        program now."""
        with self._changed:
            if traced:
                self._traces[threading.get_ident()] = time.monotonic() + TRACE_SECONDS
            self._expecting = True
            if not self._compilers and not self._closed:
                self._start(at_once=True)
            else:
                self._changed.notify_all()

    def is_closed(self) -> bool:
        """Whether it takes no more jobs."""
        return self._closed

    def _start(self, at_once: bool) -> None:
        compiler = _Compiler(self, at_once)
        self._compilers.append(compiler)
        try:
            compiler.start()
        except RuntimeError:                                 # no thread for it
            self.leave(compiler)

    def wait(self, compiler: _Compiler) -> bool:
        """Wait for a job that may begin, or until the compiler should start its process; False after some time without
        a job: the compiler ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, IDLE_SECONDS)
            while not (self._closed or not self._waiting or self._has_ripe()
                       or compiler.process is None and self._expecting):
                self._changed.wait(SILENCE / 4)
            self._expecting = False
            if self._waiting and not self._closed:
                return True
            self._compilers.remove(compiler)
            return False

    def _has_ripe(self) -> bool:
        """Whether a job may begin."""
        stay = any(time.monotonic() < until for until in self._traces.values())
        return any(j.hurry or not stay and j.is_ripe() for j in self._waiting)

    def take(self) -> Job | None:
        """The waiting job whose calls took most time; None where others took them all."""
        with self._changed:
            if self._closed or not self._has_ripe():
                return None
            job = max(self._waiting, key=Job.wanted)
            self._waiting.remove(job)
            self._changed.notify_all()
            return job

    def run_first(self, job: Job) -> bool:
        """Put a job before others, and wait until it is done. False if it failed, or if no process began with it within
        ``MAX_QUEUE_WAIT`` seconds: then it is withdrawn."""
        job.hurry = True
        job = self.submit(job)
        with self._changed:
            job.hurry = True                             # the one that was there already
            while not self._changed.wait_for(lambda: job not in self._waiting, MAX_QUEUE_WAIT):
                if all(c.process is not None for c in self._compilers):          # all are busy with other jobs
                    self._waiting.remove(job)
                    job.end(failed=True)
        job.ended.wait()
        return not job.failed

    def leave(self, compiler: _Compiler) -> None:
        """A compiler ends; where it failed, jobs that wait are for their callers."""
        with self._changed:
            if compiler in self._compilers:
                self._compilers.remove(compiler)
            self._jobs = {k: j for k, j in self._jobs.items() if not j.ended.is_set()}
            if not self._compilers:
                for job in self._waiting:
                    job.end(failed=True)
                self._waiting.clear()

    def has_compilers(self) -> bool:
        """Whether there are processes, or threads that start them."""
        return bool(self._compilers)

    def end(self) -> None:
        """This process ends: programs that are about to be there are kept for later ones. All are waited for together,
        so it takes ``LAST_WAIT`` at most, whatever their number."""
        now = time.monotonic()
        for compiler in list(self._compilers):
            compiler.wait_for_job(now)
        self._leave_to_others()
        self.close()

    def _leave_to_others(self) -> None:
        """Put the jobs that are wanted, and that no process has begun, into the disk cache."""
        if all(job.ended.is_set() for job in self._jobs.values()):
            left_jobs.forget()
            return
        from . import toolchain                              # noqa: PLC0415  loaded where something is compiled
        for job in sorted(self._waiting, key=Job.wanted):    # the newest file is the next one
            if job.calls < 2 or job.last:
                continue
            with contextlib.suppress(toolchain.NotAtHand), toolchain.at_hand():
                key, text = job.key_and_text()
                if key is not None and text:
                    left_jobs.keep({"key": key, "text": text, **job.around})

    def close(self) -> None:
        """End all processes at once; jobs that were not done are for their callers."""
        with self._changed:
            self._closed = True
            compilers = list(self._compilers)
            for job in self.all():
                if not job.ended.is_set():
                    job.end(failed=True)
            self._waiting.clear()
            self._changed.notify_all()
        for compiler in compilers:
            compiler.stop()


def _most() -> int:
    """Processes that may compile at the same time: one, more where cores are idle."""
    cores = config.usable_cores()
    with contextlib.suppress(OSError):
        return max(1, min(cores - 1, int(cores - os.getloadavg()[0])))
    return 1


_queue: Queue | None = None
_looked: list[bool] = []                 # whether ``begin_early`` was called


def queue() -> Queue:
    """The queue of this process."""
    global _queue
    with _lock:
        if _queue is None:
            _queue = Queue()
            atexit.register(_queue.end)
        return _queue


def begin_early() -> None:
    """Start a process that goes on with what this script left when it ran before, if it left anything and there is a
    core for it. Looked for once."""
    if not _looked:
        _looked.append(True)
        if config.compile_mode() == "background" and config.usable_cores() > 1 and left_jobs.noted():
            queue().expect(traced=False)


def working() -> bool:
    """Whether a process compiles for this one, or is about to. Makes the pool of threads if there is none yet."""
    return _queue is not None and _queue.has_compilers()


def _in_child() -> None:
    """A forked process has none of its parent's threads: its jobs are compiled by those who want them."""
    global _queue
    old, _queue = _queue, None
    if old is not None:
        atexit.unregister(old.end)
        for job in old.all():
            job.failed, job.aside = True, None
            job.ended = threading.Event()
            job.ended.set()


forking.in_child(_in_child)


def shut_down(*_: Any) -> None:
    """End the processes of this process now; programs that are wanted later start others."""
    global _queue
    with _lock:
        old, _queue = _queue, None
    if old is not None:
        atexit.unregister(old.end)
        old.close()
