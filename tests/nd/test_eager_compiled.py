"""Large eager operators that come again and again are compiled in the background, and give what they gave."""
from __future__ import annotations

import time

import numpy as onp
import pytest

from hybrid import autograd, nd
from hybrid.base import config
from hybrid.runtime import repeated


def step(x, w):
    with autograd.record():
        y = nd.Pooling(nd.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True), kernel=(2, 2), stride=(2, 2))
        loss = (y * y).sum()
    loss.backward()
    return [a.asnumpy() for a in (loss, x.grad, w.grad)]


@pytest.fixture
def inputs(monkeypatch):
    monkeypatch.setenv("HYBRID_VERIFY", "0")                     # programs whose passes are checked have no name
    monkeypatch.setattr(repeated, "CALLS", 2)
    monkeypatch.setattr(repeated, "ELEMENTS", 1)
    rng = onp.random.RandomState(0)
    x, w = nd.array(rng.rand(2, 3, 9, 11)), nd.array(rng.rand(4, 3, 3, 3))
    x.attach_grad()
    w.attach_grad()
    return x, w


def used(monkeypatch):
    """Counts runs of compiled programs."""
    runs, inner = [], repeated.of_arrays

    def of_arrays(program, raws):
        made = inner(program, raws)
        runs.extend([program] * (made is not None))
        return made
    monkeypatch.setattr(repeated, "of_arrays", of_arrays)
    return runs


def test_they_are_compiled_beside(inputs, monkeypatch):
    monkeypatch.delenv("HYBRID_COMPILE")
    first, runs = step(*inputs), used(monkeypatch)
    until = time.monotonic() + 120
    while not runs and time.monotonic() < until:
        step(*inputs)
        time.sleep(0.02)
    assert runs
    for a, b in zip(first, step(*inputs)):
        onp.testing.assert_allclose(a, b, 1e-5, 1e-5)


@pytest.mark.parametrize(("name", "value"), [("HYBRID_COMPILE", "now"), ("HYBRID_COMPILE", "never"),
                                             ("HYBRID_DETERMINISTIC", "1")])
def test_settings_that_ask_for_the_same_bits_leave_them_alone(inputs, monkeypatch, name, value):
    monkeypatch.delenv("HYBRID_COMPILE")
    monkeypatch.setenv(name, value)
    assert not config.compiles_eager()
    first, runs = step(*inputs), used(monkeypatch)
    for _ in range(6):
        for a, b in zip(first, step(*inputs)):
            assert (a == b).all()
    assert not runs


def test_small_and_rare_ones_are_not(monkeypatch):
    monkeypatch.delenv("HYBRID_COMPILE")
    x = nd.ones((4,))
    x.attach_grad()
    runs = used(monkeypatch)
    for _ in range(3 * repeated.CALLS):
        with autograd.record():
            y = nd.softmax(x).sum()
        y.backward()
    assert not runs
