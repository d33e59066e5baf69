"""Answers of MXNet 1.9.1 to calls of operators whose rules are easily taken for others."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.base.errors import AttributeValueError, ShapeError

_X = np.arange(8, dtype=np.float32) / 4
_COLUMN = np.arange(5, dtype=np.float32).reshape(1, 5, 1, 1)

# call, MXNet's answer
ANSWERS: dict[str, tuple[Callable[[], Any], list]] = {
    "probabilities of four axes: softmax over the last": (
        lambda: nd.SoftmaxOutput(nd.array(_X.reshape(1, 2, 2, 2)), nd.array(_X.reshape(1, 2, 2, 2)))[0, 0],
        [[.4378, .5622], [.4378, .5622]]),
    "probabilities of three axes: over all but the first": (
        lambda: nd.SoftmaxOutput(nd.array(_X.reshape(2, 2, 2)), nd.array(_X.reshape(2, 2, 2)))[0],
        [[.1653, .2122], [.2725, .3499]]),
    "even neighbourhood of two": (lambda: nd.LRN(nd.array(_COLUMN), nsize=2).reshape((-1,)),
                                  [0, .59457, 1.18910, 1.78350, 2.37770]),
    "even neighbourhood of four": (lambda: nd.LRN(nd.array(_COLUMN), nsize=4).reshape((-1,)),
                                   [0, .59458, 1.18910, 1.78330, 2.37789]),
    "one of a vector": (lambda: nd.pick(nd.array([1, 2, 3]), nd.array([1])), [2]),
    "density of one vector": (lambda: nd.random_pdf_dirichlet(nd.array([.4, .6]), nd.array([1, 2])), [1.2]),
    "places beyond the shape": (lambda: nd.ravel_multi_index(nd.array([[3, 1], [2, 5]]), shape=(2, 4)), [14, 9]),
    "negative places": (lambda: nd.ravel_multi_index(nd.array([[-1, 1], [2, -3]]), shape=(2, 4)), [-2, 1]),
    "one triangle": (lambda: nd.linalg_potrf(nd.array([[3, 5], [1, 2]])), [[1.7321, 0], [.5774, 1.2910]]),
    "remainder of nothing": (lambda: nd.array([5, -5, 0]) % 0, [0, 0, 0]),
    "remainders of nothing": (lambda: nd.modulo(nd.array([5, -5, 0]), nd.zeros((3,))), [0, 0, 0]),
    "number by nothing": (lambda: 5 % nd.array([0, 2, -3]), [0, 1, -1]),
    "NumPy's remainder of nothing": (lambda: mx.np.mod(mx.np.array([5.0, 5.0]), mx.np.array([0.0, 3.0])), [np.nan, 2]),
}


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str, hybridized: bool) -> None:
    call, want = ANSWERS[name]
    got = (mx.hybridize(call) if hybridized else call)().asnumpy()
    np.testing.assert_allclose(got, np.array(want), rtol=3e-5, atol=5e-5)
    assert got.shape == np.shape(want)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
@pytest.mark.parametrize("name", ["uniform", "normal", "gamma", "exponential", "poisson", "negative_binomial"])
def test_samples_are_float32_whatever_the_parameters_are(name: str, dtype: str) -> None:
    one = nd.ones((2,), dtype=dtype)
    rows = (one,) if name in ("exponential", "poisson") else (one, one * 2)
    assert getattr(nd, f"sample_{name}")(*rows).dtype == np.float32


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "lengths that softmax is not told to use": (lambda: nd.softmax(nd.ones((5, 5)), nd.ones((5,))),
                                                AttributeValueError, "does not read its input 'length'"),
    "lengths that a mask is not told to use": (lambda: nd.SequenceMask(nd.ones((5, 5)), nd.ones((5,))),
                                               AttributeValueError, "sequence_length"),
    "slopes of a leaky unit": (lambda: nd.LeakyReLU(nd.ones((5, 5)), nd.ones((5,))), AttributeValueError, "gamma"),
    "a bias with no_bias": (lambda: nd.FullyConnected(nd.ones((1, 3)), nd.ones((2, 3)), nd.ones((2,)), num_hidden=2,
                                                      no_bias=True), AttributeValueError, "bias"),
    "a range that ends before it begins": (lambda: nd.slice_axis(nd.ones((5,)), axis=0, begin=3, end=1), ShapeError,
                                           "begin=3 is not before end=1"),
    "slopes of other channels": (lambda: nd.LeakyReLU(nd.ones((3, 1, 3)), nd.ones((3,)), act_type="prelu"), ShapeError,
                                 "one for each of the 1 channels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, kind, text = REFUSED[name]
    for f in (call, mx.hybridize(call)):
        with pytest.raises(kind, match=text):
            f()


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "generalized_negative_binomial"])
def test_counts_have_no_gradient(name: str) -> None:
    samples = nd.array([1, 2])
    samples.attach_grad()
    rows = (nd.array([.5, .7]),) if name == "poisson" else (nd.array([2, 3]), nd.array([.5, .7]))
    with autograd.record():
        y = getattr(nd, f"random_pdf_{name}")(samples, *rows)
    y.backward()
    assert samples.grad.asnumpy().tolist() == [0, 0]
