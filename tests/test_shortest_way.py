"""The shortest way into a compiled block (hybrid/quick.py) ends when something may have changed, and is laid again when nothing had."""
from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd, trace
from hybrid.gluon import nn
from hybrid.runtime import launcher


@pytest.fixture(autouse=True)
def built() -> None:
    launcher.load()                                           # else it is compiled in the background meanwhile


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


def test_each_thread_has_its_own_scope() -> None:
    net, x = made(4, 3), nd.array(np.ones((1, 5)))
    want = [net(x).asnumpy() for _ in range(3)][-1]
    turn, gradients = threading.Barrier(2, timeout=60), []

    def recorded() -> None:
        w = net[0].weight
        for _ in range(20):
            turn.wait()
            with autograd.record():
                y = net(x).sum()
            y.backward()
            gradients.append(w.grad().asnumpy())
    other = threading.Thread(target=recorded)
    other.start()
    for _ in range(20):
        turn.wait()
        np.testing.assert_array_equal(net(x).asnumpy(), want)
    other.join()
    with autograd.record():
        y = net(x).sum()
    y.backward()
    assert len(gradients) == 20 and all((g == net[0].weight.grad().asnumpy()).all() for g in gradients)


def test_a_function_that_is_switched_off_runs_as_it_is() -> None:
    @mx.hybridize
    def f(x: Any) -> Any:
        return x * 2 + 1
    x = nd.ones((2, 2))
    for active in (True, False, True):
        f.hybridize(active=active)
        for _ in range(3):
            assert f(x).asnumpy().tolist() == [[3, 3], [3, 3]]
        assert (f._shortest[0] is not None) == active
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward()
    assert x.grad.asnumpy().tolist() == [[2, 2], [2, 2]]


def test_a_device_is_one_object_that_does_not_change() -> None:
    assert nd.ones((2,)).context is nd.array([1.0]).context is mx.cpu()
    assert mx.Context("cpu", 0) == mx.cpu() and pickle.loads(pickle.dumps(mx.cpu(1))) == copy.deepcopy(mx.cpu(1)) == mx.cpu(1)
    with pytest.raises(AttributeError, match="a device does not change, so its device_id cannot be set"):
        mx.cpu().device_id = 1
    mx.cpu().device_id, mx.cpu().device_typeid = 0, 1                       # what it is already: programs that read devices from files
    net, x = made(4, 3), nd.array(np.ones((1, 5)))
    for _ in range(3):
        net(x)
    x = nd.array(x, ctx=mx.Context("cpu", 0))
    assert net._engine.quick(x) is not None                   # an equal one serves as well
