"""What can be hybridized: classes, functions, nested blocks; outputs keep their structure."""
from __future__ import annotations

import collections
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn

from ..hybridize_tools import arr, both, same


# ---- what can be decorated
def test_decorated_block_is_hybridized() -> None:
    @mx.hybridize
    class Net(nn.HybridBlock):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.fc = nn.Dense(3)

        def forward(self, x: Any) -> Any:
            return nd.relu(self.fc(x)) + 1
    net = Net()
    net.initialize()
    assert net._active
    x = arr(2, 4)
    got = net(x)
    assert net.report() is not None
    net.hybridize(False)
    same(net(x), got)


def test_decorated_block_with_options_and_hybrid_forward() -> None:
    @mx.hybridize(static_alloc=True, static_shape=True)
    class Net(nn.HybridBlock):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.w = self.params.get("w", shape=(3,), init="ones")

        def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:  # noqa: N803
            return F.broadcast_mul(x, w) * 2
    net = Net()
    net.initialize()
    x = arr(2, 3)
    same(net(x), x * 2)
    net.w.set_data(nd.array([1, 2, 3]))
    same(net(x), x * nd.array([[2, 4, 6]]))
    assert len(net.cache_misses) == 1


def test_decorated_plain_block_hybridizes_children() -> None:
    @mx.hybridize
    class Net(nn.Block):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Dense(3, in_units=4)

        def forward(self, x: Any) -> Any:
            y = self.fc(x)
            return y * 2 if y.sum().asscalar() > 0 else -y        # eager code may look at values
    net = Net()
    net.initialize()
    x = arr(2, 4)
    got = net(x)
    assert net.fc._active
    net.hybridize(False)
    same(net(x), got)


def test_options_are_checked() -> None:
    with pytest.raises(TypeError, match="static_aloc"):
        mx.hybridize(static_aloc=True)
    with pytest.raises(TypeError):
        mx.hybridize(3)


def _model_of_arrays(method: str) -> Any:
    """A plain class whose method reads arrays, a number and a layer of its attributes."""
    class Inner:
        def __init__(self) -> None:
            self.deep = nd.array([5.0, 6.0])

    class Model:
        def __init__(self) -> None:
            self.w = nd.array([2.0, 3.0])
            self.parts = {"b": [nd.array([1.0, 1.0]), None]}
            self.inner = Inner()
            self.alpha = 1
            self.fc = nn.Dense(2, in_units=2)
            self.fc.initialize(mx.init.One())
    setattr(Model, method, _read_all)
    return Model


def _read_all(self: Any, x: Any) -> Any:
    return x * self.w + self.parts["b"][0] + self.inner.deep + self.alpha + self.fc(x)


@pytest.mark.parametrize("method", ["forward", "__call__"])
def test_plain_class_follows_its_arrays(method: str) -> None:
    e, h = _model_of_arrays(method)(), mx.hybridize(_model_of_arrays(method))()
    x = nd.array([[10.0, 20.0]])

    def check() -> None:
        same(h(x) if method == "__call__" else h.forward(x), _read_all(e, x))
        if method == "forward":
            same(h(x), _read_all(e, x))
    check()
    for m in (e, h):
        m.w[:] = 7                                        # contents
    check()
    for m in (e, h):
        m.parts["b"][0] += 3
        m.inner.deep[0] = 100
    check()
    for m in (e, h):
        m.w = nd.array([-1.0, -2.0])                      # another array
        m.inner.deep = nd.array([0.5, 0.25])
    check()
    for m in (e, h):
        m.alpha = 2                                       # a number
    check()
    for m in (e, h):
        m.parts["b"][0] = nd.array([9.0, 9.0])
        m.fc.weight.set_data(nd.array([[1.0, 2.0], [3.0, 4.0]]))
    check()
    for m in (e, h):
        m.fc = nn.Dense(2, in_units=2)
        m.fc.initialize(mx.init.Constant(3))
    check()


def test_plain_class_parameters_in_attributes() -> None:
    @mx.hybridize
    class Model:
        def __init__(self) -> None:
            self.p = gluon.Parameter("p", shape=(2,))
            self.p.initialize(mx.init.One())

        def __call__(self, x: Any) -> Any:
            return x * self.p.data()
    m = Model()
    x = nd.array([1.0, 2.0])
    same(m(x), x)
    m.p.set_data(nd.array([3.0, 4.0]))
    same(m(x), nd.array([3.0, 8.0]))


def test_plain_class_changes_its_arrays() -> None:
    class Counter:
        def __init__(self) -> None:
            self.n = nd.zeros((2,))

        def __call__(self, x: Any) -> Any:
            self.n += x
            return self.n * 2
    e, h = Counter(), mx.hybridize(type("C2", (Counter,), {"__call__": Counter.__call__}))()
    x = nd.array([1.0, 2.0])
    for _ in range(3):
        same(h(x), e(x))
        same(h.n, e.n)


def test_hybridized_method_of_a_plain_class() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = nd.array([2.0])

        @mx.hybridize
        def run(self, x: Any, k: int = 1) -> Any:
            return x * self.w * k
    a, b = Model(), Model()
    b.w[:] = 5
    x = nd.array([3.0])
    same(a.run(x), nd.array([6.0]))
    same(b.run(x, k=2), nd.array([30.0]))
    a.w = nd.array([4.0])
    same(a.run(x), nd.array([12.0]))


def test_function_arguments() -> None:
    def f(x: Any, *rest: Any, scale: Any = 1, **more: Any) -> Any:
        out = x * scale
        for r in rest:
            out = out + (r["a"][0] if isinstance(r, dict) else r)
        if more.get("mode") == "neg":
            out = -out
        return out + more["extra"][1] if "extra" in more else out
    x, y = arr(2, 3), arr(2, 3, seed=1)
    both(f, x)
    both(f, x, y, {"a": [y, None]}, scale=2)
    both(f, x, scale=y)
    both(f, x, mode="neg", extra=(1, y))
    g = mx.hybridize(f)
    same(g(x, scale=2), x * 2)
    same(g(x, scale=3), x * 3)
    same(g(x, scale=2), x * 2)
    assert len(g.cache_misses) == 2
    same(g(x, scale=True), x * True)                       # True and 1 are told apart
    same(g(x, scale=1), x * 1)
    same(g(x, scale=1.0), x * 1.0)


def test_numpy_argument_is_an_input() -> None:
    @mx.hybridize
    def f(x: Any, y: Any) -> Any:
        return x + y
    x = nd.array([1.0, 2.0])
    same(f(x, onp.array([1, 2], "float32")), nd.array([2.0, 4.0]))
    same(f(x, onp.array([5, 6], "float32")), nd.array([6.0, 8.0]))


def test_an_argument_that_cannot_be_hashed_is_told_by_identity_and_contents() -> None:
    f, some = mx.hybridize(lambda x, s: x * len(s)), {1, 2}
    assert f(nd.ones((1,)), some).asscalar() == 2
    some.add(3)
    assert f(nd.ones((1,)), some).asscalar() == 3


def test_function_captures_outer_arrays() -> None:
    w = nd.array([1.0, 2.0])

    @mx.hybridize
    def f(x: Any) -> Any:
        return x * w
    x = nd.array([3.0, 4.0])
    same(f(x), nd.array([3.0, 8.0]))
    w[:] = 10
    same(f(x), nd.array([30.0, 40.0]))


def test_function_captures_outer_block() -> None:
    net = nn.Dense(2, in_units=2)
    net.initialize()

    @mx.hybridize
    def f(x: Any) -> Any:
        return net(x) * 2
    x = arr(3, 2)
    same(f(x), net(x) * 2)
    net.weight.set_data(nd.ones((2, 2)))
    same(f(x), net(x) * 2)
    net.hybridize()
    same(f(x), net(x) * 2)


# ---- outputs
Pair = collections.namedtuple("Pair", "left right")


@pytest.mark.parametrize("fn", [
    lambda x: (x + 1, x * 2),
    lambda x: [x + 1],
    lambda x: {"a": x + 1, "b": [x * 2, None], "c": 3},
    lambda x: (),
    lambda x: None,
    lambda x: x,
    lambda x: (x, x, x + 0),
    lambda x: Pair(x + 1, "text"),
    lambda x: [x.sum(), x.sum()],
    lambda x: 7,
])
def test_output_structure(fn: Any) -> None:
    both(fn, arr(2, 3))


def test_passed_through_input_is_the_callers() -> None:
    f = mx.hybridize(lambda x, y: (y, x))
    x, y = nd.ones((2,)), nd.zeros((2,))
    for _ in range(3):
        a, b = f(x, y)
        assert a is y and b is x
    g = mx.hybridize(lambda x: x)
    for _ in range(3):
        z = nd.ones((2,))
        assert g(z) is z


# ---- nesting
def test_inner_blocks_are_inlined() -> None:
    net = nn.HybridSequential()
    inner = nn.HybridSequential()
    inner.add(nn.Dense(4, activation="relu"), nn.Dense(3))
    net.add(nn.Dense(5), inner)
    net.initialize()
    x = arr(2, 6)
    want = net(x)
    inner.hybridize()
    same(net(x), want)
    net.hybridize()
    same(net(x), want)
    assert net.report() is not None and len(net.cache_misses) == 1
    f = mx.hybridize(lambda v: net(v) + 1)
    same(f(x), want + 1)


def test_recursion_and_reentry() -> None:
    @mx.hybridize
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else x * power(x, n - 1)
    x = nd.array([2.0, 3.0])
    for n in (3, 1, 0, 3):
        same(power(x, n), x ** (n + 1))

    class Net(nn.HybridBlock):
        def forward(self, x: Any, depth: int = 2) -> Any:
            return self(x + 1, depth - 1) * 2 if depth else x
    net = Net()
    want = net(x)
    net.hybridize()
    same(net(x), want)
    same(net(x, 3), ((x + 3) * 8))


def test_hooks() -> None:
    seen: list[str] = []
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=2))
    net.initialize()
    x = arr(1, 2)
    net.hybridize()
    net.register_forward_pre_hook(lambda b, i: seen.append("pre"))
    net.register_forward_hook(lambda b, i, o: seen.append(type(o).__name__))
    net[0].register_forward_hook(lambda b, i, o: seen.append("inner"))
    for _ in range(3):
        net(x)
    assert seen.count("pre") == 3 and seen.count("NDArray") == 3       # the outer ones at every call
    assert seen.count("inner") == 3 and len(net.cache_misses) == 1     # and the inner ones, of one compiled program
