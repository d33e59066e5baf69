"""Hybridized code in train and predict mode, changing arrays in place, on all kinds of arrays."""
from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.buffers.array import NDArray
from hybrid.gluon import nn

from ..hybridize_tools import ON_GPU, arr, both, same


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
        return x + nd.random.uniform(shape=(3, 4)), nd.random.normal(0, 1,
                                                                     shape=(3, 4)), nd.random.randint(0, 100,
                shape=(5,))
    g = mx.hybridize(f)
    x = nd.zeros((3, 4))
    mx.random.seed(3)
    want = [f(x), f(x)]
    mx.random.seed(3)
    same([g(x), g(x)], want)


@pytest.mark.parametrize("last", [True, False], ids=["a used one after it", "none used"])
def test_draws_that_are_not_used_are_drawn(last: bool) -> None:
    def f(x: Any) -> Any:
        nd.Dropout(x, p=0.5)
        nd.random.normal(shape=(2, 3))
        return nd.Dropout(x, p=0.5) if last else x * 2
    x, found = nd.ones((4, 5)), []
    for g in (f, mx.hybridize(f)):
        mx.random.seed(3)
        with autograd.train_mode():
            found.append([g(x), g(x), nd.random.uniform(shape=(3,))])
    same(*found)


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
    for raw in (base.T, base[::2, 1::3], base[::-1], frozen, onp.broadcast_to(base[0], (3, 8)),
                onp.asfortranarray(base)):
        if ON_GPU:
            continue
        x = mx.array.wrap(raw, mx.cpu()) if False else _wrap(raw)
        both(lambda v: v * 2 + 1, x)
        f = mx.hybridize(lambda v: v * 3)
        f(nd.zeros(raw.shape))                              # the fast way is ready for other memory
        f(nd.zeros(raw.shape))
        same(f(x), nd.array(raw) * 3)


def _wrap(raw: Any) -> NDArray:
    from hybrid.buffers.array import wrap
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
    both(lambda i: nd.Embedding(i, nd.array(onp.arange(20.0).reshape(10, 2)), input_dim=10, output_dim=2),
         arr(4, 5, dtype="int64"))


def test_shape_and_dtype_retrace() -> None:
    f = mx.hybridize(lambda x: x + 1)
    f(arr(2, 3))
    f(arr(4, 3))
    f(arr(4, 3, dtype="float64"))
    f(arr(2, 3))
    assert len(f.cache_misses) == 3
    assert "arrays" in f.cache_misses[1] and "(4, 3)" in f.cache_misses[1]
    assert "float64" in f.cache_misses[2]
