"""Low-precision products: which float32 products are those of narrower numbers, and how words of 32 bits multiply
these.

The IR says a product of bfloat16 or 8-bit numbers as a float32 product whose operands are casts. Where the processor
has a dot-product instruction for them (AVX512-BF16, AVX512-VNNI; ``Blocking.words``), the layout pass takes the
operands without their casts, in words of 2 or 4 numbers (packed_words.py).
"""
from __future__ import annotations

import math
from typing import Container, Sequence

import numpy as np

from ..base.records import dataclass
from .. import ir
from ..base import dtype as dt
from ..ir import Node, Program
from ..ir.access import MOVEMENT, beneath, depth_of
from ..ir.build import make
from ..ir.low_precision import in_tiles, narrow, pack, shifted, word_of
from ..ir.roundable import Parameters
from ..ir.size import fixed, hint
from ..ir.winograd import WINOGRAD_WORDS, by_rule, possible, tiles
from .frozen import Frozen
from .rewrite import rebuild, rewrite

LEAST_WORK = 1 << 14            # products below which nothing is rounded: they would not be packed (layout.py)
LEAST_FILTERS, LEAST_DEPTH = 16, 16


# what Winograd's forms do beside their products, counted in float32 products that take as long (measured on Zen 4): of
# F(4x4, 3x3) for each weight, and for each tile and channel; of F(2x2, 3x3) for each weight that comes from memory, and
# for each tile and channel
WEIGHT, TILE = 200, 630
WORDS_WEIGHT, WORDS_TILE = 20, 80


def fastest_form(kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int], out: Sequence[int],
                 channels: int, filters: int, batch: int, known: frozenset[str], may_round_transformed: bool) -> str:
    """Returns the form of a bfloat16 convolution with the least estimated cost: "words" (bfloat16 dot products),
    "winograd_words" (F(2x2, 3x3) with bfloat16 products, only if transformed data may be rounded), or "" (float32, with
    Winograd's F(4x4, 3x3)); for a symbolic batch size, at its value at trace. With AMX, and where Winograd's forms are
    not possible, it is always "words"."""
    if "tiles" in known or not possible(kernel, stride, dilate, out):
        return "words"
    batch = hint(batch)
    each, pixels = channels * filters, batch * math.prod(out)
    places = {m: batch * math.prod(tiles(size, d, m) for size, d in zip(out, dilate)) for m in (2, 4)}
    costs = {"words": 4.9 * pixels * each}
    if may_round_transformed:
        costs[WINOGRAD_WORDS] = ((8.3 * places[2] + WORDS_WEIGHT) * each
                                 + WORDS_TILE * places[2] * (channels + filters))
    if by_rule(kernel, stride, dilate, out, channels, batch) == "winograd4":
        costs[""] = (36 * places[4] + WEIGHT) * each + TILE * places[4] * (channels + filters)
    return min(costs, key=lambda f: costs[f])


def _fastest_form_of(n: Node, known: frozenset[str]) -> str:
    """Returns ``fastest_form`` of a product with windows; "words" for other products."""
    w, win = n.args
    if win.prim != "window" or len(win.attrs["size"]) != 2 or n.ndim != 4:
        return "words"
    a = win.attrs
    return fastest_form(a["size"], a["stride"], a["dilation"], n.shape[2:], w.shape[1], w.shape[0], n.shape[1], known,
                        True)


def in_bfloat16(program: Program, frozen: frozenset[int], known: frozenset[str]) -> Program:
    """Rounds to bfloat16 both operands of large products with parameters; sums stay float32. A value that is rounded is
    rounded for all its uses, so that it is stored once; results of the program are not rounded. Convolutions of
    Winograd's form are marked with ``may_round_operands`` instead: they round the transformed operands. known: what the
    processor multiplies by words (``Blocking.words``)."""
    lasts = Frozen(program, frozen)
    forms = {n: _fastest_form_of(n, known) for n in program.order() if _pays(n, lasts)}
    rounded = {s for n, f in forms.items() if f == "words" for a in n.args for s in _sources(a)}
    exact: dict[Node, Node] = {}
    new: dict[Node, Node] = {}
    for n in program.order():
        m = rebuild(n, [new[a] for a in n.args])
        if forms.get(n) == WINOGRAD_WORDS:
            m = make("dot", m.args, **{**m.attrs, "may_round_operands": True})
        exact[n] = m
        new[n] = _rounded(m) if n in rounded else m
    changed = program.with_roots([exact[r] for r in program.roots])
    changed.memo.update((k, v) for k, v in program.memo.items() if k in ("origins", "name", "frozen"))
    return changed


# ---- what became of each product, for the report
NO_WORDS = "the processor has no instruction for products of bfloat16, or none that is faster than float32's"


def roundings(program: Program, parameters: Container[int], known: frozenset[str], infers: bool) -> list[str]:
    """Says of each product with parameters whether ``hybridize(precision="bf16")`` rounds its operands, and why not.
    parameters: their slots. infers: whether ``in_bfloat16`` made the program, which a training step is not."""
    of, told = Parameters(parameters), []
    for n in program.order():
        if n.prim != "dot" or n.dtype != np.float32 or {of(a) for a in n.args} != {True, False}:
            continue
        convolves = any(a.prim == "window" for a in n.args)
        told.append(f"{'convolution' if convolves else 'product'} {list(n.shape)}: "
                    f"{_rounding(n, convolves, known, infers)}")
    return told


def _rounding(n: Node, convolves: bool, known: frozenset[str], infers: bool) -> str:
    if "bfloat16" not in known:
        return f"float32: {NO_WORDS}"
    if not infers:
        return "float32: a convolution of a training step" if convolves else (
            "operands are rounded where that takes fewer cycles")
    if n.attrs.get("may_round_operands"):
        return "data and weights are rounded after Winograd's transform"
    if all((found := narrow(a)) is not None and found[0].dtype.name == "bfloat16" for a in n.args):
        return "operands are rounded"
    if convolves and not _fastest_form_of(n, known):
        return "float32: Winograd's form of float32 is estimated to be faster"
    return "float32: too small to be packed"


def _rounded(x: Node) -> Node:
    return ir.cast(ir.cast(x, dt.as_dtype("bfloat16")), dt.float32)


def _sources(x: Node) -> list[Node]:
    """The value below reshapes, transposes and other movement; where it is a maximum, which rounds to that of rounded
    values, also what that is of."""
    x = beneath(x, MOVEMENT)
    value = x.args[0] if x.prim == "with_grad" else x
    greatest = value.prim == "reduce" and value.attrs["op"] == "max" and value.dtype == np.float32
    return [x, *(_sources(value.args[0]) if greatest else [])]


def _pays(n: Node, lasts: Frozen) -> bool:
    """Whether a product is one with a parameter that will be packed."""
    if n.prim != "dot" or n.dtype != np.float32 or n.attrs["batch"] != ((), ()):
        return False
    last = [lasts(a) for a in n.args]
    if last[0] == last[1]:
        return False
    w = n.args[last.index(True)]
    depth = depth_of(n)
    filters = w.size // max(depth, 1)
    return hint(n.size) * depth >= LEAST_WORK and filters >= LEAST_FILTERS and depth >= LEAST_DEPTH


@dataclass(frozen=True)
class Words:
    """Operands of a convolution by words of 32 bits: data (N, *size, C) and weights (filters, C / groups, *kernel), C a
    multiple of the numbers of a word; what stands beyond the data, and stands for zero in it."""
    x: Node
    w: Node
    word: int
    zero: int
    form: str = "words"

    def packed(self, direct: Node) -> Node:
        """Packs weights that lie as for ``direct`` into words."""
        return pack(direct, self.word)

    def sums(self, y: Node) -> Node:
        """Subtracts what the zero point adds: ``zero`` times the sum of each filter's weights. y: sums (N, *out,
        filters)."""
        if not self.zero:
            return y
        extra = ir.reduce("sum", ir.cast(self.w, np.float32), range(1, self.w.ndim)) * float(self.zero)
        return y - ir.expand(extra, y.shape)


def words(x: Node, w: Node, groups: int, dilate: Sequence[int], pixels: int, known: frozenset[str]) -> Words | None:
    """Data and weights in their narrow types, channels padded to whole words; None if words do not multiply them.
    pixels: of the results."""
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
    none, tiles = (0,) * (b.ndim - 2), fixed(x.size) and "tiles" in known
    # of one pixel, vectors of bytes come from memory faster than tiles
    tiles = tiles and (pixels > 1 or word == 2) and in_tiles((b.shape[1] + more) // word, b.shape[2:], dilate, groups)
    return Words(ir.pad(a, (0,) * a.ndim, (0,) * (a.ndim - 1) + (more,)), ir.pad(b, (0,) * b.ndim, (0, more, *none)),
                 word, zero, "tiles" if tiles else "words")


# ---- products of 8-bit integers and a scale
def scales_behind(program: Program, frozen: frozenset[int]) -> Program:
    """Moves scales after products: (q1 s1) (q2 s2) becomes (q1 q2) s1 s2, as ONNX's DequantizeLinear before a product
    needs. frozen: slots of the parameters."""
    if not any(n.prim == "cast" and n.args[0].dtype.name in ("int8", "uint8") for n in program.order()):
        return program
    lasts = Frozen(program, frozen)

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
    """Moves a permutation before the multiplications with scales, so that it applies to the product itself: a
    convolution is a product and a permutation."""
    def ordered(x: Node) -> Node:
        if x.fn == "mul" and x.args[1].prim == "expand":
            return ir.map("mul", ordered(x.args[0]), rebuild(n, [x.args[1]]))
        return rebuild(n, [x])
    x = n.args[0]
    while x.fn == "mul" and x.args[1].prim == "expand":
        x = x.args[0]
    return ordered(n.args[0]) if x.prim == "dot" and x is not n.args[0] else None


def _without_scale(x: Node) -> "tuple[Node, Node, int | None] | None":
    """Splits a value into 8-bit numbers as float32, their scale, and the axis of the scale (None: one number for all);
    looks through movement."""
    if x.fn == "mul":
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
    """Writes casts to float32 of 32-bit sums of 8-bit products as float32 products of casts: packed forms sum these in
    integers, others round sums to 24 bits."""
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
    elif x.fn == "add" and any(_sums(y, True) is not None for y in x.args):
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
