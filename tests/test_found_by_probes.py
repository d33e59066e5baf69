"""Single answers that differed from MXNet's, or between eager and compiled calls."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import autograd, hybridize, nd, sym
from hybrid import np as hnp


@pytest.mark.parametrize("how", [lambda f: f, hybridize])
@pytest.mark.parametrize("change,factor", [(lambda y, x: nd.elemwise_mul(y, y, out=y), 2.),
                                           (lambda y, x: nd.sgd_update(y, x, out=y, lr=.5), .5)])
def test_a_result_written_over_its_recorded_input_has_its_gradient(how, change, factor):
    def f(x):
        y = x * 1
        change(y, x)
        return y
    x = nd.ones((3,))
    x.attach_grad()
    with autograd.record():
        y = how(f)(x)
    y.backward()
    assert y.asnumpy().tolist() == [1. if factor == 2 else .5] * 3
    assert x.grad.asnumpy().tolist() == [factor] * 3


@pytest.mark.parametrize("how", [lambda f: f, hybridize])
def test_traced_code_that_asks_for_numpys_rules_has_them(how):
    count = how(lambda x: (x.as_np_ndarray() > 1).sum())
    both = how(lambda x: (x > 1) + (x.as_np_ndarray() > 1).sum().astype("float32").as_nd_ndarray())
    for scale in (1, 2):
        x = nd.array([1., 2., 3.]) * scale
        found = count(x)
        assert type(found) is hnp.ndarray and found.dtype == np.int64 and int(found) == 1 + scale
        assert type(both(x)) is nd.NDArray and both(x).asnumpy().tolist() == [(scale * v > 1) + 1 + scale
                                                                             for v in (1, 2, 3)]


def test_copying_an_array_into_itself_does_nothing():
    x = nd.ones((2,))
    with pytest.warns(UserWarning, match="given itself"):
        assert x.copyto(x) is False


def test_clip_needs_a_limit():
    with pytest.raises(ValueError, match="needs a limit"):
        nd.clip(nd.ones(2))


def test_dtypes_are_inferred_backward_through_operators_that_keep_them():
    a, b = sym.var("a"), sym.var("b")
    for dtype in (np.float16, np.float64):
        assert (a + b * 2).infer_type(a=dtype) == ([dtype, dtype], [dtype], [])
        layer = sym.FullyConnected(sym.exp(a), num_hidden=2, name="f")
        assert layer.infer_type(f_weight=dtype) == ([dtype] * 3, [dtype], [])
    assert (sym.Cast(a, "float32") + b).infer_type(b="float32") == (None, None, None)
