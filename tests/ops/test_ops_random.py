"""Random operators: moments of each distribution, the same numbers eagerly and compiled, shapes and dtypes."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.base.errors import AttributeValueError, ShapeError

N = 20000

# function of nd.random, parameters, mean, variance
MOMENTS: list[tuple[str, tuple[float, ...], float, float]] = [
    ("uniform", (-1.0, 3.0), 1.0, 16 / 12), ("normal", (2.0, 0.5), 2.0, 0.25), ("exponential", (2.0,), 2.0, 4.0),
    ("randint", (-3, 5), 0.5, 63 / 12),
    ("bernoulli", (0.3,), 0.3, 0.21), ("gamma", (0.3, 2.0), 0.6, 1.2), ("gamma", (1.0, 1.0), 1.0, 1.0),
    ("gamma", (5.5, 0.5), 2.75, 1.375),
    ("poisson", (0.5,), 0.5, 0.5), ("poisson", (9.9,), 9.9, 9.9), ("poisson", (10.0,), 10.0, 10.0),
    ("poisson", (700.0,), 700.0, 700.0),
    ("negative_binomial", (3.0, 0.4), 4.5, 11.25), ("generalized_negative_binomial", (2.0, 0.3), 2.0, 3.2),
    ("generalized_negative_binomial", (2.0, 0.0), 2.0, 2.0),
    ("generalized_negative_binomial", (2.0, 1e-17), 2.0, 2.0),
]


@pytest.mark.parametrize("name, parameters, mean, variance",
                         [pytest.param(*row, id=f"{k}-{row[0]}") for k, row in enumerate(MOMENTS)])
def test_moments(name: str, parameters: Any, mean: float, variance: float) -> None:
    """Mean within five standard errors, variance within a tenth (gamma's tails are long)."""
    mx.random.seed(11)
    x = getattr(nd.random, name)(*parameters, shape=(N,)).asnumpy().astype(np.float64)
    assert abs(x.mean() - mean) < 5 * np.sqrt(variance / N)
    assert abs(x.var() - variance) < 0.1 * variance


@pytest.mark.parametrize("draw", [lambda lam: nd.random.poisson(lam, shape=(N,)),
                                  lambda lam: nd.sample_poisson(nd.array([lam]), shape=(N,))], ids=["number", "array"])
def test_poisson_counts(draw: Any) -> None:
    """Frequencies of small counts are the probabilities, on both sides of the change of method."""
    mx.random.seed(3)
    for lam, first in ((2.5, 0), (12.0, 8)):
        x = draw(lam).asnumpy().reshape(-1)
        p = np.exp(-lam)
        for k in range(first + 6):
            if k >= first:
                assert abs(np.mean(x == k) - p) < 5 * np.sqrt(p / N), (lam, k)
            p *= lam / (k + 1)


@pytest.mark.parametrize("k, p", [(4.0, 0.3), (0.1, 0.05), (1.0, 1.0), (500.0, 0.5)])
def test_negative_binomial_counts(k: float, p: float) -> None:
    mx.random.seed(4)
    x = nd.random.negative_binomial(k, p, shape=(N,)).asnumpy()
    chance = p ** k
    for count in range(12):
        assert abs(np.mean(x == count) - chance) <= 5 * np.sqrt(chance / N), count
        chance *= (count + k) / (count + 1) * (1 - p)


def test_draws_at_the_ends() -> None:
    """No count at mean 0, and means whose table is long or too long."""
    assert not nd.random.poisson(0, shape=(N,)).asnumpy().any()
    assert not nd.random.generalized_negative_binomial(0, 0.5, shape=(N,)).asnumpy().any()
    for lam in (4e5, 1e8):
        x = nd.random.poisson(lam, shape=(1000,), dtype="float64").asnumpy()
        assert abs(x.mean() - lam) < 6 * np.sqrt(lam / 1000)


FAMILIES = {"gamma": ([0.5, 3.0], [1.0, 2.0]), "poisson": ([0.5, 30.0],), "negative_binomial": ([3.0, 2.0], [0.4, 0.7]),
            "generalized_negative_binomial": ([2.0, 4.0], [0.0, 0.5]), "exponential": ([0.5, 4.0],),
            "uniform": ([0.0, 1.0], [2.0, 5.0]),
            "normal": ([0.0, 10.0], [1.0, 0.1])}


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_of_each_element(name: str) -> None:
    """sample_NAME: a row of draws for each element, in the parameters' dtype; hybridized the same numbers."""
    parameters = [nd.array(v) for v in FAMILIES[name]]
    draw = getattr(nd, f"sample_{name}")
    mx.random.seed(5)
    eager = draw(*parameters, shape=(300, 2))
    assert eager.shape == (2, 300, 2) and eager.dtype == np.float32
    mx.random.seed(5)
    compiled = mx.hybridize(lambda *xs: draw(*xs, shape=(300, 2)))(*parameters)
    np.testing.assert_allclose(compiled.asnumpy(), eager.asnumpy(), rtol=1e-5, atol=1e-6)
    # each row its own parameters
    assert abs(eager.asnumpy()[0].mean() - eager.asnumpy()[1].mean()) > 0.1


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "gamma", "poisson", "negative_binomial",
                                  "generalized_negative_binomial"])
def test_like(name: str) -> None:
    """NAME_like: the shape and dtype of an array."""
    out = getattr(nd.random, f"{name}_like")(nd.zeros((3, 4), dtype="float64"))
    assert out.shape == (3, 4) and out.dtype == np.float64


def test_multinomial() -> None:
    """Frequencies are the probabilities; get_prob gives logarithms and their gradient."""
    mx.random.seed(7)
    p = nd.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    x = nd.random.multinomial(p, shape=N).asnumpy()
    assert x.shape == (2, N) and x.dtype == np.int32
    for row, expected in zip(x, p.asnumpy()):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / N, expected, atol=5 * np.sqrt(0.25 / N))
    assert (nd.random.multinomial(p[0]).shape == (1,) and nd.random.multinomial(p).shape == (2,)
            and nd.random.multinomial(p, shape=(2, 3)).shape == (2, 2, 3))
    p.attach_grad()
    with autograd.record():
        index, log = nd.sample_multinomial(p, shape=4, get_prob=True, dtype="int64")
    log.backward()
    at = index.asnumpy()
    np.testing.assert_allclose(log.asnumpy(), np.log(np.take_along_axis(p.asnumpy(), at, 1)), rtol=1e-6)
    expected = np.stack([np.bincount(row, minlength=3) for row in at]) / np.where(p.asnumpy() > 0, p.asnumpy(), 1)
    np.testing.assert_allclose(p.grad.asnumpy(), expected, rtol=1e-5)


def test_shuffle() -> None:
    """A permutation of the first axis, another one each time, the same one hybridized."""
    x = nd.arange(60).reshape((20, 3))
    mx.random.seed(9)
    first, second = nd.random.shuffle(x).asnumpy(), nd.shuffle(x).asnumpy()
    assert not (first == second).all()
    np.testing.assert_array_equal(np.sort(first[:, 0]), x.asnumpy()[:, 0])
    np.testing.assert_array_equal(first - first[:, :1], x.asnumpy() - x.asnumpy()[:, :1])
    mx.random.seed(9)
    np.testing.assert_array_equal(mx.hybridize(nd.random.shuffle)(x).asnumpy(), first)


@pytest.mark.parametrize("call, error, words", [
    (lambda: nd.random.gamma(-1.0, 1.0, shape=2), AttributeValueError, "alpha=-1.0"),
    (lambda: nd.random.poisson(-2.0, shape=2), AttributeValueError, "lam=-2.0"),
    (lambda: nd.random.negative_binomial(1, 1.5, shape=2), AttributeValueError, "p=1.5"),
    (lambda: nd.random.randint(3, 3, shape=2), AttributeValueError, "high must be above low"),
    (lambda: nd.sample_gamma(nd.ones(2), nd.ones(3)), ShapeError, "(3,)"),
    (lambda: nd.sample_multinomial(nd.ones((2, 0))), ShapeError, "(2, 0)"),
], ids=["gamma", "poisson", "negative_binomial", "randint", "shapes", "no classes"])
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    """Impossible parameters are named."""
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
