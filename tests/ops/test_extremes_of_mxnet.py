"""Results and gradients of elementwise operators and reductions at NaN, infinities, zeros of both signs and poles: as
MXNet 1.9.1 gives them (tests/oracle/record_extremes.py), eagerly and compiled."""
from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd

from ..paths import DATA, TESTS

RECORDED = json.loads((DATA / "extremes.json").read_text())
# what differs on purpose or cannot matter: (of the gradient, points that are left out)
OTHERS = {
    "LeakyReLU selu": (True, {-np.inf, -1.0, -100.0, -3.0}),         # MXNet's derivative leaves out alpha
    "Activation softsign": (True, {np.inf, -np.inf}),                # the result is NaN in both
    "softsign": (True, {np.inf, -np.inf}),
    "rsqrt": (True, {0.0}),                                          # an infinity of the other sign, at -0
    "power 0.5": (False, {-np.inf}),                                 # NumPy's: the square root's
    "2 mod": (True, {0.0}),                                          # the result is NaN in both
}


def _cases() -> Any:
    spec = importlib.util.spec_from_file_location("extreme_cases", TESTS / "oracle" / "extreme_cases.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = _cases()


def _agree(name: str, got: np.ndarray, recorded: list[str], gradient: bool) -> None:
    want = np.array([float(v) for v in recorded])
    left_out = OTHERS[name][1] if name in OTHERS and OTHERS[name][0] == gradient else set()
    keep = [i for i in range(len(want)) if len(want) != len(CASES.POINTS) or float(CASES.POINTS[i]) not in left_out]
    np.testing.assert_allclose(got.astype(np.float64)[keep], want[keep], rtol=1e-5, atol=1e-6,
                               err_msg=f"at {CASES.POINTS[keep] if len(want) == len(CASES.POINTS) else ''}")


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", RECORDED)
def test_as_mxnet(name: str, hybridized: bool) -> None:
    function, (result, gradient) = CASES.CASES[name], RECORDED[name]

    def call(x: Any) -> Any:
        return function(mx, x)
    x = nd.array(CASES.POINTS)
    x.attach_grad()
    with autograd.record():
        y = (mx.hybridize(call) if hybridized else call)(x)
    _agree(name, y.asnumpy().ravel(), result, gradient=False)
    if gradient is not None:
        y.backward()
        _agree(name, x.grad.asnumpy(), gradient, gradient=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_sign_of_nan_is_zero(dtype: str) -> None:
    """As in MXNet, eagerly and compiled, in the types that MXNet lacks too."""
    x = nd.array([np.nan, -2, 0, 3], dtype=dtype)
    sign = mx.hybridize(nd.sign)
    for got in (nd.sign(x), sign(x), sign(x)):
        assert got.dtype == x.dtype and got.asnumpy().astype(np.float64).tolist() == [0, -1, 0, 1]
