"""Fully convolutional networks over images of any height and width, and convolutions over lines of any length: one
program."""
from __future__ import annotations

import numpy
import pytest

import hybrid as mx
from hybrid import gluon, nd, profiler
from hybrid.gluon import nn
from hybrid.jit.compile_policy import eagerly
from hybrid.runtime import toolchain

needs_words = pytest.mark.skipif("bfloat16" not in toolchain.words(), reason="no products of bfloat16 here")
SIZES = ((40, 56), (64, 48), (64, 64), (33, 50), (75, 31), (128, 97), (40, 56), (24, 29), (65, 65))


class Residual(gluon.HybridBlock):
    """Two 3x3 convolutions around which the data goes, by a 1x1 one with a stride."""

    def __init__(self, channels, stride, **options):
        super().__init__()
        self.first = nn.Conv2D(channels, 3, strides=stride, padding=1, use_bias=False)
        self.norm, self.second = nn.BatchNorm(), nn.Conv2D(channels, 3, padding=1, **options)
        self.past = nn.Conv2D(channels, 1, strides=stride, use_bias=False)

    def forward(self, x):
        y = nd.relu(self.norm(self.first(x)))
        return nd.relu(self.second(y) + self.past(x))


def _stem(*layers):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 7, strides=2, padding=3), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1), *layers)
    return net


NETWORKS = {
    "residual": lambda: _stem(Residual(32, 1), Residual(48, 2), nn.GlobalAvgPool2D()),
    "depthwise": lambda: _stem(nn.Conv2D(32, 3, strides=2, padding=1, groups=32), nn.Conv2D(64, 1),
                               nn.Conv2D(64, 3, padding=1, groups=64), nn.Activation("relu")),
    "dilated, in groups": lambda: _stem(nn.Conv2D(32, 3, padding=2, dilation=2), nn.Conv2D(64, 3, padding=1, groups=2),
                                        nn.Conv2D(64, 3, strides=3, padding=1)),
    "pools": lambda: _stem(nn.AvgPool2D(2, 2), nn.Conv2D(33, (3, 5), padding=(0, 2)), nn.MaxPool2D(3, 3, 1)),
    "pools of all pixels": lambda: _stem(nn.Conv2D(32, 1), nn.MaxPool2D(2, 2, ceil_mode=True), nn.Conv2D(48, 2)),
    "wide": lambda: _stem(nn.Conv2D(512, 1), nn.Conv2D(32, 3, padding=1)),
}


def _agree(net, data, **tolerance):
    for x in data:
        found = net(x)
        with eagerly():
            wanted = net(x)
        numpy.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), err_msg=str(x.shape), **tolerance)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_over_images_of_any_size(name):
    """Strides, borders, Winograd's form, pools and what follows them, of odd and even sizes, square ones too."""
    mx.random.seed(1)
    net, draw = NETWORKS[name](), numpy.random.RandomState(0)
    net.initialize(mx.init.Xavier(magnitude=2))
    net.hybridize()
    _agree(net, [nd.array(draw.randn(1, 3, *size)) for size in SIZES], rtol=2e-4, atol=2e-5)
    assert len(net.programs) == 1 and "n0, n1" in net.programs[0].sizes[0], (net.programs,
                                                                             net._engine._any_size.why)


@needs_words
def test_images_of_any_size_in_bfloat16():
    """Products by words, 3x3 convolutions in Winograd's form too: as by programs for each size, which round alike."""
    draw, found = numpy.random.RandomState(0), []
    data = [nd.array(draw.randn(1, 3, *size)) for size in SIZES[:6]]
    net = _stem(nn.Conv2D(64, 3, padding=1), nn.Activation("relu"), nn.Conv2D(32, 5, strides=2, padding=2))
    mx.random.seed(1)
    net.initialize(mx.init.Xavier(magnitude=2))
    for dynamic in (True, False):
        net.hybridize(precision="bf16", dynamic=dynamic)
        found.append([net(x).asnumpy() for x in data])
    for a, b in zip(*found):
        assert numpy.abs(a - b).max() < 2e-2 * numpy.abs(b).max()


def test_batches_of_images_of_any_size():
    """The number of images varies with their sizes."""
    mx.random.seed(1)
    net, draw = NETWORKS["residual"](), numpy.random.RandomState(0)
    net.initialize(mx.init.Xavier(magnitude=2))
    net.hybridize()
    every = [(2, 40, 56), (3, 64, 48), (1, 33, 50), (5, 24, 24), (3, 65, 40)]
    _agree(net, [nd.array(draw.randn(b, 3, h, w)) for b, h, w in every], rtol=2e-4, atol=2e-5)
    assert len(net.programs) <= 3, (net.programs, net._engine._any_size.why)


@pytest.mark.parametrize("options", ({}, {"strides": 2}, {"dilation": 4, "padding": 4}, {"groups": 4, "padding": 1}))
def test_convolutions_of_lines_of_any_length(options):
    """Of signals, for inference: weights are packed."""
    mx.random.seed(1)
    net, draw = nn.HybridSequential(), numpy.random.RandomState(0)
    net.add(nn.Conv1D(32, 5, padding=2, activation="relu"), nn.Conv1D(64, 3, **options), nn.BatchNorm(),
            nn.Activation("relu"), nn.Conv1D(32, 1))
    net.initialize(mx.init.Xavier(magnitude=2))
    net.hybridize()
    _agree(net, [nd.array(draw.randn(1, 16, n)) for n in (400, 411, 64, 90, 1000, 33, 17)], rtol=2e-4, atol=2e-5)
    assert len(net.programs) == 1, (net.programs, net._engine._any_size.why)


def test_the_profiler_times_a_program_for_images_of_any_size():
    """Its kernels are printed once more, for sizes whose guards hold."""
    net = NETWORKS["pools"]()
    net.initialize()
    net.hybridize()
    for size in SIZES[:3]:
        net(nd.ones((1, 3, *size)))
    profiler.set_state("run")
    try:
        net(nd.ones((1, 3, 56, 72))).wait_to_read()
    finally:
        profiler.set_state("stop")
    assert "conv" in profiler.dumps(reset=True)


def _gradients(net, x):
    with mx.autograd.record():
        loss = (net(x) ** 2).mean()
    loss.backward()
    return [loss.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null")]


def _trained_alike(net, data, **tolerance):
    """Gradients of a network over images are as eagerly, and come from one program beside that of the first image."""
    net.initialize(mx.init.Xavier(magnitude=2))
    with eagerly():
        wanted = [_gradients(net, x) for x in data]
    net.hybridize()
    for x, each in zip(data, wanted):
        for found, good in zip(_gradients(net, x), each):
            numpy.testing.assert_allclose(found, good, atol=1e-4 * abs(good).max() + 1e-6, rtol=1e-3, err_msg=x.shape)
    assert len(net.programs) <= 2 and "n0, n1" in net.programs[-1].sizes[0], net.programs


def test_training_over_images_of_any_size():
    """Strides (odd and even sizes, of which phases of gradients differ), pools that overlap, norms, a mean of all
    pixels and a loss: forward and backward."""
    mx.random.seed(1)
    draw, net = numpy.random.RandomState(0), _stem(Residual(32, 2), nn.GlobalAvgPool2D(), nn.Dense(4))
    _trained_alike(net, [nd.array(draw.randn(2, 3, *size)) for size in ((40, 56), *SIZES[3:8])])


@pytest.mark.parametrize("layers", (
    lambda: (nn.Conv2D(32, 3, padding=1, groups=32), nn.Conv2D(32, 3, strides=2, groups=32), nn.Conv2D(48, 1)),
    lambda: (nn.MaxPool2D(2, 2), nn.Conv2D(32, 5, strides=3), nn.AvgPool2D(2, 2),
             nn.Conv2D(16, 3, padding=2, dilation=2)),
))
def test_training_of_layers_over_images_of_any_size(layers):
    """Depthwise convolutions; pools side by side, strides of three, dilated ones."""
    mx.random.seed(1)
    draw, net = numpy.random.RandomState(0), nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1), nn.Activation("relu"), *layers())
    _trained_alike(net, [nd.array(draw.randn(2, 3, *size)) for size in ((40, 56), (64, 48), (33, 50), (65, 65))])


def test_images_of_few_channels_in_training():
    """Gradients of windows that fill no vector have a program for each size; their numbers are right."""
    net, draw = nn.HybridSequential(), numpy.random.RandomState(0)
    net.add(nn.Conv2D(6, 3, padding=1), nn.MaxPool2D(2, 2))
    net.initialize()
    net.hybridize()
    for size in ((16, 20), (18, 14), (20, 20)):
        x = nd.array(draw.randn(2, 3, *size))
        found = _gradients(net, x)
        with eagerly():
            wanted = _gradients(net, x)
        for a, b in zip(found, wanted):
            numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert "windows over images whose spatial sizes vary" in str(net.report())
