"""Jobs of the queue of programs to be compiled, where no process works on them."""
from __future__ import annotations

import time

import pytest

from hybrid.runtime import background


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
    one.seconds, one.running = 1.0, False
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
    compiler.finish()                                            # it is there
    assert time.monotonic() - begin < 0.1
