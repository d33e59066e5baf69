"""Outputs of a recorded call that no loss uses have no gradient, not even where zero times an infinite derivative would
be no number: compiled as eagerly."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import autograd, gluon, hybridize, nd, random


def _gradients(net: Any, inputs: list[Any], loss: Callable[[Any], Any]) -> list[Any]:
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        total = loss(net(*inputs))
    total.backward()
    return [x.grad.asnumpy() for x in inputs]


class Heads(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x * 2, F.sqrt(x), F.log(x), F.norm(x), F.softmax(x).sum()


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("used, want", [((0,), [2, 2]), ((1,), [np.inf, .5]), ((0, 2), [np.inf, 3]), ((0, 4), [2, 2])])
def test_heads_that_nobody_uses(hybridized: bool, used: tuple[int, ...], want: list[float]) -> None:
    net = Heads()
    net.hybridize(hybridized)
    with np.errstate(divide="ignore"):
        (got,) = _gradients(net, [nd.array([0., 1.])], lambda outs: nd.add_n(*(outs[i].sum() for i in used)))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_other_heads_of_one_recorded_call_later() -> None:
    f, x = hybridize(lambda x: (x * 2, nd.sqrt(x))), nd.array([0., 4.])
    for used, want in ((0, [2, 2]), (1, [np.inf, .25]), (0, [2, 2])):
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(_gradients(f, [x], lambda outs: outs[used].sum())[0], want)


def test_gradients_of_gradients_leave_unused_heads_out() -> None:
    f, x = hybridize(lambda x: (x ** 3, nd.sqrt(x))), nd.array([0., 2.])
    x.attach_grad()
    with autograd.record():
        (g,) = autograd.grad(f(x)[0].sum(), [x], create_graph=True)
        total = g.sum()
    total.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 12])


def test_a_compiled_step_with_its_backward_pass() -> None:
    x, net = nd.array([0., 1.]), Heads()
    x.attach_grad()

    def step() -> Any:
        with autograd.record():
            total = net(x)[0].sum()
        total.backward()
        return x.grad
    np.testing.assert_array_equal(hybridize(step)().asnumpy(), [2, 2])


class Recurrent(gluon.HybridBlock):
    """A recurrent layer, batch normalisation and a table; ``root`` is a head that is infinite where it has a slope."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rnn = gluon.rnn.LSTM(5, input_size=3)
        self.norm = gluon.nn.BatchNorm(in_channels=3)

    def hybrid_forward(self, F: Any, x: Any, h: Any, c: Any) -> Any:
        out, states = self.rnn(self.norm(x.reshape((-3, 0))).reshape((-4, 4, 2, 0)), [h, c])
        steps, last = F.contrib.foreach(lambda a, s: (F.tanh(a + s), a * s), out, states[0][0])
        return out, states[0], states[1], steps, last, F.sqrt(x - x)


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (3,), (4,), (0, 2), (1, 4)])
def test_recurrent_networks_whose_states_nobody_uses(used: tuple[int, ...]) -> None:
    found = []
    for hybridized in (False, True):
        random.seed(3)
        net = Recurrent()
        net.initialize()
        net.hybridize(hybridized)
        inputs = [nd.array(np.sin(np.arange(size)).reshape(shape))
                  for size, shape in ((24, (4, 2, 3)), (10, (1, 2, 5)), (10, (1, 2, 5)))]
        found.append(_gradients(net, inputs, lambda outs: nd.add_n(*((outs[i] * outs[i]).sum() for i in used))))
    for eager, compiled in zip(*found):
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-6)


def test_rows_of_a_table_without_the_other_heads() -> None:
    table = gluon.nn.Embedding(6, 2, sparse_grad=True)
    table.initialize()
    both = hybridize(lambda i: (table(i), nd.sqrt(table(i) * 0)))
    with autograd.record():
        total = both(nd.array([1, 3]))[0].sum()
    total.backward()
    np.testing.assert_array_equal(table.weight.grad().tostype("default").asnumpy().sum(1), [0, 2, 0, 2, 0, 0])
