"""Statistics of a product's columns, from the tiles in which they are computed: BatchNorm's of a convolution's result,
which is then not read again for them.

Each ``ROWS`` rows have a sum of their own, and a sum of squared differences from their own mean: this needs no mean of
all rows, and loses no digits. ``in_tiles`` rewrites the program so. After fusion, ``into_products`` finds the kernels
that would read a product's result again for these sums, and has the product's kernel store them instead.
"""
from __future__ import annotations

import math
from typing import Callable

import numpy as np

from .. import ir
from ..base.dtype import float32
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.index import div, linear, var
from ..ir.kernel import Fused, Kernel
from ..ir.size import fixed
from .rewrite import rebuild

ROWS = 16                       # of a tile, as many as fragments of tensor cores have
LEAST = 132 << 14               # elements of a result; smaller ones are read again from the cache
Multiplies = Callable[[np.dtype], bool]


def in_tiles(program: Program, takes: Multiplies) -> Program:
    """The program, in which such statistics are summed over tiles. takes: whether products of a dtype have tiles."""
    wanted: set[Node] = set()
    for n in program.order():
        total = _total(n)
        if total is not None and _of_product(total.args[0], takes):
            wanted |= {n, total}
    if not wanted:
        return program
    new: dict[Node, Node] = {}
    for n in program.order():
        m = rebuild(n, [new[a] for a in n.args])
        new[n] = m if n not in wanted else _summed(m) if _total(n) is None else _squared(m)
    return program.with_roots([new[r] for r in program.roots])


def _total(n: Node) -> Node | None:
    """The sum from which the mean is computed, if a node is a sum of squared differences from a mean over the same
    axes."""
    x = _difference(n)
    if x is None:
        return None
    mean = beneath(x.args[1], ("expand", "reshape"))
    while mean.prim == "map" and mean.attrs["fn"] in ("div", "mul") and mean.args[1].prim in ("const", "expand"):
        mean = beneath(mean.args[0], ("expand", "reshape"))
    same = mean.prim == "reduce" and mean.attrs == n.attrs and mean.args[0] is x.args[0]
    return mean if same else None


def _difference(n: Node) -> Node | None:
    """The difference that is squared, if a node is a sum of squared differences over all axes but the last."""
    if n.prim != "reduce" or n.attrs["op"] != "sum" or n.dtype != float32:
        return None
    x = n.args[0]
    square = x.prim == "map" and x.attrs["fn"] in ("square", "mul") and x.args[0] is x.args[-1]
    if not square or n.attrs["axes"] != tuple(range(x.ndim - 1)):
        return None
    d = x.args[0]
    return d if d.prim == "map" and d.attrs["fn"] == "sub" else None


def _of_product(x: Node, takes: Multiplies) -> bool:
    """Whether a value is a large product's result, whose columns are its last axis, perhaps with a bias."""
    y = beneath(x, ("cast", "reshape"))
    if y.prim == "map" and y.attrs["fn"] == "add" and y.args[1].prim == "expand":
        y = beneath(y.args[0], ("reshape",))
    return (y.prim == "dot" and takes(y.dtype) and all(map(fixed, x.shape)) and y.size >= LEAST
            and y.shape[-1] == x.shape[-1] and y.size // y.shape[-1] % ROWS == 0)


def tiles(x: Node) -> Node:
    """A value as float32 in shape (tiles, ROWS, columns)."""
    y = x.args[0] if x.prim == "cast" else x
    return ir.cast(ir.reshape(y, (math.prod(y.shape[:-1]) // ROWS, ROWS, y.shape[-1])), float32)


def sums(x: Node) -> Node:
    """The sum of each column of each tile."""
    return ir.reduce("sum", tiles(x), (1,))


def squares(x: Node) -> Node:
    """The sum of squared differences from the mean, of each column of each tile."""
    t = tiles(x)
    d = ir.map("sub", t, ir.expand(_mean(x), t.shape))
    return ir.reduce("sum", ir.map("mul", d, d), (1,))


def _mean(x: Node) -> Node:
    s = sums(x)
    return ir.reshape(ir.map("mul", s, ir.full(1 / ROWS, s.shape, s.dtype)), (s.shape[0], 1, s.shape[1]))


def _summed(n: Node) -> Node:
    """A sum over all rows, as the sum of its tiles' sums."""
    return ir.reduce("sum", sums(n.args[0]), (0,))


def _squared(n: Node) -> Node:
    """A sum of squared differences from the mean of all: those within tiles, and ROWS times those of the tiles'
    means."""
    d = _difference(n)
    assert d is not None
    x, mean = d.args[0], beneath(d.args[1], ("expand", "reshape"))
    within = squares(x)
    apart = ir.map("sub", ir.reshape(_mean(x), within.shape),
                    ir.expand(ir.reshape(mean, (1, within.shape[1])), within.shape))
    between = ir.map("mul", ir.map("mul", apart, apart), ir.full(ROWS, within.shape, within.dtype))
    return ir.reduce("sum", ir.map("add", within, between), (0,))


def into_products(fused: Fused, takes: Callable[[Kernel], bool]) -> None:
    """Have products' kernels store the statistics of tiles. takes: whether a kernel's printer can do so."""
    by_root = {k.root: k for k in fused.kernels}
    for k in list(fused.kernels):
        if k.kind != "contraction" or not k.root.ndim or k.root.size < LEAST or not all(map(fixed, k.root.shape)):
            continue
        if k.root.size // k.root.shape[-1] % ROWS:
            continue
        found = [by_root.get(n) for n in (sums(k.root), squares(k.root))]
        if all(s is not None and not s.extra and not s.sides for s in found) and takes(k):
            loops = [var(v) for v in k.loops]
            at = div(linear(k.root.shape[:-1], tuple(loops[:-1])), ROWS), loops[-1]
            for s in found:
                assert s is not None
                k.sides.append((s.root, at))
                fused.kernels.remove(s)
