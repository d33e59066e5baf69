"""Values of which a kernel needs a part, while all of them are stored: results, values kept for the backward pass,
running statistics."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.gluon import nn

from ..hybridize_tools import arr, same

PARTS = {"every second": {"begin": (None, 0), "end": (None, None), "step": (1, 2)},
         "front": {"begin": (None, 0), "end": (None, 3)},
         "back": {"begin": (None, 5), "end": (None, None)},
         "backwards": {"begin": (None, None), "end": (None, None), "step": (1, -1)}}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())
@pytest.mark.parametrize("columns", [7, 33])
def test_a_reduction_that_is_a_result_too(part: dict[str, Any], columns: int) -> None:
    def f(x: Any) -> Any:
        top = nd.max(x, axis=0, keepdims=True)
        total = nd.sum(nd.exp(nd.broadcast_sub(x, top)), axis=0)
        return nd.slice(nd.broadcast_sub(x, top + nd.log(total).reshape((1, -1))), **part), total, top
    x = arr(4, columns)
    same(mx.hybridize(f)(x), f(x), 1e-5)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())
def test_gradients(part: dict[str, Any]) -> None:
    def gradient(f: Any, x: Any) -> Any:
        x.attach_grad()
        with autograd.record():
            y = f(x)
            loss = (y * y).sum()
        loss.backward()
        return x.grad

    def f(x: Any) -> Any:
        return nd.slice(nd.log_softmax(x, axis=0),
                        **part) * nd.slice(nd.broadcast_div(x, nd.norm(x, axis=0, keepdims=True)), **part)
    g, x = mx.hybridize(f), arr(5, 16)
    want = gradient(f, x).copy()
    for _ in range(3):
        # what is not written is rarely zero then
        waste = [np.full(n, np.nan, np.float32) for n in (8, 16, 80) for _ in range(20)]
        del waste
        same(gradient(g, x), want, 1e-5)


def test_running_statistics_where_some_channels_are_read() -> None:
    class Net(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.norm = nn.BatchNorm(in_channels=8)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.relu(self.norm(x))[:, 3:5]
    found = []
    for hybridized in (False, True):
        net = Net()
        net.initialize()
        if hybridized:
            net.hybridize()
        with autograd.train_mode():
            y = net(arr(4, 8, 6))
        found.append((y, net.norm.running_mean.data(), net.norm.running_var.data()))
    same(found[1], found[0], 1e-5)
