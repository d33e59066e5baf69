"""``np``: NumPy's interface on arrays of this library (zero-dim shapes, NumPy's promotion)."""
from __future__ import annotations

from typing import Any

import numpy as _np

from .. import functions, methods
from ..array import NP_CLASS, NDArray, array as _array, wrap
from .. import random as _generator
from ..ndarray import made_here
from ..ops.elementwise import NP_BINARY
from ..random_functions import RandomSpace, make as _make
from . import fallback

pi, e, inf, nan, newaxis = _np.pi, _np.e, _np.inf, _np.nan, None
float16, float32, float64 = _np.float16, _np.float32, _np.float64
int8, int16, int32, int64, uint8, bool_ = _np.int8, _np.int16, _np.int32, _np.int64, _np.uint8, _np.bool_
bool = _np.bool_  # noqa: A001  MXNet's name
_tuple, _int, _len, _isinstance = tuple, int, len, isinstance


class ndarray(NDArray):  # noqa: N801  NumPy's name
    """An array that follows NumPy's rules: zero-dim results, bool comparisons."""
    __slots__ = ()
    np_semantics = True

    @property
    def dtype(self) -> Any:
        """Element type, as a NumPy dtype."""
        return self._data.dtype

    def __repr__(self) -> str:
        text = _np.array_repr(self.asnumpy()).replace(", dtype=float32", "")
        return text if self._ctx.device_type == "cpu" else f"{text[:-1]}, ctx={self._ctx})"

    __str__ = lambda self: _np.array_str(self.asnumpy()) if self.ndim else str(self.asnumpy())  # noqa: E731

    def as_np_ndarray(self) -> Any:
        """Itself."""
        return self

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def nonzero(self) -> Any:
        """Places of the numbers that are not 0: an int64 array for each axis."""
        return fallback.numpy_function("nonzero", ndarray)(self)

    def sort(self, axis: int = -1) -> None:
        """Sort in place, as NumPy does."""
        self[...] = functions.resolve("np", "sort")(self, axis=axis)


NP_CLASS.append(ndarray)
NDArray.as_np_ndarray = lambda self: wrap(self._data, self._ctx, ndarray, self)      # type: ignore[attr-defined]


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if _isinstance(shape, (_int, _np.integer)) else _tuple(_int(s) for s in shape)


def _as_np(x: Any) -> Any:
    return wrap(x._data, x._ctx, ndarray, x) if type(x) is NDArray else x


def array(object: Any, dtype: Any = None, ctx: Any = None, device: Any = None) -> Any:  # noqa: A002
    """An array from numbers, nested lists or another array; float32 for Python floats and by default."""
    if dtype is None:
        dtype = object._data.dtype if _isinstance(object, NDArray) else object.dtype if _isinstance(object, (_np.ndarray, _np.generic)) else "float32"
        dtype = "float32" if dtype == _np.float64 and not _isinstance(object, NDArray) else dtype
    return made_here(_array(object, ctx or device, dtype, ndarray))


asarray = array


def zeros(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> Any:
    """Zeros."""
    return _as_np(_make("_zeros", shape=_shape(shape), dtype=dtype or "float32", ctx=ctx or device))


def ones(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> Any:
    """Ones."""
    return _as_np(_make("_ones", shape=_shape(shape), dtype=dtype or "float32", ctx=ctx or device))


def full(shape: Any, fill_value: Any, order: str = "C", dtype: Any = None, ctx: Any = None, device: Any = None) -> Any:
    """A number in a shape."""
    return _as_np(_make("_full", shape=_shape(shape), value=fill_value, dtype=dtype or "float32", ctx=ctx or device))


empty = zeros


def _like(name: str, value: int) -> Any:
    def function(a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
        return functions.resolve("np", "full_like")(a, fill_value=value, dtype=dtype, out=out)
    function.__name__, function.__doc__ = name, f"{name.split('_')[0].capitalize()} in the shape of a, of its dtype or the one given."
    return function


zeros_like, ones_like = _like("zeros_like", 0), _like("ones_like", 1)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, ctx: Any = None, device: Any = None) -> Any:
    """start, start + step, … below stop."""
    if stop is None:
        start, stop = 0, start
    return _as_np(_make("_arange", start=start, stop=stop, step=step, dtype=dtype or "float32", ctx=ctx or device))


def linspace(start: Any, stop: Any, num: int = 50, endpoint: Any = True, dtype: Any = None, ctx: Any = None) -> Any:
    """num numbers from start to stop."""
    return _as_np(_make("_linspace", start=start, stop=stop, num=num, endpoint=endpoint, dtype=dtype or "float32", ctx=ctx))


def eye(N: int, M: Any = None, k: int = 0, dtype: Any = None, ctx: Any = None) -> Any:  # noqa: N803
    """Ones on the k-th diagonal."""
    return _as_np(_make("_eye", N=N, M=M or 0, k=k, dtype=dtype or "float32", ctx=ctx))


def identity(n: int, dtype: Any = None, ctx: Any = None) -> Any:
    """The identity matrix."""
    return eye(n, dtype=dtype, ctx=ctx)


def _host_made(name: str) -> Any:
    def function(*args: Any, dtype: Any = None, ctx: Any = None, **kwargs: Any) -> Any:
        return made_here(_array(getattr(_np, name)(*args, **kwargs), ctx, dtype or "float32", ndarray))
    function.__name__, function.__doc__ = name, f"NumPy's {name}; float32 unless dtype is given."
    return function


tri, hanning, hamming, blackman = (_host_made(_name) for _name in ("tri", "hanning", "hamming", "blackman"))


def logspace(start: Any, stop: Any, num: int = 50, endpoint: Any = True, base: float = 10.0, dtype: Any = None, ctx: Any = None) -> Any:
    """num numbers from base^start to base^stop."""
    return _as_np(_make("_npi_logspace", start=start, stop=stop, num=num, endpoint=endpoint, base=base, dtype=dtype or "float32", ctx=ctx))


def ldexp(x1: Any, x2: Any, out: Any = None) -> Any:
    """x1 times 2 to the power x2."""
    result = x1 * _two("power", "power")(2, x2)
    return result if out is None else result.copyto(out)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Parts along an axis."""
    if _isinstance(indices_or_sections, _int):
        out = functions.resolve("nd", "split_v2")(ary, indices=(), sections=indices_or_sections, axis=axis)
    else:
        out = functions.resolve("nd", "split_v2")(ary, indices=(0, *indices_or_sections), axis=axis)
    if hasattr(out, "entries"):                            # traced: a Symbol of one or several outputs
        return [out[k] for k in range(_len(out.entries))] if _len(out.entries) > 1 else [out]
    return [_as_np(o) for o in (out if _isinstance(out, list) else [out])]


def ravel(x: Any, order: str = "C") -> Any:
    """All elements on one axis."""
    if order != "C":
        raise ValueError(f"np.ravel: order must be 'C', got {order!r}")
    return x.reshape(-1)


def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Any:
    """Sums of products by Einstein's convention: ``einsum('ij,jk->ik', a, b)``."""
    return functions.resolve("np", "einsum")(*operands, subscripts=subscripts, **kwargs)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where the condition holds, else y; with the condition alone the places where it holds (as ``nonzero``)."""
    if x is None and y is None:
        return fallback.numpy_function("nonzero", ndarray)(condition)
    if x is None or y is None:
        raise TypeError("np.where takes the condition alone, or x and y too")
    values = [v if _isinstance(v, NDArray) or hasattr(v, "entries") else array(v) for v in (condition, x, y)]
    return functions.resolve("np", "where")(*values)


def _two(name: str, fn: str) -> Any:
    def function(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        row = (f"_npi_{fn}", f"_npi_{fn}_scalar", f"_npi_r{fn}_scalar", fn, fn)
        if not any(_isinstance(v, (NDArray, list, _tuple, _np.ndarray)) or hasattr(v, "entries") for v in (x1, x2)):
            return getattr(_np, name)(x1, x2)
        x1, x2 = (array(v) if _isinstance(v, (list, _tuple)) else v for v in (x1, x2))
        if not any(_isinstance(v, NDArray) or hasattr(v, "entries") for v in (x1, x2)):
            x1 = array(x1)
        result = methods.two(row, x1, x2)
        return result if out is None else result.copyto(out)
    function.__name__ = name
    function.__doc__ = f"NumPy's {name}."
    return function


def _unary(name: str) -> Any:
    inner = functions.resolve("np", name)

    def function(*args: Any, **kwargs: Any) -> Any:
        if args and not any(_isinstance(x, (NDArray, list, _tuple)) or hasattr(x, "entries") for x in (*args, *kwargs.values())) and hasattr(_np, name):
            return getattr(_np, name)(*args, **kwargs)            # of numbers and of NumPy's arrays: NumPy's answer
        return inner(*args, **kwargs)
    function.__name__, function.__doc__ = name, inner.__doc__
    return function


class _Random(RandomSpace):
    """np.random: NumPy's functions, with ``size``."""

    def __getattr__(self, name: str) -> Any:
        if name in fallback.GENERATOR:
            return fallback.generator_function(name, ndarray)
        raise AttributeError(f"hybrid.np.random has no {name!r}")


random = _Random("np")


def _np_random() -> None:
    base = {name: getattr(RandomSpace("np"), name) for name in ("uniform", "normal", "exponential", "randint", "gamma")}

    def sized(name: str, names: tuple[str, ...]) -> Any:
        def function(*args: Any, size: Any = None, dtype: Any = None, ctx: Any = None, **kwargs: Any) -> Any:
            given = dict(zip((*names, "size"), args))
            given.update(kwargs)
            shape = given.pop("size", size)
            return _as_np(base[name](**given, shape=() if shape is None else _shape(shape), dtype=dtype, ctx=ctx))
        function.__name__ = name
        return function
    for name, names in (("uniform", ("low", "high")), ("normal", ("loc", "scale")), ("exponential", ("scale",))):
        setattr(random, name, sized(name, names))
    draw = sized("randint", ("low", "high"))

    def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
        """Integers in [low, high), or [0, low)."""
        low, high = (0, low) if high is None else (low, high)
        return draw(low, high, size=size, dtype=dtype or "int64", ctx=ctx)
    setattr(random, "randint", randint)

    def gamma(shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
        """Gamma with a shape parameter and a scale."""
        return _as_np(base["gamma"](shape, scale, shape=() if size is None else _shape(size), dtype=dtype, ctx=ctx))
    setattr(random, "gamma", gamma)
    setattr(random, "shuffle", fallback.shuffle)
    setattr(random, "rand", lambda *size: random.uniform(size=size))
    setattr(random, "randn", lambda *size: random.normal(size=size))

    def seed(n: int) -> None:
        """Start the generator again."""
        _generator.seed(n)
    setattr(random, "seed", seed)


_np_random()


def __getattr__(name: str) -> Any:
    """NumPy's functions: from the registry, else NumPy's own."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in NP_BINARY:
        return _two(name, name)
    if name == "linalg":
        return fallback.LinearAlgebra(ndarray)
    if functions.has("np", name):
        return _unary(name)
    return fallback.numpy_function(name, ndarray)


