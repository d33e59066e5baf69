"""Pooling over windows and over everything."""
from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from ..ir.size import fixed, greater, same
from .attributes import Attrs
from .conv import EMBEDDED, LAYOUTS, check_window, is_channels_last, per_axis, to_channels_first, to_channels_last
from .reduction import as_half, wide_half
from .registry import Bool, Enum, Int, Shape, op


def pool_extent(d: int, k: int, s: int, p: int, convention: str) -> tuple[int, int]:
    """Number of windows, and the padding at the end that they need."""
    span = d + 2 * p - k
    if convention == "same":
        count = -(-(d + 2 * p) // s)
        return count, greater((count - 1) * s + k - d - p, 0)
    if convention == "full":
        return -(-span // s) + 1, p + -span % s
    # if d is symbolic, pad the end as much as the begin: the count is the same, and no modulo of a size is needed
    return span // s + 1, max(p - span % s, 0) if fixed(d) else p


def _pool_windows(x: Node, a: Attrs, fill: Any) -> Node:
    n = len(a.kernel)
    stride, pad = per_axis(a.stride, n, 1), per_axis(a.pad, n, 0)
    hi, counts = [], []
    for d, k, s, p in zip(x.shape[2:], a.kernel, stride, pad):
        if k > d + 2 * p and a.pooling_convention == "valid":
            raise ShapeError(f"the kernel {a.kernel} is larger than the padded input "
                             f"{tuple(v + 2 * q for v, q in zip(x.shape[2:], pad))}")
        count, after = pool_extent(d, k, s, p, a.pooling_convention)
        counts.append(count)
        hi.append(after)
    wide = ir.pad(x, (0, 0, *pad), (0, 0, *hi), fill)
    win = ir.window(wide, tuple(range(2, n + 2)), a.kernel, stride, (1,) * n)
    return ir.slice(win, (0,) * win.ndim, x.shape[:2] + tuple(counts) + win.shape[n + 2:])


def _counts(x: Node, a: Attrs) -> Node | float:
    """Elements in each window for an average: one number, or an array over the windows. What is no small constant is
    computed from positions."""
    n = len(a.kernel)
    total: Any = 1.0
    for axis, (d, k, s, p) in enumerate(zip(x.shape[2:], a.kernel, per_axis(a.stride, n, 1), per_axis(a.pad, n, 0))):
        count, after = pool_extent(d, k, s, p, a.pooling_convention)
        if p == 0 and same(after, 0):                        # no window reaches beyond the data
            total = total * float(k)
            continue
        small = fixed(count) and count <= EMBEDDED
        least: Any
        greatest: Any
        least, greatest = (np.minimum, np.maximum) if small else (partial(ir.map, "minimum"),
                                                                  partial(ir.map, "maximum"))
        begin: Any = (np.arange(count) if small else ir.iota(count)) * s - p
        line: Any = least(begin + k,
                          d + p) - begin if a.count_include_pad is not False else least(begin + k, d) - greatest(begin,
                0)
        line = greatest(line, 1)
        node = ir.data(line.astype(np.float32)) if small else ir.cast(line, np.float32)
        total = (float(line[0]) if small and (line == line[0]).all()
                 else ir.reshape(node, (count,) + (1,) * (n - 1 - axis))) * total
    return total


@op("Pooling", "data", npx=("pooling",), json=("_npx_pooling", "Pooling_v1"), kernel=Shape(()),
    pool_type=Enum("max", "max", "avg", "sum", "lp"), global_pool=Bool(False),
    cudnn_off=Bool(False), pooling_convention=Enum("valid", "valid", "full", "same"), stride=Shape(()), pad=Shape(()),
    p_value=Int(None),
    count_include_pad=Bool(None), layout=Enum(None, *LAYOUTS))
def pooling(data: Node, a: Attrs) -> Node:
    """max, avg, sum or lp pooling over windows (N, C, …), or over everything with global_pool. Half types are added up
    in float32."""
    last = is_channels_last(a.layout)
    x = to_channels_first(data) if last else data
    x = x if a.pool_type == "max" else wide_half(x)
    y = _global_pool(x, a) if a.global_pool else _window_pool(x, a)
    y = as_half(y, data)
    return to_channels_last(y) if last else y


def _first_maximum(win: Node, axes: tuple[int, ...]) -> Node:
    """The maxima over the last axes. As in MXNet the gradient goes to the first element that is one."""
    value = ir.reduce("max", win, axes)
    return ir.with_grad(value, (win,), "first_maximum", axes) if win.size else value


@ir.register_grad("first_maximum")
def _first_maximum_grad(g: Node, axes: tuple[int, ...], value: Node, win: Node) -> tuple[Node]:
    head, size = win.shape[:axes[0]], win.shape[axes[0]:]
    keep = head + (1,) * len(axes)
    first = ir.argreduce("argmax", ir.reshape(win, (*head, math.prod(size))), axes[0])
    place = ir.reshape(ir.iota(math.prod(size)), (1,) * len(head) + size)
    here = ir.map("eq", ir.expand(ir.reshape(first, keep), win.shape), ir.expand(place, win.shape))
    return (ir.map("where", here, ir.expand(ir.reshape(g, keep), win.shape), ir.full(0, win.shape, g.dtype)),)


def _norm(x: Node, p: int, axes: tuple[int, ...], keepdims: bool = False) -> Node:
    """The p-norm over axes; its gradient is zero where all is zero."""
    total = ir.reduce("sum", ir.map("pow", ir.map("abs", x), p), axes, keepdims)
    none = ir.map("eq", total, 0)
    return ir.map("where", none, 0, ir.map("pow", ir.map("where", none, 1, total), 1.0 / p))


def _global_pool(x: Node, a: Attrs) -> Node:
    axes = tuple(range(2, x.ndim))
    if a.pool_type == "max":
        return ir.reshape(_first_maximum(x, axes), x.shape[:2] + (1,) * len(axes))
    if a.pool_type == "lp":
        return _norm(x, a.p_value or 2, axes, True)
    out = ir.reduce("sum", x, axes, True)
    return out / math.prod(x.shape[2:]) if a.pool_type == "avg" else out


def _window_pool(x: Node, a: Attrs) -> Node:
    n = len(a.kernel)
    if x.ndim != n + 2:
        raise ShapeError(f"a kernel {a.kernel} needs data of {n + 2} axes (batch, channel, {n} spatial), got {x.shape}")
    check_window(a, n)
    if any(p >= k for p, k in zip(per_axis(a.pad, n, 0), a.kernel)):
        raise ShapeError(f"pad {a.pad} must be smaller than the kernel {a.kernel}: a window would see padding alone")
    if a.pool_type == "lp" and a.p_value == 0:
        raise ShapeError("pool_type='lp' takes p_value 1, 2 or 3, got 0")
    axes = tuple(range(n + 2, 2 * n + 2))
    if a.pool_type == "max":
        return _first_maximum(_pool_windows(x, a, ir.reduce_identity("max", x.dtype)), axes)
    if a.pool_type == "lp":
        return _norm(_pool_windows(x, a, 0), a.p_value or 2, axes)
    out = ir.reduce("sum", _pool_windows(x, a, 0), axes)
    if a.pool_type == "sum":
        return out
    counts = _counts(x, a)
    return out / (counts if isinstance(counts, float) else ir.cast(counts, x.dtype))
