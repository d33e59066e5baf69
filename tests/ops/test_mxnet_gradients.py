"""Gradients as MXNet 1.9.1 gives them where the derivative leaves a choice or MXNet defines another: at equal maxima,
at kinks, through operators that give no gradient. What is kept apart from MXNet on purpose stands in BETTER.
"""
from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd

from ..paths import DATA, TESTS

RECORDED = json.loads((DATA / "gradients.json").read_text())


def _cases() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("gradient_cases", TESTS / "oracle" / "gradient_cases.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CASES


CASES = _cases()


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", RECORDED)
def test_as_mxnet(name: str, hybridized: bool) -> None:
    function, inputs = CASES[name]
    xs = [nd.array(x) for x in inputs]
    for x in xs:
        x.attach_grad()

    def call(*arrays: Any) -> Any:
        return function(mx, *arrays)
    run = mx.hybridize(call) if hybridized else call
    with autograd.record():
        y = run(*xs)
    y.backward(nd.arange(1, y.size + 1).reshape(y.shape))
    for x, expected in zip(xs, RECORDED[name], strict=True):
        np.testing.assert_allclose(x.grad.asnumpy(), np.array(expected), rtol=2e-6, atol=2e-6)


# ---- kept apart from MXNet: it gives what is not the derivative, or nan
def _gradient(function: Any, values: Any) -> np.ndarray:
    x = nd.array(values)
    x.attach_grad()
    with autograd.record():
        y = function(x)
    y.backward()
    return x.grad.asnumpy()


BETTER = {
    # name: function, at, the derivative there. MXNet's: from the function's value without alpha; 0; 0; 0; nan; nan
    "selu": (lambda x: nd.LeakyReLU(x, act_type="selu"), [-1.0, 2.0],
             [1.0507009873554805 * 1.6732632423543772 * np.exp(-1.0), 1.0507009873554805]),
    "np-var": (lambda x: mx.np.var(x.as_np_ndarray()), [1.0, 3.0], [-1.0, 1.0]),
    "np-std": (lambda x: mx.np.std(x.as_np_ndarray()), [1.0, 3.0], [-0.5, 0.5]),
    "atleast_2d": (lambda x: mx.np.atleast_2d(x.as_np_ndarray()), [1.0, 3.0], [1.0, 1.0]),
    "prod-of-a-zero": (lambda x: nd.prod(x), [0.0, 3.0, 2.0], [6.0, 0.0, 0.0]),
    "power-of-zero": (lambda x: nd.broadcast_power(nd.zeros((2,)), x), [1.0, 2.0], [0.0, 0.0]),
}


@pytest.mark.parametrize("name", BETTER)
def test_the_derivative_where_mxnet_has_another(name: str) -> None:
    function, at, derivative = BETTER[name]
    np.testing.assert_allclose(_gradient(function, at), derivative, rtol=1e-6)
