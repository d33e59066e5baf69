"""Loops of long training that are joined as others are: optimizers for large batches, groups of parameters, moving
averages, checkpointing, gradients that are added up over batches with forward passes of their own."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, optimizer
from hybrid.gluon import nn
from hybrid.runtime import launcher, toolchain

from .test_deferred_loop import BATCHES, STEPS, Loop, both, is_joined, look_before, not_joined, small, smooth

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows rounds in C is there before the first one."""
    monkeypatch.setenv("HYBRID_COMPILE", "now")
    launcher.load()


def is_followed(loop: Loop, least: int = STEPS - 5) -> bool:
    """Whether its rounds are one program, and are followed in C."""
    return is_joined(loop, least) and loop.root.track is not None and loop.root.track() is not None


@pytest.mark.parametrize("optimizer", ["lars", "lamb", "ftml", "dcasgd"])
def test_optimizers(monkeypatch: Any, optimizer: str) -> None:
    assert is_joined(both(monkeypatch, Loop.step, optimizer=optimizer, maker=smooth))


def test_groups_by_multipliers(monkeypatch: Any) -> None:
    def maker() -> Any:
        net = small()
        net[4].collect_params().setattr("lr_mult", 10.0)
        net.collect_params(".*bias|.*beta|.*gamma").setattr("wd_mult", 0.0)
        net[0].weight.grad_req = "null"
        return net
    assert is_followed(both(monkeypatch, Loop.step, maker=maker, wd=1e-2, momentum=0.9))


def test_groups_by_trainers(monkeypatch: Any) -> None:
    """The second step follows the round that the first one ends: its gradients are there."""
    def body(loop: Loop, i: int) -> None:
        if i == 0:
            loop.trainer = gluon.Trainer(loop.net[0].collect_params(), "sgd", {"learning_rate": 0.01})
            loop.head = gluon.Trainer(loop.net[4].collect_params(), "adam")          # type: ignore[attr-defined]
        x, y = BATCHES[i % 5]
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
        loss.backward()
        loop.trainer.step(8)
        loop.head.step(8)                                                            # type: ignore[attr-defined]
        loop.seen.append(loss.asnumpy())
    assert is_joined(both(monkeypatch, body))


@pytest.mark.parametrize("warmup", [False, True])
def test_moving_averages(monkeypatch: Any, warmup: bool) -> None:
    def body(loop: Loop) -> None:
        ema = gluon.ExponentialMovingAverage(loop.net, 0.9, warmup)
        for i in range(STEPS):
            Loop.step(loop, i)
            ema.update()
        loop.seen += [x.asnumpy() for x in ema.averages.values()]
    assert is_followed(both(monkeypatch, body))


class Checkpointed(nn.HybridBlock):
    """Two layers; values of the first are computed again in the backward pass."""

    def __init__(self, of_code: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Dense(16, activation="tanh", in_units=12), nn.Dense(4, in_units=16)
        self.part = mx.checkpoint(lambda x: self.first(x) ** 2) if of_code else None

    def forward(self, x: Any) -> Any:
        return self.last((self.part or mx.checkpoint(self.first))(x))


@pytest.mark.parametrize("of_code", [False, True])
def test_checkpointing(monkeypatch: Any, of_code: bool) -> None:
    def maker() -> Any:
        mx.random.seed(1)
        net = Checkpointed(of_code)
        net.initialize(mx.init.Xavier())
        net.hybridize()
        return net
    loop = both(monkeypatch, Loop.step, maker=maker)
    if of_code:                                          # which reads a variable
        not_joined(loop, "reads 'self'")
    else:
        assert is_followed(loop)


@pytest.mark.parametrize("parts", [2, 4, 9, 12, 20])
def test_accumulation_followed_by_one_step(monkeypatch: Any, parts: int) -> None:
    def maker() -> Any:
        net = small()
        net.collect_params().setattr("grad_req", "add")
        return net

    def body(loop: Loop, i: int) -> None:
        total = 0.0
        losses = []
        for k in range(parts):
            x, y = BATCHES[(i + k) % 5]
            with autograd.record():
                loss = loop.loss(loop.net(x), y)
            loss.backward()
            losses.append(loss.mean())
        loop.trainer.step(8 * parts)
        for p in loop.net.collect_params().values():
            p.zero_grad()
        total = float(np.mean([x.asscalar() for x in losses]))
        loop.seen.append(np.array(total))
    loop = both(monkeypatch, body, 10, maker=maker)
    if parts < 16:
        assert loop.root.joined == 8 and is_followed(loop, 8)
    else:
        not_joined(loop, "too many calls")
        assert loop.root.strange == 10


class Averaging(optimizer.Optimizer):
    """An optimizer of a user's, whose update is Python code over arrays."""

    def create_state(self, index: int, weight: Any) -> Any:
        return mx.nd.zeros_like(weight)

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        state[:] = 0.9 * state + grad * self.rescale_grad
        weight[:] = weight - self._get_lr(index) * state


class Store(mx.kv.KVStoreBase):
    """A store of a user's, of one process."""
    type = "own"

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        for x in out:
            x[:] = value

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        if out is not None:
            out[0][:] = value[0]

    @staticmethod
    def is_capable(capability: str) -> bool:
        return False


APART: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "own update": (lambda: {"optimizer": Averaging(learning_rate=0.05)}, "not one program of all parameters"),
    "draws": (lambda: {"optimizer": "sgld"}, "the optimizer draws random numbers"),
    "store": (lambda: {"optimizer": "sgd", "kvstore": Store()}, "gradients go through a kvstore first")}


@pytest.mark.parametrize("given, why", APART.values(), ids=APART)
def test_steps_that_follow_their_round(given: Callable[[], dict[str, Any]], why: str, monkeypatch: Any) -> None:
    """Forward and backward pass are one program though the step cannot be part of it."""
    def body(loop: Loop, i: int) -> None:
        if i == 0:
            loop.trainer = gluon.Trainer(loop.net.collect_params(), **given())
        loop.step(i)
    loop = both(monkeypatch, body, maker=smooth)
    assert is_joined(loop) and why in str(loop.root) and "each followed by its step" in str(loop.root)


def test_a_step_that_begins_to_draw(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        if i == STEPS // 2:
            monkeypatch.setattr(loop.trainer._optimizer, "draws", True, raising=False)
        loop.step(i)
        assert ("followed by its step" in str(loop.root)) == (i >= STEPS // 2 and loop.root.joined > 0)
    assert is_joined(both(monkeypatch, body, maker=smooth))


def test_a_parameter_is_frozen_where_losses_are_read_before_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program up to ``backward`` wrote that parameter's gradient."""
    def body(loop: Loop, i: int) -> None:
        look_before(loop, i)
        if i in (5, 12):
            next(iter(loop.net.collect_params().values())).grad_req = "null" if i == 5 else "write"
    both(monkeypatch, body, maker=smooth)


def test_evaluation_between_recorded_calls_of_several_sizes() -> None:
    """The program of one size in another mode is no program for any size."""
    net = smooth()
    for i in range(12):
        x = mx.nd.array(np.ones((8 - i % 3, 12)))
        with autograd.record():
            loss = (net(x) ** 2).mean(axis=1)
        with autograd.predict_mode():
            assert net(x).shape == (8 - i % 3, 4) and loss.shape == (8 - i % 3,)
