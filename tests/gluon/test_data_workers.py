"""Workers of gluon.data: their errors and deaths, and what they leave behind."""
from __future__ import annotations

import faulthandler
import multiprocessing
import os
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

from hybrid.gluon.data import DataLoader, LoaderError, LoaderTimeout

from .test_data import numbers, plain, ways, WAYS


class Unpicklable(Exception):
    def __init__(self, a: int, b: int):
        super().__init__(f"{a} and {b}")


def _fails(kind: str) -> Any:
    def fail(x: int) -> Any:
        if x != 5:
            return x
        raise {"value": lambda: ValueError("five is bad"), "key": lambda: KeyError("five"),
               "unpicklable": lambda: Unpicklable(5, 6),
               "stop": lambda: StopIteration("early"), "exit": lambda: SystemExit(3)}[kind]()
    return fail


@pytest.mark.parametrize(("kind", "error"), [("value", ValueError), ("key", KeyError), ("unpicklable", LoaderError),
                                             ("stop", LoaderError),
                                             ("exit", LoaderError)],
                                             ids=["value", "key", "unpicklable", "stop", "exit"])
def test_exception_in_a_worker(kind: str, error: type) -> None:
    loader = DataLoader(numbers().transform(_fails(kind)), 2, num_workers=2)
    got: list[Any] = []
    with pytest.raises(error) as caught:
        for batch in loader:
            got += plain(batch)
    assert got == [0, 1, 2, 3]                                    # what came before the bad batch was delivered
    text = f"{caught.value}{caught.value.__cause__}"
    assert "test_data_workers.py" in text and "in fail" in text and "{" not in text.split("in fail")[0][-5:]
    if error is not LoaderError:
        assert "[4, 5]" in text
    with pytest.raises(error):                                    # and the loader can be used again
        list(loader)


@ways
def test_exception_here_and_in_threads(way: str) -> None:
    with pytest.raises(ValueError, match="five is bad"):
        list(DataLoader(numbers().transform(_fails("value")), 2, **WAYS[way]))
    with pytest.raises(RuntimeError, match="StopIteration"):      # never a silent end
        list(DataLoader(numbers().transform(_fails("stop")), 2, **WAYS[way]))


def test_batch_that_cannot_be_sent() -> None:
    with pytest.raises(TypeError, match="cannot be sent from a worker process"):
        list(DataLoader(numbers(), 2, batchify_fn=lambda s: lambda: s, num_workers=1))


@pytest.mark.parametrize("signum", [9, 11, 15], ids=["kill", "segv", "term"])
def test_killed_worker(signum: int) -> None:
    def die(x: int) -> int:
        if x == 5:
            faulthandler.disable()                                # pytest's would print every frame
            os.kill(os.getpid(), signum)
            time.sleep(60)
        return x
    loader = DataLoader(numbers().transform(die), 2, num_workers=2)
    begin = time.monotonic()
    with pytest.raises(LoaderError, match=rf"killed by signal {signum} \(SIG"):
        list(loader)
    assert time.monotonic() - begin < 20 and not _workers()


def test_worker_that_leaves() -> None:
    def leave(x: int) -> int:
        os._exit(7)
    with pytest.raises(LoaderError, match="exit code 7"):
        list(DataLoader(numbers().transform(leave), 2, num_workers=2))


def test_worker_killed_while_idle() -> None:
    loader = DataLoader(numbers(), 2, num_workers=2)
    list(loader)
    assert loader._pool is not None
    os.kill(loader._pool.pids[0], 9)
    time.sleep(0.2)
    with pytest.raises(LoaderError, match="SIGKILL"):
        list(loader)
    assert len(list(loader)) == 5                                 # new workers


@pytest.mark.parametrize("way", ["processes", "threads"])
def test_timeout(way: str) -> None:
    asleep = threading.Event()

    def slow(x: int) -> int:
        asleep.wait(3 if way == "threads" else 60)
        return x
    begin = time.monotonic()
    with pytest.raises(LoaderTimeout, match="timeout of 0.5 seconds"):
        list(DataLoader(numbers().transform(slow), 2, timeout=0.5, **WAYS[way]))
    assert time.monotonic() - begin < 10
    assert issubclass(LoaderTimeout, multiprocessing.TimeoutError) and not _workers()


# ---- lifetimes
OTHERS: set[Any] = set()               # workers that tracebacks of earlier tests still hold


@pytest.fixture(autouse=True)
def only_my_workers() -> None:
    OTHERS.clear()
    OTHERS.update(p.pid for p in multiprocessing.active_children())


def _shared_memory() -> list[str]:
    # semaphores of tests beside this one
    return sorted(n for n in os.listdir("/dev/shm") if not n.startswith(("sem.", "pymp-")))


def _workers() -> list[Any]:
    return [p for p in multiprocessing.active_children() if p.name.startswith("hybrid-loader") and p.pid not in OTHERS]


def test_abandoned_iterators_leave_nothing() -> None:
    before = _shared_memory()
    for batch in DataLoader(numbers(100).transform(lambda i: np.zeros((200, 200))), 2, num_workers=2):
        break
    del batch
    assert not _workers()
    loader = DataLoader(numbers(100), 2, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    assert len(_workers()) == 2
    del iterator, loader
    assert not _workers() and _shared_memory() == before


def test_workers_stay_between_epochs_until_closed() -> None:
    loader = DataLoader(numbers(), 2, num_workers=2)
    list(loader)
    assert loader._pool is not None
    pids = loader._pool.pids
    list(loader)
    assert loader._pool.pids == pids
    loader.close()
    assert not _workers()
    loader.close()
    assert len(list(loader)) == 5 and loader._pool.pids != pids


def test_break_and_start_again() -> None:
    loader = DataLoader(numbers(100), 2, num_workers=2)
    for n in (1, 3, 2):
        for at, batch in enumerate(loader):
            assert plain(batch) == [2 * at, 2 * at + 1]
            if at == n:
                break
    assert plain(list(loader))[-1] == [98, 99]


def test_several_iterators_at_once() -> None:
    loader = DataLoader(numbers(40), 4, num_workers=2)
    pairs = list(zip(loader, loader))
    assert len(pairs) == 10 and all(plain(a) == plain(b) for a, b in pairs)
    out: list[Any] = []
    threads = [threading.Thread(target=lambda: out.append(sum(plain(list(loader)), []))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert out == [list(range(40))] * 4


def test_nested_in_a_process_of_the_user() -> None:
    """A fork of the user's own copies the loader, but not its workers."""
    loader = DataLoader(numbers(), 2, num_workers=2)
    list(loader)
    assert loader._pool is not None
    pids = loader._pool.pids
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        code = 1
        try:
            loader.close()
            code = 0 if len(list(DataLoader(numbers(), 2, num_workers=1))) == 5 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert loader._pool.pids == pids and len(list(loader)) == 5
