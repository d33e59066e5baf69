"""Programs that a generator of random programs found: hybridized once more like eager, in float64 where that is
exact."""
from __future__ import annotations

import random
import warnings
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.base.errors import DeferredInitializationError, TraceError
from hybrid.gluon import nn

F = Callable[..., Any]


def some(*shape: int) -> np.ndarray:
    """Numbers of a normal distribution, for each shape the same."""
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def results(f: F, arrays: list[np.ndarray], dtype: str) -> list[np.ndarray]:
    """Outputs of a function, then gradients of their weighted sum with respect to all arrays."""
    xs = [nd.array(a, dtype=dtype) for a in arrays]
    for x in xs:
        x.attach_grad()
    with autograd.record():
        out = f(*xs)
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        total = sum((y * nd.array(some(*y.shape), dtype=dtype)).sum() for y in outs)
    total.backward()
    return [y.asnumpy() for y in (*outs, *(x.grad for x in xs))]


def convolution(x: Any, w: Any) -> Any:
    return nd.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=w.shape[0], no_bias=True)


def half_twice(x: Any, w: Any) -> Any:
    half = nd.FullyConnected(x, w, num_hidden=w.shape[0], no_bias=True) * 0.5
    return nd.sin(half) * (1 + nd.tanh(half)), half


def attended(q: Any, k: Any, v: Any) -> Any:
    return nd.log(nd.sum(nd.exp(nd.clip(nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True)), v), -5, 3)),
                         axis=1) + 1)


def pooled_and_filtered(x: Any, w: Any) -> Any:
    y = nd.log(nd.abs(nd.broadcast_sub(x, nd.mean(x, axis=(1, 2), keepdims=True))) + 0.5)
    pooled = nd.Pooling(y, kernel=(3,), pad=(1,), pool_type="avg")
    return nd.tanh(nd.Convolution(y, w, kernel=(2,), pad=(1,), num_filter=33, no_bias=True)), pooled


# name -> function, arrays
CASES: dict[str, tuple[F, list[np.ndarray]]] = {
    "product of numbers and a vector": (lambda x, w: nd.dot(x, w), [some(33, 2, 1), some(1)]),
    "vector and a matrix of one row": (lambda x, w: nd.dot(x, w, transpose_b=True) * 0.5, [some(5), some(1, 5)]),
    "clip behind a convolution keeps its masks": (lambda x, w: nd.clip(convolution(x, w), -0.5, 2),
                                                  [some(2, 7, 9, 5), some(32, 7, 3, 3)]),
    "greatest of a softmax": (lambda x: nd.max(nd.softmax(x, axis=3, temperature=2.0), axis=1), [some(16, 3, 2, 31)]),
    "greatest of a scaled sum": (lambda x, y: nd.max(nd.sqrt(x * x + y * 0.7 + 9), axis=0), [some(9, 33), some(9, 33)]),
    "one query, one value, other types behind": (attended, [some(3, 1, 17), some(3, 33, 17), some(3, 33, 1)]),
    "windows of a border that lies in memory": (pooled_and_filtered, [some(2, 2, 5), some(33, 2, 2)]),
    "half a value in 1 + tanh is a result too": (half_twice, [some(64, 33), some(65, 33)]),
}


@pytest.mark.parametrize("name", [pytest.param(k, id=k.replace(" ", "_")) for k in CASES])
def test_hybridized_is_eager(name: str) -> None:
    f, arrays = CASES[name]
    for got, want in zip(results(mx.hybridize(f), arrays, "float32"), results(f, arrays, "float64"), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * max(np.abs(want).max(initial=0), 1e-3))


def test_running_sums_of_infinity() -> None:
    """NaN and infinity change nothing before them, in whatever blocks a sum is taken."""
    x = np.arange(300, dtype=np.float32)
    x[100], x[150] = np.inf, np.nan
    np.testing.assert_array_equal(mx.hybridize(nd.cumsum)(nd.array(x), axis=0).asnumpy(), np.cumsum(x))


@pytest.mark.parametrize("keys", [33, 300])
def test_attention_of_queries_that_see_nothing(keys: int) -> None:
    """Their weights are none, zeros are put in their place: the result is zero, not NaN."""
    q, k, v = (nd.array(some(2, n, 8)) for n in (7, keys, keys))
    seen = np.random.default_rng(1).random((2, 7, keys)) > 0.3
    seen[0, 0] = seen[1, 6] = False

    def attended(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = nd.where(mask, nd.batch_dot(q, k, transpose_b=True), nd.full((2, 7, keys), -np.inf))
        return nd.batch_dot(nd.where(mask, nd.softmax(scores), nd.zeros((2, 7, keys))), v)
    mask = nd.array(seen, dtype="float32")
    want = attended(q, k, v, mask).asnumpy()
    assert (want[0, 0] == 0).all()
    np.testing.assert_allclose(mx.hybridize(attended)(q, k, v, mask).asnumpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "bool"])
def test_running_sums_of_short_types(dtype: str) -> None:
    x = nd.array(np.arange(160).reshape(5, 32) % 2, dtype=dtype)
    got, want = mx.hybridize(nd.cumsum)(x, axis=0), nd.cumsum(x, axis=0)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())


def test_what_tells_no_sizes() -> None:
    net = nn.Dense(3)
    net.initialize()
    net.hybridize()
    with pytest.raises(DeferredInitializationError, match="come from the first call"):
        net(nd.ones((2, 0)))


def test_results_that_are_no_arrays_of_hybrid() -> None:
    with pytest.raises(TraceError, match="returns something that is neither"):
        mx.hybridize(lambda x: np.ones(3))(nd.ones(2))


def test_large_results_have_their_own_shape_at_every_call() -> None:
    """Memory of large results is given by a pool; what is stored as (1024, 300) and returned as (307200,) is that at
    the second call too."""
    f = mx.hybridize(lambda x: nd.reshape(nd.sqrt(x) + 1, (-1,)))
    x = nd.array(np.arange(1024 * 300).reshape(1024, 300))
    for _ in range(3):
        got = f(x)
        assert got.shape == (1024 * 300,)
        np.testing.assert_allclose(got.asnumpy(), np.sqrt(np.arange(1024 * 300)) + 1, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_casts_of_what_no_integer_is(dtype: str) -> None:
    """NaN, infinity and what is out of range become what the processor makes of them, in NumPy and in compiled code."""
    x = np.resize(np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1.5, -1.5, 7]), 100).astype(dtype)
    got = mx.hybridize(lambda x: nd.cast(x, dtype="int32"))(nd.array(x, dtype=dtype)).asnumpy()
    np.testing.assert_array_equal(got, x.astype(np.int32))


@pytest.mark.parametrize("draw", [lambda: np.random.rand(), random.random], ids=["numpy", "python"])
def test_numbers_drawn_outside_are_drawn_at_every_call_and_that_is_said(draw: F) -> None:
    f = mx.hybridize(lambda x: x * draw())
    with pytest.warns(UserWarning, match=r"test_fuzz_regressions.py:\d+: .* drew random numbers from .*nd.random"):
        first = f(nd.ones((2,)))
    assert len({float(v[0].asscalar()) for v in (first, f(nd.ones((2,))), f(nd.ones((2,))))}) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mx.hybridize(lambda x: x * nd.random.uniform(shape=(2,)))(nd.ones((2,)))


@pytest.mark.parametrize("rows", [3, 16])
def test_products_too_deep_for_a_stack(rows: int) -> None:
    """Panels of columns that a stack (8 MB) does not hold are elsewhere; an image's worth of values ended the
    process."""
    depth = 150528
    x, w = (np.random.default_rng(n).standard_normal((n, depth)).astype(np.float32) for n in (rows, 17))
    f = mx.hybridize(lambda x, w: nd.relu(nd.FullyConnected(x, w, no_bias=True, num_hidden=17)))
    got, want = f(nd.array(x), nd.array(w)).asnumpy(), np.maximum(x.astype(np.float64) @ w.T.astype(np.float64), 0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * want.max())


@pytest.mark.parametrize("rows", [2, 5, 33])
def test_a_product_with_a_repeated_operand(rows: int) -> None:
    """Columns that come again and again lie at no one distance in memory."""
    x = nd.array(np.random.default_rng(rows).standard_normal((rows, 3)))
    for repeated in (lambda v: nd.tile(v, (2, 1)), lambda v: nd.repeat(v, 2, axis=0), lambda v: nd.concat(v, v, dim=0)):
        def f(v: Any) -> Any:
            w = repeated(v * 2)                                               # noqa: B023
            return nd.dot(w, w, transpose_b=True)
        grads = []
        for g in (f, mx.hybridize(f)):
            x.attach_grad()
            with autograd.record():
                y = (g(x) ** 2).sum()
            y.backward()
            grads.append(x.grad.asnumpy())
        np.testing.assert_allclose(grads[1], grads[0], rtol=1e-4)


@pytest.mark.parametrize("part", [lambda x: x[-1:], lambda x: x[-1:] + 1, lambda x: x[-2:][1:]],
                         ids=["view", "sum", "view of a view"])
@pytest.mark.parametrize("sizes", [(3, 2, 4, 5), (2, 3, 1)])
def test_sizes_have_names_of_their_own_in_a_program(part: F, sizes: tuple[int, ...]) -> None:
    """A loop of the product took the name of the symbolic size that its operand's offset is computed from."""
    def f(x: Any) -> Any:
        weight = nd.ones((2, 1, 2, 2)) * .3
        return nd.Convolution(part(x).expand_dims(1), weight, kernel=(2, 2), num_filter=2, no_bias=True)
    g = mx.hybridize(f)
    for n in sizes:
        x = nd.array(np.arange(9. * max(n, 2)).reshape(-1, 3, 3))
        np.testing.assert_allclose(g(x).asnumpy(), f(x).asnumpy(), rtol=1e-5)


def test_a_size_named_as_a_loop_of_the_printed_function() -> None:
    for name in ("n0", "k0", "m0", "x0", "acc", "p0"):
        f = mx.hybridize(lambda x: nd.Convolution(x[-1:].expand_dims(1), nd.ones((2, 1, 2, 2)), kernel=(2, 2),
                                                  num_filter=2, no_bias=True),
                         dynamic={"x": {0: mx.Dim(name, 1, 64)}})
        for n in (3, 5, 2):
            x = np.arange(9. * n, dtype="float32").reshape(n, 3, 3)
            want = sum(x[-1, i:i + 2, j:j + 2] for i in range(2) for j in range(2))
            np.testing.assert_allclose(f(nd.array(x)).asnumpy()[0, 0], want, rtol=1e-6)


def test_an_empty_view_has_the_shape_that_eager_code_gives_it() -> None:
    for f in (lambda x: x[1:].reshape((0, -1)), lambda x: x[:0].reshape((-1,)), lambda x: x[1:].T.reshape((0, -1))):
        g, x = mx.hybridize(f), nd.ones((1, 2))
        assert g(x).shape == g(x).shape == f(x).shape


def test_cotangents_of_an_argument_that_an_operator_has_twice_are_added_first() -> None:
    """Those of x - x cancel; added one by one to another operator's small one they took digits from it."""
    def f(x: Any) -> Any:
        return (x - x) * 1000.1 + nd.square(x) * .3
    for g in (f, mx.hybridize(f)):
        x = nd.array([[1., 2.]])
        x.attach_grad()
        with autograd.record():
            y = g(x)
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), [[.6, 1.2]], rtol=1e-6)
