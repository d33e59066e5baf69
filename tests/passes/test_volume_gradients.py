"""Gradients of convolutions of volumes: values against float64 for strides, dilations and borders in depth."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import Program
from hybrid.ops.conv import convolve
from hybrid.passes.adjoint import plane_by_plane
from hybrid.passes.differentiate import vjp_program
from hybrid.runtime import cpu
from hybrid.runtime import threads as threads_of

from ..cpu_kernels import random
from ..codegen.test_packed_convolutions import compare, exact

# name: batch, channels, (depth, height, width), filters, kernel, stride, dilation, padding, groups
SHAPES: dict[str, tuple[Any, ...]] = {
    "3x3x3": (2, 5, (4, 9, 17), 7, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "strided": (2, 3, (7, 13, 33), 9, (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    "dilated": (1, 4, (9, 11, 17), 3, (3, 3, 3), (1, 1, 1), (3, 2, 1), (3, 2, 1), 1),
    "stride_of_depth": (1, 3, (8, 7, 19), 6, (5, 3, 3), (3, 1, 1), (1, 1, 1), (2, 1, 1), 1),
    "one_plane": (2, 3, (1, 5, 16), 8, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "taps_beyond": (1, 3, (2, 5, 16), 4, (3, 3, 3), (1, 1, 1), (4, 1, 1), (4, 1, 1), 1),
    "columns": (2, 5, (6, 5, 7), 4, (3, 1, 1), (1, 1, 1), (1, 1, 1), (1, 0, 0), 1),
    "inside": (2, 3, (5, 7, 18), 4, (3, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
    "grouped": (2, 4, (5, 7, 18), 6, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of data, filters and a bias, whose sum runs beside the phases' (one and two threads)."""
    n, c, size, o, kernel, stride, dilation, pad, groups = SHAPES[name]
    x, w = ir.input(0, (n, c, *size), np.dtype("float32")), ir.input(1, (o, c // groups, *kernel), np.dtype("float32"))
    b = ir.input(2, (o,), np.dtype("float32"))
    y = convolve(x, w, groups, stride, dilation, pad) + ir.reshape(b, (1, o, 1, 1, 1))
    p = vjp_program(Program((x, w, b), (ir.map("tanh", y),)), (0, 1, 2))
    arrays = [random(*i.shape) * (0.1 if k == 1 else 1) for k, i in enumerate(p.inputs)]
    exe, want = cpu.compiled(p), exact(p, arrays)
    for threads in ("1", "2"):
        monkeypatch.setenv("HYBRID_NUM_THREADS", threads)
        threads_of.share(exe._lib)
        compare(exe(arrays), want)


def test_taps_of_depth_are_sums_of_their_own() -> None:
    x, g = ir.input(0, (2, 3, 4, 9, 17), np.dtype("float32")), ir.input(1, (5, 2, 4, 9, 17), np.dtype("float32"))
    win = ir.window(ir.pad(x, (0, 0, 1, 1, 1), (0, 0, 1, 1, 1)), (2, 3, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1))
    for dot, shape in ((ir.dot(g, win, ((1, 2, 3, 4), (0, 2, 3, 4))), (5, 3, 3, 3, 3)),
                       (ir.dot(win, g, ((0, 2, 3, 4), (1, 2, 3, 4))), (3, 3, 3, 3, 5))):
        found = plane_by_plane(dot)
        assert dot.shape == shape and found is not None and found.prim == "concat" and found.shape == shape
