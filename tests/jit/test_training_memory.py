"""Peak memory of training, measured: a hybridized net and a whole step as one program take no more than eager execution
does."""
from __future__ import annotations

import gc
import tracemalloc
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base.device import CACHES, find_cupy
from hybrid.gluon import nn, rnn

pytestmark = pytest.mark.skipif(find_cupy() is not None, reason="tracemalloc sees NumPy's memory alone")


class Skips(nn.HybridBlock):
    """A small U-net: what goes down is joined again on the way up."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.down, self.middle, self.deep = (nn.Conv2D(c, 3, padding=1, activation="relu", in_channels=i)
                                                 for c, i in ((8, 3), (16, 8), (16, 16)))
            self.norm, self.pool, self.up = (nn.BatchNorm(in_channels=8), nn.MaxPool2D(),
                                             nn.Conv2DTranspose(8, 2, strides=2, in_channels=16))
            self.last = nn.Conv2D(1, 3, padding=1, in_channels=16)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        high = self.norm(self.down(x))
        low = self.middle(self.pool(high))
        return self.last(F.concat(self.up(self.deep(low) + low), high, dim=1))


class Growing(nn.HybridBlock):
    """DenseNet's block: every layer reads all that came before."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.norms, self.convolutions = nn.HybridSequential(), nn.HybridSequential()
            for k in range(4):
                self.norms.add(nn.BatchNorm(in_channels=6 + 6 * k))
                self.convolutions.add(nn.Conv2D(6, 3, padding=1, in_channels=6 + 6 * k))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        for norm, convolution in zip(self.norms._children.values(), self.convolutions._children.values()):
            x = F.concat(x, convolution(F.relu(norm(x))), dim=1)
        return x


class Encoder(nn.HybridBlock):
    """A transformer's layer."""

    def __init__(self, units: int = 32, heads: int = 4) -> None:
        super().__init__()
        self._heads = heads
        with self.name_scope():
            self.qkv, self.out, self.wide, self.back = (nn.Dense(n, flatten=False, in_units=i) for n, i in
                                                        ((3 * units, units), (units, units), (4 * units, units),
                                                         (units, 4 * units)))
            self.first, self.second, self.drop = (nn.LayerNorm(in_channels=units), nn.LayerNorm(in_channels=units),
                                                  nn.Dropout(0.1))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        q, k, v = (F.reshape(F.transpose(F.reshape(t, (0, 0, self._heads, -1)), (0, 2, 1, 3)), (-3, 0, 0))
                   for t in F.split(self.qkv(x), num_outputs=3, axis=-1))
        mixed = F.batch_dot(self.drop(F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.35)), v)
        x = self.first(x + self.out(F.reshape(F.transpose(F.reshape(mixed, (-4, -1, self._heads, 0, 0)), (0, 2, 1, 3)),
                                              (0, 0, -3))))
        return self.second(x + self.drop(self.back(F.LeakyReLU(self.wide(x), act_type="gelu"))))


def _stack(make: Callable[[], Any], n: int) -> Any:
    net = nn.HybridSequential()
    for _ in range(n):
        net.add(make())
    return net


NETS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "skips": (Skips, (4, 3, 24, 24)),
    "growing": (Growing, (4, 6, 20, 20)),
    "encoder": (lambda: _stack(Encoder, 2), (4, 16, 32)),
    "lstm": (lambda: rnn.LSTM(32, 2, layout="NTC", input_size=16), (8, 16, 16)),
    "gru": (lambda: rnn.GRU(24, 2, layout="NTC", input_size=12), (8, 16, 12)),
    "deep": (lambda: _stack(lambda: nn.Dense(64, activation="sigmoid", in_units=64), 16), (32, 64)),
    "norms": (lambda: _stack(lambda: nn.LayerNorm(in_channels=256), 6), (64, 256)),
}


PYTHON = 16 << 10               # bytes of Python's own objects, which a peak has as well


def _peak(name: str, how: str) -> int:
    """Bytes at the peak of the fourth training step, beyond what was there before it."""
    make, shape = NETS[name]
    mx.random.seed(1)
    net = make()
    net.initialize(mx.init.Xavier())
    x = nd.array(np.random.RandomState(0).rand(*shape))
    net(x)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    if how != "eager":
        net.hybridize()

    def step(data: Any) -> Any:
        with autograd.record():
            loss = (net(data) ** 2).mean()
        loss.backward()
        trainer.step(1)
        return loss
    run = mx.hybridize(step) if how == "program" else step
    for _ in range(3):
        run(x)
    gc.collect()
    for clear in CACHES:
        clear()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run(x).wait_to_read()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", [n if n in ("skips", "norms") else pytest.param(n, marks=pytest.mark.thorough)
                                  for n in NETS])
def test_no_more_than_eager(name: str) -> None:
    eager = _peak(name, "eager")
    for how in ("hybridized", "program"):
        assert _peak(name, how) <= eager + PYTHON, how


@pytest.mark.parametrize("name", ["skips", "growing", "encoder"])
def test_the_report_shows_both(name: str) -> None:
    make, shape = NETS[name]
    net = make()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.ones(shape)
    x.attach_grad()
    with autograd.record():
        net(x).sum().backward()
    report = net.report()
    for part in (report, report.backward):
        assert 0 < part.planned_bytes <= part.eager_bytes
        assert f"eager {part.eager_bytes} bytes, planned {part.planned_bytes}" in str(report)
