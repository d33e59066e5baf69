"""Random draws, by counter-based Philox: eager and hybridized calls draw the same numbers."""
from __future__ import annotations

import math
from typing import Any, Callable

from ..base import dtype as dt
from .. import ir
from ..base.errors import AttributeValueError
from ..ir import Node
from .attributes import Attrs
from .nn import uniform01
from .registry import DType, Float, Int, Shape, Str, op


def uniform(key: Node, shape: tuple[int, ...], low: Any, high: Any, d: Any) -> Node:
    """Uniform in [low, high)."""
    u = uniform01(key, shape, 0)
    return ir.cast(u * (high - low) + low, d)


def normal(key: Node, shape: tuple[int, ...], loc: Any, scale: Any, d: Any) -> Node:
    """Normal by the Box-Muller transform of two uniform draws."""
    radius = ir.map("sqrt", ir.map("log", 1.0 - uniform01(key, shape, 0)) * -2.0)
    z = radius * ir.map("cos", uniform01(key, shape, 1) * (2 * math.pi))
    return ir.cast(z * scale + loc, d)


def exponential(key: Node, shape: tuple[int, ...], lam: float, d: Any) -> Node:
    """Exponential with rate lam."""
    return ir.cast(ir.map("log", 1.0 - uniform01(key, shape, 0)) * (-1.0 / lam), d)


def _draw(name: str, fn: Callable[[Attrs, tuple[int, ...], Any], Node], like: bool = True, mx: tuple[str, ...] = (),
          np_names: tuple[str, ...] = (), **attrs: Any) -> None:
    def lower(a: Attrs) -> Node:
        return fn(a, a.shape, dt.as_dtype(a.dtype))
    lower.__doc__ = f"Random numbers: {name}."
    op(f"_random_{name}", "", mx=(f"random_{name}", *mx), np=np_names, needs=("key",), **attrs, shape=Shape((1,)),
       ctx=Str(""), dtype=DType("float32"))(lower)
    if not like:
        return

    def lower_like(data: Node, a: Attrs) -> Node:
        return fn(a, data.shape, data.dtype)
    lower_like.__doc__ = f"Random numbers in the input's shape and dtype: {name}."
    op(f"_random_{name}_like", "data", mx=(f"random.{name}_like", f"random_{name}_like"), needs=("key",),
       **attrs)(lower_like)


_draw("uniform", lambda a, shape, d: uniform(a.key, shape, a.low, a.high, d), low=Float(0.0), high=Float(1.0),
      mx=("uniform",))
_draw("normal", lambda a, shape, d: normal(a.key, shape, a.loc, a.scale, d), loc=Float(0.0), scale=Float(1.0),
      mx=("normal",))
_draw("exponential", lambda a, shape, d: exponential(a.key, shape, a.lam, d), lam=Float(1.0))


def _np_draw(name: str, fn: Callable[..., Node], first: str, second: str) -> None:
    """As in NumPy: a parameter is an array where it is an input, else the number in its attribute (None where it is an
    input)."""
    def lower(*given: Any) -> Node:
        a, arrays = given[-1], [x for x in given[:-1] if x is not None]
        values = [ir.cast(arrays.pop(0), dt.float32) if value is None and arrays else value
                  for value in (getattr(a, first), getattr(a, second))]
        if any(v is None for v in values):
            raise AttributeValueError(f"_npi_{name}: {first} and {second} must each be a number or an input")
        shape = ir.broadcast_shapes(*(v.shape for v in values
                                      if isinstance(v, Node))) if any(isinstance(v, Node) for v in values) else ()
        return fn(a.key, shape if a.size is None else tuple(a.size), *values, dt.as_dtype(a.dtype or "float32"))
    lower.__doc__ = f"NumPy's random.{name}: {first} and {second} are numbers, or arrays that broadcast to size."
    parameters: Any = {first: Float(None), second: Float(None)}
    op(f"_npi_{name}", "input1? input2?", needs=("key",), **parameters, size=Shape(None), ctx=Str("cpu"),
       dtype=DType(None))(lower)


_np_draw("uniform", uniform, "low", "high")
_np_draw("normal", normal, "loc", "scale")


@op("_random_randint", "", mx=("random_randint",), needs=("key",), low=Int(), high=Int(), shape=Shape((1,)),
    ctx=Str(""), dtype=DType("int32"))
def randint(a: Attrs) -> Node:
    """Integers in [low, high), by the upper half of a 64-bit product."""
    span = a.high - a.low
    if not 0 < span <= 2**32:
        raise AttributeValueError(f"randint: high must be above low by at most 2^32, got low={a.low}, high={a.high}")
    bits = ir.cast(ir.random_bits(a.key, a.shape, 0), dt.uint64)
    return ir.cast(ir.cast(ir.map("shr", bits * span, 32), dt.int64) + a.low, dt.as_dtype(a.dtype))


@op("_random_bernoulli", "", mx=("random.bernoulli",), needs=("key",), prob=Float(0.5), shape=Shape((1,)), ctx=Str(""),
    dtype=DType("float32"))
def bernoulli(a: Attrs) -> Node:
    """1 with probability prob, else 0."""
    return ir.cast(ir.map("lt", uniform01(a.key, a.shape, 0), a.prob), dt.as_dtype(a.dtype))


def _sample(name: str, fn: Callable[[Node, tuple[int, ...], Node, Node, Any], Node], first: str, second: str) -> None:
    def lower(x: Node, y: Node, a: Attrs) -> Node:
        shape = x.shape + tuple(a.shape)
        lead = x.shape + (1,) * len(a.shape)
        return fn(a.key, shape, ir.reshape(x, lead), ir.reshape(y, lead), dt.as_dtype(a.dtype, dt.float32))
    lower.__doc__ = f"{name} draws with one pair of parameters for each element of the inputs."
    op(f"_sample_{name}", f"{first} {second}", mx=(f"sample_{name}",), needs=("key",), shape=Shape(()),
       dtype=DType(None))(lower)


_sample("uniform", uniform, "low", "high")
_sample("normal", normal, "mu", "sigma")
