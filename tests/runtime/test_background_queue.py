"""Jobs of the queue of programs to be compiled, where no process works on them."""
from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hybrid import ir
from hybrid.runtime import background
from hybrid.runtime.job import is_light


def test_a_job_set_aside_is_queued_again_when_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a call, a training loop that asks for it, somebody who waits, or another program with the same text."""
    queue = background.Queue()
    monkeypatch.setattr(queue, "_start", lambda at_once: None)
    monkeypatch.setattr(background, "queue", lambda: queue)

    def job() -> background.Job:
        return background.Job("a", lambda: (None, ""), frozenset())
    one = queue.submit(job())
    for wanted in (one.count, lambda: one.count(0), lambda: queue.hurry(one), lambda: queue.submit(job())):
        one.hurry = False
        queue.set_aside(one)
        assert one.aside and not queue._waiting and one in queue.all()
        wanted()
        assert not one.aside and queue._waiting == queue.all() == [one]
    one.hurry = True                                             # somebody waits for it
    queue.set_aside(one)
    assert queue._waiting == [one]
    one.hurry = False
    queue.set_aside(one)
    queue.close()
    assert one.ended.is_set() and one.failed                     # the caller compiles it


def test_a_job_set_aside_that_nobody_holds_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = background.Queue()
    monkeypatch.setattr(queue, "_start", lambda at_once: None)
    one = queue.submit(background.Job("a", lambda: (None, ""), frozenset()))
    queue.set_aside(one)
    del one
    assert not queue.all()


def test_other_jobs_stay_while_a_program_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may do their work. What somebody waits for begins; so do all when its job is there, or when none comes."""
    queue = background.Queue()
    monkeypatch.setattr(queue, "_start", lambda at_once: None)

    def job(name: str) -> background.Job:
        made = background.Job(name, lambda: (None, ""), frozenset())
        made.calls = 2
        return queue.submit(made)
    one = job("a")
    queue.expect()
    assert queue.take() is None
    queue.hurry(one)
    assert queue.take() is one
    one = job("b")
    queue.expect()
    one.seconds, one.called_until = 1.0, 0.0
    other = job("c")                                             # its call goes on
    assert (queue.take(), queue.take()) == (other, one)
    one = job("d")
    monkeypatch.setattr(background, "TRACE_SECONDS", 0.0)
    queue.expect()
    assert queue.take() is one


@pytest.mark.parametrize("calls, waits", [(1, False), (2, True)])
def test_the_end_waits_for_a_program_that_was_called_again(calls: int, waits: bool) -> None:
    """For as long as a process has worked on it, at most."""
    queue = background.Queue()
    compiler = background._Compiler(queue, at_once=False)
    compiler.job, compiler.began = background.Job("a", lambda: (None, ""), frozenset()), time.monotonic() - 0.1
    compiler.job.calls = calls
    queue._compilers.append(compiler)
    begin = time.monotonic()
    queue.end()
    assert (time.monotonic() - begin >= 0.1) == waits and queue._closed
    compiler.job.end(failed=False)
    begin = time.monotonic()
    compiler.wait_for_job(begin)                                 # it is there
    assert time.monotonic() - begin < 0.1


def test_the_end_waits_for_all_programs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = background.Queue()
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(max(seconds, 0.0))
    for name in "abc":
        compiler = background._Compiler(queue, at_once=False)
        compiler.job, compiler.began = background.Job(name, lambda: (None, ""), frozenset()), -1000.0
        compiler.job.calls = 2
        monkeypatch.setattr(compiler.job.ended, "wait", wait)
        queue._compilers.append(compiler)
    queue.end()
    assert len(waits) == 3 and sum(max(w, 0.0) for w in waits) <= background.LAST_WAIT


def test_a_job_that_a_process_works_on_never_has_the_time_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the process, in another thread, waits as long as it took."""
    ages: list[float] = []

    class Compiler(background._Compiler):
        """Notes for how long a job, once it is there, seems to be compiled."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "job" and value is not None:
                ages.append(time.monotonic() - self.began)

        def _compile(self, job: background.Job) -> bool:
            self.queue.close()
            return True

    queue = background.Queue()
    monkeypatch.setattr(queue, "_start", lambda at_once: None)
    job = queue.submit(background.Job("a", lambda: (None, ""), frozenset()))
    queue.hurry(job)
    compiler = Compiler(queue, at_once=False)
    queue._compilers.append(compiler)
    monkeypatch.setattr(compiler, "process", SimpleNamespace(pid=None))
    monkeypatch.setattr(compiler, "stop", lambda: None)
    compiler.run()
    assert len(ages) == 1 and ages[0] < 60


def test_a_traced_program_that_is_never_called_is_not_called_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = background.Queue()
    monkeypatch.setattr(queue, "_start", lambda at_once: None)
    monkeypatch.setattr(background, "TRACE_SECONDS", 0.05)
    jobs = []
    for name in "ab":
        if name == "a":
            queue.expect()
        jobs.append(queue.submit(background.Job(name, lambda: (None, ""), frozenset())))
        jobs[-1].calls = 2
    jobs[1].seconds = 1.0
    time.sleep(0.06)
    assert max(jobs, key=background.Job.wanted) is jobs[1]


def test_a_job_is_called_until_the_last_of_its_calls_ends() -> None:
    one, other = (background.Job(name, lambda: (None, ""), frozenset()) for name in "ab")
    one.count(2)
    other.count(30)
    first, second = (background.CALLS.without_program(one) for _ in range(2))
    with second:
        with first:
            pass
        one.seconds = 0.0
        assert max(one, other, key=background.Job.wanted) is one
    assert one.running == 0


def test_jobs_stay_until_the_thread_that_traces_has_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread's jobs say nothing of it; one of the same program, which was there already, does."""
    queue = background.Queue()
    monkeypatch.setattr(queue, "_start", lambda at_once: None)
    monkeypatch.setattr(background, "TRACE_SECONDS", 1000.0)

    def job(name: str) -> background.Job:
        made = background.Job(name, lambda: (None, ""), frozenset())
        made.calls = 2
        return made
    one = queue.submit(job("a"))
    queue.expect()
    thread = threading.Thread(target=lambda: queue.submit(job("b")))
    thread.start()
    thread.join()
    assert queue.take() is None
    assert queue.submit(job("a")) is one
    assert queue.take() is not None


def test_a_light_program_that_was_called_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it was called in the first step alone so far, as a step of an optimizer; not before that step is over."""
    queue = background.Queue()
    monkeypatch.setattr(queue, "_start", lambda at_once: None)
    monkeypatch.setattr(background.CALLS, "again", -1e9)
    light, heavy = (queue.submit(background.Job(name, lambda: (None, ""), frozenset())) for name in ("light", "heavy"))
    light.light = True
    with background.CALLS.running_call():                        # no silence
        light.calls, light.seconds, heavy.calls, heavy.seconds = 1, 0.01, 0, 5.0
        assert queue.take() is None
        monkeypatch.setattr(background.CALLS, "again", time.monotonic())
        heavy.calls = 2
        assert (queue.take(), queue.take()) == (light, heavy)


def test_what_a_light_program_is() -> None:
    x, w = ir.input(0, (4, 4), "float32"), ir.input(1, (4, 4), "float32")
    update = ir.Program((x, w), (), ((1, w - x * 0.1),))
    assert is_light(update)
    y = x
    for _ in range(9):
        y = ir.dot(y, w, ((1,), (0,)))
    assert not is_light(ir.Program((x, w), (y,)))
