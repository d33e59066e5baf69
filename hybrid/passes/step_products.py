"""Products of bfloat16 whose operands both change from call to call, as those of a training step do: the product of a
layer, the gradient of its data, the gradient of its weights.

One operand is read as rows along the depth, or put into tiles of pairs where its depth comes first; the other is put
into panels of pairs (ir/pairs.py); the product is then the packed one of inference (form ``words``), whose sums are
float32. A symbolic batch is the rows of the product of a layer and of the gradient of its data, and the depth of the
gradient of its weights.
"""
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..ir import Node, Program
from ..ir.low_precision import narrow
from ..ir.packed import product as packed_product
from ..ir.pairs import LANES, LEAST_COLUMNS, LEAST_DEPTH, pairs
from ..ir.size import fixed, hint
from .frozen import Frozen
from .layout import MANY_ROWS, Blocking
from .rewrite import rewrite

DEEP = 8192                     # steps of the depth, above which a sum is made of several (long_sums.py)
# estimated cycles of a vector (on Zen 4): a product of pairs of bfloat16, one of float32, packing words
PAIR_COST, FLOAT_COST, PACK_COST = 1.1, 1.0, 4.0


class Matrix(NamedTuple):
    """An operand as a matrix of bfloat16: (columns, depth) if ``along``, else (depth, columns)."""
    x: Node
    along: bool

    @property
    def columns(self) -> int:
        return self.x.shape[0 if self.along else 1]


def _matrix(x: Node, summed: tuple[int, ...]) -> Matrix | None:
    """An operand whose summed axes stand together, before or behind the others."""
    kept = tuple(a for a in range(x.ndim) if a not in summed)
    every = tuple(range(x.ndim))
    along = kept + summed == every
    if not kept or not along and summed + kept != every:
        return None
    depth, columns = (math.prod(x.shape[a] for a in axes) for axes in (summed, kept))
    m = ir.reshape(x, (columns, depth) if along else (depth, columns))
    return Matrix(m.args[0], not along) if m.prim == "permute" else Matrix(m, along)


def _halves(x: Node, may_round: bool) -> Node | None:
    """An operand as bfloat16: itself, what it was cast to float32 from, or, if it may be rounded, a cast; else None."""
    if x.dtype.name == "bfloat16":
        return x
    found = narrow(x) if x.dtype == np.float32 else None
    if found is not None and found[0].dtype.name == "bfloat16":
        return found[0]
    return ir.cast(x, dt.as_dtype("bfloat16")) if may_round and x.dtype == np.float32 else None


def pays(rows: int, columns: int, depth: int, ordered: bool, lanes: int) -> bool:
    """Whether a product of pairs takes fewer cycles than that of float32. ordered: whether its rows are put in order,
    too."""
    vectors, words = rows * -(-columns // lanes), -(-depth // 2)
    packed = (columns + (rows if ordered else 0)) / lanes
    return words * (vectors * PAIR_COST + packed * PACK_COST) < depth * vectors * FLOAT_COST


def _product(n: Node, lanes: int, constant: Frozen) -> tuple[Matrix, Matrix] | None:
    """The rows and the columns of a product of pairs; None where a product is something else, or would not pay."""
    if n.attrs["batch"] != ((), ()) or any(map(constant, n.args)):
        return None
    halves = [_halves(a, n.attrs.get("may_round_operands", False)) for a in n.args]
    a, b = (_matrix(h, s) if h is not None else None for h, s in zip(halves, n.attrs["contract"]))
    if a is None or b is None:
        return None
    depth = a.x.shape[0 if not a.along else 1]
    if not fixed(b.columns) or not (fixed(a.columns) if not a.along else fixed(depth)):
        return None
    if (a.along or b.along) and (not fixed(depth) or depth % 2) or not LEAST_DEPTH <= hint(depth) <= DEEP:
        return None
    if min(hint(a.columns), b.columns) < LEAST_COLUMNS:
        return None
    return (a, b) if pays(hint(a.columns), b.columns, hint(depth), not a.along, lanes) else None


def exchanged(n: Node) -> Node | None:
    """The transpose of a product as the product of its operands in exchanged order; None for other transposes."""
    d = n.args[0]
    if d.prim != "dot" or d.attrs["batch"] != ((), ()):
        return None
    (a, b), (ca, cb) = d.args, d.attrs["contract"]
    left = a.ndim - len(ca)
    if n.attrs["axes"] != (*range(left, d.ndim), *range(left)):
        return None
    return ir.dot(b, a, (cb, ca), may_round_operands=d.attrs.get("may_round_operands", False))


def step_products(program: Program, frozen: frozenset[int], blocking: Blocking) -> Program:
    """The program with such products, where the processor has the instruction for vectors (and none for tiles). frozen:
    slots of the parameters, whose products are those of inference."""
    if "bfloat16" not in blocking.words or "tiles" in blocking.words or blocking.lanes != LANES:
        return program
    constant = Frozen(program, frozen)

    def found(p: Program) -> dict[Node, tuple[Matrix, Matrix]]:
        return {n: pair for n in p.order() if n.prim == "dot"
                and (pair := _product(n, blocking.lanes, constant)) is not None}
    if not found(program):
        return program
    program = program.with_roots(rewrite(program.roots, {"permute": (exchanged,)}))
    rows = {a.x for a, _ in found(program).values() if a.along}

    def source(m: Matrix) -> Node:
        """What is packed: the float32 input behind a cast, unless the cast is stored as the rows of another product."""
        x = m.x
        return x.args[0] if x not in rows and x.prim == "cast" and x.args[0].prim == "input" and (
            x.args[0].dtype == np.float32) else x

    def product(n: Node) -> Node | None:
        a, b = _product(n, blocking.lanes, constant) or (None, None)
        if a is None or b is None:
            return None
        width = blocking.panel("words", b.columns, a.columns if fixed(a.columns) else MANY_ROWS)
        tile = 0 if a.along else blocking.tile(width)
        x = a.x if a.along else pairs(source(a), False, tile=tile)
        y = packed_product(ir.reshape(x, (1, 1, *x.shape)), pairs(source(b), b.along, width), b.columns, "words",
                           interleaved=tile)
        return ir.cast(ir.reshape(y, n.shape), n.dtype)
    return program.with_roots(rewrite(program.roots, {"dot": (product,)}))
