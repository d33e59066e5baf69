"""``nd.random`` and ``sym.random``: MXNet's functions over the random operators of the registry."""
from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Callable, Sequence

import numpy as np

from . import functions
from ..buffers.array import NDArray
from ..autograd.dispatch import invoke
from ..base.dtype import as_dtype, is_float
from ..base.errors import AttributeValueError, ShapeError
from ..base.names import named
from ..ir.build import ints
from ..ir.size import Size
from ..ops.registry import OPS
from ..base.scope import SCOPE

# function: its parameters with their defaults (None: needed)
DRAWS: dict[str, dict[str, Any]] = {"uniform": {"low": 0, "high": 1}, "normal": {"loc": 0, "scale": 1},
                                    "exponential": {"scale": 1}, "randint": {"low": None, "high": None},
                                    "bernoulli": {"prob": 0.5}, "poisson": {"lam": 1},
                                    "gamma": {"alpha": 1, "beta": 1}, "negative_binomial": {"k": 1, "p": 1},
                                    "generalized_negative_binomial": {"mu": 1, "alpha": 1}}


def shape_of(shape: Any) -> Any:
    """A shape from one number or several; as it was given where a Symbol's attributes are written."""
    if SCOPE.symbolic and not SCOPE.traces:
        return shape
    if isinstance(shape, str):
        raise ShapeError(f"a shape is a number or a tuple of numbers, such as (2, 3), got {shape!r}")
    return ints((shape,) if isinstance(shape, (int, np.integer, Size)) else shape)


def make(op: str, out: Any = None, **attrs: Any) -> Any:
    """Call an operator without inputs; attributes that are None are left out. A device counts outside of traces
    alone."""
    ctx = attrs.pop("ctx", None)
    if ctx is not None and not SCOPE.traces and not SCOPE.symbolic:
        attrs["ctx"] = str(ctx)
    name = attrs.pop("name", None)
    return invoke(OPS[op], [], {k: v for k, v in attrs.items() if v is not None}, out, name, hint=op)


def _draw(space: str, name: str) -> Callable[..., Any]:
    parameters = DRAWS[name]

    def function(*args: Any, shape: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None,
                 **kwargs: Any) -> Any:
        positional = dict(zip((*parameters, "shape", "dtype", "ctx", "out"), args))
        if len(args) > len(parameters) + 4:
            raise AttributeValueError(f"{space}.random.{name} takes {', '.join(parameters)}, shape, dtype, ctx, out; "
                                      f"got {len(args)} values")
        given = {"shape": shape, "dtype": dtype, "ctx": ctx, "out": out, **{k: v for k, v in parameters.items()},
                 **positional, **kwargs}
        if not SCOPE.symbolic:                               # notes on a Symbol, and its name
            given = {k: v for k, v in given.items() if not k.startswith("__")}
        values = [given.pop(k) for k in parameters]
        if any(v is None for v in values):
            raise AttributeValueError(f"{space}.random.{name} needs {' and '.join(parameters)}")
        return _drawn(name, list(parameters), values, **given)
    return named(function, f"random.{name}", functions.MODULES[space],
                 f"Random numbers: ``{name}({', '.join(parameters)}, shape, dtype, ctx, out)``. Parameters may "
                 f"be arrays: then ``shape`` numbers for each element.")


def _check(name: str, values: Sequence[Any], dtype: Any) -> None:
    """An error for a dtype that MXNet does not draw, and for a scale that is not positive."""
    if dtype not in (None, "None"):
        dt = as_dtype(dtype)
        if not (dt.name in ("int32", "int64") if name == "randint" else is_float(dt)):
            kinds = "int32 and int64" if name == "randint" else "float16, float32, float64 and bfloat16"
            raise AttributeValueError(f"random.{name} gives {kinds}, not {dt}: draw first, then .astype('{dt}')")
    if name in ("normal", "exponential") and isinstance(values[-1], (int, float)) and not values[-1] > 0:
        raise AttributeValueError(f"random.{name}: scale must be positive, got {values[-1]}")
    if name == "uniform" and all(isinstance(v, (int, float)) for v in values) and values[0] > values[1]:
        raise AttributeValueError(f"random.uniform: low must not be above high, got {values[0]} and {values[1]}")


def _drawn(name: str, names: Sequence[str], values: list[Any], /, shape: Any, dtype: Any, ctx: Any, out: Any,
           **kwargs: Any) -> Any:
    _check(name, values, dtype)
    if any(isinstance(v, NDArray) or hasattr(v, "entries") for v in values):
        if f"_sample_{name}" not in OPS:
            raise AttributeValueError(f"random.{name} takes numbers for {' and '.join(names)}, not arrays")
        attrs = {} if shape is None else {"shape": shape_of(shape)}
        if dtype is not None:
            attrs["dtype"] = dtype
        return invoke(OPS[f"_sample_{name}"], values, attrs, out, kwargs.get("name"), hint=f"_sample_{name}")
    if name == "exponential":                                # MXNet's function takes the mean, its operator the rate
        names, values = ["lam"], [1.0 / values[0]]
    if shape is None and out is not None:
        shape = out.shape
    elif shape is None and not SCOPE.symbolic:               # one number, as an array of one axis
        shape = (1,)
    return make(f"_random_{name}", out, **dict(zip(names, values)), shape=None if shape is None else shape_of(shape),
                dtype=dtype, ctx=ctx, **kwargs)


class RandomSpace(ModuleType):
    """``nd.random``, ``sym.random``: a function for each random operator."""

    def __init__(self, space: str):
        super().__init__(f"hybrid.{space}.random")
        self._space = space

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in DRAWS and f"_random_{name}" in OPS:
            found: Any = _symbolic(_draw(self._space, name)) if self._space == "sym" else _draw(self._space, name)
        else:
            return functions.resolve(self._space, f"random.{name}")
        setattr(self, name, found)
        return found

    def randn(self, *shape: int, loc: Any = 0, scale: Any = 1, dtype: Any = None, ctx: Any = None, out: Any = None,
              **kwargs: Any) -> Any:
        """Normal numbers of a shape: ``randn(2, 3)``."""
        return self.normal(loc, scale, shape=shape or (1,), dtype=dtype, ctx=ctx, out=out, **kwargs)

    def __reduce__(self) -> Any:
        return _random_space, (self._space,)

    def __dir__(self) -> list[str]:
        return sorted({"randn", *(n for n in DRAWS if f"_random_{n}" in OPS)})


def _symbolic(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes Symbols also where none is among its arguments."""
    def function(*args: Any, **kwargs: Any) -> Any:
        old, SCOPE.symbolic = SCOPE.symbolic, True
        try:
            return fn(*args, **kwargs)
        finally:
            SCOPE.symbolic = old
    return named(function, fn.__qualname__, fn.__module__, fn.__doc__)


def _random_space(space: str) -> Any:
    """``random`` of a namespace: how a pickled ``nd.random.randn`` finds it."""
    return getattr(importlib.import_module(functions.MODULES[space]), "random")


symbolic = _symbolic
