"""Rounds of a training loop whose program is compiled in the background: as they are until it is there, then joined."""
from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from hybrid import autograd
from hybrid.base import pending
from hybrid.runtime import background, job, toolchain

from ..runtime.test_background import hold, in_background  # noqa: F401  a fixture
from .test_deferred_loop import BATCHES, Loop, look_before

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="needs a C compiler")


@pytest.mark.parametrize("body", [Loop.step, look_before])
def test_rounds_are_joined_once_their_program_is_there(in_background: None, body: Any,     # noqa: F811
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """What a loop sees is what it sees with nothing put off and nothing compiled; random draws, running statistics and
    momentum included."""
    monkeypatch.setattr(job, "PARTS_SECONDS", 0.001)
    monkeypatch.setattr(job, "STEPS", 1e9)
    loop, steps, stop = Loop(momentum=0.9), 0, time.monotonic() + 90
    while loop.root is None or loop.root.joined < 4:
        body(loop, steps)
        steps += 1
        time.sleep(0.1)                                  # few steps: what rounding does to them grows
        assert time.monotonic() < stop, str(loop.root)
    assert loop.root.settled_times <= 1 and not loop.root.refused
    monkeypatch.setenv("HYBRID_DEFER", "0")
    monkeypatch.setenv("HYBRID_COMPILE", "never")
    other = Loop(momentum=0.9)
    for i in range(steps):
        body(other, i)
    for a, b in zip([*loop.seen, *loop.state()], [*other.seen, *other.state()]):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_rounds_run_as_they_are_while_it_compiles(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Nothing is put off meanwhile, the report says so, and the program of the whole round is the last to compile."""
    jobs = hold(monkeypatch)
    loop = Loop()
    for i in range(5):
        loop.step(i)
    with autograd.record():
        out = loop.net(BATCHES[0][0])
        assert not pending.PUT_OFF[0] and out._away is None
    assert not loop.root.joined and not loop.root.settled_times
    assert "compiled in the background" in str(loop.root)
    assert min(jobs, key=lambda job: job.wanted()) is jobs[-1]       # which the third round asked for
    assert jobs[-1].calls >= 8 and not jobs[-1].is_ripe()


def test_a_round_is_compiled_when_its_parts_were_used_for_a_while(in_background: None,        # noqa: F811
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """What calls took before all other programs were there is not counted."""
    monkeypatch.setattr(background._Compiler, "start", lambda self: None)      # nobody takes a job
    q = background.Queue()
    part, whole = (q.submit(background.Job(name, lambda: (None, ""), frozenset())) for name in ("part", "round"))
    whole.join(3000)
    part.calls, whole.calls, whole.seconds = 2, 20, 60.0
    assert q.take() is part and q.take() is None                     # it is being compiled still
    part.end(failed=False)
    assert q.take() is None
    whole.seconds += job.PARTS_SECONDS + 2.9
    assert q.take() is None
    whole.seconds += 0.2
    assert q.take() is whole


def test_nothing_is_joined_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "never")
    loop = Loop()
    for i in range(5):
        loop.step(i)
    assert not loop.root.joined and "no programs are compiled" in str(loop.root)
