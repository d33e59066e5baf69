"""Globals and variables of enclosing functions that hybridized code reads: their values are never stale."""
from __future__ import annotations

import types

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

X = nd.array([1.0, 2.0])
weight, alpha, settings, config, table = (nd.ones((2,)), 1, {"k": 1}, types.SimpleNamespace(scale=1, unused=1),
                                          onp.ones(2, "float32"))
other = weight


def helper(x):
    return x * alpha * settings["k"] * config.scale


def body(x):
    return helper(x) * weight + x * table


class Net(gluon.HybridBlock):
    def forward(self, x):                                    # type: ignore[override]
        return body(x)


def _set(**values):
    globals().update(values)


CHANGES = {
    "contents of an array": lambda: weight.__setitem__(slice(None), 3),
    "another array": lambda: _set(weight=nd.array([5.0, 6.0])),
    "another dtype": lambda: _set(weight=nd.array([5, 6], dtype="int32")),
    "number": lambda: _set(alpha=4),
    "kind of number": lambda: _set(alpha=1.0),
    "dict": lambda: settings.update(k=7),
    "object": lambda: setattr(config, "scale", 8),
    "numpy array": lambda: table.fill(9),
    "another numpy array": lambda: _set(table=onp.zeros(2, "float32")),
}


@pytest.fixture
def fresh():
    old = dict(globals())
    yield
    weight[:] = 1
    settings["k"], config.scale = 1, 1
    table.fill(1)
    _set(**{k: old[k] for k in ("weight", "alpha", "settings", "config", "table", "other")})
    weight[:] = 1
    table.fill(1)


@pytest.mark.parametrize("kind", ["function", "block"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda k: k.replace(" ", "-"))
def test_globals(change, kind, fresh):
    if kind == "function":
        f = mx.hybridize(lambda x: body(x))
        misses = f.cache_misses
    else:
        f = Net()
        f.hybridize()
    for _ in range(3):
        onp.testing.assert_array_equal(f(X).asnumpy(), body(X).asnumpy())
    misses = f.cache_misses
    assert len(misses) == 1, misses
    CHANGES[change]()
    for _ in range(3):
        onp.testing.assert_array_equal(f(X).asnumpy(), body(X).asnumpy())


def test_an_array_that_is_replaced_every_time_is_compiled_once(fresh):
    f = mx.hybridize(lambda x: x * weight)
    for i in range(20):
        _set(weight=nd.array([i, i + 1]))
        assert f(X).asnumpy().tolist() == [i, 2 * (i + 1)]
    assert len(f.cache_misses) == 1


def test_two_names_of_one_array_part(fresh):
    f = mx.hybridize(lambda x: x * weight + other)
    _set(weight=nd.array([1.0, 1.0]))
    _set(other=weight)
    assert f(X).asnumpy().tolist() == [2, 3]
    _set(other=nd.array([10.0, 10.0]))
    assert f(X).asnumpy().tolist() == [11, 12]


def test_an_array_given_and_named(fresh):
    f = mx.hybridize(lambda x: x * weight)
    assert f(weight).asnumpy().tolist() == [1, 1]
    assert f(nd.array([3.0, 4.0])).asnumpy().tolist() == [3, 4]


def test_what_is_not_read_compiles_nothing(fresh):
    f = mx.hybridize(lambda x: x * config.scale)
    for i in range(4):
        config.unused = i
        f(X)
    assert len(f.cache_misses) == 1


def test_enclosing_functions():
    def make():
        scale, w, parts = 1, nd.ones((2,)), [1]

        def change(*values):
            nonlocal scale, w
            scale, w = values

        @mx.hybridize
        def f(x):
            return x * scale * w * parts[0]
        return f, change, parts
    f, change, parts = make()
    assert f(X).asnumpy().tolist() == [1, 2]
    change(3, nd.ones((2,)))
    assert f(X).asnumpy().tolist() == [3, 6]
    change(3, nd.array([1.0, 10.0]))
    assert f(X).asnumpy().tolist() == [3, 60]
    parts[0] = 2
    assert f(X).asnumpy().tolist() == [6, 120]


def test_gradients_of_global_arrays(fresh):
    w = nd.array([2.0, 3.0])
    w.attach_grad()
    _set(weight=w)
    f = mx.hybridize(lambda x: (x * weight).sum())
    for _ in range(2):
        with autograd.record():
            y = f(X)
        y.backward()
        assert w.grad.asnumpy().tolist() == [1, 2]
    again = nd.array([7.0, 7.0])
    again.attach_grad()
    _set(weight=again)
    with autograd.record():
        y = f(X)
    y.backward()
    assert y.asscalar() == 21 and again.grad.asnumpy().tolist() == [1, 2]


def test_blocks_in_globals_may_be_replaced(fresh):
    net = nn.Dense(2, in_units=2)
    net.initialize(mx.init.One())
    _set(other=net)
    f = mx.hybridize(lambda x: other(x.reshape((1, 2))))
    assert f(X).asnumpy().tolist() == [[3, 3]]
    zeros = nn.Dense(2, in_units=2)
    zeros.initialize(mx.init.Zero())
    _set(other=zeros)
    assert f(X).asnumpy().tolist() == [[0, 0]]


def test_a_network_without_such_names_keeps_the_short_way():
    class Plain(gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            # modules and classes are no such names
            return nd.relu(x) * onp.float32(2) if isinstance(self, Net) else F.relu(x)
    net = Plain()
    net.hybridize()
    net(X), net(X)
    assert not net._watched()


def test_attributes_are_not_taken_for_globals_of_their_names():
    class Scaled(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.alpha = 3

        def hybrid_forward(self, F, x):  # noqa: N803
            return F.relu(x) * self.alpha
    net = Scaled()
    net.hybridize()
    assert net(X).asnumpy().tolist() == [3, 6]
    net(X)
    assert not net._watched()
