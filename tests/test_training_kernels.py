"""Kernels of training steps in C: gradients of pooling, of convolutions with respect to data and weights, of BatchNorm,
each against float64 on the reference backend.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir
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
        return vjp_program(forward, tuple(range(len(arrays)))), [a.astype(dtype) for a in [*arrays, random(*forward.outputs[0].shape)]]
    p, given = backward(np.float32)
    exe = CpuProgram(plan(p))
    want, _ = reference.run(*backward(np.float64), np)
    for got, exact in zip(exe(given), want, strict=True):
        np.testing.assert_allclose(got, exact, rtol=0, atol=tolerance * max(1, np.abs(exact[np.isfinite(exact)]).max(initial=0)))
    return exe.report.source


def pool(x: Node, **attrs: Any) -> Node:
    return OPS["Pooling"](x, **attrs)


POOLS = {"2x2": {"kernel": (2, 2), "stride": (2, 2)}, "2x2_avg": {"kernel": (2, 2), "stride": (2, 2), "pool_type": "avg"},
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
    assert "HYV_PAIRM_STORE" in gradients(lambda x: pool(x, **POOLS["2x2"]), [random(2, 3, 8, 24)])


def test_pooling_nan() -> None:
    """The first NaN of a window has the gradient, as in the reference."""
    x = random(2, 3, 8, 24)
    x[0, 1, 2:4, 3:9] = np.nan
    x[1, 2, 3, ::2] = np.inf
    gradients(lambda x: pool(x, **POOLS["2x2"]), [x])
