"""Vector-Jacobian products of the primitives, made of primitives: so every order of derivative is there.

``VJP[prim](g, n, *args)`` gives one cotangent (or None) per argument.
"""
from __future__ import annotations

import math
from typing import Any, Callable

from ..base import dtype as dt
from ..base.errors import HybridError
from . import build as b
from .access import free_axes
from .node import Node
from .reductions import REDUCTIONS
from .rowcall import ROW_KERNELS
from .scalar import SCALARS

VJP: dict[str, Callable[..., tuple[Any, ...]]] = {}
GRADS: dict[str, Callable[..., tuple[Any, ...]]] = {}


LOSSES: set[str] = set()            # gradients that count whatever comes from above


def register_grad(name: str, loss: bool = False) -> Callable[[Any], Any]:
    """Register the gradient that ``ir.with_grad(..., name)`` uses: ``f(g, attrs, value, *inputs) -> cotangents``. loss:
    whether it counts whatever comes from above, behind BlockGrad too."""
    def add(fn: Any) -> Any:
        if name in GRADS:
            raise ValueError(f"a gradient named {name!r} is registered already")
        GRADS[name] = fn
        if loss:
            LOSSES.add(name)
        return fn
    return add


def _vjp(name: str) -> Callable[[Any], Any]:
    def add(fn: Any) -> Any:
        VJP[name] = fn
        return fn
    return add


for _leaf in ("input", "const", "data", "iota"):
    VJP[_leaf] = lambda g, n: ()
VJP["random_bits"] = lambda g, n, key: (None,)
VJP["detach"] = lambda g, n, x: (None,)
VJP["bitcast"] = lambda g, n, x: (None,)
VJP["argreduce"] = lambda g, n, x: (None,)
VJP["argsort"] = lambda g, n, x: (None,)
VJP["cumulate"] = lambda g, n, x: (b.cumulate(g, n.attrs["axis"], not n.attrs["reverse"]),)


@_vjp("map")
def _map(g: Node, n: Node, *args: Node) -> tuple[Any, ...]:
    row = SCALARS[n.attrs["fn"]]
    if row.rule == "bool" or row.rule == "int":
        return (None,) * len(args)
    if row.vjp is None:
        raise HybridError(f"{row.name} has no derivative here")
    out = row.vjp(g, n, *args)
    return tuple(None if o is None else b.cast(b.expand(o, n.shape), a.dtype) for o, a in zip(out, args))


@_vjp("cast")
def _cast(g: Node, n: Node, x: Node) -> tuple[Any, ...]:
    return (b.cast(g, x.dtype) if dt.is_float(x.dtype) == dt.is_float(n.dtype) and dt.has_gradient(x.dtype)
            and dt.has_gradient(n.dtype) else None,)


@_vjp("with_grad")
def _with_grad(g: Node, n: Node, value: Node, *inputs: Node) -> tuple[Any, ...]:
    # the bare value: a second derivative is that of the registered gradient
    return (None, *GRADS[n.attrs["name"]](g, n.attrs["attrs"], value, *inputs))


@_vjp("rows")
def _rows(g: Node, n: Node, *args: Node) -> tuple[Any, ...]:
    rule = ROW_KERNELS[n.attrs["name"]].vjp
    return rule(g, n, *args) if rule else (None,) * len(args)


VJP["reshape"] = lambda g, n, x: (b.reshape(g, x.shape),)


@_vjp("permute")
def _permute(g: Node, n: Node, x: Node) -> tuple[Any, ...]:
    inverse = [0] * n.ndim
    for i, a in enumerate(n.attrs["axes"]):
        inverse[a] = i
    return (b.permute(g, inverse),)


@_vjp("expand")
def _expand(g: Node, n: Node, x: Node) -> tuple[Any, ...]:
    axes = tuple(i for i, (p, q) in enumerate(zip(x.shape, n.shape)) if p != q)
    return (b.reduce("sum", g, axes, keepdims=True),)


@_vjp("slice")
def _slice(g: Node, n: Node, x: Node) -> tuple[Any, ...]:
    """Zeros around and between: flip where the step is negative, spread by the step, pad."""
    begin, size, step = n.attrs["begin"], n.attrs["size"], n.attrs["step"]
    if 0 in n.shape:
        return (b.full(0, x.shape, g.dtype),)
    flipped = b.slice(g, [s - 1 if t < 0 else 0 for s, t in zip(size, step)], size, [-1 if t < 0 else 1 for t in step])
    first = [bb + (s - 1) * t if t < 0 else bb for bb, s, t in zip(begin, size, step)]
    wide = spread(flipped, [abs(t) for t in step])
    return (b.pad(wide, first, [d - f - w for d, f, w in zip(x.shape, first, wide.shape)]),)


def spread(x: Node, step: list[int]) -> Node:
    """x with ``step - 1`` zeros between its elements on each axis."""
    for axis, t in enumerate(step):
        if t > 1 and x.shape[axis] > 1:
            shape = list(x.shape)
            cells = b.reshape(x, (*shape[:axis + 1], 1, *shape[axis + 1:]))
            hi = [0] * cells.ndim
            hi[axis + 1] = t - 1
            shape[axis] *= t
            x = b.reshape(b.pad(cells, [0] * cells.ndim, hi), shape)
            shape[axis] -= t - 1
            x = b.slice(x, [0] * x.ndim, shape)
    return x


@_vjp("pad")
def _pad(g: Node, n: Node, x: Node) -> tuple[Any, ...]:
    return (b.slice(g, n.attrs["lo"] if x.size else (0,) * x.ndim, x.shape),)


@_vjp("concat")
def _concat(g: Node, n: Node, *xs: Node) -> tuple[Any, ...]:
    axis, at, out = n.attrs["axis"], 0, []
    for x in xs:
        begin = [0] * n.ndim
        begin[axis] = at if x.shape[axis] else 0
        out.append(b.slice(g, begin, x.shape))
        at += x.shape[axis]
    return tuple(out)


@_vjp("window")
def _window(g: Node, n: Node, x: Node) -> tuple[Any, ...]:
    a = n.attrs
    return (b.unwindow(g, a["axes"], a["stride"], a["dilation"], x.shape),)


@_vjp("unwindow")
def _unwindow(g: Node, n: Node, y: Node) -> tuple[Any, ...]:
    a = n.attrs
    size = y.shape[len(n.shape):]
    full = b.window(g, a["axes"], size, a["stride"], a["dilation"])
    return (b.slice(full, (0,) * y.ndim, y.shape),)


@_vjp("reduce")
def _reduce(g: Node, n: Node, x: Node) -> tuple[Any, ...]:
    op, axes = n.attrs["op"], n.attrs["axes"]
    keep = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    wide = b.expand(b.reshape(g, keep), x.shape)
    if op == "sum":
        return (wide,)
    if op == "prod":
        return (wide * _product_of_others(x, axes),)
    result = b.expand(b.reshape(n, keep), x.shape)
    row = REDUCTIONS[op]
    if not row.own:
        return (row.vjp(wide, result, x, axes) if row.vjp is not None else None,)
    hit = b.cast(b.map_("eq", x, result), g.dtype)
    return (wide * hit,)                              # as in MXNet, to each of several equal ones


def _product_of_others(x: Node, axes: tuple[int, ...]) -> Node:
    """For each element the product of the others along axes, without a division: right where elements are zero, in
    every order of derivative. A tree: blocks' products upwards, then downwards each half gets its sibling's."""
    free = [i for i in range(x.ndim) if i not in axes]
    moved = b.permute(x, [*free, *axes])
    rows, n = math.prod(x.shape[i] for i in free), math.prod(x.shape[i] for i in axes)
    depth = max(n - 1, 0).bit_length()
    totals = [b.pad(b.reshape(moved, (rows, n)), (0, 0), (0, 2**depth - n), 1)]
    for level in range(depth):
        pairs = b.reshape(totals[-1], (rows, 2**(depth - 1 - level), 2))
        left, right = (b.reshape(b.slice(pairs, (0, 0, k), (*pairs.shape[:2], 1)), pairs.shape[:2]) for k in (0, 1))
        totals.append(left * right)
    others = b.full(1, (rows, 1), x.dtype)
    for level in reversed(range(depth)):
        pairs = b.reshape(totals[level], (rows, 2**(depth - 1 - level), 2))
        siblings = b.slice(pairs, (0, 0, 1), pairs.shape, (1, 1, -1))
        above = b.expand(b.reshape(others, (*pairs.shape[:2], 1)), pairs.shape)
        others = b.reshape(siblings * above, (rows, 2**(depth - level)))
    inverse = [0] * x.ndim
    for i, a in enumerate([*free, *axes]):
        inverse[a] = i
    return b.permute(b.reshape(b.slice(others, (0, 0), (rows, n)), moved.shape), inverse)


@_vjp("gather")
def _gather(g: Node, n: Node, x: Node, idx: Node) -> tuple[Any, ...]:
    axis = n.attrs["axis"]
    return (b.scatter_add(idx, g, axis, x.shape[axis]), None)


@_vjp("scatter_add")
def _scatter(g: Node, n: Node, idx: Node, upd: Node) -> tuple[Any, ...]:
    return (None, b.gather(g, idx, n.attrs["axis"]))


@_vjp("dot")
def _dot(g: Node, n: Node, x: Node, y: Node) -> tuple[Any, ...]:
    (cx, cy), (bx, by) = n.attrs["contract"], n.attrs["batch"]
    fx, fy = map(tuple, free_axes(n))
    nb = len(bx)
    gb, gx, gy = tuple(range(nb)), tuple(range(nb, nb + len(fx))), tuple(range(nb + len(fx), n.ndim))
    may_round = n.attrs.get("may_round_operands", False)
    dx = b.dot(g, y, (gy, fy), (gb, by), may_round)   # axes: batch, fx, y's contracted axes in order
    dy = b.dot(x, g, (fx, gx), (bx, gb), may_round)   # axes: batch, x's contracted axes in order, fy
    cy_order = [cx[cy.index(i)] for i in sorted(cy)]
    cx_order = [cy[cx.index(i)] for i in sorted(cx)]
    return (_place(dx, bx + fx + tuple(cy_order)), _place(dy, by + tuple(cx_order) + fy))


def _place(x: Node, order: tuple[int, ...]) -> Node:
    """Axis i of x belongs at position order[i]."""
    inverse = [0] * len(order)
    for i, at in enumerate(order):
        inverse[at] = i
    return b.permute(x, inverse)
