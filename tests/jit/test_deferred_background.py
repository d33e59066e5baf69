"""Rounds of a training loop whose program is compiled in the background: as they are until it is there, then joined."""
from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from hybrid import autograd, runtime
from hybrid.base import pending
from hybrid.runtime import background, toolchain
from hybrid.runtime.job import Job

from ..runtime.test_background import hold, in_background  # noqa: F401  a fixture
from .test_deferred_loop import BATCHES, Loop, look_before

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="needs a C compiler")


@pytest.mark.parametrize("body", [Loop.step, look_before])
def test_rounds_are_joined_once_their_program_is_there(in_background: None, body: Any,     # noqa: F811
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """What a loop sees is what it sees with nothing put off and nothing compiled; random draws, running statistics and
    momentum included."""
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
    """Nothing is put off meanwhile, the report says so, and the program of the whole round may compile at once."""
    jobs = hold(monkeypatch)
    loop = Loop()
    for i in range(5):
        loop.step(i)
    with autograd.record():
        out = loop.net(BATCHES[0][0])
        assert not pending.PUT_OFF[0] and out._away is None
    assert not loop.root.joined and not loop.root.settled_times
    assert "compiled in the background" in str(loop.root)
    assert jobs[-1].calls >= 8 and jobs[-1].is_ripe()                # which the third round asked for


def test_the_program_of_a_round_comes_before_those_of_its_calls(in_background: None,          # noqa: F811
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """It does their work, and while rounds are done call by call it counts as called. When it is there, those that no
    process has begun are set aside."""
    monkeypatch.setattr(background._Compiler, "start", lambda self: None)      # nobody takes a job
    q = background.Queue()
    part, whole = (q.submit(Job(name, lambda: (None, ""), frozenset())) for name in ("part", "round"))
    part.calls, part.seconds = 20, 60.0
    whole.count(20, 50.0)
    assert q.take() is whole


def test_programs_of_calls_are_set_aside_when_rounds_are_joined(in_background: None,           # noqa: F811
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    aside: list[Any] = []
    monkeypatch.setattr(runtime, "set_aside", lambda program, ctx: aside.append(program))
    monkeypatch.setenv("HYBRID_COMPILE", "now")
    loop = Loop()
    for i in range(5):
        loop.step(i)
    assert loop.root.joined and len(set(map(id, aside))) == len(aside) >= 2


def test_nothing_is_joined_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "never")
    loop = Loop()
    for i in range(5):
        loop.step(i)
    assert not loop.root.joined and "no programs are compiled" in str(loop.root)
