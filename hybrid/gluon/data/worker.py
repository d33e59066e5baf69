"""What runs in a worker process of a DataLoader."""
from __future__ import annotations

import os
import pickle
import queue
import random as python_random
import signal
import sys
import threading
import traceback
from typing import Any

import numpy as np

from ...base import rng as draws
from ...base.device import cpu
from ...base.shown_errors import shown
from ...numpy.extension import set_np
from ...base.scope import SCOPE
from . import transport


def _leave(conn: Any, tasks: "queue.SimpleQueue[Any]", cancelled: set[int]) -> None:
    """Take tasks in, so that the parent never waits while sending; leave when the parent is gone."""
    parent = os.getppid()
    while True:
        try:
            # another process may hold the parent's end: ask for the parent itself too
            while not conn.poll(2.0):
                if os.getppid() != parent:
                    os._exit(1)
            message = conn.recv()
        except (EOFError, OSError):
            os._exit(0)
        if message[0] == "cancel":
            cancelled.add(message[1])
        else:
            tasks.put(message[1])


def _seed(seeds: tuple[tuple[int, ...], ...]) -> None:
    """Start Python's, NumPy's and this library's generators for one batch, the same in whichever worker it is made."""
    mixed = [int(np.random.SeedSequence([int(v) for v in s]).generate_state(1)[0]) for s in seeds]
    python_random.seed(mixed[0])
    np.random.seed(mixed[1])
    draws.seed(mixed[2])


def _failure(err: BaseException, samples: Any) -> tuple[Any, ...]:
    """The exception if it survives pickling, else None; its text; its traceback without this file's frames."""
    trace = err.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(err), err, shown(err.with_traceback(trace))))
    usable: bytes | None = None
    # those would end the user's loop in silence
    if isinstance(err, Exception) and not isinstance(err, (StopIteration, StopAsyncIteration)):
        try:
            usable = pickle.dumps(err)
            pickle.loads(usable)
        except Exception:                                        # an exception class of any kind: the text must do
            usable = None
    return usable, f"{type(err).__name__}: {err}", text, repr(samples)[:200]


def _flush() -> None:
    """What was printed goes out before the batch does: with the last one the parent may end, and this process by
    os._exit."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _make(dataset: Any, batchify_fn: Any, samples: Any) -> Any:
    return batchify_fn([dataset[i] for i in samples])


def _serve(conn: Any, dataset: Any, batchify_fn: Any, tasks: "queue.SimpleQueue[Any]", cancelled: set[int]) -> None:
    while True:
        number, group, seeds, samples = tasks.get()
        if group in cancelled:
            continue
        try:
            _seed(seeds)
            batch = _make(dataset, batchify_fn, samples)
            _flush()
            try:
                transport.send(conn, (number, True), batch)
            except (pickle.PicklingError, AttributeError, TypeError) as err:
                raise TypeError(f"a batch that cannot be sent from a worker process: {err}; the batchify function "
                                f"must return arrays, numbers and "
                                "other values that can be pickled") from err
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)
        except BaseException as err:
            # whatever the user's code raises, sys.exit too, is told to the parent
            _flush()
            transport.send(conn, (number, False), _failure(err, samples))


def main(conn: Any, others: list[Any], dataset: Any, batchify_fn: Any, np_flags: tuple[bool, bool]) -> None:
    """Serve tasks until the parent closes its end of ``conn``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)                 # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # the parent's ends of all pipes: whoever holds one hides the parent's death
    for end in others:
        end.close()
    # one thread a worker: the workers are what runs side by side
    os.environ["HYBRID_NUM_THREADS"] = "1"
    SCOPE.recording = SCOPE.training = SCOPE.symbolic = False
    SCOPE.traces = []
    set_np(*np_flags)
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    cancelled: set[int] = set()
    threading.Thread(target=_leave, args=(conn, tasks, cancelled), daemon=True).start()
    # a GPU cannot be used after a fork, and is not a worker's business
    with cpu():
        _serve(conn, dataset, batchify_fn, tasks, cancelled)
