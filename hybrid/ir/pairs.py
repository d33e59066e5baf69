"""Operands of bfloat16 products put in order at each call: those that change from step to step (weights that are
trained, gradients, the activations of a batch).

``pairs`` puts two neighbours along the depth beside each other, as the processor's instruction multiplies them
(low_precision.py), and rounds float32 on the way. Panels: (panels, 1, 1, depth / 2, width, 2), zeros beyond the last
column, as packed weights of form ``words``; without panels: rows (columns, depth), as data of that form.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from ..base.errors import ShapeError
from .build import make
from .node import Node
from .primitives import PRIMS, Prim

LEAST_DEPTH, LEAST_COLUMNS = 32, 16      # of a square of words that is turned in registers


def _infer(args: tuple[Node, ...], along: bool, width: int) -> Any:
    (x,) = args
    if x.ndim != 2 or x.dtype != np.float32 and x.dtype.name != "bfloat16":
        raise ShapeError(f"pairs of {x.dtype}{x.shape}, not of a matrix of float32 or bfloat16")
    columns, depth = x.shape if along else x.shape[::-1]
    if depth % 2 or depth < LEAST_DEPTH or columns < LEAST_COLUMNS:
        raise ShapeError(f"pairs of {columns} columns of depth {depth}")
    shape = (-(-columns // width), 1, 1, depth // 2, width, 2) if width else (columns, depth)
    return shape, dt.as_dtype("bfloat16")


def _eager(xp: Any, n: Node, x: Any) -> Any:
    x = xp.ascontiguousarray((x if n.attrs["along"] else x.T).astype(n.dtype))
    width = n.attrs["width"]
    if not width:
        return x
    panels = n.shape[0]
    wide = xp.zeros((panels * width, x.shape[1]), n.dtype)
    wide[:x.shape[0]] = x
    return wide.reshape(panels, width, -1, 2).transpose(0, 2, 1, 3).reshape(n.shape)


PRIMS["pairs"] = Prim("pairs", _infer, _eager)


def pairs(x: Node, along: bool, width: int = 0) -> Node:
    """Puts a matrix in the order in which bfloat16 products read it. along: whether it is (columns, depth), otherwise
    (depth, columns); width: columns of a panel, 0 for rows."""
    return make("pairs", (x,), along=bool(along), width=int(width))
