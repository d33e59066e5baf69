"""Training loops as people write them on a GPU: rounds become one program there too. Over the stand-in for CuPy, whose
streams are real CuPy's."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.base import pending
from hybrid.gluon import nn

from . import fake_cupy
from .test_cuda_cupy import stand_in  # noqa: F401  the fixture
from ..jit.test_deferred_loop import Loop, both

pytestmark = pytest.mark.usefixtures("stand_in")
GPU, STEPS = mx.gpu(0), 9


def on_gpu() -> Any:
    """A net with all that makes rounds hard."""
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=6), nn.BatchNorm(in_channels=8), nn.Dropout(0.3),
            nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier(), ctx=GPU)
    net.hybridize()
    return net


def weights(loop: Loop) -> list[Any]:
    return [p for p in loop.net.collect_params().values() if p.grad_req != "null"]


def recorded(loop: Loop, i: int) -> Any:
    rng = np.random.default_rng(i)
    rows = 3 if i == STEPS - 2 else 4                       # the last batch of an epoch
    x, y = nd.array(rng.standard_normal((rows, 6)), ctx=GPU), nd.array(rng.integers(0, 3, rows), ctx=GPU)
    with autograd.record():
        return loop.loss(loop.net(x), y)


def step(loop: Loop, i: int) -> None:
    loss = recorded(loop, i)
    loss.backward()
    loop.trainer.step(4)
    loop.seen.append(loss.asnumpy())


def look_before(loop: Loop, i: int) -> None:
    loss = recorded(loop, i)
    loss.backward()
    loop.seen += [loss.asnumpy(), weights(loop)[0].grad().asnumpy()]
    loop.trainer.step(4)


def by_hand(loop: Loop, i: int) -> None:
    loss = recorded(loop, i)
    for p, grad in zip(weights(loop), autograd.grad(loss, [p.data() for p in weights(loop)])):
        p.data()[:] = p.data() - 0.05 * grad
    loop.seen.append(loss.mean().asscalar())


def on_streams(loop: Loop, i: int, waited: list[int]) -> None:
    """Looks at what was put off on another stream, behind all that the null stream was given. waited: gets how many
    rounds were put off at each look."""
    null, other = fake_cupy.CUPY.cuda.Stream.null, fake_cupy.CUPY.cuda.Stream(non_blocking=True)

    def look(value: Callable[[], Any]) -> None:
        null.synchronize()
        put_off, waits = pending.PUT_OFF[0], fake_cupy.STATE.waits
        with other:
            made = value()
        assert not put_off or fake_cupy.STATE.waits > waits
        loop.seen.append(made.asnumpy())
        waited.append(put_off)
    loss = recorded(loop, i)
    if i % 3 == 0:
        look(lambda: loss.detach() * 2)
    loss.backward()
    if i % 3 == 1:
        look(lambda: weights(loop)[0].grad() + 1)
    loop.trainer.step(4)
    look(lambda: weights(loop)[0].data() + 1)


@pytest.mark.parametrize("body, optimizer", [(step, "sgd"), (step, "adam"), (look_before, "sgd"), (by_hand, "sgd")])
def test_rounds_are_one_program(body: Any, optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert both(monkeypatch, body, STEPS, maker=on_gpu, optimizer=optimizer).root.joined >= STEPS - 5


def test_looking_on_another_stream_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []

    def body(loop: Loop) -> None:
        waited.clear()
        for i in range(STEPS):
            on_streams(loop, i, waited)
    both(monkeypatch, body, maker=on_gpu)
    assert sum(waited) >= 2


def test_calls_on_another_stream_are_not_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = fake_cupy.CUPY.cuda.Stream(non_blocking=True)

    def body(loop: Loop) -> None:
        with stream:
            for i in range(STEPS):
                step(loop, i)
    rounds = both(monkeypatch, body, maker=on_gpu).root
    assert not rounds.joined and "another CUDA stream" in rounds.why
