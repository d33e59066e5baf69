"""Sums of very many numbers to few results, and products of great depth, as sums of sums: each chunk of at most
``CHUNK`` numbers is a result of its own, so that threads share them; then chunks of those sums are added, and so on.

Within a kernel the printers keep the digits of long sums (codegen/partial_sums.py).
"""
from __future__ import annotations

import math
from typing import Sequence

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..ir.size import fixed
from ..ir import Node

CHUNK = 512
LONG = 1 << 15              # shorter sums are left to one kernel
ROW = 1 << 17               # so far a row's sum belongs to its maximum, or to its mean, in one kernel
MOST_RESULTS = 16           # sums with more results are spread over these


def in_chunks(n: Node) -> Node | None:
    """A long sum to few results as sums of sums; None for every other reduction."""
    x, axes = n.args[0], n.attrs["axes"]
    count = math.prod(x.shape[a] for a in axes)
    if not all(map(fixed, x.shape)):
        return None
    if n.attrs["op"] != "sum" or not _loses_digits(n.dtype) or n.size > MOST_RESULTS or count <= LONG:
        return None
    return None if count <= ROW and _of_row(x) else _summed(x, axes)


def deep_dot(n: Node) -> Node | None:
    """A very deep product with few results as the sum of products of parts of the depth; None for every other one."""
    (ca, cb), (ba, _) = n.attrs["contract"], n.attrs["batch"]
    a, b = n.args
    if not all(map(fixed, (*a.shape, *b.shape))):
        return None
    if len(ca) != 1 or ba or n.size > MOST_RESULTS or not _loses_digits(n.dtype) or a.shape[ca[0]] <= LONG:
        return None
    size = _divisor(a.shape[ca[0]])
    if size is None:
        return None
    left, right = (ir.reshape(x, (*x.shape[:i], x.shape[i] // size, size, *x.shape[i + 1:]))
                   for x, i in ((a, ca[0]), (b, cb[0])))
    each = ir.dot(left, right, ((ca[0] + 1,), (cb[0] + 1,)), ((ca[0],), (cb[0],)))
    return _summed(each, (0,))


def deep_rows(n: Node) -> Node | None:
    """As ``deep_dot``, where neighbours of both operands lie along the depth, which one warp of a GPU would walk."""
    return deep_dot(n) if all(axes == (x.ndim - 1,) for axes, x in zip(n.attrs["contract"], n.args)) else None


def _loses_digits(d: np.dtype) -> bool:
    return d == np.float32 or dt.is_half(d)


def _of_row(x: Node) -> bool:
    """Whether what is summed depends on another reduction of the same numbers, as in softmax and variance."""
    while x.prim in ("map", "cast"):
        if any(a.prim == "expand" and a.size and a.args[0].prim not in ("const", "input") for a in x.args):
            return True
        x = max(x.args, key=lambda a: (a.prim in ("map", "cast"), a.size))
    return False


def _summed(x: Node, axes: Sequence[int]) -> Node:
    """The sum over axes, the last ones first, never more than ``CHUNK`` numbers at a time."""
    axes = list(axes)
    while axes:
        a = axes[-1]
        length = x.shape[a]
        if length > CHUNK:
            size = _divisor(length)
            if size is None:
                return _with_rest(x, axes)
            x = ir.reshape(x, (*x.shape[:a], length // size, size, *x.shape[a + 1:]))
            x = ir.reduce("sum", x, (a + 1,))
            continue
        some = [axes.pop()]
        while axes and math.prod(x.shape[i] for i in (*some, axes[-1])) <= CHUNK:
            some.append(axes.pop())
        x = ir.reduce("sum", x, some)
    return x


def _divisor(length: int) -> int | None:
    """The largest size of chunks without a rest, if it is a good one."""
    return next((d for d in range(CHUNK, CHUNK // 16, -1) if length % d == 0), None)


def _with_rest(x: Node, axes: Sequence[int]) -> Node:
    """A sum over a last axis that chunks do not divide: of whole chunks, and of the rest."""
    a = axes[-1]
    whole = x.shape[a] // CHUNK * CHUNK
    begin = [0] * x.ndim
    main = ir.slice(x, begin, (*x.shape[:a], whole, *x.shape[a + 1:]))
    begin[a] = whole
    rest = ir.slice(x, begin, (*x.shape[:a], x.shape[a] - whole, *x.shape[a + 1:]))
    return _summed(main, axes) + _summed(rest, axes)
