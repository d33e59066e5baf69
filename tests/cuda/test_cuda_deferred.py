"""Training loops as people write them on a GPU: rounds become one program there too. Over the stand-in for CuPy, whose
streams are real CuPy's."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base import pending
from hybrid.gluon import nn

from . import fake_cupy
from .test_cuda_cupy import stand_in  # noqa: F401  the fixture

pytestmark = pytest.mark.usefixtures("stand_in")
GPU, STEPS = mx.gpu(0), 9


class Loop:
    """A net with all that makes rounds hard, a loss and a Trainer on a GPU."""

    def __init__(self, optimizer: str = "sgd") -> None:
        mx.random.seed(1)
        self.net = nn.HybridSequential()
        self.net.add(nn.Dense(8, activation="relu", in_units=6), nn.BatchNorm(in_channels=8), nn.Dropout(0.3),
                     nn.Dense(3, in_units=8))
        self.net.initialize(mx.init.Xavier(), ctx=GPU)
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.net.hybridize()
        self.loss.hybridize()
        self.trainer = gluon.Trainer(self.net.collect_params(), optimizer, {"learning_rate": 0.05})
        self.weights = [p for p in self.net.collect_params().values() if p.grad_req != "null"]
        self.seen: list[Any] = []
        self.waited: list[int] = []

    def recorded(self, i: int) -> Any:
        rng = np.random.default_rng(i)
        rows = 3 if i == STEPS - 2 else 4                   # the last batch of an epoch
        x, y = nd.array(rng.standard_normal((rows, 6)), ctx=GPU), nd.array(rng.integers(0, 3, rows), ctx=GPU)
        with autograd.record():
            return self.loss(self.net(x), y)


def step(loop: Loop, i: int) -> None:
    loss = loop.recorded(i)
    loss.backward()
    loop.trainer.step(4)
    loop.seen.append(loss.asnumpy())


def look_before(loop: Loop, i: int) -> None:
    loss = loop.recorded(i)
    loss.backward()
    loop.seen += [loss.asnumpy(), loop.weights[0].grad().asnumpy()]
    loop.trainer.step(4)


def by_hand(loop: Loop, i: int) -> None:
    loss = loop.recorded(i)
    for p, grad in zip(loop.weights, autograd.grad(loss, [p.data() for p in loop.weights])):
        p.data()[:] = p.data() - 0.05 * grad
    loop.seen.append(loss.mean().asscalar())


def on_streams(loop: Loop, i: int) -> None:
    """Looks at what was put off on another stream, behind all that the null stream was given."""
    null, other = fake_cupy.CUPY.cuda.Stream.null, fake_cupy.CUPY.cuda.Stream(non_blocking=True)

    def look(value: Callable[[], Any]) -> None:
        null.synchronize()
        put_off, waits = pending.PUT_OFF[0], fake_cupy.STATE.waits
        with other:
            made = value()
        assert not put_off or fake_cupy.STATE.waits > waits
        loop.seen.append(made.asnumpy())
        loop.waited.append(put_off)
    loss = loop.recorded(i)
    if i % 3 == 0:
        look(lambda: loss.detach() * 2)
    loss.backward()
    if i % 3 == 1:
        look(lambda: loop.weights[0].grad() + 1)
    loop.trainer.step(4)
    look(lambda: loop.weights[0].data() + 1)


def both(body: Callable[[Loop, int], None], monkeypatch: pytest.MonkeyPatch, optimizer: str = "sgd") -> Loop:
    """Run a loop with nothing put off, and as it is; both must see the same. The loop as it is."""
    loops = []
    for setting in "01":
        monkeypatch.setenv("HYBRID_DEFER", setting)
        loop = Loop(optimizer)
        for i in range(STEPS):
            body(loop, i)
        loops.append(loop)
    other, loop = loops
    assert len(loop.seen) == len(other.seen)
    for a, b in zip([*loop.seen, *(p._reduce().asnumpy() for p in loop.weights)],
                    [*other.seen, *(p._reduce().asnumpy() for p in other.weights)]):
        np.testing.assert_allclose(a, b, 2e-4, 2e-5)
    return loop


@pytest.mark.parametrize("body, optimizer", [(step, "sgd"), (step, "adam"), (look_before, "sgd"), (by_hand, "sgd")])
def test_rounds_are_one_program(body: Any, optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert both(body, monkeypatch, optimizer).net._engine.rounds.joined >= STEPS - 5


def test_looking_on_another_stream_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(both(on_streams, monkeypatch).waited) >= 2


def test_calls_on_another_stream_are_not_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = fake_cupy.CUPY.cuda.Stream(non_blocking=True)

    def body(loop: Loop, i: int) -> None:
        with stream:
            step(loop, i)
    rounds = both(body, monkeypatch).net._engine.rounds
    assert not rounds.joined and "another CUDA stream" in rounds.why
