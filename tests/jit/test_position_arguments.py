"""Positions among the arguments of hybridized calls: ``cache[:, t] = k`` with a Python number t that grows is one
program; results, writes, views, gradients and errors are those of eager calls."""
from __future__ import annotations

from typing import Any, Callable

import numpy
import pytest

import hybrid as mx
from hybrid import autograd, gluon, hybridize, nd, np
from hybrid.gluon import nn

SHAPE = (3, 9, 4)


def data(shape: tuple[int, ...] = SHAPE, seed: int = 0) -> numpy.ndarray:
    return numpy.random.RandomState(seed).randn(*shape).astype("float32")


def played(fn: Callable[..., Any], positions: Any, *shapes: tuple[int, ...], array: Any = nd.array) -> Any:
    """The hybridized function, after calls that were compared with eager ones: results, and what they wrote. The first
    array goes on from call to call."""
    compiled = hybridize(fn)
    ours, theirs = array(data()), array(data())
    for i, t in enumerate(positions):
        more = [data(s, i) for s in shapes]
        want = fn(ours, *map(array, more), t)
        got = compiled(theirs, *map(array, more), t)
        if want is not None:
            assert want.shape == got.shape and want.dtype == got.dtype
            numpy.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
        numpy.testing.assert_array_equal(theirs.asnumpy(), ours.asnumpy())
    return compiled


def write(cache: Any, k: Any, t: int) -> Any:
    cache[:, t] = k
    return cache * 2


def write_several(cache: Any, k: Any, t: int) -> Any:
    cache[1:, t:t + 3] = k
    return cache * 2


def write_one_row(cache: Any, k: Any, t: int) -> None:
    cache[-1, t - 1 + 2 - 1] = k


def write_two(cache: Any, k: Any, t: int) -> None:
    cache[t // 3, t] = k


def write_number(cache: Any, t: int) -> None:
    cache[:, t, 1:3] = 5


def add(cache: Any, k: Any, t: int) -> None:
    cache[:, t] += k
    cache[0, t:t + 2] *= 2


WRITES = [(write, (3, 4)), (write_several, (2, 3, 4)), (write_several, (1, 4)), (write_one_row, (4,)),
          (write_two, (4,)), (write_number, None), (add, (3, 4))]


@pytest.mark.parametrize("fn, shape", WRITES, ids=[f"{f.__name__} {s}" for f, s in WRITES])
def test_positions_that_are_written(fn: Callable[..., Any], shape: Any) -> None:
    compiled = played(fn, [0, 1, 2, 3, 4, 6, 5, 0], *([shape] if shape else []),
                      array=np.array if fn is write_two else nd.array)
    assert len(compiled.programs) <= 3, compiled.report().numbers


READS: list[Callable[..., Any]] = [
    lambda x, t: x[:, t] * 2, lambda x, t: x[..., t + 1, :] + 1, lambda x, t: x[1, t, 2] + 1, lambda x, t: x[0, t] + 1,
    lambda x, t: x[None, :, t, None] + 1, lambda x, t: x[:, t:t + 3] * 2, lambda x, t: x[:, t - 0:4 + t, 1:] * 2,
    lambda x, t: x[::2, 8 - t] * 2, lambda x, t: x[t // 3] * 2, lambda x, t: x[0, 0][t // 2] + 1]
ELEMENTS = 2, 9                     # those of one element, which has other shapes under NumPy's rules


@pytest.mark.parametrize("fn, array", [*((f, nd.array) for f in READS), *((READS[i], np.array) for i in ELEMENTS)])
def test_positions_that_are_read(fn: Callable[..., Any], array: Any) -> None:
    compiled = played(fn, [0, 1, 2, 3, 5, 4, 0], array=array)
    assert len(compiled.programs) <= 3, compiled.report().numbers


def test_positions_from_the_end() -> None:
    assert len(played(write, [0, 1, 2, 3, -1, -2, -9, 8, 4, -3], (3, 4)).programs) == 3


@pytest.mark.parametrize("fn, wrong", [(lambda x, t: x[:, t] * 2, 9), (lambda x, t: x[t] * 2, -4)])
def test_positions_beyond_the_array_are_errors(fn: Callable[..., Any], wrong: int) -> None:
    compiled = hybridize(fn)
    x = nd.array(data())
    for t in (0, 1, 2, 0):
        compiled(x, t)
    with pytest.raises(IndexError, match=str(wrong)):
        compiled(x, wrong)
    assert compiled(x, 1).shape == fn(x, 1).shape


def test_slices_at_the_end_are_shorter_as_eagerly() -> None:
    compiled = played(lambda x, t: x[:, t:t + 4] * 2, [0, 1, 2, 3, 5, 7, 6, -3, 9])
    assert "argument 1" in "\n".join(compiled.report().numbers)


def test_lengths_that_depend_on_the_number_are_constants() -> None:
    compiled = played(lambda x, t: x[:, :t + 1].sum(axis=1), [0, 1, 2, 3])
    assert "is a constant, a program for each value" in "\n".join(compiled.report().numbers)


def view_is_written(x: Any, t: int) -> None:
    row = x[t]
    row[:] = 7
    part = x[0, t:t + 2]
    part += 1


def test_views_at_positions() -> None:
    assert len(played(view_is_written, [0, 1, 2, 1, 0]).programs) <= 3


def test_views_that_are_returned_share_memory() -> None:
    f = hybridize(lambda x, t: x[t])
    for t in (0, 1, 2, 1, 2):
        x = nd.array(data())
        row = f(x, t)
        row[:] = 3
        numpy.testing.assert_array_equal(x[t].asnumpy(), 3)


def test_gradients_at_positions() -> None:
    def step(x: Any, t: int) -> Any:
        with autograd.record():
            y = (x[:, t] * x[:, t + 1:t + 3].sum(axis=1)).sum()
        y.backward()
        return y
    compiled = hybridize(step)
    for t in (0, 1, 2, 3, 6, 4):
        x, z = nd.array(data()), nd.array(data())
        x.attach_grad(), z.attach_grad()
        numpy.testing.assert_allclose(compiled(x, t).asnumpy(), step(z, t).asnumpy(), rtol=1e-5)
        numpy.testing.assert_allclose(x.grad.asnumpy(), z.grad.asnumpy(), rtol=1e-5)
    assert len(compiled.programs) <= 3


class Cached(gluon.HybridBlock):
    """Attention over a cache of keys and values that is filled in place."""

    def __init__(self, places: int) -> None:
        super().__init__()
        self.table, self.qkv, self.out = nn.Embedding(11, 8), nn.Dense(24), nn.Dense(11)
        self.places = places

    def forward(self, token: Any, keys: Any, values: Any, t: int) -> Any:
        """Logits of the next token."""
        q, k, v = self.qkv(self.table(token)).split(3, axis=1)
        keys[:, t], values[:, t] = k, v
        scores = (keys * q.expand_dims(1)).sum(axis=-1)
        scores = nd.where(nd.broadcast_to((nd.arange(self.places) <= t).expand_dims(0), scores.shape), scores,
                          nd.full(scores.shape, -1e9))
        return self.out((nd.softmax(scores).expand_dims(-1) * values).sum(axis=1))


def test_a_cache_with_256_places_is_filled_by_three_programs() -> None:
    mx.random.seed(1)
    net, count = Cached(256), 256

    def decoded() -> list[numpy.ndarray]:
        keys, values = nd.zeros((1, count, 8)), nd.zeros((1, count, 8))
        return [net(nd.array([t * t % 11]), keys, values, t).asnumpy() for t in range(count)] + [keys.asnumpy()]
    net.initialize(mx.init.Normal(1))
    want = decoded()
    net.hybridize()
    for a, b in zip(decoded(), want):
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert len(net.programs) <= 3
