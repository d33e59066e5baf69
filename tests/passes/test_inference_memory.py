"""Memory of inference: what a compiled net plans is at the liveness bound and below what eager execution takes,
kernels' working memory included, and its weights are in memory once.
"""
from __future__ import annotations

import gc
import tracemalloc
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.buffers import evict
from hybrid.base.device import find_cupy
from hybrid.gluon import nn

from ..jit.test_training_memory import NETS

pytestmark = pytest.mark.skipif(find_cupy() is not None, reason="tracemalloc sees NumPy's memory alone")


def lenet() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu", in_channels=1), nn.MaxPool2D(2),
            nn.Conv2D(16, 5, activation="relu", in_channels=6), nn.MaxPool2D(2),
            nn.Dense(120, activation="relu", in_units=256), nn.Dense(10, in_units=120))
    return net


def bottlenecks() -> Any:
    """Strided, 1x1 and depthwise convolutions, as of ResNet-50 and MobileNet."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 3, strides=2, padding=1, in_channels=32), nn.BatchNorm(in_channels=64),
            nn.Activation("relu"), nn.Conv2D(256, 1, in_channels=64),
            nn.Activation("relu"), nn.Conv2D(256, 3, padding=1, groups=256, in_channels=256),
            nn.Conv2D(64, 1, in_channels=256), nn.GlobalAvgPool2D(), nn.Flatten())
    return net


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    **{name: NETS[name] for name in ("skips", "encoder", "deep", "norms")},
    "lenet": (lenet, (16, 1, 28, 28)),
    "bottlenecks": (bottlenecks, (1, 32, 56, 56)),
    "gelu": (lambda: nn.GELU(), (256, 1024)),
    "softmax": (lambda: nn.HybridLambda("softmax"), (512, 1000)),
    "product": (lambda: nn.Dense(256, in_units=256, use_bias=False), (256, 256)),
}


def _made(name: str) -> tuple[Any, Any]:
    make, shape = CASES[name]
    net = make()
    net.initialize(mx.init.Xavier())
    return net, nd.array(np.random.RandomState(0).rand(*shape))


@pytest.mark.parametrize("name", CASES)
def test_at_the_bound_and_below_eager(name: str) -> None:
    net, x = _made(name)
    net(x)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        net(x).wait_to_read()
        eager = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    net.hybridize()
    net(x)
    report = net.report()
    assert report.planned_bytes <= 1.05 * report.bound_bytes
    assert report.planned_bytes + report.scratch_bytes <= eager


@pytest.mark.parametrize("name", ["bottlenecks", "product"])
def test_weights_are_held_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evict, "LEAST", 1 << 12)
    net, x = _made(name)
    net.hybridize()
    size = sum(p.data()._spec.nbytes for p in net.collect_params().values())
    for _ in range(3):
        net(x)
    here = sum(p.data()._spec.nbytes for p in net.collect_params().values() if evict.of(p.data()) is None)
    assert net.report().prepared_bytes + here <= 1.05 * size + (1 << 14)
