"""The table of scalar functions. A row says everything about one: NumPy, C, CUDA, derivative, dtype rule.

Spellings are templates: ``{0} {1} {2}`` arguments, ``{f}`` the suffix of a C function (``f`` for float, nothing for
double), ``{T}`` the type's name. ``c_int`` is the spelling for integers where it differs. Half types are computed in
float. ``rule``: ``same`` (arguments promoted, result alike), ``float`` (integers become float32 first), ``bool``
(arguments promoted, result bool), ``select`` (a condition, then two alike), ``logic`` (any in, bool out), ``int``.
"""
from __future__ import annotations

from typing import Any, Callable

from ..base.records import dataclass
from . import special
from ..base import dtype as dt


@dataclass(frozen=True)
class Scalar:
    """One row of the table; see the module's docstring."""
    name: str
    arity: int
    np: Callable[..., Any]          # (xp, *arrays) -> array
    c: str
    vjp: Callable[..., Any] | None  # (g, y, *args) -> tuple of cotangents (Nodes or None)
    rule: str = "same"
    c_int: str = ""
    cuda: str = ""                  # empty: the same as c
    cost: int = 1                   # rough cost in additions; above 8 it is not computed twice
    ufunc: str = ""                 # NumPy's function of that name does the same
    vector: str = ""                # of vectors of float32 (kernels/c/vector.h); EACH: C's, element by element
    wide: str | None = None         # of vectors of float64; None: as of float32, with the names of float64
    of_masks: bool = False          # whether ``vector`` takes and gives masks
    exact: bool = False             # the same bits wherever it is computed; of halves, a half: nothing is rounded
    zero: bool = False              # f(0) = 0, of a function of one argument
    monotone: bool = False          # f(a) <= f(b) for all a <= b

    def spelling(self, target: str, integer: bool) -> str:
        """The template for a target ('c' or 'cuda')."""
        if integer and self.c_int:
            return self.c_int
        return self.cuda if target == "cuda" and self.cuda else self.c

    def of_vectors(self, wide: bool = False) -> str:
        """The template for vectors of float32, or of float64 (wide); "" where there is none."""
        form = self.wide if wide and self.wide is not None else self.vector
        name, each = self.c.partition("{f}")[0], "" if wide else "f"
        return f"HYV_EACH({name}{each}, {{0}})" if form == EACH else form


EACH = "each"
SCALARS: dict[str, Scalar] = {}


def register_scalar(row: Scalar) -> Scalar:
    """Add a row. A name that is taken is an error."""
    if row.name in SCALARS:
        raise ValueError(f"scalar function {row.name!r} is in the table already")
    SCALARS[row.name] = row
    return row


def added() -> str:
    """What compiled programs depend on of the rows that other packages registered."""
    return repr([(r.name, r.c, r.c_int, r.vector, r.wide, r.cost) for r in list(SCALARS.values())[OWN:]])


BUILDER: dict[str, Callable[..., Any]] = {}     # build.py puts `map_` here: derivatives are made of nodes


def _m(fn: str, *xs: Any) -> Any:
    return BUILDER["map"](fn, *xs)


def _row(name: str, arity: int, npf: Any, c: str, vjp: Any = None, rule: str = "same", **more: Any) -> None:
    if isinstance(npf, str):
        attr = more["ufunc"] = npf
        npf = lambda xp, *a: getattr(xp, attr)(*a)          # noqa: E731
    register_scalar(Scalar(name, arity, npf, c, vjp, rule, **more))


def _remainder(rounded: str) -> Any:
    """The derivative of a remainder; of integers there is none, as in MXNet."""
    def vjp(g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
        return (g, -g * _m(rounded, a / b)) if dt.is_float(y.dtype) else (None, None)
    return vjp


def _fn(c_name: str) -> str:
    return f"__builtin_{c_name}{{f}}({{0}})"


def _cu(c_name: str) -> str:
    return f"{c_name}{{f}}({{0}})"


def _wrapped(op: str) -> str:
    """C of integers that wrap around as NumPy's do; signed ones must not in C. Compilers make it narrow again."""
    return f"({{T}})((unsigned long){{0}} {op} (unsigned long){{1}})"


# ---- arithmetic
_row("add", 2, "add", "({0} + {1})", lambda g, y, a, b: (g, g), c_int=_wrapped("+"), vector="({0} + {1})")
_row("sub", 2, "subtract", "({0} - {1})", lambda g, y, a, b: (g, -g), c_int=_wrapped("-"), vector="({0} - {1})")
_row("mul", 2, "multiply", "({0} * {1})", lambda g, y, a, b: (g * b, g * a), c_int=_wrapped("*"),
     vector="({0} * {1})")
_row("div", 2, "true_divide", "({0} / {1})", lambda g, y, a, b: (g / b, -(g * a) / (b * b)), "float", cost=4,
     vector="({0} / {1})")
_row("floordiv", 2, "floor_divide", "hy_floordiv{f}({0}, {1})", lambda g, y, a, b: (None, None),
     c_int="hy_ifloordiv({0}, {1})", cost=12)
_row("mod", 2, special.mod, "hy_mod{f}({0}, {1})", _remainder("floor"),
     c_int="hy_imod({0}, {1})", cost=12)
_row("fmod", 2, "fmod", "hy_rem{f}({0}, {1})", _remainder("trunc"),
     c_int="hy_irem({0}, {1})", cuda="fmod{f}({0}, {1})", cost=12)
_row("quotient", 2, special.quotient, "__builtin_trunc{f}({0} / {1})", lambda g, y, a, b: (None, None),
     c_int="hy_iquot({0}, {1})", cuda="trunc{f}({0} / {1})", cost=12)
_row("neg", 1, "negative", "(-{0})", lambda g, y, a: (-g,), c_int="({T})(0ul - (unsigned long){0})", vector="(-{0})",
     exact=True, zero=True)
_row("abs", 1, "abs", _fn("fabs"), lambda g, y, a: (g * _m("direction", a),),
     c_int="({0} < 0 ? ({T})(0ul - (unsigned long){0}) : {0})", cuda=_cu("fabs"), vector="HYV_ABS({0})", exact=True,
     zero=True)
_row("sign", 1, special.sign, "({0} > 0 ? ({T})1 : {0} < 0 ? ({T})-1 : {0} + ({T})0)", lambda g, y, a: (None,), cost=2,
     vector="HYV_SELECT(HYV_EQ({0}, (hy_v){{}}), (hy_v){{}}, HYV_SELECT(HYV_NAN({0}, {0}), {0}, HYV_SIGN(HYV_B(1.0f), "
            "{0})))",
     exact=True, zero=True)
_row("direction", 1, special.direction, "({0} > 0 ? ({T})1 : {0} < 0 ? ({T})-1 : ({T})0)", lambda g, y, a: (None,),
     cost=2, vector="HYV_SELECT(HYV_LT((hy_v){{}}, HYV_ABS({0})), HYV_SIGN(HYV_B(1.0f), {0}), (hy_v){{}})",
     exact=True, zero=True)                                 # MXNet's sign: 0 of NaN
_row("reciprocal", 1, lambda xp, a: 1 / a, "(1 / {0})", lambda g, y, a: (-g * y * y,), "float", cost=4,
     vector="(HYV_B(1.0f) / {0})")
_row("square", 1, "square", "({0} * {0})", lambda g, y, a: (g * a * 2,),
     c_int="({T})((unsigned long){0} * (unsigned long){0})", vector="({0} * {0})", zero=True)
_row("maximum", 2, "maximum", "hy_max({0}, {1})", c_int="({0} > {1} ? {0} : {1})",
     vjp=lambda g, y, a, b: (_m("where", _m("ge", a, b), g, 0), _m("where", _m("lt", a, b), g, 0)), cost=2,
     vector="HYV_MAXN({0}, {1})", exact=True)
_row("minimum", 2, "minimum", "hy_min({0}, {1})", c_int="({0} < {1} ? {0} : {1})",
     vjp=lambda g, y, a, b: (_m("where", _m("le", a, b), g, 0), _m("where", _m("gt", a, b), g, 0)), cost=2,
     vector="HYV_MINN({0}, {1})", exact=True)
_row("relu", 1, special.relu, "({0} <= 0 ? ({T})0 : {0})",
     lambda g, y, a: (_m("where", _m("gt", y, 0), g, y),),      # of the result, which is 0 or NaN where g is not taken
     vector="HYV_RELU({0})", exact=True, zero=True, monotone=True)
_row("pow", 2, special.power, "__builtin_pow{f}({0}, {1})",
     lambda g, y, a, b: (g * b * _m("pow", a, b - 1), g * y * _m("log", _m("where", _m("eq", y, 0), 1, a))),
     c_int="hy_ipow({0}, {1})", cuda="pow{f}({0}, {1})", cost=40, vector="hyv_pow({0}, {1})", wide="")

# ---- roots, exponentials, logarithms
_row("sqrt", 1, "sqrt", _fn("sqrt"), lambda g, y, a: (g * 0.5 / y,), "float", cuda=_cu("sqrt"), cost=6,
     vector="HYV_SQRT({0})", zero=True)
_row("rsqrt", 1, lambda xp, a: 1 / xp.sqrt(a), "(1 / __builtin_sqrt{f}({0}))", lambda g, y, a: (g * -0.5 * y * y * y,),
     "float", cuda="(1 / sqrt{f}({0}))", cost=8, vector="(HYV_B(1.0f) / HYV_SQRT({0}))")
_row("cbrt", 1, "cbrt", "hy_cbrt{f}({0})", lambda g, y, a: (g / (3 * y * y),), "float", cuda=_cu("cbrt"), cost=30,
     vector=EACH, zero=True, monotone=True)
_row("rcbrt", 1, lambda xp, a: 1 / xp.cbrt(a), "(1 / hy_cbrt{f}({0}))", lambda g, y, a: (-g * y / (3 * a),),
     "float", cuda="(1 / cbrt{f}({0}))", cost=30,
     vector="(HYV_B(1.0f) / HYV_EACH(hy_cbrtf, {0}))", wide="(HYV_B(1.0f) / HYV_EACH(hy_cbrt, {0}))")
_row("exp", 1, "exp", "hy_exp{f}({0})", lambda g, y, a: (g * y,), "float", cuda=_cu("exp"), cost=12,
     vector="hyv_exp({0})", monotone=True)
_row("expm1", 1, "expm1", "hy_expm1{f}({0})", lambda g, y, a: (g * (y + 1),), "float", cuda=_cu("expm1"), cost=30,
     vector="hyv_expm1({0})", wide=EACH, zero=True, monotone=True)
_row("log", 1, "log", "hy_log{f}({0})", lambda g, y, a: (g / a,), "float", cuda=_cu("log"), cost=14,
     vector="hyv_log({0})", wide=EACH)
_row("log1p", 1, "log1p", "hy_log1p{f}({0})", lambda g, y, a: (g / (a + 1),), "float", cuda=_cu("log1p"), cost=30,
     vector="hyv_log1p({0})", wide=EACH, zero=True)
_row("log2", 1, "log2", "hy_log2{f}({0})", lambda g, y, a: (g / (a * 0.6931471805599453),), "float", cuda=_cu("log2"),
     cost=30, vector="hyv_log2({0})", wide=EACH)
_row("log10", 1, "log10", "hy_log10{f}({0})", lambda g, y, a: (g / (a * 2.302585092994046),), "float",
     cuda=_cu("log10"), cost=30, vector="hyv_log10({0})", wide=EACH)

# ---- trigonometric and hyperbolic
_row("sin", 1, "sin", _fn("sin"), lambda g, y, a: (g * _m("cos", a),), "float", cuda=_cu("sin"), cost=30,
     vector="hyv_sin({0})", zero=True)
_row("cos", 1, "cos", _fn("cos"), lambda g, y, a: (-g * _m("sin", a),), "float", cuda=_cu("cos"), cost=30,
     vector="hyv_cos({0})")
_row("tan", 1, "tan", _fn("tan"), lambda g, y, a: (g * (y * y + 1),), "float", cuda=_cu("tan"), cost=40,
     vector="hyv_tan({0})", zero=True)
_row("arcsin", 1, "arcsin", "hy_asin{f}({0})", lambda g, y, a: (g * _m("rsqrt", 1 - a * a),), "float",
     cuda=_cu("asin"), cost=30, vector=EACH, zero=True)
_row("arccos", 1, "arccos", "hy_acos{f}({0})", lambda g, y, a: (-g * _m("rsqrt", 1 - a * a),), "float",
     cuda=_cu("acos"), cost=30, vector=EACH)
_row("arctan", 1, "arctan", "hy_atan{f}({0})", lambda g, y, a: (g / (a * a + 1),), "float", cuda=_cu("atan"), cost=30,
     vector=EACH, zero=True, monotone=True)
_row("arctan2", 2, "arctan2", "__builtin_atan2{f}({0}, {1})", rule="float", cuda="atan2{f}({0}, {1})", cost=40,
     vjp=lambda g, y, a, b: (g * b / (a * a + b * b), -g * a / (a * a + b * b)))
_row("hypot", 2, "hypot", "__builtin_hypot{f}({0}, {1})", lambda g, y, a, b: (g * a / y, g * b / y), "float",
     cuda="hypot{f}({0}, {1})", cost=20)
_row("sinh", 1, "sinh", "hy_sinh{f}({0})", lambda g, y, a: (g * _m("cosh", a),), "float", cuda=_cu("sinh"), cost=30,
     vector=EACH, zero=True, monotone=True)
_row("cosh", 1, "cosh", "hy_cosh{f}({0})", lambda g, y, a: (g * _m("sinh", a),), "float", cuda=_cu("cosh"), cost=30,
     vector=EACH)
_row("tanh", 1, "tanh", "hy_tanh{f}({0})", lambda g, y, a: (g * (1 - y * y),), "float", cuda=_cu("tanh"), cost=20,
     vector="hyv_tanh({0})", wide=EACH, zero=True, monotone=True)
_row("arcsinh", 1, "arcsinh", "hy_asinh{f}({0})", lambda g, y, a: (g * _m("rsqrt", a * a + 1),), "float",
     cuda=_cu("asinh"), cost=30, vector=EACH, zero=True, monotone=True)
_row("arccosh", 1, "arccosh", "hy_acosh{f}({0})", lambda g, y, a: (g * _m("rsqrt", a * a - 1),), "float",
     cuda=_cu("acosh"), cost=30, vector=EACH)
_row("arctanh", 1, "arctanh", "hy_atanh{f}({0})", lambda g, y, a: (g / (1 - a * a),), "float", cuda=_cu("atanh"),
     cost=30, vector=EACH, zero=True)
_row("sigmoid", 1, lambda xp, a: 1 / (1 + xp.exp(-a)), "hy_sigmoid{f}({0})", lambda g, y, a: (g * y * (1 - y),),
     "float", cuda="(1 / (1 + exp{f}(-{0})))", cost=16, vector="hyv_sigmoid({0})", wide=EACH, monotone=True)
_row("softplus", 1, special.softplus, "hy_softplus{f}({0})",
     lambda g, y, a: (g * _m("sigmoid", a),), "float", cuda="(hy_max({0}, 0) + log1p{f}(exp{f}(-fabs{f}({0}))))",
     cost=40, vector="hyv_softplus({0})", wide=EACH, monotone=True)

# ---- special functions
_row("erf", 1, special.erf, "hy_erf{f}({0})", lambda g, y, a: (g * 1.1283791670955126 * _m("exp", -(a * a)),), "float",
     cuda=_cu("erf"), cost=25, vector="hyv_erf({0})", wide=EACH, zero=True, monotone=True)
_row("erfinv", 1, special.erfinv, "hy_erfinv{f}({0})",
     lambda g, y, a: (g * 0.886226925452758 * _m("exp", y * y),), "float", cuda=_cu("erfinv"), cost=60, vector=EACH,
     zero=True)
_row("gamma", 1, special.gamma, _fn("tgamma"), lambda g, y, a: (g * y * _m("digamma", a),), "float",
     cuda=_cu("tgamma"), cost=60)
_row("gammaln", 1, special.gammaln, _fn("lgamma"), lambda g, y, a: (g * _m("digamma", a),), "float",
     cuda=_cu("lgamma"), cost=60)
_row("digamma", 1, special.digamma, "hy_digamma{f}({0})", lambda g, y, a: (g * _m("trigamma", a),), "float", cost=60)
_row("trigamma", 1, special.trigamma, "hy_trigamma{f}({0})", None, "float", cost=60)

# ---- rounding
for _name, _np, _cn in (("floor", "floor", "floor"), ("ceil", "ceil", "ceil"), ("trunc", "trunc", "trunc"),
                        ("rint", "rint", "rint")):
    _row(_name, 1, special.keep_int(_np), _fn(_cn), lambda g, y, a: (None,), c_int="({0})", cuda=_cu(_cn), cost=2,
         vector=f"HYV_{_name.upper()}({{0}})", exact=True, zero=True, monotone=True, ufunc=_np)
_row("fix", 1, special.keep_int("trunc"), _fn("trunc"), lambda g, y, a: (None,), c_int="({0})", cuda=_cu("trunc"),
     cost=2, vector="HYV_TRUNC({0})", exact=True, zero=True, monotone=True, ufunc="trunc")
_row("round", 1, special.round_half_away, _fn("round"), lambda g, y, a: (None,), c_int="({0})", cuda=_cu("round"),
     cost=4, exact=True, zero=True, monotone=True)

_NEAR = "near_"                     # begins the names of functions that round float32 to a half type


def rounding_to(half: str) -> str:
    """Name of the function that rounds float32 to the nearest number of a half type."""
    return _NEAR + half


def half_rounded_to(fn: str) -> str:
    """Name of the half type to which a function rounds float32; "" for other functions."""
    return fn.removeprefix(_NEAR) if fn.startswith(_NEAR) else ""


for _name, _cn in (("float16", "half"), ("bfloat16", "bf16")):
    _row(rounding_to(_name), 1, special.nearest(_name), f"hy_load_{_cn}(hy_store_{_cn}({{0}}))", lambda g, y, a: (g,),
         cost=10, vector=f"HYV_NEAR_{_cn.upper()}({{0}})", wide="", zero=True, monotone=True)

# ---- comparison, logic, selection
for _name, _np, _c in (("eq", "equal", "=="), ("ne", "not_equal", "!="), ("lt", "less", "<"),
                       ("le", "less_equal", "<="),
                       ("gt", "greater", ">"), ("ge", "greater_equal", ">=")):
    _row(_name, 2, _np, f"({{0}} {_c} {{1}})", lambda g, y, a, b: (None, None), "bool", exact=True,
         vector=f"HYV_{_name.upper()}({{0}}, {{1}})")
_row("logical_and", 2, "logical_and", "(({0} != 0) & ({1} != 0))", lambda g, y, a, b: (None, None), "bool",
     exact=True, vector="(hy_m)({0} & {1})", of_masks=True)
_row("logical_or", 2, "logical_or", "(({0} != 0) | ({1} != 0))", lambda g, y, a, b: (None, None), "bool",
     exact=True, vector="(hy_m)({0} | {1})", of_masks=True)
_row("logical_xor", 2, special.logical_xor, "(({0} != 0) ^ ({1} != 0))", lambda g, y, a, b: (None, None), "bool",
     exact=True, vector="(hy_m)({0} ^ {1})", of_masks=True)
_row("logical_not", 1, "logical_not", "({0} == 0)", lambda g, y, a: (None,), "bool", exact=True,
     vector="HYV_NOT({0})", of_masks=True)
_row("where", 3, special.where, "({0} ? {1} : {2})", rule="select",
     vjp=lambda g, y, c, a, b: (None, _m("where", c, g, 0), _m("where", c, 0, g)),
     vector="HYV_SELECT({0}, {1}, {2})", exact=True)
_row("isnan", 1, special.float_only("isnan"), "({0} != {0})", lambda g, y, a: (None,), "bool")
_row("isinf", 1, special.float_only("isinf"), "(__builtin_fabs{f}({0}) == __builtin_inf{f}())",
     lambda g, y, a: (None,), "bool",
     c_int="(({0}) != ({0}))", cuda="(fabs{f}({0}) == HY_INF)")
_row("isfinite", 1, special.float_only("isfinite"), "(__builtin_fabs{f}({0}) < __builtin_inf{f}())",
     lambda g, y, a: (None,),
     "bool", c_int="(({0}) == ({0}))", cuda="(fabs{f}({0}) < HY_INF)")
_row("copysign", 2, "copysign", "__builtin_copysign{f}({0}, {1})", rule="float", cuda="copysign{f}({0}, {1})",
     vjp=lambda g, y, a, b: (g * _m("sign", a) * _m("copysign", g * 0 + 1, b), None), exact=True)

# ---- bits
for _name, _np, _c in (("bit_and", "bitwise_and", "&"), ("bit_or", "bitwise_or", "|"), ("bit_xor", "bitwise_xor", "^")):
    _row(_name, 2, _np, f"({{0}} {_c} {{1}})", lambda g, y, a, b: (None, None), "int")
# C leaves shifts by the width or more open; NumPy gives 0 (the sign for a right shift)
_row("shl", 2, "left_shift", "(({1} >= 0) & ({1} < 8 * (int)sizeof({T})) ? {0} << {1} : 0)",
     lambda g, y, a, b: (None, None), "int")
_row("shr", 2, "right_shift", "(({1} >= 0) & ({1} < 8 * (int)sizeof({T})) ? {0} >> {1} : {0} < 0 ? -1 : 0)",
     lambda g, y, a, b: (None, None), "int")
_row("bit_not", 1, "bitwise_not", "(~{0})", lambda g, y, a: (None,), "int")

OWN = len(SCALARS)                # rows of this table; those behind them were registered by others
