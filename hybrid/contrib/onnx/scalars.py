"""Scalar functions in ONNX: the one table of elementwise operators, which export and import read.

A row of ``NODES`` is a function of ``ir/scalar.py``, the ONNX node that is the same, and the operator that import makes
of such a node. A row of ``MADE_OF`` says a function that ONNX does not have by others.
"""
from __future__ import annotations

import math
from typing import Callable

from ...base import dtype as dt
from ... import ir
from ...ir import Node

# function, ONNX node, operator; for two arguments also the operators with a number as the second, and as the first
_ROWS = """
    add Add broadcast_add _plus_scalar _plus_scalar, sub Sub broadcast_sub _minus_scalar _rminus_scalar, mul Mul broadcast_mul _mul_scalar _mul_scalar
    div Div broadcast_div _div_scalar _rdiv_scalar, pow Pow broadcast_power _power_scalar _rpower_scalar
    maximum Max broadcast_maximum _maximum_scalar _maximum_scalar, minimum Min broadcast_minimum _minimum_scalar _minimum_scalar
    neg Neg negative, abs Abs abs, sign Sign sign, reciprocal Reciprocal reciprocal, relu Relu relu, sqrt Sqrt sqrt, exp Exp exp, log Log log
    sin Sin sin, cos Cos cos, tan Tan tan, arcsin Asin arcsin, arccos Acos arccos, arctan Atan arctan
    sinh Sinh sinh, cosh Cosh cosh, tanh Tanh tanh, arcsinh Asinh arcsinh, arccosh Acosh arccosh, arctanh Atanh arctanh
    sigmoid Sigmoid sigmoid, softplus Softplus softrelu, erf Erf erf, floor Floor floor, ceil Ceil ceil, rint Round _npi_rint
    eq Equal _npi_equal _npi_equal_scalar _npi_equal_scalar, lt Less _npi_less _npi_less_scalar _npi_greater_scalar
    le LessOrEqual _npi_less_equal _npi_less_equal_scalar _npi_greater_equal_scalar, gt Greater _npi_greater _npi_greater_scalar _npi_less_scalar
    ge GreaterOrEqual _npi_greater_equal _npi_greater_equal_scalar _npi_less_equal_scalar
    logical_and And _npi_logical_and, logical_or Or _npi_logical_or, logical_xor Xor _npi_logical_xor, logical_not Not _npi_logical_not
    where Where _npi_where, isnan IsNaN _npi_isnan, isinf IsInf _npi_isinf
"""  # noqa: E501
NODES: dict[str, tuple[str, ...]] = {row[0]: tuple(row[1:])
                                     for row in (r.split() for line in _ROWS.splitlines() for r in line.split(","))
                                     if row}
READ: dict[str, tuple[str, ...]] = {row[0]: row[1:] for row in NODES.values()}            # operators by ONNX node
LOGIC = ("logical_and", "logical_or", "logical_xor", "logical_not")       # they take bool in ONNX


ROUNDING = ("floor", "ceil", "trunc", "rint", "fix", "round")


def _trunc(x: Node) -> Node:
    return ir.map("where", ir.map("lt", x, 0), ir.map("ceil", x), ir.map("floor", x))


def _round(x: Node) -> Node:
    return ir.map("where", ir.map("lt", x, 0), ir.map("ceil", x - 0.5), ir.map("floor", x + 0.5))


def _floordiv(a: Node, b: Node) -> Node:
    """Rounded down; integers by way of float64, which holds those below 2^53."""
    if dt.is_float(a.dtype):
        return ir.map("floor", a / b)
    return ir.cast(ir.map("floor", ir.cast(a, dt.float64) / ir.cast(b, dt.float64)), a.dtype)


def _mod(a: Node, b: Node) -> Node:
    """The remainder with the sign of b; 0 where b is."""
    none = ir.map("eq", b, 0)
    safe = ir.map("where", none, 1, b)
    return ir.map("where", none, 0, a - safe * ir.map("floordiv", a, safe))


def _fmod(a: Node, b: Node) -> Node:
    """The remainder with the sign of a."""
    if dt.is_float(a.dtype):
        return a - b * ir.map("trunc", a / b)
    size = ir.map("mod", ir.map("abs", a), ir.map("abs", b))
    return ir.map("where", ir.map("lt", a, 0), -size, size)


def _arctan2(y: Node, x: Node) -> Node:
    straight = ir.map("where", ir.map("eq", x, 0), 1, x)
    angle = ir.map("arctan", y / straight)
    left = ir.map("where", ir.map("lt", y, 0), angle - math.pi, angle + math.pi)
    return ir.map("where", ir.map("eq", x, 0), ir.map("sign", y) * (math.pi / 2),
                  ir.map("where", ir.map("lt", x, 0), left, angle))


def _none(x: Node) -> Node:
    return ir.full(False, x.shape, dt.bool_)


def _cbrt(x: Node) -> Node:
    return ir.map("sign", x) * ir.map("pow", ir.map("abs", x), 1 / 3)


MADE_OF: dict[str, Callable[..., Node]] = {
    "ne": lambda a, b: ir.map("logical_not", ir.map("eq", a, b)),
    "square": lambda x: x * x,
    "rsqrt": lambda x: ir.map("reciprocal", ir.map("sqrt", x)),
    "cbrt": _cbrt, "rcbrt": lambda x: ir.map("reciprocal", _cbrt(x)),
    "expm1": lambda x: ir.map("exp", x) - 1, "log1p": lambda x: ir.map("log", x + 1),
    "log2": lambda x: ir.map("log", x) * (1 / math.log(2)), "log10": lambda x: ir.map("log", x) * (1 / math.log(10)),
    "arctan2": _arctan2, "hypot": lambda a, b: ir.map("sqrt", a * a + b * b),
    "trunc": _trunc, "fix": _trunc, "round": _round, "floordiv": _floordiv, "mod": _mod, "fmod": _fmod,
    "quotient": lambda a, b: ir.map("floordiv", a - ir.map("fmod", a, b), b),
    "isfinite": lambda x: ir.map("logical_not", ir.map("logical_or", ir.map("isnan", x), ir.map("isinf", x))),
    "copysign": lambda a, b: ir.map("where", ir.map("lt", b, 0), -ir.map("abs", a), ir.map("abs", a)),
}


def made_of(n: Node) -> Node | None:
    """An equal value of other functions, for a function that ONNX does not have (for this dtype); None where it has
    it."""
    fn, args = n.attrs["fn"], n.args
    if not dt.is_float(args[0].dtype):
        if fn in ROUNDING:
            return args[0]
        if fn in ("isnan", "isinf"):
            return _none(args[0])
    return MADE_OF[fn](*args) if fn in MADE_OF else None
