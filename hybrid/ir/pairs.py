"""Operands of bfloat16 products put in order at each call: those that change from step to step (weights that are
trained, gradients, the activations of a batch).

``pairs`` puts two neighbours along the depth beside each other, as the processor's instruction multiplies them
(low_precision.py), and rounds float32 on the way. The depth is padded with zeros to a whole number of words, two
numbers each. Panels, as packed weights of form ``words``: (panels, 1, 1, words, width, 2), zeros beyond the last
column. Tiles, as the data of that form: an array (columns, 2 words) that holds tile after tile of at most ``tile``
columns, each [word][column][2] (``interleaved``).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from ..base.errors import ShapeError
from .build import make
from .node import Node
from .primitives import PRIMS, Prim
from .size import Int, fixed

LANES = 16                               # words of a vector, where a processor multiplies pairs
LEAST_DEPTH, LEAST_COLUMNS = 2 * LANES, LANES      # of a square block of words, which is transposed in registers


def words_of(depth: Int) -> Int:
    """Words of a depth. Those of a symbolic depth are rounded up to an even number, as a symbolic size must be 2 or
    more."""
    return -(-depth // 2) if fixed(depth) else -(-depth // 4) * 2


def cut(columns: int, most: int) -> list[int]:
    """Columns of each tile: at most so many, as equal as they can be, the larger ones first. The generated C cuts tiles
    by the same rule, ``codegen.nest.Cut.even``."""
    count = -(-columns // most)
    return [columns // count + (i < columns % count) for i in range(count)]


def _infer(args: tuple[Node, ...], along: bool, width: int, tile: int) -> Any:
    (x,) = args
    if x.ndim != 2 or x.dtype != np.float32 and x.dtype.name != "bfloat16":
        raise ShapeError(f"pairs of {x.dtype}{x.shape}, not of a matrix of float32 or bfloat16")
    columns, depth = x.shape if along else x.shape[::-1]
    if along and (tile or depth % 2 or depth < LEAST_DEPTH or columns < LEAST_COLUMNS):
        raise ShapeError(f"pairs of {columns} columns that are contiguous along the depth {depth}: it takes panels, "
                         f"{LEAST_COLUMNS} columns or more, and an even depth of {LEAST_DEPTH} or more")
    words = words_of(depth)
    shape = (columns, words * 2) if tile else (-(-columns // width), 1, 1, words, width, 2)
    return shape, dt.as_dtype("bfloat16")


def _eager(xp: Any, n: Node, x: Any) -> Any:
    x = (x if n.attrs["along"] else x.T).astype(n.dtype)
    columns, depth = x.shape
    width, tile = n.attrs["width"], n.attrs["tile"]
    wide = xp.zeros((columns if tile else n.shape[0] * width, n.shape[1] if tile else 2 * n.shape[3]), n.dtype)
    wide[:columns, :depth] = x
    if tile:
        return interleaved(xp, wide, tile)
    return wide.reshape(n.shape[0], width, -1, 2).transpose(0, 2, 1, 3).reshape(n.shape)


def interleaved(xp: Any, x: Any, most: int, back: bool = False) -> Any:
    """Columns (columns, depth) in tiles of at most so many; back: such tiles as columns."""
    parts, first = [], 0
    for size in cut(x.shape[0], most):
        part = x[first:first + size]
        split = part.reshape(-1, size, 2) if back else part.reshape(size, -1, 2)
        parts.append(split.transpose(1, 0, 2).reshape(size, -1))
        first += size
    return xp.concatenate(parts)


PRIMS["pairs"] = Prim("pairs", _infer, _eager)


def pairs(x: Node, along: bool, width: int = 0, tile: int = 0) -> Node:
    """Puts a matrix in the order in which bfloat16 products read it. along: whether it is (columns, depth), otherwise
    (depth, columns); width: columns of a panel; tile: of a tile at most, in the place of panels."""
    return make("pairs", (x,), along=bool(along), width=int(width), tile=int(tile))
