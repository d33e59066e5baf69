"""@hybridize: item 12 of the first issue. Each behaviour eager and hybridized, with the same result."""
from __future__ import annotations

import collections
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.array import NDArray
from hybrid.errors import DeviceError, TraceError
from hybrid.gluon import nn

ROOT = Path(__file__).resolve().parent.parent
ON_GPU = os.environ.get("HYBRID_DEVICE", "").startswith("gpu")


def same(a: Any, b: Any, tol: float = 1e-5) -> None:
    """Two results have one structure and close numbers."""
    if isinstance(a, NDArray) or isinstance(b, NDArray):
        assert type(a) is type(b) and a.shape == b.shape and a.dtype == b.dtype, (a, b)
        onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=tol, atol=tol)
    elif isinstance(a, dict):
        assert type(a) is type(b) and list(a) == list(b)
        for k in a:
            same(a[k], b[k], tol)
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y, tol)
    else:
        assert type(a) is type(b) and a == b


def arr(*shape: int, dtype: str = "float32", seed: int = 0) -> NDArray:
    rng = onp.random.RandomState(seed)
    raw = rng.randint(1, 9, shape) if dtype.startswith(("int", "uint")) else rng.randn(*shape)
    return nd.array(onp.asarray(raw, dtype=dtype), dtype=dtype)


def both(fn: Any, *args: Any, tol: float = 1e-5, **kwargs: Any) -> Any:
    """Call plain, then hybridized twice; all three agree."""
    want = fn(*args, **kwargs)
    f = mx.hybridize(fn)
    same(f(*args, **kwargs), want, tol)
    same(f(*args, **kwargs), want, tol)
    assert len(f.cache_misses) == 1, f.cache_misses
    return f


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


@pytest.mark.parametrize("method", ["forward", "__call__"])
def test_plain_class_follows_its_arrays(method: str) -> None:
    class Inner:
        def __init__(self) -> None:
            self.deep = nd.array([5.0, 6.0])

    def body(self: Any, x: Any) -> Any:
        return x * self.w + self.parts["b"][0] + self.inner.deep + self.alpha + self.fc(x)

    def build() -> Any:
        class Model:
            def __init__(self) -> None:
                self.w = nd.array([2.0, 3.0])
                self.parts = {"b": [nd.array([1.0, 1.0]), None]}
                self.inner = Inner()
                self.alpha = 1
                self.fc = nn.Dense(2, in_units=2)
                self.fc.initialize(mx.init.One())
        setattr(Model, method, body)
        if method == "forward":
            return Model
        return Model
    eager_cls, hybrid_cls = build(), mx.hybridize(build())
    e, h = eager_cls(), hybrid_cls()
    x = nd.array([[10.0, 20.0]])

    def check() -> None:
        same(h(x) if method == "__call__" else h.forward(x), body(e, x))
        if method == "forward":
            same(h(x), body(e, x))
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


def test_unhashable_argument_is_a_clear_error() -> None:
    f = mx.hybridize(lambda x, s: x)
    with pytest.raises(TraceError, match="hash"):
        f(nd.ones((1,)), {1, 2})


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
    assert seen.count("inner") == 1                                    # inner ones while tracing


# ---- train and predict
def test_train_and_predict_are_separate() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5))
    net.hybridize()
    x = nd.ones((8, 64))
    same(net(x), x)
    with autograd.train_mode():
        dropped = net(x)
    assert (dropped.asnumpy() == 0).any()
    same(net(x), x)
    assert len(net.cache_misses) == 2 and "training" in net.cache_misses[1]


def test_dropout_is_fresh_and_equal_to_eager() -> None:
    def build() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Dropout(0.3), nn.Dense(16, in_units=16), nn.Dropout(0.6))
        net.initialize(mx.init.One())
        return net
    e, h = build(), build()
    h.hybridize()
    x = nd.ones((4, 16))

    def calls(net: Any, scope: Any) -> list[Any]:
        mx.random.seed(42)
        with scope():
            return [net(x) for _ in range(3)]
    for scope in (autograd.train_mode, autograd.record):
        want, got = calls(e, scope), calls(h, scope)
        for a, b in zip(got, want):
            same(a, b)
        assert not onp.array_equal(got[0].asnumpy(), got[1].asnumpy())


def test_random_operators_follow_the_seed() -> None:
    def f(x: Any) -> Any:
        return x + nd.random.uniform(shape=(3, 4)), nd.random.normal(0, 1, shape=(3, 4)), nd.random.randint(0, 100, shape=(5,))
    g = mx.hybridize(f)
    x = nd.zeros((3, 4))
    mx.random.seed(3)
    want = [f(x), f(x)]
    mx.random.seed(3)
    same([g(x), g(x)], want)


@pytest.mark.parametrize("scope", [autograd.train_mode, autograd.record])
def test_batchnorm_updates_statistics(scope: Any) -> None:
    def build() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Dense(4, in_units=3), nn.BatchNorm(in_channels=4), nn.Activation("relu"))
        net.initialize(mx.init.One())
        return net
    e, h = build(), build()
    h.hybridize()
    for step in range(3):
        x = arr(8, 3, seed=step)
        with scope():
            same(h(x), e(x), 1e-4)
        same(h[1].running_mean.data(), e[1].running_mean.data(), 1e-4)
        same(h[1].running_var.data(), e[1].running_var.data(), 1e-4)
    assert abs(h[1].running_mean.data().asnumpy()).sum() > 0
    same(h(x), e(x), 1e-4)


# ---- changes in place
def test_argument_changed_in_place() -> None:
    def f(x: Any, y: Any) -> Any:
        x += y
        x[0] = 5
        x[:, 1] = y[:, 0]
        return x * 2
    g = mx.hybridize(f)
    y = arr(3, 4, seed=1)
    a, b = arr(3, 4), arr(3, 4)
    for _ in range(3):
        same(g(b, y), f(a, y))
        same(b, a)


def test_changed_argument_is_returned() -> None:
    def f(x: Any) -> Any:
        x += 1
        return x
    g = mx.hybridize(f)
    x = nd.zeros((3,))
    for i in range(3):
        assert g(x) is x
    same(x, nd.full((3,), 3.0))


def test_captured_array_changed_in_place() -> None:
    n = nd.zeros((2,))

    @mx.hybridize
    def f(x: Any) -> Any:
        n[:] = n + x
        return n * 1
    for i in range(1, 4):
        same(f(nd.ones((2,))), nd.full((2,), float(i)))
        same(n, nd.full((2,), float(i)))


def test_view_of_argument_changed_in_place() -> None:
    def f(x: Any) -> Any:
        row = x[1]
        row += 10
        x[0:1, 2:] *= 3
        return x.sum()
    a, b = arr(3, 4), arr(3, 4)
    g = mx.hybridize(f)
    for _ in range(2):
        same(g(b), f(a), 1e-4)
        same(b, a, 1e-4)


def test_in_place_on_a_view_given_by_the_caller() -> None:
    def f(x: Any) -> Any:
        x *= 2
        return x + 1
    a, b = arr(4, 6), arr(4, 6)
    g = mx.hybridize(f)
    for _ in range(2):
        same(g(b[1:3]), f(a[1:3]))
        same(b, a)


def test_outputs_are_not_overwritten() -> None:
    for options in ({}, {"static_alloc": True, "static_shape": True}):
        f = mx.hybridize(lambda x: x * 2 + 1, **options)
        x = nd.ones((1000,))
        one = f(x)
        two = f(one)
        three = f(f(f(x)))
        same(one, nd.full((1000,), 3.0))
        same(two, nd.full((1000,), 7.0))
        same(three, nd.full((1000,), 15.0))
        held = [f(nd.full((1000,), float(i))) for i in range(10)]
        for i, h in enumerate(held):
            same(h, nd.full((1000,), 2.0 * i + 1))


def test_one_array_for_two_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        x += 1
        return x + y
    g = mx.hybridize(f)
    a, b = nd.ones((2,)), nd.ones((2,))
    same(g(a, nd.zeros((2,))), nd.full((2,), 2.0))
    same(g(b, b), f(nd.ones((2,)), nd.ones((2,))) if False else _twice(f))
    same(b, nd.full((2,), 2.0))


def _twice(f: Any) -> Any:
    x = nd.ones((2,))
    return f(x, x)


# ---- kinds of arrays
@pytest.mark.parametrize("make", [
    lambda: arr(6, 8)[1:5],
    lambda: arr(6, 8)[1],
    lambda: arr(6, 8)[:, 2:5],
    lambda: arr(6, 8)[::2, ::3],
    lambda: arr(6, 8).T,
    lambda: arr(6, 8).reshape((4, 12)),
    lambda: arr(0, 3),
    lambda: arr(3, 0),
    lambda: arr(1),
    lambda: arr(3, 4, dtype="float64"),
    lambda: arr(3, 4, dtype="int32"),
    lambda: arr(3, 4, dtype="int64"),
    lambda: arr(3, 4, dtype="uint8"),
    lambda: arr(3, 4, dtype="float16"),
], ids=[*map(str, range(14))])
def test_kinds_of_input(make: Any) -> None:
    x = make()
    tol = 1e-2 if x.dtype == onp.float16 else 1e-5
    both(lambda v: (v * 2 + 1, v.sum(axis=0), v - v), x, tol=tol)


def test_strided_and_readonly_memory() -> None:
    base = onp.arange(48, dtype="float32").reshape(6, 8)
    frozen = base.copy()
    frozen.flags.writeable = False
    for raw in (base.T, base[::2, 1::3], base[::-1], frozen, onp.broadcast_to(base[0], (3, 8)), onp.asfortranarray(base)):
        if ON_GPU:
            continue
        x = mx.array.wrap(raw, mx.cpu()) if False else _wrap(raw)
        both(lambda v: v * 2 + 1, x)
        f = mx.hybridize(lambda v: v * 3)
        f(nd.zeros(raw.shape))                              # the fast way is ready for other memory
        f(nd.zeros(raw.shape))
        same(f(x), nd.array(raw) * 3)


def _wrap(raw: Any) -> NDArray:
    from hybrid.array import wrap
    return wrap(raw, mx.cpu())


def test_zero_dimensional() -> None:
    x = mx.np.array(3.0)
    assert x.shape == ()
    both(lambda v: v * 2 + 1, x)
    both(lambda v: (v.sum(), v + mx.np.ones((2, 2))), x)


def test_float64_and_integer_nets() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3, activation="tanh"), nn.Dense(2, in_units=4))
    net.initialize()
    net.cast("float64")
    x = arr(5, 3, dtype="float64")
    want = net(x)
    net.hybridize()
    got = net(x)
    assert got.dtype == onp.float64
    same(got, want, 1e-12)
    both(lambda i: (i * 3 - 1, i.sum(axis=1), i.max(), i // 2, i % 3), arr(4, 5, dtype="int32"))
    both(lambda i: nd.Embedding(i, nd.array(onp.arange(20.0).reshape(10, 2)), input_dim=10, output_dim=2), arr(4, 5, dtype="int64"))


def test_shape_and_dtype_retrace() -> None:
    f = mx.hybridize(lambda x: x + 1)
    f(arr(2, 3))
    f(arr(4, 3))
    f(arr(4, 3, dtype="float64"))
    f(arr(2, 3))
    assert len(f.cache_misses) == 3
    assert "arrays" in f.cache_misses[1] and "(4, 3)" in f.cache_misses[1]
    assert "float64" in f.cache_misses[2]


# ---- errors
def test_arrays_of_two_devices(monkeypatch: Any) -> None:
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    x, y = nd.ones((2,), ctx=mx.cpu()), nd.ones((2,), ctx=mx.gpu(0))
    f = mx.hybridize(lambda a, b: a + b)
    for call in (lambda: x + y, lambda: f(x, y), lambda: f(x, y)):
        with pytest.raises(DeviceError, match=r"cpu\(0\).*gpu\(0\)"):
            call()
    same(f(x, x), nd.full((2,), 2.0, ctx=mx.cpu()))
    g = mx.hybridize(lambda a: a + y)
    with pytest.raises(DeviceError):
        g(x)


def test_exception_while_tracing_leaves_the_block_usable() -> None:
    class Net(nn.HybridBlock):
        fail = True

        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Dense(2)

        def forward(self, x: Any) -> Any:
            y = self.fc(x)
            if self.fail:
                raise KeyError("mine")
            return y
    net = Net()
    net.initialize()
    net.hybridize()
    x = arr(2, 3)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            net(x)
    assert isinstance(x + 1, NDArray)                       # no trace is left behind
    net.hybridize(False)
    net.fail = False
    want = net(x)
    net.hybridize()
    same(net(x), want)


def test_exception_while_tracing_a_change_in_place() -> None:
    state = {"fail": True}

    def f(x: Any) -> Any:
        x += 1
        if state["fail"]:
            raise ValueError("stop")
        return x * 2
    g = mx.hybridize(f)
    x = nd.ones((2,))
    with pytest.raises(ValueError, match="stop"):
        g(x)
    same(x, nd.ones((2,)))
    state["fail"] = False
    same(g(x), nd.full((2,), 4.0))
    same(x, nd.full((2,), 2.0))


def test_threads_compile_once() -> None:
    traced: list[int] = []

    def f(x: Any) -> Any:
        traced.append(1)
        return (x * 3 + 1).sum()
    g = mx.hybridize(f)
    x = arr(50, 50)
    want = f(x)
    traced.clear()
    barrier = threading.Barrier(8)
    got: list[Any] = []

    def work() -> None:
        barrier.wait()
        for _ in range(20):
            got.append(g(x))
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(traced) == 1 and len(g.cache_misses) == 1 and len(got) == 160
    for v in got:
        same(v, want, 1e-3)


def test_changed_attribute_retraces() -> None:
    class Net(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.alpha = 1

        def forward(self, x: Any) -> Any:
            return x * self.alpha
    outer = nn.HybridSequential()
    net = Net()
    outer.add(net)
    for block in (net, outer):
        block.hybridize()
        x = nd.ones((2,))
        net.alpha = 1
        same(block(x), x)
        same(block(x), x)
        net.alpha = 2
        same(block(x), x * 2)
        assert "attributes" in block.cache_misses[-1]


def _line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.rstrip().endswith(text))


@pytest.mark.parametrize("as_block", [False, True])
def test_data_dependent_code_names_the_line(as_block: bool) -> None:
    def branch(x: Any) -> Any:
        if x.sum() > 0:  # mark-if
            return x
        return -x

    def numbers(x: Any) -> Any:
        return x * float(x.sum().asnumpy()[0])  # mark-asnumpy

    def scalar(x: Any) -> Any:
        return x * x.sum().asscalar()  # mark-asscalar

    def to_numpy(x: Any) -> Any:
        return x + onp.sin(onp.asarray(x))  # mark-numpy
    for fn, mark in ((branch, "# mark-" + "if"), (numbers, "# mark-" + "asnumpy"), (scalar, "# mark-" + "asscalar"), (to_numpy, "# mark-" + "numpy")):
        if as_block:
            class Net(nn.HybridBlock):
                def forward(self, x: Any) -> Any:
                    return fn(x)
            target: Any = Net()
            target.hybridize()
        else:
            target = mx.hybridize(fn)
        with pytest.raises(TraceError) as err:
            target(nd.ones((2,)))
        assert f"{__file__}:{_line_of(mark)}" in str(err.value)
        target.hybridize(False)
        assert isinstance(target(nd.ones((2,))), NDArray)


# ---- surroundings
def _python(code: str, check: bool = True, **env: str) -> subprocess.CompletedProcess:
    full = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=full, capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


PROGRAM = """
    import warnings
    import numpy as onp
    import hybrid as mx
    from hybrid import nd
    from hybrid.gluon import nn
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation='relu', in_units=4), nn.Dense(2, in_units=8))
    net.initialize(mx.init.One())
    x = nd.array(onp.arange(8.0).reshape(2, 4))
    want = net(x)
    net.hybridize()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        for _ in range(3):
            got = net(x)
        other = mx.hybridize(lambda v: v * 3)(x)
    assert onp.allclose(got.asnumpy(), want.asnumpy()), (got, want)
    assert onp.allclose(other.asnumpy(), x.asnumpy() * 3)
    print(len([w for w in seen if issubclass(w.category, (RuntimeWarning, UserWarning))]))
"""


@pytest.mark.skipif(ON_GPU, reason="a matter of the CPU")
def test_no_compiler_warns_once(tmp_path: Path) -> None:
    assert _python(PROGRAM, HYBRID_CC="none", HYBRID_CACHE=str(tmp_path)).stdout.strip() == "1"


@pytest.mark.skipif(ON_GPU, reason="a matter of the CPU")
def test_unusable_cache_folder_warns_once(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert _python(PROGRAM, HYBRID_CACHE=str(blocked / "cache")).stdout.strip() == "1"
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert _python(PROGRAM, HYBRID_CACHE=str(tmp_path / "cache")).stdout.strip() == "1"
        tmp_path.chmod(0o700)


@pytest.mark.skipif(ON_GPU, reason="a matter of the CPU")
def test_two_processes_fill_one_cache(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HYBRID_CACHE": str(tmp_path / "cache")}
    started = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(3)]
    for p in started:
        out, err = p.communicate(timeout=120)
        assert p.returncode == 0 and out.strip() == "0", err
    files = [f.name for f in (tmp_path / "cache").iterdir()]
    assert files and all(f.endswith((".so", ".c", ".txt")) for f in files), files


# ---- gradients and CUDA
def _convnet() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1, in_channels=2), nn.BatchNorm(in_channels=4), nn.Activation("relu"), nn.MaxPool2D(2), nn.Flatten(),
            nn.Dense(5, in_units=36, activation="tanh"), nn.Dropout(0.3), nn.LayerNorm(in_channels=5), nn.Dense(3, in_units=5))
    return net


def _filled(net: Any, ctx: Any) -> Any:
    net.initialize(ctx=ctx)
    for i, p in enumerate(net.collect_params().values()):
        rng = onp.random.RandomState(i)
        p.set_data(nd.array(rng.uniform(0.1, 0.5, p.shape).astype("float32") * (1 if "var" in p.name else rng.choice([-1, 1], p.shape)), ctx=ctx))
    return net


def _step(net: Any, x: Any) -> tuple[Any, Any, list[onp.ndarray]]:
    mx.random.seed(9)
    x.attach_grad()
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    grads = [p.grad(x.context).asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    return loss.asnumpy(), x.grad.asnumpy(), grads


def test_gradients_equal_eager() -> None:
    ctx = mx.current_context()
    e, h = _filled(_convnet(), ctx), _filled(_convnet(), ctx)
    h.hybridize()
    x = arr(4, 2, 6, 6)
    for _ in range(2):
        for a, b in zip(_flat(_step(h, x)), _flat(_step(e, x))):
            onp.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def _flat(step: Any) -> list[Any]:
    return [step[0], step[1], *step[2]]


def test_training_goes_the_same_way() -> None:
    ctx = mx.current_context()
    losses = []
    for hybrid in (False, True):
        net = _filled(_convnet(), ctx)
        if hybrid:
            net.hybridize()
        net(arr(4, 2, 6, 6))
        row = []
        for step in range(4):
            loss, _, grads = _step(net, arr(4, 2, 6, 6, seed=step))
            for p, g in zip([p for p in net.collect_params().values() if p.grad_req != "null"], grads):
                p.set_data(p.data() - nd.array(0.01 * g))
            row.append(float(loss.reshape(-1)[0]))
        losses.append(row)
    onp.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


@pytest.fixture
def emulator(monkeypatch: Any) -> Any:
    if not ON_GPU:
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    return mx.gpu(0)


def test_whole_net_on_gpu_equals_cpu(emulator: Any) -> None:
    c, g = _filled(_convnet(), mx.cpu()), _filled(_convnet(), emulator)
    g.hybridize()
    raw = arr(4, 2, 6, 6).asnumpy()
    x, y = nd.array(raw, ctx=mx.cpu()), nd.array(raw, ctx=emulator)
    out = g(y)
    assert out.context == emulator
    onp.testing.assert_allclose(out.asnumpy(), c(x).asnumpy(), rtol=1e-4, atol=1e-4)
    assert ".cu" in str(g.report().source) or "cuda" in str(g.report()).lower()
    for a, b in zip(_flat(_step(g, y)), _flat(_step(c, x))):
        onp.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    for p, q in zip(g.collect_params().values(), c.collect_params().values()):
        onp.testing.assert_allclose(p.data(emulator).asnumpy(), q.data(mx.cpu()).asnumpy(), rtol=1e-3, atol=1e-4)


def test_inplace_and_capture_on_gpu(emulator: Any) -> None:
    n = nd.zeros((3,), ctx=emulator)

    @mx.hybridize
    def f(x: Any) -> Any:
        nonlocal n
        n += x
        x *= 2
        return x + n
    x = nd.ones((3,), ctx=emulator)
    onp.testing.assert_allclose(f(x).asnumpy(), 3)
    onp.testing.assert_allclose(f(x).asnumpy(), 7)
    onp.testing.assert_allclose(n.asnumpy(), 3)
    onp.testing.assert_allclose(x.asnumpy(), 4)


def test_no_gpu_is_a_clear_error() -> None:
    if ON_GPU or mx.num_gpus():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceError, match="no GPU was found"):
        nd.ones((2,), ctx=mx.gpu(0))


# ---- an operator from outside, in one place
def test_operator_registered_from_outside(emulator: Any) -> None:
    from hybrid import ir
    from hybrid.ops import registry

    @registry.op("test_softshift", "data", shift=registry.Float(0.5))
    def softshift(data: Any, a: Any) -> Any:
        "tanh(data - shift) * data."
        return ir.map("mul", ir.map("tanh", data - a.shift), data)
    try:
        raw = onp.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)
        want = onp.tanh(raw - 0.25) * raw
        slope = onp.tanh(raw - 0.25) + raw * (1 - onp.tanh(raw - 0.25) ** 2)
        for ctx in (mx.cpu(), emulator):
            for wrapped in (lambda f: f, mx.hybridize):
                f = wrapped(lambda v: nd.test_softshift(v, shift=0.25))
                x = nd.array(raw, ctx=ctx)
                onp.testing.assert_allclose(f(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
                x.attach_grad()
                with autograd.record():
                    y = f(x)
                y.backward()
                onp.testing.assert_allclose(x.grad.asnumpy(), slope, rtol=1e-4, atol=1e-5)
        s = mx.sym.test_softshift(mx.sym.var("data"), shift=0.25)
        assert '"test_softshift"' in s.tojson() and s.infer_shape(data=(2, 2))[1] == [(2, 2)]
    finally:
        registry.unregister(softshift)


def test_no_warnings_in_normal_use() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both(lambda v: v * 2, arr(3))


def test_function_follows_the_blocks_it_calls() -> None:
    class Scaled(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.k, self.parts = 2.0, [1.0]

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            return x * self.k + self.parts[0]
    inner = Scaled()
    inner.hybridize()
    x = nd.ones((2, 3))

    @mx.hybridize
    def f(a: Any) -> Any:
        return inner(a) + 1
    for k, part in ((2.0, 1.0), (3.0, 1.0), (3.0, 5.0), (2.0, 1.0)):
        inner.k, inner.parts[0] = k, part
        for _ in range(3):
            assert (f(x).asnumpy() == k + part + 1).all()


def test_plain_class_without_arrays_follows_its_numbers() -> None:
    @mx.hybridize
    class Model:
        def __init__(self) -> None:
            self.k = 2.0

        def forward(self, x: Any) -> Any:
            return x * self.k
    m, x = Model(), nd.ones((2, 3))
    for k in (2.0, 3.0, 2.0):
        m.k = k
        for _ in range(3):
            assert (m.forward(x).asnumpy() == k).all()


def test_two_arguments_the_same_and_different() -> None:
    @mx.hybridize
    def f(a: Any, b: Any) -> Any:
        return (a * b)[0]
    x = nd.ones((2, 3))
    for b, want in ((x, 1), (x * 2, 2), (x * 3, 3), (x, 1)):
        assert (f(x, b).asnumpy() == want).all()
