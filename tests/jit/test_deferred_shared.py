"""Arrays that share memory with weights or gradients of a joined training loop, read in its middle."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import autograd, nd

from .test_deferred_loop import BATCHES, Loop, both, smooth

KINDS: dict[str, Callable[[Any], Any]] = {
    "weight detached": lambda p: p.data().detach(), "part of a weight": lambda p: p.data()[1:3],
    "gradient detached": lambda p: p.grad().detach(), "part of a gradient": lambda p: p.grad()[1:3]}
READS: dict[str, Callable[[Any], Any]] = {
    "asnumpy": lambda x: x.asnumpy(), "operator": lambda x: (x * 2).asnumpy(), "number": lambda x: x[0, 0].asscalar(),
    "numpy": np.array}


def backward(loop: Loop, i: int) -> None:
    x, y = BATCHES[i % 5]
    with autograd.record():
        loss = loop.loss(loop.net(x), y)
    loss.backward()


@pytest.mark.parametrize("by_hand", (True, False), ids=("by hand", "Trainer"))
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_shares_memory_is_read_as_eagerly(monkeypatch: Any, kind: str, read: str, by_hand: bool) -> None:
    def body(loop: Loop) -> None:
        first, *others = [p for p in loop.net.collect_params().values() if p.grad_req != "null"]
        shared = KINDS[kind](first)
        for i in range(12):
            backward(loop, i)
            loop.seen.append(READS[read](shared))
            if by_hand:
                first.data()[:] = first.data() - 0.05 * first.grad()
                if i % 2:
                    loop.seen.append(READS[read](shared))
                for p in others:
                    p.data()[:] = p.data() - 0.05 * p.grad()
            else:
                loop.trainer.step(8)
            loop.seen.append(READS[read](shared))
    both(monkeypatch, body)


def test_gradients_that_others_may_write_are_not_put_off(monkeypatch: Any) -> None:
    def body(loop: Loop) -> None:
        for i in range(12):
            backward(loop, i)
            if i == 6:
                outside = np.from_dlpack(loop.net[0].weight.grad())
            if i > 6:
                loop.seen.append(outside.copy())
            loop.trainer.step(8)
    both(monkeypatch, body)


@pytest.mark.parametrize("calls", (1, 2))
def test_batches_that_some_rounds_write(monkeypatch: Any, calls: int) -> None:
    """Between rounds with updates by hand; the batch is an argument of several calls of the next round."""
    def body(loop: Loop) -> None:
        batches = [(nd.array(x.asnumpy()), y) for x, y in BATCHES[:4]]
        weights = [p.data() for p in loop.net.collect_params().values() if p.grad_req != "null"]
        for i in range(24):
            x, y = batches[i % 4]
            with autograd.record():
                loss = loop.loss(loop.net(x), y)
                if calls > 1:
                    loss = loss + 0.1 * loop.net(x * 0.5).mean(axis=1)
            for w, g in zip(weights, autograd.grad([loss], weights)):
                nd.sgd_update(w, g, lr=0.02, out=w)
            if i % 3 == 1:
                x[:] = x * 0.5
            loop.seen.append(loss.asnumpy())
    assert both(monkeypatch, body, maker=smooth, hybrid_loss=False).root.joined
