"""Densities (``random_pdf_*``): the probability of samples under distributions with one set of parameters for each row
of samples."""
from __future__ import annotations

import math
from typing import Any, Callable

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, op


def _ln(x: Node) -> Node:
    return ir.map("log", x)


def _gammaln(x: Node) -> Node:
    return ir.map("gammaln", x)


def normal(x: Node, mu: Node, sigma: Node) -> Node:
    """log N(x; mu, sigma²)."""
    z = (x - mu) / sigma
    return z * z * -0.5 - _ln(sigma) - 0.5 * math.log(2 * math.pi)


def uniform(x: Node, low: Node, high: Node) -> Node:
    """-log(high - low); it does not look at x, as MXNet."""
    return -_ln(high - low) + x * 0


def gamma(x: Node, alpha: Node, beta: Node) -> Node:
    """Gamma with rate beta: alpha log beta + (alpha - 1) log x - beta x - log Γ(alpha)."""
    return alpha * _ln(beta) + (alpha - 1) * _ln(x) - beta * x - _gammaln(alpha)


def exponential(x: Node, lam: Node) -> Node:
    """log lam - lam x."""
    return _ln(lam) - lam * x


def poisson(x: Node, lam: Node) -> Node:
    """x log lam - lam - log x!"""
    return x * _ln(lam) - lam - _gammaln(x + 1)


def negative_binomial(x: Node, k: Node, p: Node) -> Node:
    """x failures before k successes of probability p."""
    return _gammaln(x + k) - _gammaln(x + 1) - _gammaln(k) + k * _ln(p) + x * _ln(1 - p)


def generalized_negative_binomial(x: Node, mu: Node, alpha: Node) -> Node:
    """Negative binomial by its mean mu and dispersion alpha."""
    return negative_binomial(x, 1 / alpha, 1 / (mu * alpha + 1))


# name: (logarithm of the density, its parameters)
FAMILIES: dict[str, tuple[Callable[..., Node], str]] = {
    "normal": (normal, "mu sigma"), "uniform": (uniform, "low high"), "gamma": (gamma, "alpha beta"),
    "exponential": (exponential, "lam"),
    "poisson": (poisson, "lam"), "negative_binomial": (negative_binomial, "k p"),
    "generalized_negative_binomial": (generalized_negative_binomial, "mu alpha"),
}


# counts: as in MXNet no gradient flows to the samples
DISCRETE = ("poisson", "negative_binomial", "generalized_negative_binomial")


def _density(name: str) -> None:
    fn, words = FAMILIES[name]

    def lower(*args: Any) -> Node:
        sample, *parameters, a = args
        lead = parameters[0].shape
        if any(p.shape != lead for p in parameters) or sample.shape[:len(lead)] != lead:
            raise ShapeError(f"the parameters must have one shape, with which the samples' shape begins, got samples "
                             f"{sample.shape} and "
                             f"{', '.join(str(p.shape) for p in parameters)}")
        wide = [ir.reshape(p, lead + (1,) * (sample.ndim - len(lead))) for p in parameters]
        out = fn(ir.detach(sample) if name in DISCRETE else sample, *wide)
        return out if a.is_log else ir.map("exp", out)
    lower.__doc__ = f"The density (with is_log its logarithm) of samples (*parameters' shape, …): {fn.__doc__}"
    op(f"_random_pdf_{name}", f"sample {words}", mx=(f"random_pdf_{name}", f"random.pdf_{name}"),
       json=(f"random_pdf_{name}",), is_log=Bool(False))(lower)


for _name in FAMILIES:
    _density(_name)


@op("_random_pdf_dirichlet", "sample alpha", mx=("random_pdf_dirichlet", "random.pdf_dirichlet"),
    json=("random_pdf_dirichlet",), is_log=Bool(False))
def dirichlet(sample: Node, alpha: Node, a: Attrs) -> Node:
    """The Dirichlet density of samples (*rows, …, classes) with concentrations alpha (*rows, classes)."""
    lead = alpha.shape[:-1]
    if (not alpha.ndim or sample.ndim < alpha.ndim or sample.shape[:len(lead)] != lead
        or sample.shape[-1] != alpha.shape[-1]):
        raise ShapeError(f"samples (*rows, …, classes) and alpha (*rows, classes) are needed, got {sample.shape} and "
                         f"{alpha.shape}")
    wide = ir.reshape(alpha, lead + (1,) * (sample.ndim - alpha.ndim) + alpha.shape[-1:])
    last, at = (sample.ndim - 1,), (wide.ndim - 1,)
    out = ir.reduce("sum", (wide - 1) * _ln(sample),
                    last) + (_gammaln(ir.reduce("sum", wide, at)) - ir.reduce("sum", _gammaln(wide), at))
    out = out if out.ndim else ir.reshape(out, (1,))
    return out if a.is_log else ir.map("exp", out)
