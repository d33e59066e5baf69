"""Running statistics move once for each call in training, eagerly and hybridized alike, whether the result is used or
not."""
from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

from hybrid import autograd, nd
from hybrid.gluon import nn

from ..hybridize_tools import same


class Net(nn.HybridBlock):
    """Two layers, and a BatchNorm that is called as ``use`` says."""

    def __init__(self, use: str):
        super().__init__()
        self.use = use
        with self.name_scope():
            self.a, self.norm = nn.Dense(3, in_units=3), nn.BatchNorm(in_channels=3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        h = self.a(x)
        if self.use == "unused":
            self.norm(h)
            return h * 2
        if self.use == "stopped":
            return h + F.BlockGrad(self.norm(h))
        if self.use == "twice, the second first":
            first, second = self.norm(h), self.norm(h * h)
            return second + first
        if self.use == "twice, one unused":
            self.norm(h * h)
            return self.norm(h)
        return F.contrib.cond(F.sum(x) > 1e6, lambda: self.norm(h), lambda: h)


USES = ("unused", "stopped", "twice, the second first", "twice, one unused", "in a branch not taken")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("how", ["recorded", "training", "predicting"])
def test_statistics_move_alike(use: str, how: str) -> None:
    found = []
    for hybridized in (False, True):
        onp.random.seed(3)
        net = Net(use)
        net.initialize()
        net.a.weight.set_data(nd.array(onp.random.standard_normal((3, 3))))
        if hybridized:
            net.hybridize()
        x = nd.array(onp.random.standard_normal((5, 3)))
        for _ in range(3):
            if how == "recorded":
                with autograd.record():
                    loss = (net(x) ** 2).sum()
                loss.backward()
            elif how == "training":
                with autograd.train_mode():
                    net(x)
            else:
                net(x)
        found.append((net.norm.running_mean.data(), net.norm.running_var.data()))
    for e, h in zip(*found):
        same(e, h)
    assert bool(found[0][0].asnumpy().any()) == (how != "predicting" and use != "in a branch not taken")
