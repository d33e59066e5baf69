"""The worker processes of a DataLoader, seen from the process that reads the batches.

Each worker has a socket of its own, so that one that is killed leaves no lock behind that others wait for; its end is
seen at once. Workers leave when their socket is closed: by ``close``, with the pool's last reference, or with the
parent, however it ends.
"""
from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import warnings
import weakref
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any, Callable, Iterator

from ...base.errors import HybridError
from ...numpy.extension import is_np_array, is_np_shape
from . import transport, worker


class LoaderError(HybridError):
    """A worker of a DataLoader that died, or that raised what cannot be raised again here."""


class LoaderTimeout(LoaderError, multiprocessing.TimeoutError):
    """A batch that took longer than the DataLoader's ``timeout``."""


class WorkerTraceback(Exception):
    """The traceback in a worker process; the cause of the error that a DataLoader raises."""

    def __init__(self, text: str):
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


# one fork at a time: a child must not inherit a socket that another is being given
_start_lock = threading.Lock()
_parent_ends: "weakref.WeakSet[Any]" = weakref.WeakSet()


def start_method() -> str:
    """``fork`` where there is one, since datasets hold lambdas and scripts have no main guard; otherwise the system's
    default. ``multiprocessing.set_start_method("spawn")`` (or ``forkserver``) decides it for the program.
    """
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is not None:
        return chosen
    methods = multiprocessing.get_all_start_methods()
    return "fork" if "fork" in methods and sys.platform == "linux" else methods[0]


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """A child must not see Ctrl-C before it has said that it ignores it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    def __init__(self, number: int, method: str, dataset: Any, batchify_fn: Callable[..., Any]):
        context: Any = multiprocessing.get_context(method)
        self.number, self.pending = number, set[int]()
        with _start_lock, _interrupts_wait():
            self.conn, theirs = context.Pipe(duplex=True)
            others = [self.conn, *_parent_ends] if method == "fork" else []
            self.process = context.Process(target=worker.main, daemon=True, name=f"hybrid-loader-{number}",
                                           args=(theirs, others, dataset, batchify_fn, (is_np_shape(), is_np_array())))
            try:
                with warnings.catch_warnings():
                    # Python 3.12 warns of a fork beside threads; worker.py says why this one is safe
                    warnings.simplefilter("ignore", DeprecationWarning)
                    self.process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as err:
                self.conn.close()
                raise LoaderError(f"the dataset cannot be sent to a worker process: {err}. With the start method "
                                  f"{method!r} the dataset, its transforms and "
                                  "the batchify function must be picklable (functions defined at the top of a module, "
                                  "no lambdas); "
                                  "or use num_workers=0, or thread_pool=True") from err
            finally:
                theirs.close()
            _parent_ends.add(self.conn)

    def death(self) -> str:
        """How the process ended."""
        self.process.join(2.0)
        code = self.process.exitcode
        who = f"worker process {self.number} of the DataLoader (pid {self.process.pid})"
        if code is not None and code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = "?"
            why = {9: "; SIGKILL often comes from the system when memory runs out: use fewer workers or smaller batches",  # noqa: E501
                   11: "; a crash in native code: num_workers=0 shows where",
                   7: "; a crash in native code or a full file system"}.get(-code, "")
            return f"{who} was killed by signal {-code} ({name}){why}"
        return (f"{who} ended by itself (exit code {code}). Its own message, if any, stands above. A program that "
                f"starts processes with spawn or "
                "forkserver needs 'if __name__ == \"__main__\":' around its main part")


def _stop(workers: list[_Worker], owner: int) -> None:
    if os.getpid() != owner:                                     # a copy in a forked process owns nothing
        return
    for w in workers:
        w.conn.close()
        _parent_ends.discard(w.conn)
    deadline = time.monotonic() + 2.0
    for w in workers:
        w.process.join(max(0.0, deadline - time.monotonic()))
        if w.process.exitcode is None:                           # stopped, or in native code that holds the interpreter
            w.process.kill()
            w.process.join(5.0)


class WorkerPool:
    """Processes that make batches of a dataset. ``submit`` a list of samples, ``get`` its batch."""

    def __init__(self, dataset: Any, batchify_fn: Callable[..., Any], num_workers: int):
        self._workers: list[_Worker] = []
        self._finalizer = weakref.finalize(self, _stop, self._workers, os.getpid())
        self._results: dict[int, tuple[bool, Callable[[], Any]]] = {}
        self._groups: dict[int, set[int]] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        method = start_method()
        try:
            for i in range(num_workers):
                self._workers.append(_Worker(i, method, dataset, batchify_fn))
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether it can take work (in this process)."""
        return self._finalizer.alive and self._finalizer.peek()[2][1] == os.getpid()      # type: ignore[index]

    @property
    def pids(self) -> list[int]:
        """Process numbers of the workers."""
        return [w.process.pid for w in self._workers]

    def close(self) -> None:
        """End the workers; they are gone when this returns."""
        self._finalizer()

    def submit(self, group: int, seeds: Any, samples: Any) -> int:
        """Start making a batch, in the worker with the least to do. The number that ``get`` takes."""
        with self._lock:
            number = next(self._numbers)
            chosen = min(self._workers, key=lambda w: len(w.pending))
            try:
                chosen.conn.send(("task", (number, group, seeds, samples)))
            except OSError:
                self._died(chosen)
            chosen.pending.add(number)
            self._groups.setdefault(group, set()).add(number)
            return number

    def cancel(self, group: int) -> None:
        """Forget what was submitted for a group and not fetched."""
        with self._lock:
            gone = self._groups.pop(group, set())
            for number in gone:
                self._results.pop(number, None)
            for w in self._workers if gone and self.alive else ():
                if w.pending & gone:
                    w.pending -= gone
                    try:
                        w.conn.send(("cancel", group))
                    except OSError:
                        pass                                     # it is dead; the next get says so

    def get(self, group: int, number: int, timeout: float) -> Any:
        """The batch of a number. The user's exception if making it raised one; LoaderError if a worker died;
        LoaderTimeout after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            with self._lock:
                if number in self._results:
                    self._groups.get(group, set()).discard(number)
                    good, value = self._results.pop(number)
                    break
                if not self.alive:
                    raise LoaderError("the workers of this DataLoader have been closed; iterate over it again")
                self._wait(deadline, timeout)
        if good:
            return value()
        self._raise(*value())

    def _wait(self, deadline: float, timeout: float) -> None:
        """Take what has arrived, waiting at most half a second for it."""
        try:
            by_end: dict[Any, _Worker] = {}
            for w in self._workers:
                by_end[w.conn] = by_end[w.process.sentinel] = w
            ready = connection.wait(list(by_end), max(0.0, min(0.5, deadline - time.monotonic())))
            for end in ready:
                w = by_end[end]
                if end is w.conn:
                    self._take(w)
            if not ready and time.monotonic() >= deadline:
                raise LoaderTimeout(f"a batch took longer than the timeout of {timeout:g} seconds. If the dataset is "
                                    f"slow, give DataLoader a larger timeout or "
                                    "more workers; if it waits for something that never comes, num_workers=0 shows "
                                    "where")
            for w in self._workers:
                if not w.process.is_alive() and not w.conn.poll(0):
                    self._died(w)
        except BaseException:                                    # Ctrl-C too: a message may have been read by half
            self.close()
            raise

    def _take(self, w: _Worker) -> None:
        try:
            (number, good), value = transport.receive(w.conn)
        except (EOFError, ConnectionResetError):
            self._died(w)
        if number in w.pending:                                  # else it was cancelled meanwhile
            w.pending.discard(number)
            self._results[number] = good, value

    def _died(self, w: _Worker) -> Any:
        message = w.death()
        self.close()
        raise LoaderError(message) from None

    def _raise(self, usable: bytes | None, name: str, text: str, samples: str) -> None:
        where = WorkerTraceback(f"{text}\n(in a worker process of the DataLoader, which was making the batch of "
                                f"samples {samples})")
        if usable is None:
            raise LoaderError(f"a worker process of the DataLoader raised {name}\n\n{text}") from None
        raise pickle.loads(usable) from where
