"""A small network, its batches and its training, for tests of the Trainer."""
from __future__ import annotations

from typing import Any

import numpy as np

from hybrid import autograd, nd
from hybrid.gluon import nn


def mlp(seed: int = 0, ctx: Any = None) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Dense(5, in_units=4, activation="tanh"), nn.Dense(3, in_units=5))
    net.initialize(ctx=ctx)
    rng = np.random.RandomState(seed)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.uniform(-1, 1, p.shape).astype("float32")))
    return net


def batch(step: int, ctx: Any = None) -> Any:
    return nd.array(np.random.RandomState(100 + step).randn(6, 4).astype("float32"), ctx=ctx)


def train(net: Any, trainer: Any, steps: Any) -> None:
    for step in steps:
        with autograd.record():
            loss = (net(batch(step)) ** 2).sum()
        loss.backward()
        trainer.step(6)


def values(net: Any) -> np.ndarray:
    return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])
