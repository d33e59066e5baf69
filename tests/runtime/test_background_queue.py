"""Jobs of the queue of programs to be compiled, where no process works on them."""
from __future__ import annotations

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
