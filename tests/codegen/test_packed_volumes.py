"""Packed convolutions and pools of volumes (N, D, H, W, C): values against float64 for odd shapes, every width of
vector, one and two threads."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen.printers.convolutions import blocked, packed_winograd
from hybrid.ir import Node, Program
from hybrid.ops.conv import convolve
from hybrid.passes import layout
from hybrid.runtime import reference

from ..cpu_kernels import random, vectors_of
from .exact_values import checked, compare, exact

# name: batch, channels, (depth, height, width), filters, kernel, stride, dilation, padding, groups
SHAPES: dict[str, tuple[Any, ...]] = {
    "3x3x3": (2, 32, (5, 9, 11), 48, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "3x3x3_odd": (1, 37, (3, 7, 13), 65, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "3x3x3_inside": (2, 19, (6, 7, 9), 33, (3, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
    "3x3x3_dilated": (1, 17, (7, 13, 11), 31, (3, 3, 3), (1, 1, 1), (2, 2, 1), (2, 2, 1), 1),
    "3x3x3_far": (1, 17, (2, 9, 8), 16, (3, 3, 3), (1, 1, 1), (5, 1, 1), (5, 1, 1), 1),
    "two_planes": (1, 64, (2, 7, 7), 63, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "tiny": (3, 33, (2, 2, 2), 32, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "one_plane": (1, 16, (1, 5, 6), 32, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "beyond": (1, 17, (3, 4, 5), 33, (2, 3, 2), (1, 1, 1), (1, 1, 1), (3, 4, 2), 1),
    "strided": (2, 19, (7, 11, 9), 48, (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    "stem": (1, 3, (5, 17, 13), 33, (3, 7, 7), (1, 2, 2), (1, 1, 1), (1, 3, 3), 1),
    "5x5x5": (1, 16, (5, 7, 5), 17, (5, 5, 5), (1, 1, 1), (1, 1, 1), (2, 2, 2), 1),
    "no_border": (1, 16, (9, 6, 5), 33, (3, 2, 2), (2, 2, 1), (1, 1, 1), (1, 0, 0), 1),
    "flat": (2, 24, (5, 9, 8), 33, (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1), 1),
    "column": (2, 24, (7, 5, 3), 32, (3, 1, 1), (2, 1, 1), (1, 1, 1), (1, 0, 0), 1),
    "1x1x1": (1, 40, (3, 5, 7), 33, (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
    "1x1x1_strided": (2, 40, (4, 7, 6), 33, (1, 1, 1), (2, 2, 2), (1, 1, 1), (0, 0, 0), 1),
    "1x1x1_strided_odd": (1, 40, (5, 7, 6), 33, (1, 1, 1), (2, 2, 2), (1, 1, 1), (0, 0, 0), 1),
    "grouped": (1, 48, (4, 5, 6), 68, (3, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1), 2),
    "groups_together": (1, 12, (4, 5, 6), 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 4),
    "apart": (1, 512, (2, 3, 4), 33, (2, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "depthwise": (2, 35, (5, 6, 7), 35, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 35),
    "depthwise_strided": (1, 48, (6, 7, 9), 48, (5, 3, 3), (2, 1, 2), (1, 1, 1), (2, 1, 0), 48),
    "depthwise_dilated": (1, 16, (6, 7, 9), 16, (3, 3, 3), (1, 1, 1), (2, 1, 2), (2, 1, 2), 16),
}


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LEAST_WORK", 1)


def program(name: str) -> tuple[Program, list[np.ndarray]]:
    """relu(scale * convolution + shift), a residual of it, and pools of that."""
    n, c, size, o, kernel, stride, dilation, pad, groups = SHAPES[name]
    arrays = [random(n, c, *size), random(o, c // groups, *kernel), random(o), random(o)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    y: Node = convolve(leaves[0], leaves[1], groups, stride, dilation, pad)
    scale, shift = (ir.reshape(v, (1, o, 1, 1, 1)) for v in leaves[2:])
    y = ir.map("relu", y * ir.map("rsqrt", scale * scale + 1) + shift)
    border = (0, 0, 1, 1, 1)
    windows = ir.window(ir.pad(y, border, border, -np.inf), (2, 3, 4), (3, 2, 3), (2, 1, 2), (1, 1, 1))
    p = Program(leaves, (y, ir.reduce("max", windows, (5, 6, 7)), ir.reduce("sum", y, (2, 3, 4))))
    p.memo["frozen"] = frozenset({1, 2, 3})
    return p, arrays


@pytest.mark.parametrize("width", (64, 32, 16), ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_values(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    p, arrays = program(name)
    exe = checked(p, arrays, monkeypatch)
    assert exe.prepare is not None and any(k.kind == "convolution" for k in exe.planned.fused.kernels)


@pytest.mark.parametrize("name", SHAPES)
def test_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few lines, tiles, channels and sums at a time; and the primitive's NumPy row gives what its C gives."""
    monkeypatch.setattr(blocked, "TOGETHER", 1)
    for constant, value in (("STRIP", 1), ("FEWEST", 19), ("PANEL", 1), ("SUMS", 1)):
        monkeypatch.setattr(packed_winograd, constant, value)
    p, arrays = program(name)
    exe = checked(p, arrays, monkeypatch, ("1", "7"))
    main = exe.planned.fused.program
    assert exe.planned.prepare is not None
    prepared = reference.run(exe.planned.prepare, [arrays[s] for s in exe.planned.slots], np)[0]
    compare(reference.run(main, [*arrays, *prepared], np)[0], exact(p, arrays))
