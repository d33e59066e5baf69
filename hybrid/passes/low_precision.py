"""Products of few bits: which products of float32 are those of narrower numbers, and how these are multiplied by words
of 32 bits.

A product of bfloat16 numbers with sums in float32 is said as one of float32, whose operands are casts; so is one of
8-bit integers. Where the processor has an instruction for it (``Blocking.words``), the layout pass takes the narrow
numbers themselves.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Sequence

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..ir import Node, Program
from ..ir.access import MOVEMENT
from ..ir.low_precision import narrow, pack, shifted, word_of
from ..ir.winograd import by_rule, tiles
from .frozen import Lasting
from .rewrite import rebuild, rewrite

LEAST_WORK = 1 << 14            # products below which nothing is rounded: they would not be packed (layout.py)
LEAST_FILTERS, LEAST_DEPTH = 16, 16


# products of float32 that take as long as what Winograd's form does beside its products, by measurement (Zen 4): for a
# weight, for a tile and channel
WEIGHT, TILE = 200, 630


def in_words(kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int], out: Sequence[int], channels: int,
             filters: int, batch: int) -> bool:
    """Whether a convolution of bfloat16 is faster by words, twice as many products at once, than Winograd's form is in
    float32 with a quarter of the products."""
    if by_rule(kernel, stride, dilate, out, channels, batch) != "winograd4":
        return True
    places = batch * math.prod(tiles(size, d, 4) for size, d in zip(out, dilate))
    winograd = (36 * places + WEIGHT) * channels * filters + TILE * places * (channels + filters)
    return 4.9 * batch * math.prod(out) * channels * filters < winograd


def _window_pays(n: Node) -> bool:
    """``in_words`` of a product with windows; True for other products."""
    w, win = n.args
    if win.prim != "window" or len(win.attrs["size"]) != 2 or n.ndim != 4:
        return True
    a = win.attrs
    return in_words(a["size"], a["stride"], a["dilation"], n.shape[2:], w.shape[1], w.shape[0], n.shape[1])


def in_bfloat16(program: Program, lasting: frozenset[int]) -> Program:
    """The program with operands of large products with parameters rounded to bfloat16; the sums stay float32. What is
    rounded for a product is rounded for every other use too, so that it is stored once. Inputs and results are as they
    were. lasting: slots of the parameters.
    """
    lasts = Lasting(program, lasting)
    rounded = {_source(a) for n in program.order() if _pays(n, lasts) for a in n.args}
    exact: dict[Node, Node] = {}
    new: dict[Node, Node] = {}
    for n in program.order():
        exact[n] = m = rebuild(n, [new[a] for a in n.args])
        new[n] = _rounded(m) if n in rounded else m
    changed = program.with_roots([exact[r] for r in program.roots])
    changed.memo.update((k, v) for k, v in program.memo.items() if k in ("origins", "name", "lasting"))
    return changed


def _rounded(x: Node) -> Node:
    return ir.cast(ir.cast(x, dt.as_dtype("bfloat16")), dt.float32)


def _source(x: Node) -> Node:
    """The value whose elements an operand is, moved."""
    while x.prim in MOVEMENT:
        x = x.args[0]
    return x


def _pays(n: Node, lasts: Lasting) -> bool:
    """Whether a product is one with a parameter that will be packed."""
    if n.prim != "dot" or n.dtype != np.float32 or n.attrs["batch"] != ((), ()):
        return False
    known = [lasts(a) for a in n.args]
    if known[0] == known[1]:
        return False
    w = n.args[known.index(True)]
    depth = math.prod(n.args[0].shape[a] for a in n.attrs["contract"][0])
    filters = w.size // max(depth, 1)
    return n.size * depth >= LEAST_WORK and filters >= LEAST_FILTERS and depth >= LEAST_DEPTH and _window_pays(n)


@dataclass(frozen=True)
class Words:
    """Operands of a convolution by words of 32 bits: data (N, *size, C) and weights (filters, C / groups, *kernel), C a
    multiple of the numbers of a word; what stands beyond the data, and stands for zero in it."""
    x: Node
    w: Node
    word: int
    zero: int

    def packed(self, direct: Node) -> Node:
        """Weights packed as of form ``direct``, in words."""
        return pack(direct, self.word)

    def sums(self, y: Node) -> Node:
        """The sums (N, *out, filters) of the data, from those of the data and ``zero``."""
        if not self.zero:
            return y
        extra = ir.reduce("sum", ir.cast(self.w, np.float32), range(1, self.w.ndim)) * float(self.zero)
        return y - ir.expand(extra, y.shape)


def words(x: Node, w: Node, groups: int, known: frozenset[str]) -> Words | None:
    """The operands in the types that they are casts of; None where they are not multiplied by words."""
    found, of_w = narrow(x), narrow(w)
    if found is None or of_w is None or of_w[1]:
        return None
    (a, zero), b = found, of_w[0]
    if a.dtype == np.int8 and "uint8" in known:
        a, zero = shifted(a), zero + 128
    if not 0 <= zero <= 255:
        return None
    word = word_of(a.dtype, b.dtype) if a.dtype.name in known else 0
    more = -b.shape[1] % word if word else 0
    if not word or groups > 1 and more:
        return None
    none = (0,) * (b.ndim - 2)
    return Words(ir.pad(a, (0,) * a.ndim, (0,) * (a.ndim - 1) + (more,)), ir.pad(b, (0,) * b.ndim, (0, more, *none)),
                 word, zero)


# ---- products of 8-bit integers and a scale
def scales_behind(program: Program, lasting: frozenset[int]) -> Program:
    """The program with products of 8-bit numbers times their scales as products of these numbers, times the scales:
    what ONNX's DequantizeLinear before a product says. lasting: slots of the parameters."""
    if not any(n.prim == "cast" and n.args[0].dtype.name in ("int8", "uint8") for n in program.order()):
        return program
    lasts = Lasting(program, lasting)

    def behind(n: Node) -> Node | None:
        if n.dtype != np.float32 or n.attrs["batch"] != ((), ()) or lasts(n.args[0]) == lasts(n.args[1]):
            return None
        left, right = (_without_scale(a) for a in n.args)
        if left is None or right is None:
            return None
        parts = left, right
        y = ir.dot(left[0], right[0], n.attrs["contract"])
        at = 0
        for arg, part, summed in zip(n.args, parts, n.attrs["contract"]):
            kept = [a for a in range(arg.ndim) if a not in summed]
            scale, axis = part[1:]
            if axis is not None and axis not in kept:
                return None
            shape = [1] * y.ndim
            if axis is not None:
                shape[at + kept.index(axis)] = scale.size
            y = y * ir.expand(ir.reshape(scale, shape), y.shape)
            at += len(kept)
        return y
    return program.with_roots(rewrite(program.roots, {"dot": (behind,), "permute": (_behind_order,)}))


def _behind_order(n: Node) -> Node | None:
    """A product's order of axes, before its scales: a convolution is a product and its order."""
    def ordered(x: Node) -> Node:
        if x.prim == "map" and x.attrs["fn"] == "mul" and x.args[1].prim == "expand":
            return ir.map("mul", ordered(x.args[0]), rebuild(n, [x.args[1]]))
        return rebuild(n, [x])
    x = n.args[0]
    while x.prim == "map" and x.attrs["fn"] == "mul" and x.args[1].prim == "expand":
        x = x.args[0]
    return ordered(n.args[0]) if x.prim == "dot" and x is not n.args[0] else None


def _without_scale(x: Node) -> "tuple[Node, Node, int | None] | None":
    """8-bit numbers as float32, their scale, and the axis that it is along (None: one number), of their product; moved
    or not."""
    if x.prim == "map" and x.attrs["fn"] == "mul":
        q, scale = x.args
        while scale.prim in ("expand", "reshape") and scale.size > 1 and scale.args[0].size < scale.size:
            inner = scale.args[0]
            if inner.size > 1 and (inner.ndim != x.ndim or inner.size != max(inner.shape)):
                return None
            scale = inner
        if narrow(q) is None or scale.size > 1 and (scale.ndim != x.ndim or scale.size != max(scale.shape)):
            return None
        return q, scale, None if scale.size == 1 else scale.shape.index(scale.size)
    if x.prim not in MOVEMENT or x.prim == "pad" and float(x.attrs["value"]) != 0:
        return None
    found = _without_scale(x.args[0])
    if found is None or found[2] is not None and x.prim != "permute":
        return None
    axis = found[2] if found[2] is None else x.attrs["axes"].index(found[2])
    return rebuild(x, [found[0]]), found[1], axis


# ---- sums of products of 8-bit integers
def sums_in_floats(program: Program) -> Program:
    """The program with 32-bit sums of products of 8-bit integers that are only wanted as float32 as products of
    float32, whose operands are casts: packed ones sum words in integers, others round to 24 bits."""
    if not any(n.prim == "dot" and n.dtype == np.int32 for n in program.order()):
        return program
    return program.with_roots(rewrite(program.roots, {"cast": (_sums_of_cast,)}))


def _sums_of_cast(n: Node) -> Node | None:
    return _sums(n.args[0], True) if n.dtype == np.float32 and n.args[0].dtype == np.int32 else None


def _sums(x: Node, needed: bool) -> Node | None:
    """x as float32; None where it holds no such product, if it is needed that it does."""
    if x.prim == "dot" and x.dtype == np.int32:
        a, b = (_floats(y) for y in x.args)
        if a is not None and b is not None:
            return ir.dot(a, b, x.attrs["contract"], x.attrs["batch"])
    elif x.prim in ("reshape", "permute") and (inner := _sums(x.args[0], True)) is not None:
        return rebuild(x, [inner])
    elif x.prim == "map" and x.attrs["fn"] == "add" and any(_sums(y, True) is not None for y in x.args):
        return ir.map("add", *(_sums(y, False) for y in x.args))          # type: ignore[arg-type]
    return None if needed else ir.cast(x, np.float32)


def _floats(x: Node) -> Node | None:
    """An operand of 32-bit integers that are casts of 8-bit ones, as a cast to float32."""
    if x.prim == "cast" and x.args[0].dtype.name in ("int8", "uint8"):
        return ir.cast(x.args[0], np.float32)
    if x.prim not in MOVEMENT or (inner := _floats(x.args[0])) is None:
        return None
    if x.prim == "pad":
        return ir.pad(inner, x.attrs["lo"], x.attrs["hi"], float(x.attrs["value"]))
    return rebuild(x, [inner])
