"""The shortest way into a compiled block (hybrid/quick.py) ends when something may have changed, and is laid again when nothing had."""
from __future__ import annotations

from typing import Any

import numpy as np

from hybrid import nd, trace
from hybrid.gluon import nn


def made(*units: int) -> Any:
    net = nn.HybridSequential()
    net.add(*[nn.Dense(u, activation="relu") for u in units])
    net.initialize()
    net.hybridize()
    return net


def test_laid_again_after_another_net_was_made() -> None:
    net, x = made(4, 3), nd.array(np.ones((1, 5)))
    want = [net(x).asnumpy() for _ in range(3)][-1]
    assert net._engine.quick(x) is not None
    other, y = made(7, 2), nd.array(np.ones((2, 3)))
    other(y)
    assert net._engine.quick(x) is None                       # it cannot know what was made
    for _ in range(trace.RENEW + 1):
        np.testing.assert_array_equal(net(x).asnumpy(), want)
    assert net._engine.quick(x) is not None
    for p in net.collect_params().values():                   # and it ends again, at once, with a new value
        p.set_data(p.data() * 2)
    changed = net(x).asnumpy()
    net.hybridize(False)
    np.testing.assert_allclose(changed, net(x).asnumpy(), rtol=1e-6)


def test_other_arguments_in_between() -> None:
    net, x, y = made(4, 3), nd.array(np.ones((1, 5))), nd.array(np.ones((2, 5)))
    one, two = net(x).asnumpy(), net(y).asnumpy()
    made(3)
    for i in range(3 * trace.RENEW):
        a = y if i % 3 == 0 else x
        np.testing.assert_array_equal(net(a).asnumpy(), two if a is y else one)
