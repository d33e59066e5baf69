"""A training loop that is left before the step is not watched for long: operators are as fast as before it."""
from __future__ import annotations

from typing import Any

import pytest

from hybrid import autograd, nd
from hybrid.base import pending
from hybrid.jit.deferred.rounds import LEFT, MOST_OTHERS
from .test_deferred_loop import BATCHES, Loop, both, is_joined


def other_operators(count: int = MOST_OTHERS + 1) -> None:
    x = nd.ones((2, 2))
    for _ in range(count):
        x + x


def without_step(loop: Loop) -> None:
    x, y = BATCHES[0]
    with autograd.record():
        loss = loop.loss(loop.net(x), y)
    loss.backward()


@pytest.mark.parametrize("rounds", [0, 1, 2, 8])
def test_a_round_without_a_step_ends(rounds: int) -> None:
    """Noted for the first time, known, put off, or followed in C. Tests before this one may
    have left rounds, of this thread and of others."""
    pending.given_up()
    before = pending.WATCHED[0]
    loop = Loop()
    for i in range(rounds):
        loop.step(i)
    without_step(loop)
    assert pending.WATCHED[0] == before + 1
    other_operators()
    assert pending.WATCHED[0] == before and not pending.PUT_OFF[0]


def test_gradients_are_there_and_the_loop_goes_on(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        if i % 8 == 6:
            without_step(loop)
            other_operators()
            loop.seen.append(loop.net[0].weight.grad().asnumpy())
        loop.step(i)
    assert is_joined(both(monkeypatch, body))


def test_few_operators_in_every_round_do_not_end_it(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        without_step(loop)
        other_operators(MOST_OTHERS // 2)
        loop.trainer.step(8)
    assert is_joined(both(monkeypatch, body))


def test_the_report_tells_of_many_operators(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        without_step(loop)
        other_operators()
        loop.trainer.step(8)
    loop = both(monkeypatch, body)
    assert not loop.root.joined and LEFT in str(loop.net.report())
