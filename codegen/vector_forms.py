"""Which values have a form in vectors of float32, and how it is spelled (kernels/c/vector.h)."""
from __future__ import annotations

import math
from functools import lru_cache
from typing import Container

import numpy as np

from hybrid.base.dtype import is_float, is_half
from hybrid.ir import Node
from hybrid.ir.access import MOVEMENT, beneath
from hybrid.ir.kernel import Kernel
from hybrid.ir.low_precision import fits_bytes
from hybrid.ir.scalar import SCALARS
from hybrid.ir.pattern import BELOW_ITS_MAXIMUM, constant, matched

from .lanes import BYTES, F32, F64

HEAVY = 10                      # cost of a function from which on it is not computed twice


def comparison(fn: str) -> bool:
    """Whether a function compares two vectors, which gives a mask."""
    row = SCALARS[fn]
    return row.rule == "bool" and bool(row.vector) and not row.of_masks


def spelling(fn: str, of: np.dtype) -> str:
    """A function of vectors of float32 or of float64; "" where there is none."""
    return SCALARS[fn].of_vectors(of != F32)


@lru_cache                                               # NumPy puts the name together each time
def _is_bytes(d: np.dtype) -> bool:
    return d.name in BYTES


def in_float32(d: np.dtype) -> bool:
    """Whether numbers of a type of fewer bits are computed in float32, in vectors: exactly, if ``keeps_bytes``."""
    return is_half(d) or _is_bytes(d)


def keeps_bytes(n: Node) -> bool:
    """Whether a value of 8 bits is the same if it is computed in float32: what wraps around is not."""
    if not _is_bytes(n.dtype):
        return True
    if n.prim == "map":
        return n.fn in ("relu", "maximum", "minimum", "where")
    if n.prim == "reduce":
        return n.attrs["op"] in ("max", "min")
    return n.prim != "cast" or n.args[0].dtype == np.bool_ or fits_bytes(n.args[0], n.dtype)


def in_vectors(n: Node) -> bool:
    """Whether a value that is computed beside a packed convolution has a form in vectors."""
    if not keeps_bytes(n):
        return False
    if n.prim == "cast":
        return _floats(n.dtype) and (_floats(n.args[0].dtype) or n.args[0].dtype == np.bool_)
    if n.prim != "map":
        return True
    fn = n.fn
    row = SCALARS[fn]
    known = bool(row.vector) and (_floats(n.dtype) or comparison(fn) or row.of_masks
                                  and all(a.dtype == np.bool_ for a in n.args))
    return known and all((_floats(a.dtype) or a.dtype == np.bool_) and beneath(a, MOVEMENT).prim != "iota"
                         for a in n.args)


def _floats(d: np.dtype) -> bool:
    """Whether values are vectors of float32: halves are computed so."""
    return d == F32 or in_float32(d)


def one_plus(k: Kernel) -> dict[Node, tuple[Node | None, Node]]:
    """Sums 1 + tanh(y) and 1 + erf(y), and products a * (1 + tanh(y)), as (a, function), where the function and the sum
    are used for nothing else: these are functions of their own, cheaper and with more digits.
    """
    users: dict[Node, list[Node]] = {}
    for m in k.members:
        for arg in m.args:
            users.setdefault(arg, []).append(m)
    out: dict[Node, tuple[Node | None, Node]] = {}
    for f in users:
        if f.fn in ("tanh", "erf") and f not in k.stores and all(_plus_one(u, f) for u in users[f]):
            out.update((u, (None, f)) for u in users[f])
    for total, (_, f) in list(out.items()):
        by = users.get(total, [])
        if (f.fn == "tanh" and total not in k.stores and len(by) == 1 and by[0].fn == "mul"):
            left, right = by[0].args
            if left is not right:
                out[by[0]] = (right if left is total else left, f)
    return out


def _plus_one(u: Node, n: Node) -> bool:
    return u.dtype == F32 and matched(u, ("add", "x", 1), {"x": n}) is not None


def scaled(n: Node, by: float, stored: Container[Node]) -> tuple[Node, float]:
    """n * by as another value times a number: a product with a constant is one product, unless it must be computed
    because it is stored."""
    c = constant(n.args[1]) if n.fn == "mul" and n not in stored else None
    return (n, by) if c is None else (n.args[0], by * float(c))        # type: ignore[arg-type]


def factors(n: Node) -> tuple[list[Node], float]:
    """A product as the values that are multiplied, and their constant."""
    if n.fn != "mul" or n.dtype != F32:
        c = constant(n)
        return ([n], 1.0) if c is None else ([], float(c))        # type: ignore[arg-type]
    (a, by), (b, more) = (factors(x) for x in n.args)
    return a + b, by * more


def common(n: Node) -> tuple[Node, list[Node], float] | None:
    """x + c x y … as x, the factors y …, and c: x (1 + c y …) is a product less."""
    if n.fn != "add" or n.dtype != F32:
        return None
    for x, product in (n.args, n.args[::-1]):
        rest, c = factors(product)
        if x in rest and len(rest) > 1 and len(rest) <= 4:
            rest.remove(x)
            return x, rest, c
    return None


def shifted(n: Node) -> bool:
    """Whether a value is 32 bits moved right by a constant: as an integer with a sign it is the same."""
    by = constant(n.args[1]) if n.fn == "shr" and n.dtype == np.uint32 else None
    return by is not None and 1 <= int(by) <= 31        # type: ignore[call-overload]


def below_its_maximum(n: Node) -> bool:
    """Whether a value is x less its largest element along some axis: never above zero."""
    return matched(n, BELOW_ITS_MAXIMUM) is not None


def subtracts_its_maximum(n: Node) -> bool:
    """Whether a value is x less its largest element, and x is computed: x must be rounded as it was for the maximum,
    also where it is computed again, or the difference is wrong by the rounding of a large x."""
    return n.fn == "sub" and n.args[0].prim == "map" and below_its_maximum(n)


def at_least_one(n: Node) -> bool:
    """Whether a value is a sum of exponentials of what is below its maximum, which is one of them: softmax's divisor is
    1 or more, or NaN."""
    found = matched(n, ("sum", ("exp", BELOW_ITS_MAXIMUM), "total"))
    return found is not None and found["total"].attrs["axes"] == found["greatest"].attrs["axes"]


def limited(n: Node) -> str | None:
    """The macro for a value that is limited by a constant (clip): where(x < c, c, x), and where(x > d, d, that) for c
    <= d."""
    condition, bound, value = n.args
    c = constant(bound)
    if c is None or condition.fn not in ("lt", "gt") or constant(condition.args[1]) != c:
        return None
    x, above = condition.args[0], condition.fn == "gt"
    if value is x:
        return "HYV_MIN" if above else "HYV_MAX"
    if (above and value.fn == "where" and value.args[2] is x
        and limited(value) == "HYV_MAX" and constant(value.args[1]) <= c):      # type: ignore[operator]
        return "HYV_MIN"
    return None


def not_negative(n: Node) -> bool:
    """Whether no element is below 0, nor -0: it may be NaN."""
    n = beneath(n, MOVEMENT)
    if (c := constant(n)) is not None:
        return math.copysign(1, c) > 0
    if n.prim != "map" or not is_float(n.dtype):
        return False
    fn, row = n.attrs["fn"], SCALARS[n.attrs["fn"]]
    return fn == "relu" or (fn in ("mul", "minimum") or row.zero and row.monotone) and all(map(not_negative, n.args))


def one_limit(n: Node) -> str | None:
    """The form of a maximum or minimum with a constant, which keeps a NaN by the order of its arguments; "{0}" where
    it changes nothing. None for other functions, and where the sign of a zero would not be the same."""
    if n.attrs["fn"] not in ("maximum", "minimum") or (c := constant(n.args[1])) is None or c != c:
        return None
    if c != 0:
        return "HYV_MAX({1}, {0})" if n.attrs["fn"] == "maximum" else "HYV_MIN({1}, {0})"
    if n.attrs["fn"] == "minimum" or math.copysign(1, c) < 0:
        return None
    return "{0}" if not_negative(n.args[0]) else "HYV_RELU({0})"


def library_call(n: Node) -> bool:
    """A function of float64 that C calls for each element, and that has vectors of its own here."""
    return heavy(n) and bool(spelling(n.fn, F64)) and SCALARS[n.fn].c.startswith("__builtin_")


def heavy(n: Node) -> bool:
    """A function that costs more than reading its result again."""
    return n.prim == "map" and SCALARS[n.fn].cost >= HEAVY
