"""Convolutions of a few small images in training, and gradients of their filters, as products of matrices."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd

CASES = [((8, 32, 2, 2), (24, 32, 3, 3), {"pad": (1, 1)}),
         ((4, 16, 4, 4), (8, 16, 3, 3), {"pad": (1, 1), "stride": (2, 2)}),
         ((3, 16, 8, 8), (20, 16, 3, 3), {"pad": (1, 1)}), ((2, 16, 7, 5), (6, 16, 3, 2), {"dilate": (2, 1)}),
         ((8, 20, 1, 1), (16, 20, 3, 3), {"pad": (1, 1)}), ((5, 16, 6, 6), (4, 16, 5, 5), {"pad": (2, 0)}),
         ((8, 32, 2, 2), (24, 32, 1, 1), {}), ((8, 8, 2, 2), (16, 8, 3, 3), {"pad": (1, 1)}),
         ((8, 32, 2, 2), (24, 16, 3, 3), {"pad": (1, 1), "num_group": 2})]


def gradients(x: Any, w: Any, options: dict[str, Any], compiled: bool) -> tuple[list[np.ndarray], Any]:
    """The convolution, and the gradients of a sum of its sines with respect to data and filters; what computed them."""
    def step(x: Any, w: Any) -> Any:
        x.attach_grad()
        w.attach_grad()
        with autograd.record():
            y = nd.Convolution(x, w, no_bias=True, kernel=w.shape[2:], num_filter=w.shape[0], **options)
            loss = nd.sin(y).sum()
        loss.backward()
        return y, x.grad, w.grad
    f = mx.hybridize(step) if compiled else step
    return [a.asnumpy() for a in f(x.copy(), w.copy())], f


@pytest.mark.parametrize("data,filters,options", CASES)
def test_small_images(data: Any, filters: Any, options: dict[str, Any]) -> None:
    rng = np.random.RandomState(3)
    x, w = nd.array(rng.randn(*data).astype("f")), nd.array(0.1 * rng.randn(*filters).astype("f"))
    (y, dx, dw), f = gradients(x, w, options, True)
    for found, wanted in zip((y, dx, dw), gradients(x, w, options, False)[0]):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)
    nodes = [n for k in f.report().kernels for n in k.nodes]
    taps = int(np.prod(filters[1:]))
    side_by_side = options.get("num_group", 1) == 1 and data[1] >= 16
    assert any(f"dot[{filters[0]}, {taps}]" in n for n in nodes) == side_by_side


@pytest.mark.parametrize("stride", [1, 2])
def test_data_of_few_pixels(stride: int) -> None:
    """The gradient of data whose rows are shorter than the kernel is a product over filters as they lie, which windows
    add up; that of longer rows is a convolution."""
    def forms(size: int) -> list[str]:
        x, w = nd.random.normal(shape=(8, 32, size, size)), nd.random.normal(shape=(24, 32, 3, 3))
        options = {"pad": (1, 1), "stride": (stride, stride)}
        found, f = gradients(x, w, options, True)
        for a, b in zip(found, gradients(x, w, options, False)[0]):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-3)
        return [n for k in f.report().kernels for n in k.nodes]
    few, many = forms(2 * stride), forms(4 * stride)
    assert any("dot[32, 288]" in n for n in few) and any(n.startswith("unwindow") for n in few)
    assert not any(n.startswith("unwindow") for n in many)


def test_filters_that_last_stay_packed() -> None:
    """Inference packs its filters, as before."""
    net = mx.gluon.nn.Conv2D(24, 3, padding=1, in_channels=32)
    net.initialize()
    x = nd.random.normal(shape=(8, 32, 2, 2))
    wanted = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), wanted, rtol=1e-4, atol=1e-5)
    assert not any("dot[24, 32]" in n for k in net.report().kernels for n in k.nodes)
