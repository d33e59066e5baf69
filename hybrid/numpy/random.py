"""``np.random``: NumPy's samplers with ``size`` and parameters that broadcast.

Those of one location or scale are made of uniform and normal draws, so gradients flow to their parameters (draws are
then a differentiable function of them), and hybridized code draws anew at every call. The others are NumPy's own,
eagerly alone.
"""
from __future__ import annotations

import math
from typing import Any, Callable

import numpy as _np

from ..nd import functions
from ..base import rng as _generator
from ..buffers.array import NDArray
from ..base.device import Context
from ..base.names import named
from ..base.other_names import MissingNameError as _MissingNameError, import_error_with_hint as _with_hint
from ..autograd.demands import demand_within
from ..autograd.dispatch import invoke
from ..base.errors import AttributeValueError, ShapeError
from ..ir import broadcast_shapes
from ..ops.registry import OPS
from ..nd.random_functions import make as _make
from ..nd.random_functions import shape_of
from . import fallback
from .creation import shape_tuple
from .elementwise import binary
from .multiarray import as_np, as_value, finish, is_value, ndarray

TINY = float(_np.nextafter(_np.float32(0), _np.float32(1)))         # the least positive number
FLOATS = ("float16", "float32", "float64")


def _np_fn(name: str) -> Any:
    return functions.resolve("np", name)


def _parameter(x: Any) -> Any:
    """A number, or an array in place of a list."""
    return as_value(x) if is_value(x) or isinstance(x, (list, tuple, _np.ndarray)) else float(x)


def _positive(name: str, parameter: str, value: Any, zero: bool = True, most: float = math.inf) -> Any:
    """The parameter, which must not be negative (nor 0, with zero=False) nor above ``most``; arrays on a GPU are not
    looked at."""
    wanted = f"between 0 and {most:g}" if most < math.inf else "0 or more" if zero else "positive"
    text, least = f"np.random.{name}: {parameter} must be {wanted}, got {{value:g}}", 0.0 if zero else TINY
    if isinstance(value, float) and not least <= value <= most and value == value:
        raise AttributeValueError(text.format(value=value))
    if is_value(value):
        demand_within(value, least, most, AttributeValueError, text)
    return value


def _size(size: Any, *parameters: Any) -> tuple[int, ...] | None:
    """The shape of the result; None where parameters of unknown shape decide it."""
    shapes = [p.shape for p in parameters if is_value(p)]
    if size is not None:
        return shape_tuple(size)
    return None if any(s is None for s in shapes) else broadcast_shapes(*(tuple(s) for s in shapes)) if shapes else ()


def _device(ctx: Any, inputs: Any) -> dict[str, Any]:
    return {"ctx": str(ctx)} if isinstance(ctx, (Context, str)) and not inputs else {}


def _draw(name: str, first: str, second: str, a: Any, b: Any, size: Any, dtype: Any, ctx: Any, out: Any) -> Any:
    if size is None and out is not None:
        size = out.shape
    a, b = _parameter(a), _parameter(b)
    inputs = [x for x in (a, b) if is_value(x)]
    attrs = {k: v for k, v in ((first, a), (second, b)) if not is_value(v)}
    shape = _size(size, a, b)
    if dtype is not None and _np.dtype(dtype).name not in FLOATS:
        raise AttributeValueError(f"np.random.{name}: dtype must be one of {', '.join(FLOATS)}, got {dtype!r}")
    if shape is not None:
        attrs["size"] = shape_of(shape)
        _check_broadcast(name, shape, inputs)
    return finish(as_np(invoke(OPS[f"_npi_{name}"], inputs,
                               {**attrs, "dtype": _np.dtype(dtype or "float32").name, **_device(ctx, inputs)},
                               cls=ndarray, hint=f"_{name}")), out)


def _check_broadcast(name: str, shape: tuple[int, ...], inputs: list[Any]) -> None:
    for x in inputs:
        if x.shape is not None and broadcast_shapes(tuple(x.shape), shape) != tuple(shape):
            raise ShapeError(f"np.random.{name}: a parameter of shape {tuple(x.shape)} does not broadcast to size "
                             f"{shape}")


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None,
            out: Any = None) -> Any:
    """Uniform in [low, high)."""
    return _draw("uniform", "low", "high", low, high, size, dtype, ctx, out)


def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None,
           out: Any = None) -> Any:
    """Normal with mean loc and standard deviation scale."""
    return _draw("normal", "loc", "scale", loc, _positive("normal", "scale", _parameter(scale)), size, dtype, ctx, out)


def _open(size: tuple[int, ...], ctx: Any) -> Any:
    """Uniform in (0, 1]: a logarithm can be taken of it."""
    return 1.0 - uniform(size=size, ctx=ctx)


def _located(name: str, doc: str, first: str, transform: Callable[[Any, Any, Any], Any],
             defaults: tuple[Any, ...]) -> Any:
    """A sampler of (loc, scale) or of one parameter: a function of a uniform draw in (0, 1]."""
    names = first.split()

    def function(*args: Any, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None,
                 **kwargs: Any) -> Any:
        given = {**dict(zip(names, defaults)), **dict(zip((*names, "size", "ctx", "out"), args)), **kwargs}
        size, ctx, out = given.pop("size", size), given.pop("ctx", ctx), given.pop("out", out)
        if set(given) - set(names) or any(given[n] is None for n in names):
            raise AttributeValueError(f"np.random.{name} takes {', '.join(names)}, size; got {', '.join(sorted(given))}")  # noqa: E501
        values = [_parameter(given[n]) for n in names]
        _positive(name, names[-1], values[-1], zero=names[-1] != "a")
        shape = _size(out.shape if size is None and out is not None else size, *values)
        if shape is None:
            raise AttributeValueError(f"np.random.{name}: the parameters' shapes are not known here: give a size")
        _check_broadcast(name, shape, [v for v in values if is_value(v)])
        found = transform(_open(shape, ctx), values[0], values[-1])
        return finish(found if dtype is None else found.astype(dtype), out)
    return named(function, name, __name__, doc)


def _log(x: Any) -> Any:
    return _np_fn("log")(x)


def _power(x: Any, y: Any) -> Any:
    return binary("power", "power")(x, y)


exponential = _located("exponential", "Exponential with mean scale.", "scale", lambda u, a, scale: -_log(u) * scale,
                       (1.0,))
gumbel = _located("gumbel", "Gumbel with location and scale.", "loc scale",
                  lambda u, loc, scale: loc - scale * _log(-_log(u * (1 - 1e-7) + 5e-8)), (0.0, 1.0))
logistic = _located("logistic", "Logistic with location and scale.", "loc scale",
                    lambda u, loc, scale: loc + scale * (_log(u * (1 - 1e-7) + 5e-8) - _log(1 + 5e-8 - u * (1 - 1e-7))), (0.0, 1.0))  # noqa: E501
rayleigh = _located("rayleigh", "Rayleigh with a scale.", "scale",
                    lambda u, a, scale: scale * _np_fn("sqrt")(_log(u) * -2.0), (1.0,))
weibull = _located("weibull", "Weibull with shape parameter a.", "a", lambda u, a, b: _power(-_log(u), 1.0 / a),
                   (None,))
pareto = _located("pareto", "Pareto II (Lomax) with shape parameter a.", "a",
                  lambda u, a, b: _power(u, -1.0 / a) - 1.0, (None,))
power = _located("power", "Numbers in [0, 1] with density a x^(a-1).", "a", lambda u, a, b: _power(u, 1.0 / a), (None,))
laplace = _located("laplace", "Laplace with location and scale.", "loc scale",
                   lambda u, loc, scale: loc - scale * _np_fn("sign")(u
                                                                      - 0.5) * _log(1 + 1e-7
        - 2 * _np_fn("abs")(u - 0.5)), (0.0, 1.0))


def lognormal(mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None,
              out: Any = None) -> Any:
    """Numbers whose logarithm is normal."""
    return finish(_np_fn("exp")(normal(mean, sigma, size, dtype, ctx)), out)


# ---- gamma and what is made of it
def gamma(shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Gamma with a shape parameter and a scale."""
    k, scale = _positive("gamma", "shape", _parameter(shape),
                         zero=False), _positive("gamma", "scale", _parameter(scale))
    found = _size(out.shape if size is None and out is not None else size, k, scale)
    if found is None:
        raise AttributeValueError("np.random.gamma: the parameters' shapes are not known here: give a size")
    _check_broadcast("gamma", found, [v for v in (k, scale) if is_value(v)])
    dtype = _np.dtype(dtype or "float32").name
    if is_value(k):
        wide = _np_fn("broadcast_to")(k, shape=found)
        draws = invoke(OPS["_sample_gamma"], [wide, wide * 0 + 1], {"dtype": dtype})
    else:
        draws = _make("_random_gamma", alpha=k, beta=1.0, shape=shape_of(found), dtype=dtype, ctx=ctx)
    draws = as_np(draws)
    return finish(draws * scale if is_value(scale) or scale != 1.0 else draws, out)


def beta(a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Beta with parameters a and b."""
    shape = _size(size, _parameter(a), _parameter(b))
    x, y = gamma(a, 1.0, shape, dtype, ctx), gamma(b, 1.0, shape, dtype, ctx)
    return x / (x + y)


def chisquare(df: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Chi-squared with df degrees of freedom."""
    return gamma(_parameter(df) / 2, 2.0, size, dtype, ctx)


def f(dfnum: Any, dfden: Any, size: Any = None, ctx: Any = None) -> Any:
    """Fisher's F with dfnum and dfden degrees of freedom."""
    shape = _size(size, _parameter(dfnum), _parameter(dfden))
    return (chisquare(dfnum, shape, None, ctx) / _parameter(dfnum) / (chisquare(dfden, shape, None, ctx) / _parameter(dfden)))  # noqa: E501


def multivariate_normal(mean: Any, cov: Any, size: Any = None, check_valid: Any = None, tol: Any = None) -> Any:
    """Normal vectors with mean (…, n) and covariance (…, n, n): shape size + batch + (n,)."""
    if check_valid is not None or tol is not None:
        raise NotImplementedError("np.random.multivariate_normal: check_valid and tol are not supported")
    mean, cov = as_value(mean), as_value(cov)
    n = mean.shape[-1]
    if tuple(cov.shape[-2:]) != (n, n):
        raise AttributeValueError(f"np.random.multivariate_normal: mean {tuple(mean.shape)} needs cov (…, {n}, {n}), "
                                  f"got {tuple(cov.shape)}")
    batch = broadcast_shapes(tuple(mean.shape[:-1]), tuple(cov.shape[:-2]))
    z = normal(size=(*(() if size is None else shape_tuple(size)), *batch, n, 1))
    return mean + functions.resolve("np", "matmul")(functions.resolve("np", "linalg.cholesky")(cov),
                                                    z).reshape(tuple(z.shape[:-1]))


# ---- integers
def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Integers in [low, high), or [0, low): int64 unless dtype is given."""
    low, high = (0, low) if high is None else (low, high)
    if int(high) <= int(low):
        raise AttributeValueError(f"np.random.randint: low must be below high, got {low} and {high}")
    wanted = _np.dtype(dtype or "int64")
    if wanted.kind in "iu" and not _np.iinfo(wanted).min <= int(low) <= int(high) - 1 <= _np.iinfo(wanted).max:
        raise AttributeValueError(f"np.random.randint: integers from {low} to {int(high) - 1} do not fit in {wanted}")
    size = out.shape if size is None and out is not None else size
    shape = () if size is None else shape_tuple(size)
    return finish(as_np(_make("_random_randint", low=int(low), high=int(high), shape=shape_of(shape),
                              dtype=_np.dtype(dtype or "int64").name, ctx=ctx)), out)


def bernoulli(prob: Any = None, logit: Any = None, size: Any = None, dtype: Any = None, ctx: Any = None,
              out: Any = None) -> Any:
    """1 with a probability, given as ``prob`` or as ``logit``; else 0. float32 unless dtype is given."""
    if (prob is None) == (logit is None):
        raise AttributeValueError("bernoulli takes either prob or logit")
    p = _positive("bernoulli", "prob", _parameter(prob), most=1.0) if logit is None else _sigmoid(_parameter(logit))
    shape = _size(out.shape if size is None and out is not None else size, p)
    if shape is None:
        raise AttributeValueError("bernoulli: the parameter's shape is not known here: give a size")
    _check_broadcast("bernoulli", shape, [p] if is_value(p) else [])
    return finish((uniform(size=shape, ctx=ctx) < p).astype(dtype or "float32"), out)


def _sigmoid(x: Any) -> Any:
    return functions.resolve("npx", "sigmoid")(x) if is_value(x) else 1.0 / (1.0 + math.exp(-x))


def _batched(name: str) -> Any:
    def function(a: Any = 0.0, b: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None,
                 **kwargs: Any) -> Any:
        first, second = ("low", "high") if name == "uniform" else ("loc", "scale")
        a, b = _parameter(kwargs.pop(first, a)), _parameter(kwargs.pop(second, b))
        if kwargs:
            raise AttributeValueError(f"npx.random.{name}_n takes {first}, {second}, batch_shape, dtype, ctx; got "
                                      f"{', '.join(kwargs)}")
        event = _size(None, a, b)
        if event is None:
            raise AttributeValueError(f"npx.random.{name}_n: the parameters' shapes are not known here")
        batch = () if batch_shape is None else shape_tuple(batch_shape)
        return (uniform if name == "uniform" else normal)(a, b, (*batch, *event), dtype, ctx)
    return named(function, f"{name}_n", __name__, f"{name} draws of shape batch_shape + the parameters' shape.")


uniform_n, normal_n = _batched("uniform"), _batched("normal")


def shuffle(x: NDArray) -> None:
    """Permute an array along its first axis in place."""
    if x.shape:
        fallback.shuffle(x)


def rand(*size: Any, **kwargs: Any) -> Any:
    """Uniform in [0, 1): ``rand(2, 3)``."""
    return uniform(size=size, **kwargs)


def randn(*size: Any, **kwargs: Any) -> Any:
    """Standard normal: ``randn(2, 3)``."""
    return normal(size=size, **kwargs)


def random(size: Any = None) -> Any:
    """Uniform in [0, 1): ``random((2, 3))``."""
    return uniform(size=size)


random_sample = ranf = sample = random


def choice(a: Any, size: Any = None, replace: bool = True, p: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Elements of a (or of 0, 1, … below it) drawn at random, with probabilities p; without repetition where
    ``replace`` is False."""
    if (isinstance(a, (int, _np.integer)) and a <= 0 or is_value(a) and a.shape is not None
        and (len(a.shape) != 1 or not a.shape[0])):
        raise AttributeValueError("np.random.choice: a must be a positive number or an array of one axis with elements")
    n = int(a) if not is_value(a) and not isinstance(a, (list, tuple, _np.ndarray)) else len(a)
    if not replace and size is not None and math.prod(shape_tuple(size)) > n:
        raise AttributeValueError(f"np.random.choice: {math.prod(shape_tuple(size))} of {n} elements cannot be drawn "
                                  f"without repetition")
    weights = p.asnumpy().astype(_np.float64) if isinstance(p,
                                                            NDArray) else p if p is None else _np.asarray(p,
            _np.float64)
    if weights is not None and abs(weights.sum() - 1) < 1e-3:
        weights = weights / weights.sum()
    found = fallback.generator_function("choice", ndarray)(n, None if size is None else shape_tuple(size), replace,
                                                           weights)
    found = as_value(_np.asarray(found) if isinstance(found, int) else found)
    if is_value(a) or isinstance(a, (list, tuple, _np.ndarray)):
        found = as_value(a)[found]
    return finish(found if ctx is None else found.as_in_ctx(ctx), out)


def multinomial(n: int, pvals: Any, size: Any = None, **kwargs: Any) -> Any:
    """How often each class comes in n draws with probabilities pvals: int64, shape size + (classes,)."""
    p = _np.asarray(pvals.asnumpy() if isinstance(pvals, NDArray) else pvals, _np.float64)
    if (p < 0).any() or p.sum() > 1 + 1e-5:
        raise AttributeValueError(f"np.random.multinomial: pvals must not be negative and must add up to 1, they add "
                                  f"up to {p.sum():g}")
    p = p / p.sum() if p.sum() > 1 else p
    return fallback.generator_function("multinomial", ndarray)(n, p, None if size is None else shape_tuple(size))


def seed(seed: int, ctx: Any = "all") -> None:  # noqa: A002
    """Start the generator again."""
    if isinstance(seed, (int, _np.integer)) and seed < 0:
        raise ValueError(f"np.random.seed: seed must not be negative, got {seed}")
    _generator.seed(seed)


@_with_hint
def __getattr__(name: str) -> Any:
    """NumPy's other samplers."""
    if name in fallback.GENERATOR:
        return fallback.generator_function(name, ndarray)
    if hasattr(_np.random, name):
        raise AttributeError(f"hybrid.np.random has no {name!r}: {fallback.elsewhere(f'random.{name}')}")
    raise _MissingNameError(f"hybrid.np.random has no {name!r}", name, None, lambda: [*__all__, *fallback.GENERATOR])


__all__ = ("bernoulli beta chisquare choice exponential f gamma gumbel laplace logistic lognormal multinomial "
           "multivariate_normal normal normal_n pareto power rand random random_sample ranf sample "
           "randint randn rayleigh seed shuffle uniform uniform_n weibull").split()
