"""Depthwise convolutions in training steps: channels last in all three products, against eager gradients."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import ir, nd
from hybrid.codegen.printers.convolutions.depthwise_gradient import DepthwiseGradient
from hybrid.gluon import nn
from hybrid.runtime import cpu, toolchain

from .cpu_kernels import program, random
from .test_packed_steps import step_of

# images, height, width, channels, kernel, stride, border, dilation
GRADIENTS = {"one_line": (3, 1, 9, 16, (1, 3), 1, 1, 1), "small_images": (70, 2, 2, 40, (3, 3), 1, 1, 1),
             "part_of_a_vector": (2, 9, 8, 7, (3, 3), 1, 1, 1), "overlapping_tiles": (2, 9, 8, 37, (3, 3), 1, 1, 1),
             "strided": (3, 16, 15, 24, (3, 3), 2, 1, 1), "dilated": (2, 15, 11, 19, (3, 3), 1, 2, 2),
             "wide": (2, 13, 12, 33, (7, 7), 1, 3, 1), "no_border": (2, 9, 10, 24, (5, 5), 1, 0, 1),
             "wide_border": (2, 5, 3, 16, (5, 5), 1, 3, 1), "many_lines": (1, 130, 140, 32, (3, 3), 1, 1, 1)}


@pytest.mark.skipif(toolchain.vector_bytes() < 32, reason="needs vectors of 8 lanes")
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_of_filters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of filters from channels-last data and gradients, against sums of products in float64."""
    n, h, w, channels, kernel, stride, border, dilation = GRADIENTS[name]
    pads = [border if k > 1 else 0 for k in kernel]
    at = [[range(t * dilation, t * dilation + d + 2 * p - dilation * (k - 1), stride) for t in range(k)]
          for d, k, p in zip((h, w), kernel, pads)]
    x, g = random(n, h, w, channels), random(n, len(at[0][0]), len(at[1][0]), channels)
    wide = np.pad(x, ((0, 0), *((p, p) for p in pads), (0, 0))).astype(np.float64)
    want = np.array([[(g * wide[:, i][:, :, j]).sum((0, 1, 2)) for j in at[1]] for i in at[0]])

    def outputs(x: Any, g: Any) -> list[Any]:
        lo = (0, *pads, 0)
        win = ir.window(ir.pad(x, lo, lo) if any(lo) else x, (1, 2), kernel, (stride, stride), (dilation, dilation))
        return [ir.permute(ir.dot(g, win, ((0, 1, 2), (0, 1, 2)), ((3,), (3,))), (1, 2, 0))]
    printed = []
    whole = DepthwiseGradient.print
    monkeypatch.setattr(DepthwiseGradient, "print", lambda self: printed.append(self) or whole(self))
    p, arrays = program(outputs, x, g)
    [got] = cpu.compiled(p)(arrays)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * float(np.abs(want).max()))
    assert len(printed) == 1


# height, width, channels, the depthwise layer's options
LAYERS: dict[str, tuple[int, int, int, dict[str, Any]]] = {
    "plain": (9, 7, 32, {"kernel_size": 3, "padding": 1}), "strided": (12, 10, 32, {"kernel_size": 3, "strides": 2,
                                                                                    "padding": 1}),
    "odd_size_strided": (11, 9, 32, {"kernel_size": 3, "strides": 2, "padding": 1}),
    "odd_channels": (9, 8, 39, {"kernel_size": 3, "padding": 1}),
    "dilated": (13, 11, 32, {"kernel_size": 3, "dilation": 2, "padding": 2}),
    "five": (12, 12, 48, {"kernel_size": 5, "padding": 2, "strides": 2}),
    "no_padding": (9, 10, 32, {"kernel_size": 3}), "along_lines": (9, 10, 32, {"kernel_size": (1, 3)})}


def clipped() -> Any:
    """ReLU6."""
    return nn.HybridLambda(lambda F, x: F.clip(x, 0, 6))


@pytest.mark.parametrize("name", LAYERS)
def test_as_eager(name: str) -> None:
    """The step of an inverted residual's middle, with BatchNorm and clipping between its convolutions."""
    height, width, channels, options = LAYERS[name]
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, use_bias=False), nn.Conv2D(channels, 1, use_bias=False), nn.BatchNorm(),
            clipped(), nn.Conv2D(channels, groups=channels, use_bias=False, **options), nn.BatchNorm(), clipped(),
            nn.Conv2D(33, 1))
    net.initialize(mx.init.Xavier())
    x = nd.array(random(3, 16, height, width))
    net(x)
    _, step = step_of(net, x)
    packed = [k for k in step.report().kernels if k.kind == "convolution"]
    assert len(packed) >= 2 or toolchain.vector_bytes() < 32, step.report()


@pytest.mark.parametrize("batch", (1, 2, 5))
def test_any_batch(batch: int) -> None:
    """One network in steps of several batches."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 1), nn.Conv2D(32, 3, 1, 1, groups=32, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(32, 3, 2, 1, groups=32), nn.Conv2D(32, 1))
    net.initialize(mx.init.Xavier())
    x = nd.array(random(batch, 32, 10, 10))
    net(x)
    step_of(net, x)
