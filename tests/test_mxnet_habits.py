"""Small behaviours of MXNet 1.9.1 that programs and their tests rely on; every expected value was given by MXNet."""
from __future__ import annotations

import warnings

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, sym

INTEGERS = {                                # expression of x = [-3, 1, 2, 3] in int32: result
    "plus": (lambda x: x + 2.5, [-1, 3, 4, 5]), "times": (lambda x: x * -1.9, [3, -1, -2, -3]), "over": (lambda x: x / 2.5, [-1, 0, 1, 1]),
    "under": (lambda x: -1 / x, [0, -1, 0, 0]), "minus": (lambda x: x - 300.7, [-303, -299, -298, -297]), "power": (lambda x: x ** 2.9, [9, 1, 4, 9]),
    "inverse": (lambda x: x ** -1, [0, 1, 0, 0]), "base": (lambda x: 2.9 ** x, [0, 2, 4, 8]), "mod": (lambda x: x % 2.5, [1, 1, 0, 1]),
    "maximum": (lambda x: nd.maximum(x, 1.5), [1, 1, 2, 3]), "equal": (lambda x: x == 2, [0, 0, 1, 0]),
}


@pytest.mark.parametrize("case", INTEGERS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_integers_beside_numbers(case: str, compiled: bool) -> None:
    function, expected = INTEGERS[case]
    out = (mx.hybridize(function) if compiled else function)(nd.array([-3, 1, 2, 3], dtype="int32"))
    assert out.dtype == np.int32 and out.asnumpy().tolist() == expected


FLOWS = {                                   # of x = [[1, 2, 3], [4, 5, 6]]: the gradient of the sum
    "square": (lambda x: x * x, [[2, 4, 6], [8, 10, 12]]), "sum": (lambda x: nd.sum(x, axis=1), [[1, 1, 1], [1, 1, 1]]),
    "parts": (lambda x: x[0] * 3, [[3, 3, 3], [0, 0, 0]]), "maximum": (lambda x: nd.max(x, axis=0), [[0, 0, 0], [1, 1, 1]]),
    "to float": (lambda x: x.astype("float32") * 2, [[2, 2, 2], [2, 2, 2]]), "to integer": (lambda x: (x * 2).astype("int64") * 2, [[4, 4, 4], [4, 4, 4]]),
    "place": (lambda x: nd.topk(x, k=1, dtype="int32"), [[0, 0, 0], [0, 0, 0]]), "comparison": (lambda x: x > 2, [[0, 0, 0], [0, 0, 0]]),
    "shape": (lambda x: nd.shape_array(x), [[0, 0, 0], [0, 0, 0]]),
}


@pytest.mark.parametrize("case", FLOWS)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_gradients_of_integers(case: str, dtype: str, compiled: bool) -> None:
    function, expected = FLOWS[case]
    x = nd.array([[1, 2, 3], [4, 5, 6]], dtype=dtype)
    x.attach_grad()
    x.grad[:] = 7
    with autograd.record():
        y = (mx.hybridize(function) if compiled else function)(x)
    y.backward()
    assert x.grad.dtype == x.dtype and x.grad.asnumpy().tolist() == expected


def test_sum_in_another_dtype_has_a_gradient() -> None:
    x = mx.np.array([1, 2], dtype="int32")
    x.attach_grad()
    with autograd.record():
        y = mx.np.sum(x, dtype="float32")
    y.backward()
    assert x.grad.asnumpy().tolist() == [1, 1]


def test_momentum_of_a_master_copy() -> None:
    w, g = nd.array([1, 2], dtype="float16"), nd.array([0.5, 0.25], dtype="float16")
    mom, master = nd.array([0.1, 0.2]), nd.array([1.0, 2.0])
    nd.mp_nag_mom_update(w, g, mom, master, out=w, lr=0.1, momentum=0.9, wd=0.5)
    np.testing.assert_allclose(master.asnumpy(), [0.891, 1.9245], rtol=1e-6)
    np.testing.assert_allclose(mom.asnumpy(), [-0.00455, 0.058775], rtol=1e-5)


def test_classes_by_frequency_of_a_symbol() -> None:
    group = sym.Group(list(sym.contrib.rand_zipfian(sym.var("x"), 5, 100)))
    drawn, of_true, of_drawn = group.eval(x=nd.array([1.0, 3.0]))
    assert drawn.dtype == np.int64 and drawn.shape == of_drawn.shape == (5,)
    np.testing.assert_allclose(of_true.asnumpy(), [0.43927, 0.24175], rtol=1e-4)


def test_composition_of_symbols() -> None:
    layer = sym.FullyConnected(sym.var("a"), num_hidden=3, name="fc")
    assert layer(a=sym.relu(sym.var("d"))).list_arguments() == ["d", "fc_weight", "fc_bias"]
    layer._compose(a=sym.var("e"), name="other")
    assert layer.name == "other" and layer.list_arguments()[0] == "e"
    with pytest.raises(TypeError, match="not both"):
        layer(sym.var("x"), e=sym.var("y"))


def test_unknown_flags_of_hybridize_are_a_warning() -> None:
    net = gluon.nn.Dense(2, in_units=2)
    net.initialize()
    with pytest.warns(UserWarning, match="no option foo"):
        net.hybridize(foo=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net(nd.ones((1, 2))).shape == (1, 2)
