"""Arrays that share memory with weights or gradients of a joined training loop, read in its middle."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import autograd

from .test_deferred_loop import BATCHES, Loop, both

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
