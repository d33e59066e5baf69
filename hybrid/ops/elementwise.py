"""Elementwise operators. A family is one table: MXNet's name, the scalar function, further names."""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import AttributeValueError, ShapeError
from ..ir import Node
from ..ir.size import fixed
from .attributes import Attrs
from .registry import Bool, Float, Number, op

# name: (scalar function, other nd names, np names)
UNARY: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "abs": ("abs", (), ("abs", "absolute", "fabs")), "sign": ("direction", (), ()), "ceil": ("ceil", (), ("ceil",)),
    "floor": ("floor", (), ("floor",)), "trunc": ("trunc", (), ("trunc",)), "fix": ("fix", (), ("fix",)),
    "round": ("round", (), ()), "square": ("square", (), ("square",)), "sqrt": ("sqrt", (), ("sqrt",)),
    "rsqrt": ("rsqrt", (), ()), "cbrt": ("cbrt", (), ("cbrt",)), "rcbrt": ("rcbrt", (), ()),
    "exp": ("exp", (), ("exp",)), "expm1": ("expm1", (), ("expm1",)), "log": ("log", (), ("log",)),
    "log1p": ("log1p", (), ("log1p",)), "log2": ("log2", (), ("log2",)), "log10": ("log10", (), ("log10",)),
    "sin": ("sin", (), ("sin",)), "cos": ("cos", (), ("cos",)), "tan": ("tan", (), ("tan",)),
    "arcsin": ("arcsin", (), ("arcsin",)), "arccos": ("arccos", (), ("arccos",)), "arctan": ("arctan", (), ("arctan",)),
    "sinh": ("sinh", (), ("sinh",)), "cosh": ("cosh", (), ("cosh",)), "tanh": ("tanh", (), ("tanh",)),
    "arcsinh": ("arcsinh", (), ("arcsinh",)), "arccosh": ("arccosh", (), ("arccosh",)),
    "arctanh": ("arctanh", (), ("arctanh",)), "erf": ("erf", (), ()), "erfinv": ("erfinv", (), ()),
    "gamma": ("gamma", (), ()), "gammaln": ("gammaln", (), ()), "reciprocal": ("reciprocal", (), ("reciprocal",)),
    "negative": ("neg", (), ("negative",)), "sigmoid": ("sigmoid", (), ()), "relu": ("relu", (), ()),
}
NPX = {"sigmoid", "relu", "erf", "erfinv", "gamma", "gammaln"}


def _unary(name: str, fn: str, mx: tuple[str, ...], np_names: tuple[str, ...]) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        return ir.map(fn, data)
    lower.__doc__ = (f"Elementwise {name}. Shape as the input; integers become float32 where the result is not an "
                     f"integer.")
    op(name, "data", mx=mx, np=np_names, npx=(name,) if name in NPX else (), 
       json=(*(f"_npi_{n}" for n in np_names), *((f"_npx_{name}",) if name in NPX else ())))(lower)


for _name, (_fn, _mx, _np) in UNARY.items():
    _unary(_name, _fn, _mx, _np)


@op("_npi_sign", "data", np=("sign",))
def np_sign(data: Node, a: Attrs) -> Node:
    """The sign: -1, 0 or 1; NaN of NaN, as in NumPy, where MXNet gives 0."""
    return ir.map("sign", data)


def _as_input(out: Node, *inputs: Node) -> Node:
    """Comparisons give 0 and 1 in the inputs' dtype, as MXNet's."""
    return ir.cast(out, dt.promote(*(x.dtype for x in inputs)))


# broadcast_NAME: (scalar function, elementwise JSON names, nd names, scalar JSON stem, reversed stem)
BINARY: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str, str]] = {
    "add": ("add", ("elemwise_add", "_plus", "_add", "_Plus", "_grad_add"), ("broadcast_plus",), "_plus_scalar", ""),
    "sub": ("sub", ("elemwise_sub", "_minus", "_sub", "_Minus"), ("broadcast_minus",), "_minus_scalar",
            "_rminus_scalar"),
    "mul": ("mul", ("elemwise_mul", "_mul", "_Mul"), (), "_mul_scalar", ""),
    "div": ("div", ("elemwise_div", "_div", "_Div"), (), "_div_scalar", "_rdiv_scalar"),
    "mod": ("mod", ("_mod", "_Mod"), (), "_mod_scalar", "_rmod_scalar"),
    "power": ("pow", ("_power", "_Power", "_pow"), (), "_power_scalar", "_rpower_scalar"),
    "maximum": ("maximum", ("_maximum", "_Maximum"), (), "_maximum_scalar", ""),
    "minimum": ("minimum", ("_minimum", "_Minimum"), (), "_minimum_scalar", ""),
    "hypot": ("hypot", ("_hypot",), (), "_hypot_scalar", ""),
    "equal": ("eq", ("_equal",), (), "_equal_scalar", ""),
    "not_equal": ("ne", ("_not_equal",), (), "_not_equal_scalar", ""),
    "greater": ("gt", ("_greater",), (), "_greater_scalar", ""),
    "greater_equal": ("ge", ("_greater_equal",), (), "_greater_equal_scalar", ""),
    "lesser": ("lt", ("_lesser",), (), "_lesser_scalar", ""),
    "lesser_equal": ("le", ("_lesser_equal",), (), "_lesser_equal_scalar", ""),
    "logical_and": ("logical_and", ("_logical_and",), (), "_logical_and_scalar", ""),
    "logical_or": ("logical_or", ("_logical_or",), (), "_logical_or_scalar", ""),
    "logical_xor": ("logical_xor", ("_logical_xor",), (), "_logical_xor_scalar", ""),
}
COMPARISONS = {"eq", "ne", "gt", "ge", "lt", "le", "logical_and", "logical_or", "logical_xor"}


def one_shape(shapes: list, a: Attrs) -> list:
    """Unknown inputs have the shape of the known ones: what MXNet's elementwise operators ask for."""
    sure = [s for s in shapes if s is not None]
    best = max(sure, key=lambda s: sum(d > 0 for d in s), default=None)
    if best is None:
        return shapes
    fits = [s is None or len(s) == len(best) for s in shapes]
    return [tuple(b if d <= 0 else d for d, b in zip(s or (0,) * len(best), best)) if f else s
            for s, f in zip(shapes, fits)]


setattr(one_shape, "from_any", True)                 # any input tells the others' shape


def _quotient(a: Node, b: Node) -> Node:
    """Integer by integer is an integer, rounded towards zero, as in MXNet and C: networks compute rows and columns of
    an index so."""
    return ir.map("quotient", a, b)


def _modulo(a: Node, b: Node) -> Node:
    """The remainder with the sign of the divisor; of a division by zero 0, as in MXNet, where NumPy gives NaN."""
    out = ir.map("mod", a, b)
    return ir.map("where", ir.map("eq", b, 0), 0, out) if dt.is_float(out.dtype) else out


def _binary(name: str, fn: str, elementwise: tuple[str, ...], mx: tuple[str, ...]) -> None:
    def lower(lhs: Node, rhs: Node, a: Attrs) -> Node:
        if fn == "div" and lhs.dtype.kind in "iu" and rhs.dtype.kind in "iu":
            return _quotient(lhs, rhs)
        out = _modulo(lhs, rhs) if fn == "mod" else ir.map(fn, lhs, rhs)
        return _as_input(out, lhs, rhs) if fn in COMPARISONS else out
    lower.__doc__ = f"Elementwise {name} of two arrays, broadcast."
    op(f"broadcast_{name}", "lhs rhs", mx=mx, json=mx)(lower)
    first, *rest = elementwise
    camel = {f"_{name.title()}", *rest} - {first}                 # files of early MXNet: _Greater_Equal
    op(first, "lhs rhs", json=tuple(sorted(camel)), params=one_shape)(lower)


def _of_integers(fn: str, data: Node, number: float, swap: bool) -> Node:
    """An integer array and a number: MXNet makes the number one of the array's dtype, without its fraction, and so are
    the results."""
    value = ir.const(int(number) if fixed(number) else number, data.dtype)
    lhs, rhs = (value, data) if swap else (data, value)
    return _quotient(lhs, rhs) if fn == "div" else ir.cast(ir.map(fn, lhs, rhs), data.dtype)


def _with_number(fn: str, data: Node, number: float) -> Node:
    """Applies a function to an array and a number: ``logical_xor`` is a comparison with 0, or a negation."""
    if fn != "logical_xor":
        return ir.map(fn, data, number)
    if number and data.dtype == dt.bool_:
        return ir.map("logical_not", data)
    return ir.map("eq" if number else "ne", data, ir.const(0, data.dtype))


def _scalar(name: str, fn: str, swap: bool) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        value = a.scalar
        if isinstance(value, float) and value.is_integer() and not dt.is_float(data.dtype):
            value = int(value)                      # files write 2.0 for 2; an integer array stays one
        if data.dtype.kind in "iu" and fn not in COMPARISONS and (not fixed(value) or math.isfinite(value)):
            return _of_integers(fn, data, value, swap)
        if fn == "mod" and (swap or not value):
            number = ir.full(value, (), data.dtype)
            return _modulo(number, data) if swap else _modulo(data, number)
        out = ir.map(fn, value, data) if swap else _with_number(fn, data, value)
        return _as_input(out, data) if fn in COMPARISONS else out
    lower.__doc__ = f"Elementwise {name} of an array and a number."
    old = f"_r_{name[2:]}" if swap else name                       # files of early MXNet: _PlusScalar, _RMinusScalar
    op(name, "data", json=("_" + "".join(w[:1].upper() + w[1:] for w in old.split("_")),), scalar=Number(),
       is_int=Bool(True))(lower)


for _name, (_fn, _elementwise, _mx, _stem, _rstem) in BINARY.items():
    _binary(_name, _fn, _elementwise, _mx)
    _scalar(_stem, _fn, False)
    if _rstem:
        _scalar(_rstem, _fn, True)


# NumPy's two-argument functions: comparisons give bool
NP_BINARY = {"add": "add", "subtract": "sub", "multiply": "mul", "true_divide": "div", "divide": "div", "mod": "mod",
             "remainder": "mod",
             "power": "pow", "maximum": "maximum", "minimum": "minimum", "floor_divide": "floordiv", "fmod": "fmod",
             "hypot": "hypot",
             "arctan2": "arctan2", "copysign": "copysign", "equal": "eq", "not_equal": "ne", "greater": "gt",
             "greater_equal": "ge",
             "less": "lt", "less_equal": "le", "logical_and": "logical_and", "logical_or": "logical_or",
             "logical_xor": "logical_xor",
             "bitwise_and": "bit_and", "bitwise_or": "bit_or", "bitwise_xor": "bit_xor", "left_shift": "shl",
             "right_shift": "shr"}


OF_BOOLS = {"add": "logical_or", "mul": "logical_and"}                # NumPy's sums and products of truth values


# Under another name the same operator; a number on the left is the mirrored operator, so that files hold MXNet's names
NP_SAME = {"divide": "true_divide", "remainder": "mod"}
MIRROR = {"greater": "less", "less": "greater", "greater_equal": "less_equal", "less_equal": "greater_equal",
          **{n: n for n in ("add", "multiply", "maximum", "minimum", "hypot", "equal", "not_equal", "logical_and",
                            "logical_or", "logical_xor",
                            "bitwise_and", "bitwise_or", "bitwise_xor")}}


def _np_binary(name: str, fn: str) -> None:
    def lower(x1: Node, x2: Node, a: Attrs) -> Node:
        both = x1.dtype == x2.dtype == dt.bool_
        if both and fn == "pow":                            # 0 to the power 1 alone is 0
            return ir.cast(ir.map("logical_or", x1, ir.map("logical_not", x2)), dt.int64)
        if both and fn in ("shl", "shr"):                   # x1 << x2 is x1 + (x1 and x2), x1 >> x2 is x1 and not x2
            moved = ir.map("logical_and", x1, x2 if fn == "shl" else ir.map("logical_not", x2))
            return ir.map("add", x1, moved) if fn == "shl" else ir.cast(moved, dt.int64)
        return ir.map(OF_BOOLS.get(fn, fn) if both else fn, x1, x2)

    def lower_scalar(data: Node, a: Attrs) -> Node:
        return _with_number(fn, data, a.scalar)

    def lower_reversed(data: Node, a: Attrs) -> Node:
        return ir.map(fn, a.scalar, data)
    lower.__doc__ = lower_scalar.__doc__ = lower_reversed.__doc__ = f"NumPy's {name}."
    names = (name, *(k for k, v in NP_SAME.items() if v == name))
    mirrored = [f"_npi_r{k}_scalar" for k, v in MIRROR.items() if v == name]
    op(f"_npi_{name}", "x1 x2", np=names, json=tuple(f"_npi_{n}" for n in names[1:]))(lower)
    op(f"_npi_{name}_scalar", "data", json=(*(f"_npi_{n}_scalar" for n in names[1:]), *mirrored), scalar=Number(),
       is_int=Bool(True))(lower_scalar)
    if name not in MIRROR:
        op(f"_npi_r{name}_scalar", "data", json=tuple(f"_npi_r{n}_scalar" for n in names[1:]), scalar=Number(),
           is_int=Bool(True))(lower_reversed)


for _name, _fn in NP_BINARY.items():
    if _name not in NP_SAME:
        _np_binary(_name, _fn)


CLASSES = {"isnan": False, "isinf": False, "isfinite": True}          # and what integers are


def _np_test(name: str, fn: str) -> None:
    def lower(data: Node, a: Attrs) -> Node:
        if fn in CLASSES and not dt.is_float(data.dtype):
            return ir.full(CLASSES[fn], data.shape, dt.bool_)
        return ir.map(fn, data)
    lower.__doc__ = f"NumPy's {name}: bool."
    op(f"_npi_{name}", "data", np=(name,))(lower)


for _name in ("isnan", "isinf", "isfinite", "logical_not"):
    _np_test(_name, _name)
for _name in ("isnan", "isinf", "isfinite"):
    op(f"_contrib_{_name}", "data", mx=(f"contrib.{_name}",), doc=f"Elementwise {_name}: 1 or 0, in the dtype of x.")(
        (lambda fn: lambda data, a: ir.cast(ir.map(fn, data), data.dtype))(_name))
op("_npi_bitwise_not", "data", np=("bitwise_not", "invert"),
   doc="Each bit of integers inverted; of truth values the opposite ones.")(
    lambda data, a: ir.map("logical_not" if data.dtype == dt.bool_ else "bit_not", data))


op("degrees", "data", np=("degrees", "rad2deg"), json=("_npi_degrees",), doc="Radians in degrees: x * 180 / pi.")(
    lambda data, a: ir.map("mul", data, 57.29577951308232))
op("radians", "data", np=("radians", "deg2rad"), json=("_npi_radians",), doc="Degrees in radians: x * pi / 180.")(
    lambda data, a: ir.map("mul", data, 0.017453292519943295))


for _name, _inf in (("isposinf", float("inf")), ("isneginf", float("-inf"))):
    op(f"_npi_{_name}", "data", np=(_name,), doc=f"Whether an element is {_inf}: bool.")(
        (lambda value: lambda data, a: ir.map("eq", data, value))(_inf))


def _numbers_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    x = arrays[0]
    if xp is not np or not x.ndim or x.dtype not in (dt.float16, dt.float32, dt.float64):
        return None
    return [np.nan_to_num(x, nan=a.nan, posinf=a.posinf, neginf=a.neginf)]


@op("_npi_nan_to_num", "data", eager=_numbers_eager, same_bits="", np=("nan_to_num",), copy=Bool(True), nan=Float(0.0),
    posinf=Float(None), neginf=Float(None))
def nan_to_num(data: Node, a: Attrs) -> Node:
    """nan and infinities replaced by numbers (infinities by default by the largest of the dtype)."""
    if not dt.is_float(data.dtype):
        return data
    limit = float(np.finfo(data.dtype if data.dtype.kind == "f" else dt.float32).max)
    out = ir.map("where", ir.map("isnan", data), a.nan, data)
    out = ir.map("where", ir.map("eq", data, float("inf")), limit if a.posinf is None else a.posinf, out)
    return ir.map("where", ir.map("eq", data, float("-inf")), -limit if a.neginf is None else a.neginf, out)


@op("logical_not", "data")
def logical_not(data: Node, a: Attrs) -> Node:
    """1 where the input is 0, else 0, in the input's dtype."""
    return _as_input(ir.map("logical_not", data), data)


@functools.cache
def _clip_keeps_signs() -> bool:
    """Whether NumPy's clip leaves -0.0 as it is where 0 is a limit: versions around 1.23 do not."""
    return bool(np.signbit(np.clip(np.array([-0.0], "float32"), 0, 1))[0])


def _clip_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    x, low, high = arrays[0], a.a_min, a.a_max
    whole = x.dtype.kind in "iu" and all(v is None or float(v).is_integer() and np.iinfo(x.dtype).min <= v <=
                                         np.iinfo(x.dtype).max for v in (low, high))
    if whole:
        low, high = (None if v is None else int(v) for v in (low, high))
    if not whole and x.dtype not in (dt.float32, dt.float64) or low is high is None:
        return None
    if low is not None and high is not None and not low <= high:
        return None                                           # NumPy gives a_max for all; the program, as MXNet
    if not whole and 0 in (low, high) and not _clip_keeps_signs():
        return None
    return [xp.clip(x, low, high)]


@op("clip", "data", eager=_clip_eager, same_bits="", np=("clip",), json=("_npi_clip",), a_min=Number(None),
    a_max=Number(None))
def clip(data: Node, a: Attrs) -> Node:
    """Values limited to [a_min, a_max]; the gradient is 1 at and between the limits."""
    if a.a_min is None and a.a_max is None:
        raise AttributeValueError("clip needs a limit: a_min, a_max or both")
    out = data
    low, high = (None,
                 None) if dt.is_float(data.dtype) or data.dtype == dt.bool_ else (np.iinfo(data.dtype).min,
            np.iinfo(data.dtype).max)
    # a limit that no integer of the dtype reaches is none
    if a.a_min is not None and (low is None or a.a_min > low):
        out = ir.map("where", ir.map("lt", data, a.a_min), ir.cast(ir.const(a.a_min, data.dtype), data.dtype), out)
    if a.a_max is not None and (high is None or a.a_max < high):
        out = ir.map("where", ir.map("gt", data, a.a_max), ir.cast(ir.const(a.a_max, data.dtype), data.dtype), out)
    return out


def _where_eager(xp: Any, arrays: Any, a: Attrs) -> None:
    condition, x, y = (v.shape for v in arrays)
    whole = ir.broadcast_shapes(x, y)
    # exported cells begin with states of one row where the batch size was not known
    states = len(x) == len(y) > 1 and 1 in (x[0], y[0]) and x[1:] == y[1:]
    if x != y and x and y and not states:
        raise ShapeError(f"where: x and y must have one shape, got {x} and {y}; np.where broadcasts")
    if condition not in (whole, whole[:1]):
        raise ShapeError(f"where: the condition must have the shape of x and y or (length of their first axis,), got "
                         f"condition {condition}, x {x}, y {y}; np.where broadcasts")


def tested(condition: Node) -> Node:
    """Where a condition is not 0. One that is broadcast is tested before, at fewer elements."""
    if condition.dtype == dt.bool_:
        return condition
    if condition.prim == "expand":
        return ir.expand(tested(condition.args[0]), condition.shape)
    return ir.map("ne", condition, 0)


@op("where", "condition x y", eager=_where_eager, same_bits="")
def where(condition: Node, x: Node, y: Node, a: Attrs) -> Node:
    """x where the condition is not 0, else y. A condition of one axis chooses rows.

    In graphs lengths of 1 broadcast: the first states of MXNet's recurrent cells are zeros whose batch is not known.
    """
    if condition.ndim == 1 and x.ndim > 1:
        if condition.shape != x.shape[:1]:
            raise ShapeError(f"where: a condition of one axis chooses rows, so it must have the length of x's first "
                             f"axis, got {condition.shape} for {x.shape}")
        condition = ir.reshape(condition, condition.shape + (1,) * (x.ndim - 1))
    return ir.map("where", tested(condition), x, y)


@op("_npi_where", "condition x y", np=("where",))
def np_where(condition: Node, x: Node, y: Node, a: Attrs) -> Node:
    """NumPy's where, broadcast."""
    return ir.map("where", tested(condition), x, y)


@op("_contrib_div_sqrt_dim", "data", mx=("contrib.div_sqrt_dim",))
def div_sqrt_dim(data: Node, a: Attrs) -> Node:
    """data divided by the square root of its last axis' length."""
    return data / max(data.shape[-1], 1) ** 0.5


@op("_contrib_quadratic", "data", mx=("contrib.quadratic",), a=Float(0.0), b=Float(0.0), c=Float(0.0))
def quadratic(data: Node, a: Attrs) -> Node:
    """a x^2 + b x + c."""
    return data * data * a.a + data * a.b + a.c


@op("add_n", "*args", mx=("ElementWiseSum",), json=("ElementWiseSum", "_sum"), arity_attr="num_args", params=one_shape,
    num_args=Number(None))
def add_n(args: list[Node], a: Attrs) -> Node:
    """Sum of arrays of one shape."""
    if len({x.shape for x in args}) > 1:
        raise ShapeError(f"add_n takes arrays of one shape, got {', '.join(str(x.shape) for x in args)}; + broadcasts")
    out = args[0]
    for x in args[1:]:
        out = out + x
    return out


@op("smooth_l1", "data", npx=("smooth_l1",), json=("_npx_smooth_l1",), scalar=Float(1.0))
def smooth_l1(data: Node, a: Attrs) -> Node:
    """0.5 (s x)^2 where |x| < 1/s^2, else |x| - 0.5/s^2 (Girshick, Fast R-CNN, 2015)."""
    s2 = a.scalar * a.scalar
    size = ir.map("abs", data)
    far = ir.map("gt", size, 1.0 / s2)
    near = ir.map("where", far, 0, data)                     # an infinity has no part in it, nor in its gradient
    return ir.map("where", far, size - 0.5 / s2, near * near * (0.5 * s2))
