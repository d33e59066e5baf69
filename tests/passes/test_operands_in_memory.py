"""Operands of gradients of filters that are computed from other values."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd

CASES = [((4, 16, 16, 16), (16, 16, 3, 3), {"pad": (1, 1)}, "pixels in lanes"),
         ((2, 16, 18), (16, 16, 3), {"pad": (1,)}, "pixels in lanes"),
         ((2, 32, 9, 16), (32, 1, 3, 3), {"pad": (1, 1), "num_group": 32}, ""),
         ((4, 16, 16, 16), (16, 16, 3, 3), {"pad": (1, 1), "stride": (2, 2)}, "")]


@pytest.mark.parametrize("data,filters,options,form", CASES)
@pytest.mark.parametrize("before", ["relu", "abs"])
def test_gradient_of_filters_behind_a_function(data: Any, filters: Any, options: Any, form: str, before: str) -> None:
    """What a convolution reads through a cheap function is stored for the gradient of its filters."""
    def step(x: Any, w: Any) -> Any:
        w.attach_grad()
        with autograd.record():
            y = nd.Convolution(getattr(nd, before)(x), w, no_bias=True, kernel=w.shape[2:], num_filter=w.shape[0],
                               **options)
            loss = nd.sin(y).sum()
        loss.backward()
        return y, w.grad
    rng = np.random.RandomState(3)
    x, w = nd.array(rng.randn(*data).astype("f")), nd.array(0.1 * rng.randn(*filters).astype("f"))
    f = mx.hybridize(step)
    for found, wanted in zip(f(x, w.copy()), step(x, w.copy())):
        np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=2e-4, atol=2e-3)
    if form:
        forms = [k.form for k in f.report().kernels if k.nodes[-1].startswith("dot") and any(
            "weight gradient" in title for title in (k.form, *(t for t, _ in k.not_taken)))]
        assert f"weight gradient, {form}" in forms


@pytest.mark.parametrize("groups", [1, 8])
def test_elements_that_lie_a_step_apart(groups: int) -> None:
    """What a convolution with a stride gives back has its elements from several arrays in turn: the sums behind it read
    one array, in which they lie in order."""
    def back(h: Any, w: Any, y: Any, x: Any) -> Any:
        g = nd.Deconvolution(h, w, kernel=(3, 3), stride=(2, 2), pad=(1, 1), adj=(1, 1), num_filter=8, num_group=groups)
        g = nd.where(y > 0, g, y)
        return g.sum(axis=(0, 2, 3)), (g * x).sum(axis=(0, 2, 3))
    rng = np.random.RandomState(4)
    given = [nd.array(rng.randn(*s).astype("f"))
             for s in ((2, 8, 6, 6), (8, 8 // groups, 3, 3), (2, 8, 12, 12), (2, 8, 12, 12))]
    f = mx.hybridize(back)
    for found, wanted in zip(f(*given), back(*given)):
        np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=2e-4, atol=2e-4)
    nodes = [n for k in f.report().kernels for n in k.nodes]
    assert sum(n.startswith("add[2, 8, 13, 13]") for n in nodes) == 3        # of four phases
