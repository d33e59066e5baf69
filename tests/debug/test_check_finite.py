"""debug.check_finite and HYBRID_NAN: the operator and the line that made a NaN or an infinity."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, debug, gluon, nd
from hybrid.gluon import nn


@pytest.fixture(autouse=True)
def switched_off() -> Iterator[None]:
    with debug.check_finite(False):
        yield


def log_of(x: Any) -> Any:
    y = x - 1
    z = nd.log(y)
    return z.sum() * 2


def refused(call: Any, text: str) -> None:
    with pytest.raises(mx.errors.NonFiniteError) as found:
        call()
    assert re.search(text, str(found.value)), found.value


LINE = log_of.__code__.co_firstlineno + 2


def test_the_first_operator_and_its_line_are_named() -> None:
    f, bad = mx.hybridize(log_of), nd.array([0.5, 3.0])
    for _ in range(3):
        assert np.isnan(f(bad).asnumpy())                   # nothing is looked for
    with debug.check_finite():
        text = (rf"test_check_finite.py:{LINE}: operator log made a NaN: 1 of 2 elements of float32\(2,\), of inputs "
                rf"from -0.5")
        refused(lambda: f(bad), text + r".*\(in the compiled program of log_of\)")
        refused(lambda: log_of(bad), text)
        assert np.isfinite(f(nd.array([2.0, 3.0])).asnumpy())
        f(nd.array([np.nan, 3.0]))                          # given, not made
        refused(lambda: f(nd.array([1.0, 3.0])), f":{LINE}: operator log made an infinity")
    assert np.isnan(f(bad).asnumpy())


def test_an_infinity_behind_a_nan_is_named_too() -> None:
    @mx.hybridize
    def f(x: Any) -> Any:
        y = nd.exp(x)
        return y - y
    line = f._fn.__code__.co_firstlineno + 2
    with debug.check_finite(infinities=False):
        refused(lambda: f(nd.array([1000.0])), rf":{line + 1}: operator elemwise_sub made a NaN.*"
                rf"made by \S+:{line}: operator exp")
        mx.hybridize(nd.exp)(nd.array([1000.0]))            # an infinity alone is not looked for
        nd.exp(nd.array([1000.0]))


def test_gradients_and_updates_stay_as_they_were() -> None:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e38})
    before = net.weight.data().asnumpy()

    def step() -> None:
        with autograd.record():
            loss = (net(nd.ones((2, 3)) * 100) ** 2).sum()
        loss.backward()
        trainer.step(1)

    @mx.hybridize
    def compiled() -> None:
        step()
    with debug.check_finite():
        refused(step, r"operator SGD.update made an infinity")
        refused(compiled, r"made an infinity.*\(in the compiled program of .*compiled\)")
    assert (net.weight.data().asnumpy() == before).all()


def test_gradients_eagerly_and_compiled_tell_the_operator() -> None:
    def root(x: Any) -> Any:
        return nd.sqrt(x * 1).sum()
    for f in (root, mx.hybridize(root)):
        x = nd.zeros((2,))
        x.attach_grad()
        with debug.check_finite(), autograd.record():
            y = f(x)
            refused(y.backward, "operator gradient of sqrt made an infinity")


def test_the_setting() -> None:
    code = "from hybrid import nd\nnd.log(nd.zeros((2,)))"
    env = {**os.environ, "HYBRID_NAN": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "NonFiniteError" in done.stderr and "operator log made an infinity" in done.stderr


def test_a_loop_without_known_inputs() -> None:
    """The text says nothing of inputs where it does not know them."""
    @mx.hybridize
    def steps(a):
        return nd.contrib.foreach(lambda d, s: (nd.log(d - 2), s), a, nd.zeros((1,)))[0]
    with debug.check_finite(), pytest.raises(mx.errors.NonFiniteError) as found:
        steps(nd.array([[1.0], [2.0], [3.0]]))
    assert "made a NaN" in str(found.value) and "of inputs  " not in str(found.value)
