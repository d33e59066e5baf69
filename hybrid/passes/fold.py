"""Folding: constants, algebra, and nodes that only gradients needed. Common subexpressions are one node by
construction."""
from __future__ import annotations

import math
from typing import Sequence

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..ir import Node, Program
from ..ir.build import make
from ..ir.contraction import convolution
from ..ir.pattern import constant
from ..ir.scalar import SCALARS
from ..ir.scan import Body
from ..ir.size import fixed
from . import adjoint
from .axis_orders import unbordered
from .rewrite import Rule, rewrite


def fold_map(n: Node) -> Node | None:
    """A function of constants is a constant (computed by NumPy, so eager and compiled agree)."""
    values = [constant(a) for a in n.args]
    if any(v is None for v in values):
        return None
    with np.errstate(all="ignore"):
        out = SCALARS[n.fn].np(np, *(np.asarray(v, a.dtype) for v, a in zip(values, n.args)))
    return ir.full(np.asarray(out).astype(n.dtype).item(), n.shape, n.dtype)


def identities(n: Node) -> Node | None:
    """x*1, x/1, x-0, x**1, x**2 and others, where(const), -(-x)."""
    fn, args = n.fn, n.args
    if fn in ("add", "mul") and constant(args[0]) is not None and constant(args[1]) is None:
        return ir.map(fn, args[1], args[0])            # constants to the right
    if fn == "neg" and args[0].fn == "neg":
        return args[0].args[0]
    if fn == "where":
        c = constant(args[0])
        return None if c is None else args[1] if c else args[2]
    if len(args) != 2 or (c := constant(args[1])) is None:
        return None
    if c == 1 and fn in ("mul", "div", "pow") or c == 0 and fn in ("add", "sub") and _changes_nothing(fn, c, n.dtype):
        return args[0]
    if fn == "pow":
        return _power(n, args[0], c)
    if (fn == "div" and dt.is_float(n.dtype) and c not in (0, 1) and math.isfinite(c)
            and math.frexp(c)[0] in (0.5, -0.5)):
        inverse = 1.0 / c
        return ir.map("mul", args[0], inverse) if math.isfinite(inverse) else None      # exact: a power of two
    return None


def _changes_nothing(fn: str, zero: float, d: np.dtype) -> bool:
    """Whether adding or subtracting a zero leaves every number as it is: -0.0 + 0.0 is 0.0."""
    return not dt.is_float(d) or (math.copysign(1, zero) < 0) == (fn == "add")


def _power(n: Node, x: Node, c: float) -> Node | None:
    """A power that products, a root or a quotient give."""
    if c == 2:
        return ir.map("square", x)
    if not dt.is_float(n.dtype):
        return None
    if c == 0.5:
        return _root(x)
    if n.dtype.itemsize < 4:
        return None
    return {3.0: lambda: ir.map("square", x) * x, 4.0: lambda: ir.map("square", ir.map("square", x)),
            -1.0: lambda: 1 / x}.get(float(c), lambda: None)()


def _root(x: Node) -> Node:
    """The power 0.5: a square root but for -0.0, whose power is 0.0, and -inf, whose power is inf (C11, F.10.4.4)."""
    return ir.map("where", ir.map("eq", x, -math.inf), math.inf, ir.map("sqrt", x) + 0.0)


def before_reshape(n: Node) -> Node | None:
    """A function of a reshaped reduction and constants (a mean) is computed in the reduction's own shape."""
    found = [a for a in n.args if constant(a) is None]
    if len(found) != 1 or found[0].prim != "reshape" or found[0].args[0].prim != "reduce":
        return None
    inner = found[0].args[0]
    args = [inner if a is found[0] else ir.full(constant(a), inner.shape, a.dtype) for a in n.args]
    return ir.reshape(make("map", tuple(args), **n.attrs), n.shape)


def one_window(n: Node) -> Node | None:
    """A convolution whose filters are as large as the image is a product of two matrices, (images, C h w) and
    (filters, C h w); what meets only zeros around the image is left out.
    """
    c = convolution(n)
    if c is None or c.order != (1, 0, 2, 3) or c.groups > 1 or n.shape[2:] != (1, 1):
        return None
    w, win = c.w, c.windows
    x = win.args[0] if win.prim == "window" and win.attrs["axes"] == (2, 3) and win.args[0].ndim == 4 else None
    if x is None or x.shape[1:] != w.shape[1:] or not x.size:
        return None
    inside, pads = unbordered(x, (2, 3))
    if inside is not x and inside.size:
        w, x = ir.slice(w, (0, 0, *pads), (*w.shape[:2], *inside.shape[2:])), inside
    k = math.prod(x.shape[1:])
    return ir.reshape(ir.dot(ir.reshape(x, (x.shape[0], k)), ir.reshape(w, (w.shape[0], k)), ((1,), (1,))), n.shape)


def expand_of_expand(n: Node) -> Node | None:
    """Broadcasting twice is broadcasting once."""
    return ir.expand(n.args[0].args[0], n.shape) if n.args[0].prim == "expand" else None


def reshape_of_constant(n: Node) -> Node | None:
    """A constant has any shape."""
    c = constant(n.args[0])
    return None if c is None else ir.full(c, n.shape, n.dtype)


def cast_of_constant(n: Node) -> Node | None:
    """Constants are cast here; a cast to what it was, through a wider type, is none."""
    c = constant(n.args[0])
    if c is not None and (not isinstance(c, float) or math.isfinite(c) or dt.is_float(n.dtype)):
        with np.errstate(all="ignore"):
            return ir.full(np.asarray(c, n.args[0].dtype).astype(n.dtype).item(), n.shape, n.dtype)
    inner = n.args[0]
    if inner.prim == "cast" and inner.args[0].dtype == n.dtype and dt.holds_all(inner.dtype, n.dtype):
        return inner.args[0]
    return None


def drop_marker(n: Node) -> Node:
    """detach and with_grad speak to gradients alone."""
    return n.args[0]


def empty_reduce(n: Node) -> Node | None:
    """A reduction over nothing is its identity."""
    x = n.args[0]
    if x.size == 0 and n.size:
        return ir.full(ir.reduce_identity(n.attrs["op"], n.dtype), n.shape, n.dtype)
    return None


def reduce_of_unit(n: Node) -> Node | None:
    """Axes of length one are dropped, not reduced."""
    x, axes = n.args[0], n.attrs["axes"]
    long = tuple(a for a in axes if x.shape[a] != 1)
    if len(long) == len(axes):
        return None
    kept = ir.reshape(x, tuple(d for i, d in enumerate(x.shape) if i not in axes or d != 1))
    gone = [i for i in axes if x.shape[i] == 1]
    if not long and n.attrs["op"] == "sum" and dt.is_float(n.dtype):
        return ir.map("add", kept, ir.full(0, kept.shape, kept.dtype))       # a sum of -0 alone is 0
    return ir.reduce(n.attrs["op"], kept, [a - sum(g < a for g in gone) for a in long])


def sum_of_constant(n: Node) -> Node | None:
    """A sum of equal numbers is a product."""
    c = constant(n.args[0])
    if c is None or n.attrs["op"] != "sum" or not dt.is_float(n.dtype):
        return None
    count = n.args[0].size // max(n.size, 1) if fixed(n.args[0].size) else math.prod(
        n.args[0].shape[i] for i in n.attrs["axes"])
    return ir.full(c * count, n.shape, n.dtype) if fixed(count) or not c else ir.expand(
        ir.size_value(count, n.dtype) * c, n.shape)


def empty_dot(n: Node) -> Node | None:
    """A contraction over an empty axis is zero."""
    return ir.full(0, n.shape, n.dtype) if n.size and 0 in n.args[0].shape else None


def pad_of_pad(n: Node) -> Node | None:
    """Padding twice with one value is padding once."""
    inner = n.args[0]
    if inner.prim != "pad" or inner.attrs["value"] != n.attrs["value"]:
        return None
    lo, hi = (tuple(p + q for p, q in zip(n.attrs[k], inner.attrs[k])) for k in ("lo", "hi"))
    return make("pad", inner.args, lo=lo, hi=hi, value=n.attrs["value"])


def fold_body(n: Node) -> Node | None:
    """A loop with its body folded."""
    body = n.attrs["body"]
    better = Body(body.inputs, tuple(folded(body.outputs)))
    return None if better == body else make("scan", n.args, **{**n.attrs, "body": better})


RULES: dict[str, Sequence[Rule]] = {
    "map": (fold_map, identities, before_reshape),
    "cast": (cast_of_constant,),
    "expand": (expand_of_expand,),
    "reshape": (reshape_of_constant,),
    "permute": (reshape_of_constant, one_window),
    "slice": (reshape_of_constant,),
    "detach": (drop_marker,),
    "with_grad": (drop_marker,),
    "reduce": (empty_reduce, reduce_of_unit, sum_of_constant),
    "dot": (empty_dot,),
    "pad": (pad_of_pad,),
    "scan": (fold_body,),
    "unwindow": (adjoint.apart, adjoint.of_product),
}


def folded(roots: Sequence[Node]) -> list[Node]:
    """Roots with every rule applied. Slices of windows' sums go first, before these become convolutions."""
    if any(n.prim == "unwindow" for n in ir.toposort(roots)):
        roots = rewrite(roots, {"slice": (adjoint.cropped,)})
    return rewrite(roots, RULES)


def fold(program: Program) -> Program:
    """The program with every rule applied."""
    return program.with_roots(folded(program.roots))
