"""Random numbers of further distributions: gamma, Poisson, negative binomial, categorical.

Rejection methods draw a fixed number of candidates and take the first that is accepted, so that a compiled program has
no loop of unknown length; all candidates fail with a probability below 1e-10, and then the last one is taken.
"""
from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import AttributeValueError, ShapeError
from ..ir import Node
from .attributes import Attrs, OneDType
from .counts import TABLES, counts
from .nn import uniform01
from .registry import Bool, DType, Float, Shape, Str, op

Key = Node
FEW = 10.0                       # Poisson means below this are drawn by the distribution function, others by rejection
TERMS = 48                       # counts that this function is computed for: P(more) < 1e-16
# candidates drawn for each number: gamma accepts each with a probability of 0.951 or more, Poisson with 0.78
GAMMA_TRIES, POISSON_TRIES = 8, 16


def _positive(key: Key, shape: tuple[int, ...], stream: int) -> Node:
    """Uniform in (0, 1]: a logarithm can be taken of it."""
    return 1.0 - uniform01(key, shape, stream)


def _first(accepted: Node, values: Node) -> Node:
    """Of the candidates along the last axis the first accepted one, or the last of all."""
    n = values.shape[-1]
    at = ir.argreduce("argmax", ir.cast(accepted, dt.int32), values.ndim - 1)
    none = ir.map("eq", ir.reduce("max", ir.cast(accepted, dt.int32), (values.ndim - 1,)), 0)
    at = ir.reshape(ir.map("where", none, n - 1, at), (*values.shape[:-1], 1))
    return ir.reduce("sum", ir.map("where", ir.map("eq", ir.reshape(ir.iota(n), (1,) * (values.ndim - 1) + (n,)), at),
                                   values, 0), (values.ndim - 1,))


def _wide(x: Node, shape: tuple[int, ...]) -> Node:
    """A parameter for each candidate: shape + (1,)."""
    return ir.reshape(ir.expand(ir.cast(x, dt.float32), shape), (*shape, 1))


def gamma(key: Key, shape: tuple[int, ...], alpha: Node, scale: Node, stream: int = 0) -> Node:
    """Gamma with mean alpha * scale, by Marsaglia and Tsang, "A simple method for generating gamma variables"
    (2000)."""
    a = _wide(alpha, shape)
    small = ir.map("lt", a, 1.0)
    d = ir.map("where", small, a + 1.0, a) - 1 / 3
    tries = (*shape, GAMMA_TRIES)
    radius = ir.map("sqrt", ir.map("log", _positive(key, tries, stream)) * -2.0)
    x = radius * ir.map("cos", uniform01(key, tries, stream + 1) * (2 * math.pi))
    v = x * ir.map("rsqrt", d * 9.0) + 1.0
    v = v * v * v
    ok = ir.map("gt", v, 0)
    safe = ir.map("where", ok, v, 1.0)
    bound = x * x * 0.5 + d - d * safe + d * ir.map("log", safe)
    ok = ir.map("logical_and", ok, ir.map("lt", ir.map("log", _positive(key, tries, stream + 2)), bound))
    drawn = _first(ok, safe * d)
    # for alpha below 1: a draw with alpha + 1, times u to the power 1 / alpha
    a, small = ir.reshape(a, shape), ir.reshape(small, shape)
    boost = ir.map("exp", ir.map("log", _positive(key, shape, stream + 3)) / ir.map("where", small, a, 1.0))
    return drawn * ir.map("where", small, boost, 1.0) * ir.cast(scale, dt.float32)


def poisson(key: Key, shape: tuple[int, ...], lam: Node, stream: int = 0) -> Node:
    """Poisson counts as float32: by the distribution function for small means, for others by Hörmann, "The transformed
    rejection method for generating Poisson random variables" (1993)."""
    mean = ir.expand(ir.cast(lam, dt.float32), shape)
    few = _small_poisson(key, shape, mean, stream)
    m = ir.map("maximum", _wide(mean, shape), FEW)
    b = ir.map("sqrt", m) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    u = uniform01(key, (*shape, POISSON_TRIES), stream + 1) - 0.5
    v = _positive(key, (*shape, POISSON_TRIES), stream + 2)
    us = ir.map("maximum", 0.5 - ir.map("abs", u), 1e-7)
    k = ir.map("floor", (a * 2.0 / us + b) * u + m + 0.43)
    quick = ir.map("logical_and", ir.map("ge", us, 0.07), ir.map("le", v, 0.9277 - 3.6224 / (b - 2.0)))
    left = ir.map("log", v) + ir.map("log", 1.1239 + 1.1328 / (b - 3.4)) - ir.map("log", a / (us * us) + b)
    count = ir.map("maximum", k, 0.0)
    slow = ir.map("le", left, count * ir.map("log", m) - m - ir.map("gammaln", count + 1.0))
    slow = ir.map("logical_and", slow, ir.map("logical_not",
                                              ir.map("logical_and", ir.map("lt", us, 0.013), ir.map("gt", v, us))))
    ok = ir.map("logical_and", ir.map("ge", k, 0), ir.map("logical_or", quick, slow))
    return ir.map("where", ir.map("lt", mean, FEW), few, _first(ok, count))


def _small_poisson(key: Key, shape: tuple[int, ...], mean: Node, stream: int) -> Node:
    """Counts of means below FEW: how many values of the distribution function a draw passes."""
    few = ir.map("minimum", _wide(mean, shape), FEW)
    at = np.arange(TERMS, dtype=np.float32)
    factorials = np.array([math.lgamma(j + 1) for j in range(TERMS)], np.float32)
    logarithm = ir.map("log", ir.map("maximum", few, 1e-30))
    chances = ir.map("exp", logarithm * ir.data(at) - few - ir.data(factorials))
    upto = ir.running_sum(chances, len(shape))
    u = ir.reshape(uniform01(key, shape, stream), (*shape, 1))
    return ir.reduce("sum", ir.cast(ir.map("le", upto, u), dt.float32), (len(shape),))


def negative_binomial(key: Key, shape: tuple[int, ...], k: Node, p: Node) -> Node:
    """Failures before k successes of probability p: Poisson counts with gamma means."""
    p = ir.cast(p, dt.float32)
    return poisson(key, shape, gamma(key, shape, k, (1.0 - p) / p), 4)


def generalized_negative_binomial(key: Key, shape: tuple[int, ...], mu: Node, alpha: Node) -> Node:
    """Counts of mean mu and dispersion alpha; alpha = 0 is Poisson."""
    a = ir.expand(ir.cast(alpha, dt.float32), shape)
    mean = ir.expand(ir.cast(mu, dt.float32), shape)
    spread = ir.map("gt", a, 0)
    safe = ir.map("where", spread, a, 1.0)
    drawn = gamma(key, shape, 1.0 / safe, safe * mean)
    return poisson(key, shape, ir.map("where", spread, drawn, mean), 4)


def exponential(key: Key, shape: tuple[int, ...], lam: Node) -> Node:
    """Exponential with rate lam."""
    return -ir.map("log", _positive(key, shape, 0)) / lam


# name: (function, parameters with defaults, are they allowed?)
FAMILIES: dict[str, tuple[Callable[..., Node], dict[str, float], Callable[..., bool]]] = {
    "gamma": (gamma, {"alpha": 1.0, "beta": 1.0}, lambda alpha, beta: alpha > 0 and beta > 0),
    "poisson": (poisson, {"lam": 1.0}, lambda lam: lam >= 0),
    "negative_binomial": (negative_binomial, {"k": 1.0, "p": 1.0}, lambda k, p: k > 0 and 0 < p <= 1),
    "generalized_negative_binomial": (generalized_negative_binomial, {"mu": 1.0, "alpha": 1.0},
                                      lambda mu, alpha: mu >= 0 and alpha >= 0),
}


def _of_numbers(name: str, a: Attrs, shape: tuple[int, ...]) -> Node:
    """Draws whose parameters are attributes: from a table, where the distribution has one."""
    fn, parameters, allowed = FAMILIES[name]
    values = [getattr(a, k) for k in parameters]
    if not allowed(*values):
        raise AttributeValueError(f"random {name}: {', '.join(f'{k}={v}' for k, v in zip(parameters, values))} is not "
                                  f"possible")
    table = TABLES[name](*values) if name in TABLES else None
    if table is not None:
        return counts(a.key, shape, *table)
    return fn(a.key, shape, *(ir.const(v, dt.float32) for v in values))


def _family(name: str) -> None:
    fn, parameters, _ = FAMILIES[name]

    def lower(a: Attrs) -> Node:
        return ir.cast(_of_numbers(name, a, a.shape), dt.as_dtype(a.dtype))

    def lower_like(data: Node, a: Attrs) -> Node:
        return ir.cast(_of_numbers(name, a, data.shape), data.dtype)

    def lower_each(*args: Any) -> Node:
        *nodes, a = args
        lead = nodes[0].shape
        if any(x.shape != lead for x in nodes):
            raise ShapeError(f"the parameters must have one shape, got {', '.join(str(x.shape) for x in nodes)}")
        wide = [ir.reshape(ir.detach(x), lead + (1,) * len(a.shape)) for x in nodes]
        return ir.cast(fn(a.key, lead + tuple(a.shape), *wide), dt.as_dtype(a.dtype, dt.float32))
    lower.__doc__ = f"Random numbers: {fn.__doc__}"
    lower_like.__doc__ = f"Random numbers in the input's shape and dtype: {fn.__doc__}"
    lower_each.__doc__ = f"``shape`` random numbers for each element of the parameters: {fn.__doc__}"
    kinds: dict[str, Any] = {k: Float(v) for k, v in parameters.items()}
    op(f"_random_{name}", "", mx=(f"random_{name}",), needs=("key",), shape=Shape(()), ctx=Str(""),
       dtype=DType("float32"), **kinds)(lower)
    op(f"_random_{name}_like", "data", mx=(f"random.{name}_like", f"random_{name}_like"), needs=("key",),
       **kinds)(lower_like)
    op(f"_sample_{name}", " ".join(parameters), mx=(f"sample_{name}",), needs=("key",), shape=Shape(()),
       dtype=DType(None))(lower_each)


for _name in FAMILIES:
    _family(_name)


@op("_sample_exponential", "lam", mx=("sample_exponential",), needs=("key",), shape=Shape(()), dtype=DType(None))
def sample_exponential(lam: Node, a: Attrs) -> Node:
    """``shape`` exponential numbers for each rate."""
    wide = ir.reshape(lam, lam.shape + (1,) * len(a.shape))
    return ir.cast(exponential(a.key, lam.shape + tuple(a.shape), wide), dt.as_dtype(a.dtype, dt.float32))


@op("_sample_multinomial", "data", mx=("sample_multinomial", "random.multinomial"), needs=("key",),
    outputs=lambda a: 2 if a.get_prob else 1,
    shape=Shape(()), get_prob=Bool(False), dtype=OneDType("int32", "int32", "uint8", "float16", "float32", "float64",
                                                          "int64"))
def multinomial(data: Node, a: Attrs) -> Node | list[Node]:
    """Class numbers drawn from probabilities (…, classes), which add up to 1: shape data[:-1] + ``shape`` ((1,) rather
    than none). With get_prob also the logarithm of each draw's probability, which has a gradient."""
    if not data.ndim or not data.shape[-1]:
        raise ShapeError(f"data must be probabilities (…, classes), got {data.shape}")
    lead, classes = data.shape[:-1], data.shape[-1]
    rows, draws = math.prod(lead), math.prod(a.shape)
    p = ir.reshape(data, (rows, 1, classes))
    upto = ir.running_sum(ir.detach(ir.cast(p, dt.float32)), 2)
    u = ir.reshape(uniform01(a.key, (rows, draws), 0), (rows, draws, 1))
    index = ir.reduce("sum", ir.cast(ir.map("le", ir.expand(upto, (rows, draws, classes)), u), dt.int64), (2,))
    index = ir.map("minimum", index, classes - 1)
    shape = lead + tuple(a.shape) or (1,)
    out = ir.cast(ir.reshape(index, shape), np.dtype(a.dtype))
    if not a.get_prob:
        return out
    hit = ir.map("eq", ir.reshape(ir.iota(classes), (1, 1, classes)), ir.reshape(index, (rows, draws, 1)))
    chosen = ir.reduce("sum", ir.map("where", hit, p, 0), (2,))
    return [out, ir.reshape(ir.map("log", chosen), shape)]
