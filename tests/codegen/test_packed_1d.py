"""Convolutions over one axis in the packed layout: values against eager ones, and that the layout is kept between
them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import autograd, nd
from hybrid.gluon import nn
from hybrid.passes import layout

from ..hybridize_tools import multiplying

LAYERS: dict[str, dict[str, Any]] = {
    "plain": {"channels": 40, "kernel_size": 5, "padding": 2},
    "strided": {"channels": 33, "kernel_size": 4, "strides": 3, "padding": 3},
    "dilated": {"channels": 24, "kernel_size": 3, "dilation": 4, "padding": 4},
    "one": {"channels": 48, "kernel_size": 1},
    "groups": {"channels": 48, "kernel_size": 3, "padding": 1, "groups": 2},
    "small_groups": {"channels": 32, "kernel_size": 3, "padding": 1, "groups": 8},
    "depthwise": {"channels": 32, "kernel_size": 7, "padding": 3, "groups": 32},
    "long_depthwise": {"channels": 32, "kernel_size": 21, "padding": 20, "dilation": 2, "groups": 32},
}


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LEAST_WORK", 1)


class Rows(nn.HybridBlock):
    """A convolution between others, BatchNorm, a pool, a residual and what sees the axes in their order."""

    def __init__(self, **options: Any):
        super().__init__()
        with self.name_scope():
            self.first, self.conv, self.last = nn.Conv1D(32, 3, padding=1), nn.Conv1D(**options), nn.Conv1D(32, 1)
            self.norm, self.pool = nn.BatchNorm(), nn.MaxPool1D(3, 2, padding=1)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        y = F.relu(self.norm(self.conv(self.first(x))))
        z = self.last(F.concat(y, F.tanh(y), dim=1))
        z = z + F.mean(z, axis=2, keepdims=True)
        return self.pool(z), F.slice_axis(z, axis=2, begin=1, end=4), F.swapaxes(y, 1, 2), F.max(y, axis=1)


@pytest.mark.parametrize("name", LAYERS)
def test_as_eager(name: str) -> None:
    net = Rows(**LAYERS[name])
    net.initialize()
    x = nd.array(np.random.RandomState(0).randn(2, 19, 45).astype("float32"))
    with autograd.train_mode():
        net(x)
    eager = [y.asnumpy() for y in net(x)]
    net.hybridize()
    for got, want in zip(net(x), eager, strict=True):
        np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5, atol=1e-5)
    report = str(net.report())
    assert multiplying(report) == 3 and "transpose" not in report, report


def test_windows_of_lines() -> None:
    """A permutation of the user's own is no layout of this pass."""
    class Net(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.conv = nn.Conv1D(32, 3, in_channels=16)

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            y = self.conv(F.swapaxes(x, 1, 2))
            return F.swapaxes(y, 1, 2) * F.swapaxes(F.softmax(y), 1,
                                                    2) + F.broadcast_axis(F.sum(y, axis=(1, 2), keepdims=True),
                    axis=(1, 2), size=(18, 32))
    net = Net()
    net.initialize()
    x = nd.array(np.random.RandomState(1).randn(2, 20, 16).astype("float32"))
    eager = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-5, atol=1e-5)
