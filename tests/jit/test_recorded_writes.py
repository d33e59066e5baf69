"""What compiled calls write into arrays while ``autograd.record()`` is on."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, hybridize, nd


def _whole(x: Any, cache: Any) -> Any:
    cache[:] = (cache + x) * 3
    return (cache * cache).sum()


def _number(x: Any, cache: Any) -> Any:
    cache[:] = 3
    return (cache * cache * x).sum()


def _chosen(x: Any, cache: Any) -> Any:
    cache[:] = nd.where(nd.array([0, 1, 0]), x, cache)
    return (cache * cache * x).sum()


@pytest.mark.parametrize("of_range", [False, True], ids=["whole", "range"])
@pytest.mark.parametrize("f", [_whole, _number, _chosen])
def test_later_uses_go_on_from_what_a_call_wrote(f: Callable[[Any, Any], Any], of_range: bool) -> None:
    """An array with a gradient that a function writes: used before the call, written by two calls, used after them.
    MXNet refuses it; compiled and eager calls give what the same code gives where nothing is written in place."""
    found = []
    for call in (f, hybridize(f)):
        x, cache = nd.array([1, 2, 3]), nd.ones((5,))[1:4] if of_range else nd.ones((3,))
        x.attach_grad()
        cache.attach_grad()
        for _ in range(2):
            with autograd.record():
                y = (cache * cache * x).sum() + call(x, cache) + call(x * 2, cache) + (cache * x).sum()
            y.backward()
            found.append([v.asnumpy() for v in (y, x.grad, cache.grad, cache)])
    for eager, compiled in zip(found[:2], found[2:]):
        for a, b in zip(eager, compiled):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    if f is _whole:                                          # of its first element: (1 + 1) 3 = 6, (6 + 2) 3 = 24
        np.testing.assert_array_equal(found[0][3][0], 24)
        np.testing.assert_array_equal(found[0][2][0], 2 + 2 * 6 * 3 + 2 * 24 * 9 + 9)


class Statistics(gluon.HybridBlock):
    """A layer whose running mean is moved in ``pause``: a parameter, or an array in an attribute."""

    def __init__(self, parameter: bool, through_forward: bool) -> None:
        super().__init__()
        self.dense, self.through_forward = gluon.nn.Dense(3, in_units=2), through_forward
        self.mean = self.params.get("mean", shape=(3,), init="zeros", grad_req="null") if parameter else nd.zeros((3,))

    def forward(self, x: Any) -> Any:
        if not self.through_forward:
            return super().forward(x)
        return self.moved(x, self.mean.data() if isinstance(self.mean, gluon.Parameter) else self.mean)

    def hybrid_forward(self, F: Any, x: Any, mean: Any = None) -> Any:  # noqa: N803
        return self.moved(x, self.mean if mean is None else mean)

    def moved(self, x: Any, mean: Any) -> Any:
        y = self.dense(x)
        with autograd.pause():
            mean[:] = mean * 0.9 + y.mean(axis=0) * 0.1
        return y - mean


class Shrinks(gluon.HybridBlock):
    """A layer that changes its weight in ``pause`` before it uses it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.params.get("weight", shape=(3, 2))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # noqa: N803
        with autograd.pause():
            weight[:] = weight * 0.9
        return F.dot(x, weight, transpose_b=True)


def trained(make: Callable[[], Any], hybridized: bool) -> list[Any]:
    """The losses of a few steps, the gradients and the parameters."""
    mx.random.seed(4)
    net = make()
    net.initialize(mx.init.Xavier())
    if hybridized:
        net.hybridize()
    trainer, seen = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}), []
    for i in range(5):
        x = nd.array([[1.0, i], [2.0, 1.0]])
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        seen += [loss.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null")]
        trainer.step(2)
    return [*seen, *(p.data().asnumpy() for p in net.collect_params().values())]


@pytest.mark.parametrize("through_forward", [False, True])
@pytest.mark.parametrize("parameter", [False, True])
def test_statistics_that_are_moved_in_pause_are_not_on_the_tape(parameter: bool, through_forward: bool) -> None:
    def make() -> Any:
        return Statistics(parameter, through_forward)
    for got, want in zip(trained(make, True), trained(make, False), strict=True):
        np.testing.assert_allclose(got, want, 1e-5)


def test_a_weight_that_is_changed_in_pause_has_its_gradient() -> None:
    with pytest.warns(UserWarning, match="autograd.pause.*an array that collects a gradient"):
        got = trained(Shrinks, True)
    for a, b in zip(got, trained(Shrinks, False), strict=True):
        np.testing.assert_allclose(a, b, 1e-5)
