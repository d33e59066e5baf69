"""Operators that NumPy programs of MXNet leave in files and that have no function of their own here; further names of
others."""
from __future__ import annotations

from ..base import dtype as dt
from .. import ir
from ..ir import Node
from .attributes import Attrs
from .elementwise import tested
from .registry import OPS, Bool, Float, Number, also, op


def _number_beside(value: float, other: Node) -> Node:
    return ir.full(value, (), other.dtype if dt.is_float(other.dtype) or float(value).is_integer() else dt.float32)


def _chosen(condition: Node, x: Node, y: Node) -> Node:
    return ir.map("where", tested(condition), x, y)


@op("_npi_where_lscalar", "condition x", scalar=Float(0.0))
def where_number_or_array(condition: Node, x: Node, a: Attrs) -> Node:
    """The number where the condition holds, else x."""
    return _chosen(condition, _number_beside(a.scalar, x), x)


@op("_npi_where_rscalar", "condition y", scalar=Float(0.0))
def where_array_or_number(condition: Node, y: Node, a: Attrs) -> Node:
    """y where the condition holds, else the number."""
    return _chosen(condition, y, _number_beside(a.scalar, y))


@op("_npi_where_scalar2", "condition", x=Float(0.0), y=Float(0.0))
def where_numbers(condition: Node, a: Attrs) -> Node:
    """One of two numbers, float32."""
    return _chosen(condition, ir.full(a.x, (), dt.float32), ir.full(a.y, (), dt.float32))


STEPS = 3                              # normal, finite powers of two by whose product any float becomes any other


def _times_power_of_two(x: Node, power: Node) -> Node:
    """x times 2 to the power, also where that alone is infinite or 0."""
    dtype = dt.promote(x.dtype, power.dtype)
    if not dt.is_float(dtype):
        return x * ir.map("pow", ir.full(2.0, (), dtype), power)
    found, rest, parts = ir.cast(x, dtype), ir.cast(power, dtype), []
    low, high = (ir.full(float(end), (), dtype) for end in dt.powers_of_two(dtype))
    for _ in range(STEPS):
        parts.append(ir.map("minimum", ir.map("maximum", rest, low), high))
        rest = rest - parts[-1]
    for part in reversed(parts):                              # so only the last product is rounded, if it is not 0
        found = found * ir.map("pow", ir.full(2.0, (), dtype), part)
    return found


def _times_number(x: Node, power: float) -> Node:
    """x times 2 to the power of a number, as ``_times_power_of_two``."""
    low, high = dt.powers_of_two(x.dtype)
    parts: list[float] = []
    for _ in range(STEPS):
        parts.append(min(max(power, low), high))
        power -= parts[-1]
    for part in reversed(parts):
        x = x * 2.0 ** part if part else x
    return x


@op("_npi_ldexp", "lhs rhs")
def ldexp(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """lhs times 2 to the power rhs, broadcast."""
    return _times_power_of_two(lhs, rhs)


@op("_npi_ldexp_scalar", "data", scalar=Number(1.0), is_int=Bool(True))
def ldexp_by_number(data: Node, a: Attrs) -> Node:
    """data times 2 to the power of a number, in the dtype of data."""
    return ir.cast(_times_number(data if dt.is_float(data.dtype) else ir.cast(data, dt.float64), a.scalar), data.dtype)


@op("_npi_rldexp_scalar", "data", scalar=Number(1.0), is_int=Bool(True))
def ldexp_of_number(data: Node, a: Attrs) -> Node:
    """A number times 2 to the power of data, in the dtype of data."""
    power = data if dt.is_float(data.dtype) else ir.cast(data, dt.float64)
    return ir.cast(_times_power_of_two(ir.full(a.scalar, (), power.dtype), power), data.dtype)


for _known, _names in {"_split_v2": ("_npi_split",), "slice": ("_npi_slice",), "_np_max": ("_np_amax",),
                       "_np_min": ("_np_amin",), "_np_prod": ("_np_product",),
                       "_np_any": ("_np_sometrue",), "_copy": ("_copyto", "_npi_copyto"),
                       **{name: (f"_npx_{name}",) for name in OPS if name.startswith("_image_")}}.items():
    also(_known, *_names)
