"""Kernels of training steps in C: gradients of pooling, of convolutions with respect to data and weights, of BatchNorm,
each against float64 on the reference backend.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import autograd, hybridize, ir, nd
from hybrid.ir import Node, Program
from hybrid.ops.registry import OPS
from hybrid.passes.differentiate import vjp_program
from hybrid.passes.pipeline import plan
from hybrid.runtime import reference
from hybrid.runtime.cpu import CpuProgram


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape).astype("float32")


def gradients(build: Any, arrays: list[np.ndarray], tolerance: float = 2e-5) -> str:
    """Gradients of build(*inputs) in C against float64; the source."""
    def backward(dtype: Any) -> tuple[Program, list[np.ndarray]]:
        leaves = tuple(ir.input(i, a.shape, dtype) for i, a in enumerate(arrays))
        forward = Program(leaves, (build(*leaves),))
        return vjp_program(forward, tuple(range(len(arrays)))), [a.astype(dtype)
                                                                 for a in [*arrays, random(*forward.outputs[0].shape)]]
    p, given = backward(np.float32)
    exe = CpuProgram(plan(p))
    want, _ = reference.run(*backward(np.float64), np)
    for got, exact in zip(exe(given), want, strict=True):
        np.testing.assert_allclose(got, exact, rtol=0,
                                   atol=tolerance * max(1, np.abs(exact[np.isfinite(exact)]).max(initial=0)))
    return exe.report.source


def pool(x: Node, **attrs: Any) -> Node:
    return OPS["Pooling"](x, **attrs)


POOLS = {"2x2": {"kernel": (2, 2), "stride": (2, 2)},
         "2x2_avg": {"kernel": (2, 2), "stride": (2, 2), "pool_type": "avg"},
         "3x3_2_1": {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}, "3x3_3": {"kernel": (3, 3), "stride": (3, 3)},
         "3x3_1_1": {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1)}, "1x2": {"kernel": (1, 2), "stride": (1, 2)}}


@pytest.mark.parametrize("size", [(4, 6), (8, 8), (24, 24), (10, 70), (7, 33), (5, 5)], ids=str)
@pytest.mark.parametrize("kind", POOLS)
def test_pooling(kind: str, size: tuple[int, int]) -> None:
    """Rounded inputs, so that windows have several greatest elements; the mask of relu is part of the kernel."""
    x = np.round(random(2, 3, *size) * 2)
    gradients(lambda x: pool(ir.map("relu", x + 0.5), **POOLS[kind]), [x])
    gradients(lambda x: pool(x, **POOLS[kind]), [x])


def test_pooling_pairs() -> None:
    """Windows of two by two are read and written as vectors."""
    assert "HYV_PAIR" in gradients(lambda x: pool(x, **POOLS["2x2"]), [random(2, 3, 8, 24)])


@pytest.mark.parametrize("width", [32, 112, 40, 33])
def test_overlapping_windows(width: int) -> None:
    """Windows that overlap, a step of two apart: the first maximum is found for a vector of windows, and what they add
    is written as pairs, where the border cuts vectors too. With ties, NaN and infinities."""
    x = np.round(random(2, 2, 8, width) * 2)
    x[0, 1, 2:4, 3:9], x[1, 0, 3, ::2], x[1, 1, :4] = np.nan, np.inf, -np.inf

    def gradient(x: Any) -> Any:
        x.attach_grad()
        with autograd.record():
            y = nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
            total = (y * nd.arange(y.size).reshape(y.shape)).sum()
        total.backward()
        return x.grad
    compiled = hybridize(gradient)
    np.testing.assert_array_equal(compiled(nd.array(x)).asnumpy(), gradient(nd.array(x)).asnumpy())
    source = compiled.report().source
    assert "__builtin_convertvector(at, hy_v)" in source
    assert ("HYV_PAIR_STORE(p" in source and "HYV_LOADM(v" in source) == (width % 2 == 0)


def test_pooling_nan() -> None:
    """The first NaN of a window has the gradient, as in the reference."""
    x = random(2, 3, 8, 24)
    x[0, 1, 2:4, 3:9] = np.nan
    x[1, 2, 3, ::2] = np.inf
    gradients(lambda x: pool(x, **POOLS["2x2"]), [x])


def conv(x: Node, w: Node, **attrs: Any) -> Node:
    return OPS["Convolution"](x, w, None, kernel=w.shape[2:], num_filter=w.shape[0], no_bias=True, **attrs)


CONVS = {"5x5": ((3, 4, 12, 12), (10, 4, 5, 5), {}), "one_channel": ((3, 1, 28, 28), (20, 1, 5, 5), {}),
         "same": ((2, 5, 9, 17), (7, 5, 3, 3), {"pad": (1, 1)}),
         "wide": ((1, 16, 20, 33), (18, 16, 3, 3), {"pad": (1, 1)}),
         "strided": ((2, 6, 16, 16), (8, 6, 3, 3), {"pad": (1, 1), "stride": (2, 2)}),
         "strided_odd": ((2, 6, 17, 15), (8, 6, 3, 3), {"pad": (1, 1), "stride": (2, 2)}),
         "stem": ((2, 3, 31, 32), (16, 3, 7, 7), {"pad": (3, 3), "stride": (2, 2)}),
         "third": ((2, 3, 20, 20), (5, 3, 3, 3), {"stride": (3, 2)}),
         "sparse": ((2, 3, 20, 20), (5, 3, 2, 2), {"stride": (3, 3)}),
         "dilated": ((2, 3, 20, 20), (5, 3, 3, 3), {"dilate": (2, 2), "pad": (2, 2)}),
         "uneven": ((2, 3, 11, 14), (5, 3, 4, 2), {"pad": (2, 0)}),
         "much_padding": ((2, 3, 6, 6), (5, 3, 3, 3), {"pad": (4, 4)}), "pointwise": ((2, 6, 9, 9), (17, 6, 1, 1), {}),
         "deep": ((2, 40, 7, 7), (33, 40, 3, 3), {"pad": (1, 1)}),
         "depthwise": ((2, 6, 14, 14), (6, 1, 3, 3), {"pad": (1, 1), "num_group": 6}),
         "depthwise_strided": ((2, 6, 14, 14), (6, 1, 3, 3), {"pad": (1, 1), "num_group": 6, "stride": (2, 2)}),
         "grouped": ((2, 6, 10, 10), (9, 2, 3, 3), {"pad": (1, 1), "num_group": 3}),
         "line": ((2, 3, 50), (4, 3, 5), {"pad": (2,)}), "cube": ((1, 2, 5, 6, 7), (3, 2, 3, 3, 3), {"pad": (1, 1, 1)})}


@pytest.mark.parametrize("kind", CONVS)
def test_convolution(kind: str) -> None:
    """With respect to data and weights."""
    x, w, attrs = CONVS[kind]
    gradients(lambda x, w: conv(x, w, **attrs), [random(*x), random(*w)])


@pytest.mark.parametrize("kind", ["same", "strided", "depthwise", "grouped"])
def test_no_matrix_of_columns(kind: str) -> None:
    """The gradient with respect to the data stores no window's elements, nor a border."""
    x, w, attrs = CONVS[kind]
    leaves = (ir.input(0, x, np.float32), ir.input(1, w, np.float32))
    planned = plan(vjp_program(Program(leaves, (conv(*leaves, **attrs),)), (0,)))
    assert all(n.size <= np.prod(x) for k in planned.fused.kernels for n in k.stores)
