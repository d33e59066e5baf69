"""Which values have a form in vectors of float32, and how it is spelled (kernels/c/vector.h)."""
from __future__ import annotations

from typing import Container

import numpy as np

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import MOVEMENT
from hybrid.ir.kernel import Kernel
from hybrid.ir.low_precision import fits_bytes
from hybrid.ir.scalar import SCALARS
from hybrid.passes.fold import constant

from .lanes import BYTES, F32

HEAVY = 10                      # cost of a function from which on it is not computed twice
SPELL = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})", "neg": "(-{0})",
    "abs": "HYV_ABS({0})",
    "square": "({0} * {0})", "reciprocal": "(HYV_B(1.0f) / {0})", "relu": "HYV_RELU({0})",
    "maximum": "HYV_MAXN({0}, {1})",
    "minimum": "HYV_MINN({0}, {1})", "sqrt": "HYV_SQRT({0})", "rsqrt": "(HYV_B(1.0f) / HYV_SQRT({0}))",
    "exp": "hyv_exp({0})",
    "log": "hyv_log({0})", "tanh": "hyv_tanh({0})", "erf": "hyv_erf({0})", "sigmoid": "hyv_sigmoid({0})",
    "pow": "hyv_pow({0}, {1})", "expm1": "hyv_expm1({0})",
    "log1p": "hyv_log1p({0})", "softplus": "hyv_softplus({0})", "log2": "hyv_log2({0})", "log10": "hyv_log10({0})",
    "sin": "hyv_sin({0})", "cos": "hyv_cos({0})", "tan": "hyv_tan({0})",
    "sign": "HYV_SELECT(HYV_EQ({0}, (hy_v){{}}), (hy_v){{}}, HYV_SELECT(HYV_NAN({0}, {0}), {0}, HYV_SIGN(HYV_B(1.0f), "
            "{0})))",
    "floor": "HYV_FLOOR({0})", "ceil": "HYV_CEIL({0})", "trunc": "HYV_TRUNC({0})", "fix": "HYV_TRUNC({0})",
    "rint": "HYV_RINT({0})", "where": "HYV_SELECT({0}, {1}, {2})"}
SPELL |= {fn: f"HYV_EACH(hy_{name}f, {{0}})" for fn, name in (
    ("erfinv", "erfinv"), ("arctan", "atan"), ("arcsin", "asin"), ("arccos", "acos"), ("sinh", "sinh"),
    ("cosh", "cosh"),
    ("arcsinh", "asinh"), ("arccosh", "acosh"), ("arctanh", "atanh"),
    ("cbrt", "cbrt"))}
ANGLES = ("sin", "cos", "tan")
WIDE = {fn: SPELL[fn] for fn in ("exp", *ANGLES)} | {fn: f"HYV_EACH({SCALARS[fn].c.split('{')[0]}, {{0}})" for fn in (
    "log", "tanh", "erf", "sigmoid", "expm1", "log1p", "softplus", "log2", "log10", "erfinv", "arctan", "arcsin",
    "arccos", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "cbrt")}
COMPARE = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}
LOGIC = {"logical_and": "(hy_m)({0} & {1})", "logical_or": "(hy_m)({0} | {1})", "logical_xor": "(hy_m)({0} ^ {1})",
         "logical_not": "HYV_NOT({0})"}


def spelling(fn: str, of: np.dtype) -> str | None:
    """A function of vectors; in float64 those of kernels/c/branchless.h, element by element, and what needs no
    function."""
    plain = SPELL.get(fn)
    return plain if of == F32 else WIDE.get(fn) or (None if plain is None or "hyv_" in plain or "EACH" in plain
                                                    else plain)


def in_float32(d: np.dtype) -> bool:
    """Whether numbers of a type of fewer bits are computed in float32, in vectors: exactly, if ``keeps_bytes``."""
    return is_half(d) or d.name in BYTES


def keeps_bytes(n: Node) -> bool:
    """Whether a value of 8 bits is the same if it is computed in float32: what wraps around is not."""
    if n.dtype.name not in BYTES:
        return True
    if n.prim == "map":
        return n.attrs["fn"] in ("relu", "maximum", "minimum", "where")
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
    fn = n.attrs["fn"]
    known = (fn in SPELL and _floats(n.dtype) or fn in COMPARE or fn in LOGIC
             and all(a.dtype == np.bool_ for a in n.args))
    return known and all((_floats(a.dtype) or a.dtype == np.bool_) and _moved(a).prim != "iota" for a in n.args)


def _floats(d: np.dtype) -> bool:
    """Whether values are vectors of float32: halves are computed so."""
    return d == F32 or in_float32(d)


def _moved(n: Node) -> Node:
    while n.prim in MOVEMENT:
        n = n.args[0]
    return n


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
        if f.prim == "map" and f.attrs["fn"] in ("tanh",
                                                 "erf") and f not in k.stores and all(_plus_one(u, f)
                for u in users[f]):
            out.update((u, (None, f)) for u in users[f])
    for total, (_, f) in list(out.items()):
        by = users.get(total, [])
        if (f.attrs["fn"] == "tanh" and total not in k.stores and len(by) == 1 and by[0].prim == "map"
            and by[0].attrs["fn"] == "mul"):
            left, right = by[0].args
            if left is not right:
                out[by[0]] = (right if left is total else left, f)
    return out


def _plus_one(u: Node, n: Node) -> bool:
    return (u.dtype == F32 and u.prim == "map" and u.attrs["fn"] == "add" and u.args[0] is n
            and constant(u.args[1]) is not None and float(constant(u.args[1])) == 1)      # type: ignore[arg-type]


def scaled(n: Node, by: float, stored: Container[Node]) -> tuple[Node, float]:
    """n * by as another value times a number: a product with a constant is one product, unless it must be computed
    because it is stored."""
    c = constant(n.args[1]) if n.prim == "map" and n.attrs["fn"] == "mul" and n not in stored else None
    return (n, by) if c is None else (n.args[0], by * float(c))        # type: ignore[arg-type]


def factors(n: Node) -> tuple[list[Node], float]:
    """A product as the values that are multiplied, and their constant."""
    if n.prim != "map" or n.attrs["fn"] != "mul" or n.dtype != F32:
        c = constant(n)
        return ([n], 1.0) if c is None else ([], float(c))        # type: ignore[arg-type]
    (a, by), (b, more) = (factors(x) for x in n.args)
    return a + b, by * more


def common(n: Node) -> tuple[Node, list[Node], float] | None:
    """x + c x y … as x, the factors y …, and c: x (1 + c y …) is a product less."""
    if n.prim != "map" or n.attrs["fn"] != "add" or n.dtype != F32:
        return None
    for x, product in (n.args, n.args[::-1]):
        rest, c = factors(product)
        if x in rest and len(rest) > 1 and len(rest) <= 4:
            rest.remove(x)
            return x, rest, c
    return None


def shifted(n: Node) -> bool:
    """Whether a value is 32 bits moved right by a constant: as an integer with a sign it is the same."""
    by = constant(n.args[1]) if n.prim == "map" and n.attrs["fn"] == "shr" and n.dtype == np.uint32 else None
    return by is not None and 1 <= int(by) <= 31        # type: ignore[call-overload]


def below_its_maximum(n: Node) -> bool:
    """Whether a value is x less its greatest element along some axis: never above zero."""
    if n.prim != "map" or n.attrs["fn"] != "sub":
        return False
    x, m = n.args
    while m.prim in ("expand", "reshape"):
        m = m.args[0]
    return m.prim == "reduce" and m.attrs["op"] == "max" and m.args[0] is x


def at_least_one(n: Node) -> bool:
    """Whether a value is a sum of exponentials of what is below its maximum, which is one of them: softmax's divisor is
    1 or more, or NaN."""
    while n.prim in ("expand", "reshape"):
        n = n.args[0]
    if (n.prim != "reduce" or n.attrs["op"] != "sum" or n.args[0].prim != "map" or n.args[0].attrs["fn"] != "exp"
        or not below_its_maximum(n.args[0].args[0])):
        return False
    m = n.args[0].args[0].args[1]
    while m.prim != "reduce":
        m = m.args[0]
    return bool(m.attrs["axes"] == n.attrs["axes"])


def limited(n: Node) -> str | None:
    """The macro for a value that is limited by a constant (clip): where(x < c, c, x), and where(x > d, d, that) for c
    <= d."""
    condition, bound, value = n.args
    c = constant(bound)
    if (c is None or condition.prim != "map" or condition.attrs["fn"] not in ("lt", "gt")
        or constant(condition.args[1]) != c):
        return None
    x, above = condition.args[0], condition.attrs["fn"] == "gt"
    if value is x:
        return "HYV_MIN" if above else "HYV_MAX"
    if (above and value.prim == "map" and value.attrs["fn"] == "where" and value.args[2] is x
        and limited(value) == "HYV_MAX" and constant(value.args[1]) <= c):      # type: ignore[operator]
        return "HYV_MIN"
    return None


def heavy(n: Node) -> bool:
    """A function that costs more than reading its result again."""
    return n.prim == "map" and SCALARS[n.attrs["fn"]].cost >= HEAVY
