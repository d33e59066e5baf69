"""Fusion decides alike for layers that are alike, however many lie before them."""
from __future__ import annotations

from typing import Callable

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import Node, Program
from hybrid.passes.fuse import fuse

ROWS, WIDTH = 64, 512
Layer = Callable[[Node, Node], Node]


def normed(x: Node) -> Node:
    """LayerNorm of rows, computed in float32."""
    wide = ir.cast(x, np.float32)
    d = wide - ir.reduce("sum", wide, (1,), True) / WIDTH
    return ir.cast(d * ir.map("rsqrt", ir.reduce("sum", d * d, (1,), True) / WIDTH + 1e-5), x.dtype)


def product(x: Node, w: Node) -> Node:
    return ir.map("relu", ir.dot(x, w, ((1,), (0,))))


def pre_norm(x: Node, w: Node) -> Node:
    """Norm before the product, added to what it was computed from."""
    return x + product(normed(x), w)


def post_norm(x: Node, w: Node) -> Node:
    return normed(x + product(x, w))


def no_norm(x: Node, w: Node) -> Node:
    return x + product(x, w)


def kernels(layer: Layer, dtype: str, count: int) -> list[tuple[str, ...]]:
    x, *weights = (ir.input(i, (WIDTH if i else ROWS, WIDTH), dtype) for i in range(count + 1))
    y = x
    for w in weights:
        y = layer(y, w)
    return [(k.kind, *sorted(m.prim for m in k.members)) for k in fuse(Program((x, *weights), (y,))).kernels]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layer", [pre_norm, post_norm, no_norm])
def test_each_layer_has_the_kernels_of_the_one_before(layer: Layer, dtype: str) -> None:
    """The sum of all layers before is in memory: its cost does not grow with their number."""
    few, many = kernels(layer, dtype, 3), kernels(layer, dtype, 40)
    each = len(few) // 3
    assert many[each:-each] == few[each:-each] * 38
